package playground

import (
	"context"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/suite"
	"github.com/celgate/celgate/explain"
)

// Coverage counts the outcomes of expressions that the objects of a question reach, as celgate test --coverage does.
type Coverage struct {
	Seen  int           `json:"seen"`
	Total int           `json:"total"`
	Parts []CoveredPart `json:"parts"` // in the order of the text
}

// A CoveredPart is an expression of a policy, a branch of the expression before it, or a binding.
type CoveredPart struct {
	Place
	Policy   string    `json:"policy"`
	Name     string    `json:"name"` // such as "validations[0]"; of a branch its text
	Branch   bool      `json:"branch"`
	Outcomes []Outcome `json:"outcomes"`
}

// An Outcome is a possible result of a part.
type Outcome struct {
	Name  string `json:"name"` // "true", "false", "ran", "set"
	Count int    `json:"count"`
}

// coverage returns the coverage of the policies by the objects.
func (w *world) coverage(ctx context.Context, ask *Ask) (*Coverage, error) {
	branches, err := w.engine.Branches()
	if err != nil {
		return nil, err
	}
	var counted suite.Coverage
	counted.Add(suite.Result{Set: w.set})
	counted.Declare(w.set, branches)
	a := &asking{world: w, ask: ask, coverage: &counted}
	for d := range a.documents {
		a.document(ctx, d)
	}
	counted.Sort()
	out := &Coverage{Parts: []CoveredPart{}}
	out.Seen, out.Total = counted.Count()
	for _, p := range counted.Policies {
		for _, e := range p.Entries {
			from, to := e.From, e.To
			if !e.Branch {
				from, to = 0, len(e.Expr.Src)
			}
			part := CoveredPart{Place: ask.span(e.Place, e.Expr, from, to), Policy: p.Name, Name: e.Name,
				Branch: e.Branch, Outcomes: []Outcome{}}
			for _, o := range e.Outcomes {
				part.Outcomes = append(part.Outcomes, Outcome{o.Name, o.Count})
			}
			out.Parts = append(out.Parts, part)
		}
	}
	return out, nil
}

// cover counts the outcomes of one request, and returns the object in its stored form, nil if it would not be stored.
func (a *asking) cover(ctx context.Context, p *celgate.Prepared) map[string]any {
	observe := func(seen explain.Observation) { a.coverage.Observe(a.set, seen) }
	d, err := a.engine.Explain(ctx, p, explain.Options{Observe: observe})
	if err != nil {
		return nil // the answer about the request says why
	}
	a.coverage.Add(suite.Result{Set: a.set, Decision: d})
	if d.Allowed {
		return d.Object
	}
	return nil
}
