// Package quirks lists defects of named API server versions that change answers.
//
// Commands that predict a server's answers reproduce them and say so in a note; the webhook does not. Other code does
// not contain version numbers.
package quirks

import (
	"fmt"
	"maps"
)

// An ID names a quirk; it is stable and part of the JSON output.
type ID string

// Quirks.
const (
	AuditAnnotationAuthorizer ID = "audit-annotation-authorizer"
	BacktickSyntax            ID = "backtick-syntax"
	BacktickToken             ID = "backtick-token"
	CIDRContains              ID = "cidr-contains"
	EmptyTextSearch           ID = "empty-text-search"
	EquivalentMutation        ID = "equivalent-mutation"
	FirstFailureAudited       ID = "first-failure-audited"
	FormatUnchecked           ID = "format-unchecked"
	IntegerTruncation         ID = "integer-truncation"
	LibraryCosts              ID = "library-costs"
	LiveDuplicates            ID = "live-duplicates"
	LostMutation              ID = "lost-mutation"
	OptionalFunctions         ID = "optional-functions"
	OptionalOfAny             ID = "optional-of-any"
	PartialKey                ID = "partial-key"
	PatchBigInteger           ID = "json-patch-big-integer"
	PatchDecodeError          ID = "json-patch-decode-error"
	PatchNilMap               ID = "json-patch-null-parent"
	PatchReflectedValue       ID = "json-patch-reflected-value"
	PatchWithoutValue         ID = "json-patch-without-value"
	QuantityAliased           ID = "quantity-aliased"
	RangeUnbounded            ID = "range-unbounded"
	SearchBounds              ID = "search-bounds"
	SlowLoop                  ID = "slow-loop"
	TextCosts                 ID = "text-costs"
)

// A Quirk is one defect.
type Quirk struct {
	ID    ID
	Since string // first minor that has it, such as "1.30"; empty for all
	Until string // first minor that no longer has it; empty for none yet
	Title string // its effect, as one sentence without a full stop
	Issue string // public report; empty if we do not know of one
}

