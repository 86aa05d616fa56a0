package suite

import (
	"slices"
	"strconv"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/policy"
)

// Coverage says which outcomes of which parts of policies the cases have seen.
type Coverage struct {
	Policies []*PolicyCoverage // in the order in which suites first had them
}

// PolicyCoverage is the coverage of one policy.
type PolicyCoverage struct {
	Kind    policy.Kind
	Name    string
	Entries []*Entry

	file string // two suites may have policies of one name
}

// An Entry is one part of a policy: a match condition, a validation, a mutation, an audit annotation or a binding.
type Entry struct {
	Name     string // such as "validations[0]" or "binding limits"
	Place    policy.Position
	Outcomes []*Count

	field string
	fails int // errors, which are no outcome that must be seen
}

// A Count is how often something was seen.
type Count struct {
	Name  string // "true", "false", "ran", "changed", "set"
	Count int
}

// Missing returns the outcomes that were never seen.
func (e *Entry) Missing() []string {
	var names []string
	for _, o := range e.Outcomes {
		if o.Count == 0 {
			names = append(names, o.Name)
		}
	}
	return names
}

// Count returns how many outcomes were seen, of how many.
func (p *PolicyCoverage) Count() (seen, total int) {
	for _, e := range p.Entries {
		total += len(e.Outcomes)
		seen += len(e.Outcomes) - len(e.Missing())
	}
	return seen, total
}

// Count returns how many outcomes were seen, of how many.
func (c *Coverage) Count() (seen, total int) {
	for _, p := range c.Policies {
		s, t := p.Count()
		seen, total = seen+s, total+t
	}
	return seen, total
}

// Percent returns the part of outcomes that was seen; 100 if there are none.
func (c *Coverage) Percent() float64 {
	seen, total := c.Count()
	if total == 0 {
		return 100
	}
	return 100 * float64(seen) / float64(total)
}

// Add counts what a result saw.
func (c *Coverage) Add(r Result) {
	if r.Set == nil {
		return
	}
	for _, p := range r.Set.Policies {
		c.of(p, r.Set)
	}
	d := r.Decision
	if d == nil {
		return
	}
	bindings := map[string]bool{}
	for _, o := range d.Outcomes {
		p := c.named(r.Set, o.Kind, o.Policy)
		if p == nil {
			continue
		}
		if !bindings[o.Policy+"\n"+o.Binding] && o.Verdict != celgate.Skip {
			bindings[o.Policy+"\n"+o.Binding] = true
			p.see("binding "+o.Binding, "ran")
		}
		switch e := p.entry(o.Field); {
		case e == nil:
		case o.Verdict == celgate.Error:
			e.fails++
		case o.Verdict == celgate.Admit && o.Kind == policy.Mutating && len(e.Outcomes) == 1:
			e.see("ran")
		case o.Verdict == celgate.Admit:
			e.see("true")
		default:
			e.see("false")
		}
	}
	for _, p := range r.Set.Policies {
		covered := c.named(r.Set, p.Kind, p.Name)
		for _, a := range p.AuditAnnotations {
			if _, ok := d.AuditAnnotations[p.Name+"/"+a.Key]; ok && covered != nil {
				covered.see("auditAnnotations["+a.Key+"]", "set")
			}
		}
	}
}

func (p *PolicyCoverage) entry(field string) *Entry {
	for _, e := range p.Entries {
		if e.field == field && field != "" {
			return e
		}
	}
	return nil
}

func (p *PolicyCoverage) see(entry, outcome string) {
	for _, e := range p.Entries {
		if e.Name == entry {
			e.see(outcome)
		}
	}
}

func (e *Entry) see(outcome string) {
	for _, o := range e.Outcomes {
		if o.Name == outcome {
			o.Count++
		}
	}
}

func (c *Coverage) named(set *policy.Set, kind policy.Kind, name string) *PolicyCoverage {
	for _, p := range set.Policies {
		if p.Kind == kind && p.Name == name {
			return c.of(p, set)
		}
	}
	return nil
}

// of returns the coverage of a policy, which is new the first time.
func (c *Coverage) of(p *policy.Policy, set *policy.Set) *PolicyCoverage {
	file := p.Position.String()
	i := slices.IndexFunc(c.Policies, func(x *PolicyCoverage) bool { return x.Kind == p.Kind && x.Name == p.Name && x.file == file })
	if i >= 0 {
		return c.Policies[i]
	}
	covered := &PolicyCoverage{Kind: p.Kind, Name: p.Name, file: file}
	add := func(name string, e policy.Expr, outcomes ...string) {
		entry := &Entry{Name: name, Place: e.Locate(0), field: e.Field}
		for _, o := range outcomes {
			entry.Outcomes = append(entry.Outcomes, &Count{Name: o})
		}
		covered.Entries = append(covered.Entries, entry)
	}
	for _, m := range p.MatchConditions {
		add("matchConditions["+m.Name+"]", m.Expr, "true", "false")
	}
	for i, v := range p.Validations {
		add("validations["+strconv.Itoa(i)+"]", v.Expr, "true", "false")
	}
	for i, m := range p.Mutations {
		add("mutations["+strconv.Itoa(i)+"]", m.Expr, "ran")
	}
	for _, a := range p.AuditAnnotations {
		add("auditAnnotations["+a.Key+"]", policy.Expr{Place: a.ValueExpr.Place}, "set")
	}
	for _, b := range set.Bindings {
		if b.Kind == p.Kind && b.PolicyName == p.Name {
			covered.Entries = append(covered.Entries, &Entry{Name: "binding " + b.Name, Place: b.Position, Outcomes: []*Count{{Name: "ran"}}})
		}
	}
	c.Policies = append(c.Policies, covered)
	return covered
}
