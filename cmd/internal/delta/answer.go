// Package delta finds the differences between two answers to one request, and between two sets of policies.
package delta

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/rewrite"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
)

// A Change is a kind of difference between answers.
type Change string

// The changes, most severe first.
const (
	NewlyDenied     Change = "newly denied"
	NewlyChanged    Change = "newly changed" // the stored object differs, because of a policy of the new set
	NewlyWarned     Change = "newly warned"
	NewlyAudited    Change = "newly audited"
	NoLongerDenied  Change = "no longer denied"
	NoLongerChanged Change = "no longer changed"
	NoLongerWarned  Change = "no longer warned"
	NoLongerAudited Change = "no longer audited"
	Otherwise       Change = "answered otherwise" // by other policies, with other messages, or with other annotations
)

// Changes returns all changes, most severe first.
func Changes() []Change {
	return []Change{NewlyDenied, NewlyChanged, NewlyWarned, NewlyAudited, NoLongerDenied, NoLongerChanged,
		NoLongerWarned, NoLongerAudited, Otherwise}
}

// Fails reports a change that must not go unnoticed: a request is newly refused, or another object is stored.
func (c Change) Fails() bool { return c == NewlyDenied || c == NewlyChanged }

// The effects of a policy on a request.
const (
	Denies    = "denied"
	Warns     = "warned"
	Audits    = "audited"
	Mutates   = "changed"
	Ignores   = "error ignored"
	Annotates = "annotated"
)

// An Entry is one effect of a policy on a request.
type Entry struct {
	Does    string
	Kind    policy.Kind
	Policy  string // empty: the API server itself
	Binding string
	Param   string
	Part    string // of the policy, such as "validations[0]"; empty: the whole policy
	Message string
	Err     error // of a typed error
	Expr    policy.Expr
	Hunks   []rewrite.Hunk // of a mutation

	Violation *celgate.Violation // of a denial, a warning or an audited violation, by a policy
}

// identity returns the parts of an entry that the client of a request sees: not the names of bindings and params.
func (e Entry) identity() string {
	return strings.Join([]string{e.Does, string(e.Kind), e.Policy, e.Message, fmt.Sprint(e.Hunks)}, "\n")
}

// A Pair holds the old and the new effect of a policy; nil means none.
type Pair struct{ Old, New *Entry }

// Entry returns the entry with the policy of the pair.
func (p Pair) Entry() *Entry {
	if p.New != nil {
		return p.New
	}
	return p.Old
}

// A Difference is the difference between two answers to one request.
type Difference struct {
	Changes []Change // most severe first; empty: the answers are equal
	Pairs   []Pair   // sorted by the names of policies
	Object  []rewrite.Hunk
}

// An Answer is an answer to a request.
type Answer struct {
	Request  *celgate.Request // in prepared form
	Decision *celgate.Decision
}

// Compare compares two answers to a request. An answer is nil if the request did not exist, because the request that
// would have caused it was denied.
func Compare(old, now *Answer, types *schema.Registry) Difference {
	var d Difference
	was, is := entriesOf(old, types), entriesOf(now, types)
	common := map[string]bool{}
	for _, e := range was {
		common[e.identity()] = slices.ContainsFunc(is, func(x Entry) bool { return x.identity() == e.identity() })
	}
	rest := func(entries []Entry) []*Entry {
		var left []*Entry
		seen := map[string]bool{}
		for i := range entries {
			if key := entries[i].identity(); !common[key] && !seen[key] {
				seen[key] = true
				left = append(left, &entries[i])
			}
		}
		return left
	}
	d.Pairs = pair(rest(was), rest(is))
	if a, b := old.object(), now.object(); a != nil && b != nil {
		d.Object = rewrite.Diff(a, b, typeOf(types, b))
	}
	d.Changes = changesOf(old, now, d)
	return d
}

// pair matches the old and new effects of the same part of a policy, then those of the same kind of the same policy.
func pair(was, is []*Entry) []Pair {
	var pairs []Pair
	like := []func(a, b *Entry) bool{
		func(a, b *Entry) bool {
			return a.Policy == b.Policy && a.Kind == b.Kind && a.Part == b.Part &&
				(a.Does == Mutates) == (b.Does == Mutates)
		},
		func(a, b *Entry) bool { return a.Policy == b.Policy && a.Kind == b.Kind && a.Does == b.Does },
	}
	for _, alike := range like {
		for i := 0; i < len(was); i++ {
			if j := slices.IndexFunc(is, func(b *Entry) bool { return alike(was[i], b) }); j >= 0 {
				pairs = append(pairs, Pair{was[i], is[j]})
				was, is = slices.Delete(was, i, i+1), slices.Delete(is, j, j+1)
				i--
			}
		}
	}
	for _, e := range was {
		pairs = append(pairs, Pair{Old: e})
	}
	for _, e := range is {
		pairs = append(pairs, Pair{New: e})
	}
	slices.SortStableFunc(pairs, func(a, b Pair) int {
		x, y := a.Entry(), b.Entry()
		return cmp.Or(strings.Compare(x.Policy, y.Policy), strings.Compare(string(x.Kind), string(y.Kind)),
			strings.Compare(x.Part, y.Part))
	})
	return pairs
}