// All lists every quirk, sorted by ID.
var All = []Quirk{
	{
		ID:    AuditAnnotationAuthorizer,
		Since: "1.30",
		Title: "authorizer compiles in the valueExpression of an audit annotation but is not bound when it is evaluated, which is an error on every request",
	},
	{
		ID:    BacktickSyntax,
		Until: "1.37",
		Title: "a name in backticks does not compile",
	},
	{
		ID:    BacktickToken,
		Until: "1.33",
		Title: "the compiler reports each backtick as a token that it does not recognise",
	},
	{
		ID:    CIDRContains,
		Until: "1.32",
		Title: "containsCIDR holds only of networks that begin where the outer one does",
		Issue: "https://github.com/kubernetes/kubernetes/pull/130450",
	},
	{
		ID:    EmptyTextSearch,
		Until: "1.37",
		Title: "indexOf and lastIndexOf of an empty text return the start of the search, even if that is outside of the text",
	},
	{
		ID:    EquivalentMutation,
		Since: "1.32",
		Title: "a mutation of a built-in kind fails on every request in another version than that of the matching rule",
	},
	{
		ID:    FirstFailureAudited,
		Until: "1.37",
		Title: "of several failures that bindings audit, only the first is in the audit annotation",
	},
	{
		ID:    FormatUnchecked,
		Until: "1.31",
		Title: "the clauses and arguments of format are not checked when an expression is compiled: what is wrong is an error of each request",
	},
	{
		ID:    IntegerTruncation,
		Since: "1.32",
		Title: "an integer of an ApplyConfiguration that is too large for its field is cut to the width of the field instead of refused",
	},
	{
		ID:    PatchBigInteger,
		Since: "1.32",
		Title: "an integer beyond 2^53-1 in the value of a JSON patch becomes text",
	},
	{
		ID:    PatchDecodeError,
		Since: "1.32",
		Title: "a JSON patch whose result does not decode fails the request with status 500, regardless of failurePolicy",
	},
	{
		ID:    PatchNilMap,
		Since: "1.32",
		Title: "a JSON patch that sets a map to null and then adds below it makes the server panic",
	},
	{
		ID:    PatchReflectedValue,
		Since: "1.37",
		Title: "a map or list of params, namespaceObject, request or, in a policy with matchConditions, of a built-in object cannot be the value of a JSON patch",
	},
	{
		ID:    PatchWithoutValue,
		Since: "1.32",
		Until: "1.35",
		Title: "a JSON patch that replaces the whole object by a text, a number or a truth value does nothing, and one that tests a missing member without a value makes the server panic",
	},
	{
		ID:    LibraryCosts,
		Until: "1.32",
		Title: "functions of the Kubernetes libraries cost 1, whatever their arguments: StrictCostEnforcementForVAP is off",
	},
	{
		ID:    LiveDuplicates,
		Since: "1.32",
		Until: "1.35",
		Title: "an ApplyConfiguration fails if any list of the object has two items with the same key, such as two env with the same name",
		Issue: "https://github.com/kubernetes/kubernetes/pull/135560",
	},
	{
		ID:    LostMutation,
		Since: "1.32",
		Title: "mutations through different versions of one resource apply to separate copies, and only the last one is kept",
	},
	{
		ID:    OptionalFunctions,
		Until: "1.33",
		Title: "the functions first, last and unwrapOpt of lists are not known",
	},
	{
		ID:    OptionalOfAny,
		Until: "1.37",
		Title: "or and orValue of a value that is not optional return it, which is an error from 1.37 on",
	},
	{
		ID:    PartialKey,
		Since: "1.32",
		Until: "1.34",
		Title: "an ApplyConfiguration fails if an item of a keyed list lacks one of its keys, even if it has others",
	},
	{
		ID:    QuantityAliased,
		Until: "1.37",
		Title: "add and sub change the quantity that they are called on, if it has more digits than an int64 holds",
		Issue: "https://github.com/kubernetes/kubernetes/pull/140556",
	},
	{
		ID:    RangeUnbounded,
		Since: "1.34",
		Until: "1.37",
		Title: "lists.range of a negative number is an empty list, and only the cost limits its length",
	},
	{
		ID:    SearchBounds,
		Until: "1.32",
		Title: "indexOf and lastIndexOf fail where the search begins at or after the end of the text, even an empty one",
	},
	{
		ID:    SlowLoop,
		Title: "an expression that loops more than 15,000 times takes the server seconds or minutes, so that a request may end with a timeout",
	},
	{
		ID:    TextCosts,
		Until: "1.37",
		Title: "the cost of startsWith and endsWith depends on the whole text, not its end, and the function matches always costs 1",
	},
}

// A Set holds the quirks of one minor. The zero value is empty.
type Set struct{ ids map[ID]bool }

// SetOf returns the quirks of a minor such as "1.37".
func SetOf(minor string) Set {
	s := Set{ids: map[ID]bool{}}
	for _, q := range All {
		if !IsBefore(minor, q.Since) && (q.Until == "" || IsBefore(minor, q.Until)) {
			s.ids[q.ID] = true
		}
	}
	return s
}

// Has reports whether the set holds a quirk.
func (s Set) Has(id ID) bool { return s.ids[id] }

// Without returns the set without one quirk.
func (s Set) Without(id ID) Set {
	ids := maps.Clone(s.ids)
	delete(ids, id)
	return Set{ids}
}

// Title returns the sentence of a quirk.
func (id ID) Title() string {
	for _, q := range All {
		if q.ID == id {
			return q.Title
		}
	}
	return string(id)
}

// IsBefore reports whether a minor is older than another. No minor is older than the empty one.
func IsBefore(minor, other string) bool { return number(minor) < number(other) }

// number returns the number after the dot of a minor, for comparison.
func number(minor string) (n int) {
	_, _ = fmt.Sscanf(minor, "1.%d", &n)
	return n
}
