package suite

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/explain"
	"github.com/celgate/celgate/policy"
)

// Coverage counts the outcomes of parts of policies in cases. The zero value is ready for use, and safe for concurrent
// use while cases run.
type Coverage struct {
	Policies []*PolicyCoverage // sorted by position after all cases

	mutex sync.Mutex
}

// PolicyCoverage is the coverage of one policy: its expressions in the order of the text, then its bindings.
type PolicyCoverage struct {
	Kind    policy.Kind
	Name    string
	Entries []*Entry

	place policy.Position // two suites may have policies of the same name
}

// An Entry is one part of a policy: a match condition, a variable, a validation, a mutation, an audit annotation, a
// binding, or a branch of the preceding expression.
type Entry struct {
	Name     string // such as "validations[0]" or "binding limits"; of a branch its text
	Branch   bool
	Place    policy.Position
	Expr     policy.Expr // the expression, or that of the branch; zero for a binding
	From, To int         // the range of the branch in the text of Expr
	Outcomes []*Count

	fails int // errors: cases need not cover these
}

// A Count counts one outcome.
type Count struct {
	Name  string // "true", "false", "ran", "changed", "set"
	Count int
}

// MissingOutcomes returns the outcomes that never occurred.
func (e *Entry) MissingOutcomes() []string {
	var names []string
	for _, o := range e.Outcomes {
		if o.Count == 0 {
			names = append(names, o.Name)
		}
	}
	return names
}

// Count returns the number of covered outcomes, and of all.
func (p *PolicyCoverage) Count() (seen, total int) {
	for _, e := range p.Entries {
		total += len(e.Outcomes)
		seen += len(e.Outcomes) - len(e.MissingOutcomes())
	}
	return seen, total
}

// Count returns the number of covered outcomes, and of all.
func (c *Coverage) Count() (seen, total int) {
	for _, p := range c.Policies {
		s, t := p.Count()
		seen, total = seen+s, total+t
	}
	return seen, total
}

// Percent returns the share of covered outcomes; 100 if there are none.
func (c *Coverage) Percent() float64 {
	seen, total := c.Count()
	if total == 0 {
		return 100
	}
	return 100 * float64(seen) / float64(total)
}

