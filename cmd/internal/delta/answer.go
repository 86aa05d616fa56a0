// Package delta says what differs between two answers to one request, and between two sets of policies.
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

// A Change says in which way an answer differs.
type Change string

// The changes, the worst first.
const (
	NewlyDenied     Change = "newly denied"
	NewlyChanged    Change = "newly changed" // the object comes out otherwise, by a policy of the new set
	NewlyWarned     Change = "newly warned"
	NewlyAudited    Change = "newly audited"
	NoLongerDenied  Change = "no longer denied"
	NoLongerChanged Change = "no longer changed"
	NoLongerWarned  Change = "no longer warned"
	NoLongerAudited Change = "no longer audited"
	Otherwise       Change = "answered otherwise" // by other policies, in other words, or with other annotations
)

// Changes are all of them, the worst first.
func Changes() []Change {
	return []Change{NewlyDenied, NewlyChanged, NewlyWarned, NewlyAudited, NoLongerDenied, NoLongerChanged,
		NoLongerWarned, NoLongerAudited, Otherwise}
}

// Fails reports a change that nobody may make unseen: something is refused that was not, or stored as another object.
func (c Change) Fails() bool { return c == NewlyDenied || c == NewlyChanged }

// What a policy does to a request.
const (
	Denies    = "denied"
	Warns     = "warned"
	Audits    = "audited"
	Mutates   = "changed"
	Ignores   = "error ignored"
	Annotates = "annotated"
)

// An Entry is one thing that a policy does to a request.
type Entry struct {
	Does    string
	Kind    policy.Kind
	Policy  string // empty: the API server itself
	Binding string
	Param   string
	Part    string // of the policy, such as "validations[0]"; empty: all of it
	Message string
	Err     error // of an error, with a type
	Expr    policy.Expr
	Hunks   []rewrite.Hunk // of a mutation

	Violation *celgate.Violation // of a denial, a warning or what is audited, by a policy
}

// identity is what must be equal for two entries to be the same to whoever sends the request: names of bindings and
// params are not.
func (e Entry) identity() string {
	return strings.Join([]string{e.Does, string(e.Kind), e.Policy, e.Message, fmt.Sprint(e.Hunks)}, "\n")
}

// A Pair is what a policy did and does now; nil: nothing.
type Pair struct{ Old, New *Entry }

// Entry returns the entry that tells which policy the pair is about.
func (p Pair) Entry() *Entry {
	if p.New != nil {
		return p.New
	}
	return p.Old
}

// A Difference is what differs between two answers to one request.
type Difference struct {
	Changes []Change // the worst first; empty: the answers are the same
	Pairs   []Pair   // by the names of policies
	Object  []rewrite.Hunk
}

// An Answer is an answer to a request.
type Answer struct {
	Request  *celgate.Request // as it was prepared
	Decision *celgate.Decision
}

// Compare compares two answers to a request. Either is nil when there was no such request, because what would have made
// it was denied.
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

// pair puts together what one part of a policy did and does, and then what one policy did and does in the same way.
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

// changesOf says in which ways the whole answers differ.
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
			found[Otherwise] = true // defaults of another Kubernetes
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
	if old == nil { // what made it was denied before: nothing is refused that was not
		delete(found, NewlyDenied)
		delete(found, NewlyChanged)
	}
	if found[NewlyDenied] { // which says more
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

// effects says what is done to the request.
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

// object is the object after mutations, before the API server gives it a uid and the like; nil if there is none.
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

// entriesOf are what policies do to a request, in the order of evaluation.
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
		if len(actions) == 0 { // an error before any binding had a say
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

// partOf is the part of a policy at the field path of an expression.
func partOf(field string) string {
	part := strings.TrimPrefix(field, "spec.")
	if i := strings.Index(part, "]"); i >= 0 {
		part = part[:i+1]
	}
	return part
}

// mutations names those of a policy that changed something.
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