// changesOf returns the differences between the whole answers.
func changesOf(old, now *Answer, d Difference) []Change {
	found := map[Change]bool{}
	was, is := old.effects(), now.effects()
	if !is[Denies] || !was[Denies] { // a denied request has no object
		changed := len(d.Object) > 0
		switch {
		case changed && now.effects()[Mutates] || is[Mutates] && old == nil:
			found[NewlyChanged] = true
		case changed && was[Mutates]:
			found[NoLongerChanged] = true
		case changed:
			found[Otherwise] = true // defaults of another Kubernetes minor
		}
	}
	for does, changes := range map[string][2]Change{
		Denies: {NewlyDenied, NoLongerDenied}, Warns: {NewlyWarned, NoLongerWarned},
		Audits: {NewlyAudited, NoLongerAudited},
	} {
		switch {
		case is[does] && !was[does]:
			found[changes[0]] = true
		case was[does] && !is[does]:
			found[changes[1]] = true
		}
	}
	if old == nil { // the causing request was denied before: the refusal is not new
		delete(found, NewlyDenied)
		delete(found, NewlyChanged)
	}
	if found[NewlyDenied] { // the other change is more specific
		delete(found, NoLongerWarned)
		delete(found, NoLongerAudited)
	}
	if len(found) == 0 && len(d.Pairs) > 0 {
		found[Otherwise] = true
	}
	var all []Change
	for _, c := range Changes() {
		if found[c] {
			all = append(all, c)
		}
	}
	return all
}

// effects returns the effects on the request.
func (a *Answer) effects() map[string]bool {
	does := map[string]bool{}
	if a == nil {
		return does
	}
	does[Denies], does[Warns], does[Mutates] = !a.Decision.Allowed, len(a.Decision.Warnings) > 0, a.Decision.Mutated
	for _, v := range a.Decision.Violations {
		does[Audits] = does[Audits] || slices.Contains(v.Actions, policy.Audit)
	}
	return does
}

// object returns the object after mutations, before the API server assigns a uid and similar values; nil if it does not
// exist.
func (a *Answer) object() map[string]any {
	if a == nil || !a.Decision.Allowed {
		return nil
	}
	if n := len(a.Decision.Changes); n > 0 {
		return a.Decision.Changes[n-1].After
	}
	return a.Request.Object
}

func typeOf(types *schema.Registry, object map[string]any) *shape.Type {
	if types == nil {
		return nil
	}
	version, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	return types.Type(apischema.FromAPIVersionAndKind(version, kind))
}

// entriesOf returns the effects of policies on a request, in the order of evaluation.
func entriesOf(a *Answer, types *schema.Registry) []Entry {
	if a == nil {
		return nil
	}
	d := a.Decision
	var all []Entry
	refused := d.Allowed
	for i := range d.Violations {
		v := &d.Violations[i]
		e := Entry{Kind: v.Kind, Policy: v.Policy, Binding: v.Binding, Param: v.Param, Part: partOf(v.Expr.Field),
			Message: v.Message, Err: v.Err, Expr: v.Expr, Violation: v}
		actions := v.Actions
		if len(actions) == 0 { // an error before the first binding
			actions = []policy.Action{policy.Deny}
		}
		for _, action := range actions {
			e.Does = map[policy.Action]string{policy.Deny: Denies, policy.Warn: Warns, policy.Audit: Audits}[action]
			refused = refused || action == policy.Deny
			all = append(all, e)
		}
	}
	if !refused && d.Status != nil {
		all = append(all, Entry{Does: Denies, Message: d.Status.Message})
	}
	for _, w := range d.Warnings {
		if w.Violation == nil {
			all = append(all, Entry{Does: Warns, Message: w.Text})
		}
	}
	for _, o := range d.Outcomes {
		if o.Verdict == celgate.Error && !slices.ContainsFunc(d.Violations, func(v celgate.Violation) bool {
			return v.Policy == o.Policy && v.Kind == o.Kind && v.Binding == o.Binding && v.Expr.Field == o.Expr.Field
		}) {
			all = append(all, Entry{Does: Ignores, Kind: o.Kind, Policy: o.Policy, Binding: o.Binding, Param: o.Param,
				Part: partOf(o.Field()), Message: o.Message, Err: o.Err, Expr: *o.Expr})
		}
	}
	for _, c := range d.Changes {
		all = append(all, Entry{
			Does: Mutates, Kind: c.Kind, Policy: c.Policy, Binding: c.Binding, Param: c.Param,
			Part:  mutations(c.Mutations),
			Hunks: rewrite.Diff(c.Before, c.After, typeOf(types, c.After)),
		})
	}
	for _, key := range slices.Sorted(maps.Keys(d.AuditAnnotations)) {
		if name, _, ok := strings.Cut(key, "/"); ok && name != "validation.policy.admission.k8s.io" &&
			name != "mutation.policy.admission.k8s.io" {
			all = append(all, Entry{Does: Annotates, Kind: policy.Validating, Policy: name, Part: key,
				Message: key + ": " + d.AuditAnnotations[key]})
		}
	}
	return all
}

// partOf returns the part of a policy at the field path of an expression.
func partOf(field string) string {
	part := strings.TrimPrefix(field, "spec.")
	if i := strings.Index(part, "]"); i >= 0 {
		part = part[:i+1]
	}
	return part
}

// mutations returns the names of the mutations of a policy that changed the object.
func mutations(indexes []int) string {
	var names []string
	for _, i := range indexes {
		names = append(names, fmt.Sprintf("mutations[%d]", i))
	}
	if names == nil {
		return "mutations[0]"
	}
	return strings.Join(names, ", ")
}
