// Package quirks lists defects of named API server versions that change answers.
//
// Commands that predict what a server answers reproduce them and say so in a note; the webhook does not. No
// other code knows a version number.
package quirks

import (
	"fmt"
	"maps"
)

// An ID names a quirk; it is stable and part of the JSON output.
type ID string

// The quirks.
const (
	AuditAnnotationAuthorizer ID = "audit-annotation-authorizer"
	BacktickSyntax            ID = "backtick-syntax"
	CIDRContains              ID = "cidr-contains"
	EmptyTextSearch           ID = "empty-text-search"
	EquivalentMutation        ID = "equivalent-mutation"
	FirstFailureAudited       ID = "first-failure-audited"
	IntegerTruncation         ID = "integer-truncation"
	LibraryCosts              ID = "library-costs"
	LostMutation              ID = "lost-mutation"
	OptionalFunctions         ID = "optional-functions"
	OptionalOfAny             ID = "optional-of-any"
	PatchBigInteger           ID = "json-patch-big-integer"
	PatchDecodeError          ID = "json-patch-decode-error"
	PatchNilMap               ID = "json-patch-null-parent"
	PatchReflectedValue       ID = "json-patch-reflected-value"
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
	Title string // what happens, one sentence without a full stop
	Issue string // public report; empty if there is none that we know of
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
		ID:    CIDRContains,
		Until: "1.32",
		Title: "containsCIDR holds only of networks that begin where the outer one does",
		Issue: "https://github.com/kubernetes/kubernetes/pull/130450",
	},
	{
		ID:    EmptyTextSearch,
		Until: "1.37",
		Title: "indexOf and lastIndexOf of an empty text return the place where the search begins, even one outside of the text",
	},
	{
		ID:    EquivalentMutation,
		Since: "1.32",
		Title: "a mutation of a built-in kind fails on every request that was made in another version than the rule that matched it",
	},
	{
		ID:    FirstFailureAudited,
		Until: "1.37",
		Title: "of several failures that bindings audit, only the first is in the audit annotation",
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
		Title: "a JSON patch whose result does not decode fails the request with status 500, whatever failurePolicy says",
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
		ID:    LibraryCosts,
		Until: "1.32",
		Title: "functions of the Kubernetes libraries cost 1, whatever they are given: StrictCostEnforcementForVAP is off",
	},
	{
		ID:    LostMutation,
		Since: "1.32",
		Title: "mutations through different versions of one resource are made on separate copies, of which only the last is kept",
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
		ID:    QuantityAliased,
		Until: "1.37",
		Title: "add and sub change the quantity that they are called on, if it has more digits than an int64 holds",
		Issue: "https://github.com/kubernetes/kubernetes/pull/140556",
	},
	{
		ID:    RangeUnbounded,
		Since: "1.34",
		Until: "1.37",
		Title: "lists.range of a negative number is an empty list, and none is too large but for its cost",
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
		Title: "startsWith and endsWith cost what the text costs, not its end, and the function matches always costs 1",
	},
}

// A Set holds the quirks of one minor. The zero value has none.
type Set struct{ ids map[ID]bool }

// SetOf returns the quirks of a minor such as "1.37".
func SetOf(minor string) Set {
	s := Set{ids: map[ID]bool{}}
	n := number(minor)
	for _, q := range All {
		if (q.Since == "" || number(q.Since) <= n) && (q.Until == "" || n < number(q.Until)) {
			s.ids[q.ID] = true
		}
	}
	return s
}

// Has reports whether the set holds a quirk.
func (s Set) Has(id ID) bool { return s.ids[id] }

// Without returns the set without a quirk.
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

// number orders minors of major version 1.
func number(minor string) (n int) {
	_, _ = fmt.Sscanf(minor, "1.%d", &n)
	return n
}
