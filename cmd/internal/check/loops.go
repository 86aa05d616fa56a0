package check

import (
	"slices"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/quirks"
)

var loops = []*Analyzer{
	{
		Code: "CG602", Name: "slow-loop", Severity: Warning,
		Title: "an expression loops so often that the API server needs seconds or minutes",
		Text: `The API server counts costs in a way whose time grows with the square of the iterations of one
evaluation: about a second for 15,000 iterations, half a minute for 60,000, although their cost is far below the limit
of one expression. Requests then time out. It is reported if a generated object shows it; celgate itself evaluates
such loops fast, and limits the cost of the evaluations of a check.`,
		Before: "expression: lists.range(60000).all(i, object.data[string(i)] != '')",
		After:  "expression: object.data.all(k, object.data[k] != '')",
		run: func(p *pass) {
			for _, f := range p.facts {
				m := p.measure(f)
				if !m.slow || len(m.Costs) == 0 {
					continue
				}
				worst := slices.MaxFunc(m.Costs, func(a, b Cost) int { return int(a.Observed - b.Observed) })
				i := slices.IndexFunc(f.exprs, func(e *expression) bool { return e.Field == worst.field })
				if i < 0 || worst.Exceeded != "" { // CG601 has said more
					continue
				}
				d := diagnosticIn(f.Policy, f.exprs[i].Expr, 0, len(f.exprs[i].Src))
				d.Message = "a loop of more than 15,000 iterations takes the server seconds or minutes"
				d.Suggestion = "loop over a list or map of the object instead of a range of numbers"
				p.report(d)
			}
		},
	},
}

// loopsForLong reports whether a decision notes a slow loop.
func loopsForLong(d *celgate.Decision) bool {
	return slices.ContainsFunc(d.Notes, func(n celgate.Note) bool {
		return n.Quirk != nil &&
			n.Quirk.ID == string(quirks.SlowLoop)
	})
}