// Add counts the outcomes of a result.
func (c *Coverage) Add(r Result) {
	if r.Set == nil {
		return
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, p := range r.Set.Policies {
		c.coverageOf(p, r.Set)
	}
	c.add(r.Set, r.Decision)
	for _, made := range r.Created {
		c.add(r.Set, made.Decision)
	}
}

// add counts the outcomes of a decision.
func (c *Coverage) add(set *policy.Set, d *celgate.Decision) {
	if d == nil {
		return
	}
	bindings := map[string]bool{}
	for _, o := range d.Outcomes {
		p := c.lookUp(set, o.Kind, o.Policy)
		if p == nil {
			continue
		}
		if !bindings[o.Policy+"\n"+o.Binding] && o.Verdict != celgate.Skip {
			bindings[o.Policy+"\n"+o.Binding] = true
			p.count("binding "+o.Binding, "ran")
		}
		switch e := p.entry(o.Field()); {
		case e == nil:
		case o.Verdict == celgate.Error:
			e.fails++
		case o.Verdict == celgate.Admit: // an entry has one of the two
			e.count("ran")
			e.count("true")
		default:
			e.count("false")
		}
	}
	for _, p := range set.Policies {
		covered := c.lookUp(set, p.Kind, p.Name)
		for _, a := range p.AuditAnnotations {
			if _, ok := d.AuditAnnotations[p.Name+"/"+a.Name]; ok && covered != nil {
				covered.count("auditAnnotations["+a.Name+"]", "set")
			}
		}
	}
}

func (p *PolicyCoverage) entry(field string) *Entry {
	if i := p.index(field); i >= 0 {
		return p.Entries[i]
	}
	return nil
}

func (p *PolicyCoverage) count(entry, outcome string) {
	for _, e := range p.Entries {
		if e.Name == entry {
			e.count(outcome)
		}
	}
}

func (e *Entry) count(outcome string) {
	for _, o := range e.Outcomes {
		if o.Name == outcome {
			o.Count++
		}
	}
}

func (c *Coverage) lookUp(set *policy.Set, kind policy.Kind, name string) *PolicyCoverage {
	for _, p := range set.Policies {
		if p.Kind == kind && p.Name == name {
			return c.coverageOf(p, set)
		}
	}
	return nil
}

// coverageOf returns the coverage of a policy, making it on first use.
func (c *Coverage) coverageOf(p *policy.Policy, set *policy.Set) *PolicyCoverage {
	place := p.Position
	i := slices.IndexFunc(c.Policies, func(x *PolicyCoverage) bool {
		return x.Kind == p.Kind && x.Name == p.Name &&
			x.place == place
	})
	if i >= 0 {
		return c.Policies[i]
	}
	covered := &PolicyCoverage{Kind: p.Kind, Name: p.Name, place: place}
	add := func(name string, e policy.Expr, outcomes ...string) {
		entry := &Entry{Name: name, Place: e.Locate(0), Expr: e}
		for _, o := range outcomes {
			entry.Outcomes = append(entry.Outcomes, &Count{Name: o})
		}
		covered.Entries = append(covered.Entries, entry)
	}
	for x := range p.Expressions() {
		i := "[" + strconv.Itoa(x.Index) + "]"
		switch x.Use {
		case policy.UseMatchCondition:
			add("matchConditions["+x.Name+"]", x.Expr, verdictsOf(x.Expr)...)
		case policy.UseVariable:
			if p.Variables[x.Index].Library != "" {
				continue // libraries are covered by tests of their own, not by each policy
			}
			add("variables["+x.Name+"]", x.Expr, "ran")
		case policy.UseValidation:
			add("validations"+i, x.Expr, verdictsOf(x.Expr)...)
		case policy.UseMessageExpression:
			if !strings.HasPrefix(x.Field, "spec.mutations") { // texts of mutations are not outcomes
				add("validations"+i+".messageExpression", x.Expr, "ran")
			}
		case policy.UseCondition:
			add("mutations"+i+".condition", x.Expr, verdictsOf(x.Expr)...)
		case policy.UseForEach: // the mutation covers its items
		case policy.UseMutationCheck:
			add("mutations"+i+".validation", x.Expr, verdictsOf(x.Expr)...)
		case policy.UseAuditAnnotation:
			add("auditAnnotations["+x.Name+"]", x.Expr, "set")
		default:
			add("mutations"+i, x.Expr, "ran")
		}
	}
	slices.SortStableFunc(covered.Entries, func(a, b *Entry) int {
		return cmp.Or(cmp.Compare(a.Place.Line, b.Place.Line), cmp.Compare(a.Place.Column, b.Place.Column))
	})
	for b := range set.EachBinding() {
		if b.Binds(p) {
			covered.Entries = append(covered.Entries,
				&Entry{Name: "binding " + b.Name, Place: b.Position, Outcomes: []*Count{{Name: "ran"}}})
		}
	}
	c.Policies = append(c.Policies, covered)
	return covered
}

// verdictsOf returns the possible outcomes of a condition: a constant has one.
func verdictsOf(x policy.Expr) []string {
	switch constant := strings.TrimSpace(x.Src); constant {
	case "true", "false":
		return []string{constant}
	}
	return []string{"true", "false"}
}

// Declare adds the branches of expressions: see [celgate.Engine.Branches].
func (c *Coverage) Declare(set *policy.Set, branches []explain.Branch) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, b := range branches {
		p := c.coverageOf(b.Policy, set)
		of := p.index(b.Field)
		at := of + 1 + b.Index
		if of < 0 || at < len(p.Entries) && p.Entries[at].Branch {
			continue
		}
		e := p.Entries[of].Expr
		p.Entries = slices.Insert(p.Entries, at, &Entry{
			Name: strings.Join(strings.Fields(e.Src[b.From:b.To]), " "), Branch: true, Place: e.Locate(b.From),
			Expr: e, From: b.From, To: b.To,
			Outcomes: []*Count{{Name: "true"}, {Name: "false"}},
		})
	}
}

// Observe counts one observation of an evaluation; the decision does not contain it. It is for the option Observe.
func (c *Coverage) Observe(set *policy.Set, o explain.Observation) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	p := c.coverageOf(o.Policy, set)
	at := p.index(o.Expr.Field)
	switch {
	case at < 0:
	case o.Branch < 0:
		if f := o.Expr.Field; strings.HasPrefix(f, "spec.variables") || strings.HasSuffix(f, ".messageExpression") {
			p.Entries[at].count("ran")
		}
	case at+1+o.Branch < len(p.Entries):
		switch e := p.Entries[at+1+o.Branch]; {
		case o.True:
			e.count("true")
		case o.False:
			e.count("false")
		}
	}
}

// index returns the index of the entry of an expression; -1 if there is none.
func (p *PolicyCoverage) index(field string) int {
	return slices.IndexFunc(p.Entries, func(e *Entry) bool { return field != "" && e.Expr.Field == field && !e.Branch })
}

// Sort sorts policies by position; cases ran in any order.
func (c *Coverage) Sort() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	slices.SortStableFunc(c.Policies, func(a, b *PolicyCoverage) int {
		return cmp.Or(cmp.Compare(a.place.File, b.place.File), cmp.Compare(a.place.Line, b.place.Line),
			cmp.Compare(a.Name, b.Name))
	})
}
