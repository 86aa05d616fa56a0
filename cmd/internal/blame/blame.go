// Package blame explains the result of an expression: the values of its parts, the list item at which it failed, and
// the variable with the error.
package blame

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/explain"
	"github.com/celgate/celgate/policy"
)

// A Reason explains the result of an expression.
type Reason struct {
	Expr     policy.Expr    // the expression to show, or the variable in which an error happened
	Variable string         // the name of that variable in expressions; empty: Expr is the expression itself
	From, To int            // of the decisive part of the text of Expr; both 0 if it is not known
	Values   []explain.Step // the decisive parts of Expr and of its variables
}

// Field is the most specific path in the object among those of the values; empty if there is none.
func (r *Reason) Field() string {
	best, depth := "", 0
	for _, v := range r.Values {
		if d := 1 + strings.Count(v.Path, ".") + strings.Count(v.Path, "["); v.Path != "" && d > depth &&
			!strings.HasPrefix(v.Path, "variables.") {
			best, depth = v.Path, d
		}
	}
	return best
}

// ReasonOf explains the result of an evaluation. Variables are the earlier evaluations of variables.
func ReasonOf(e explain.Evaluation, variables []explain.Evaluation) Reason {
	p := e.Policy
	r := reasonOf(e, variables)
	if r.Variable != "" {
		r.Variable = p.FullName(r.Variable)
	}
	r.Values = ShowSteps(p, r.Values)
	return r
}

// ShowSteps returns steps in which variables of libraries have the names that the author of the policy uses.
func ShowSteps(p *policy.Policy, steps []explain.Step) []explain.Step {
	for i := range steps {
		s := &steps[i]
		s.Text, s.Item, s.Path = p.ShowVariables(s.Text), p.ShowVariables(s.Item), p.ShowVariables(s.Path)
	}
	return steps
}

func reasonOf(e explain.Evaluation, variables []explain.Evaluation) Reason {
	r := Reason{Expr: e.Expr, Values: values(e, variables)}
	r.From, r.To = e.DecisivePart()
	if _, failed := e.Result(); !failed {
		return r
	}
	for depth := 0; depth <= len(variables); depth++ {
		culprit, name := failedVariable(e, variables)
		if culprit == nil {
			break
		}
		e = *culprit
		r = Reason{Expr: e.Expr, Variable: name, Values: values(e, variables)}
		r.From, r.To = e.DecisivePart()
	}
	return r
}

// failedVariable returns the evaluation of the variable that caused the error of the expression.
func failedVariable(e explain.Evaluation, variables []explain.Evaluation) (*explain.Evaluation, string) {
	for _, s := range e.Steps() {
		if name, ok := strings.CutPrefix(s.Text, "variables."); ok && s.Error {
			if v := evaluationOf(name, variables); v != nil && v.Expr.Field != e.Expr.Field {
				return v, name
			}
		}
	}
	return nil, ""
}

// values returns the steps of an evaluation, each variable followed by its own steps.
func values(e explain.Evaluation, variables []explain.Evaluation) []explain.Step {
	var all []explain.Step
	add := func(s explain.Step) bool {
		if slices.ContainsFunc(all, func(had explain.Step) bool { return had.Text == s.Text }) {
			return false
		}
		all = append(all, s)
		return true
	}
	var of func(e explain.Evaluation, known string)
	of = func(e explain.Evaluation, known string) {
		for _, s := range e.Steps() {
			if s.Value == known && !strings.HasPrefix(s.Text, "variables.") {
				continue // the last part of the variable's expression
			}
			s.Path = resolve(s.Path, variables)
			if name, label, ok := strings.Cut(s.Item, "]"); ok && strings.HasPrefix(name, "variables.") {
				if path := resolve(name+"]", variables); path != "" {
					s.Item = path[strings.LastIndexByte(path, '.')+1:] + label
				}
			}
			name, isVariable := strings.CutPrefix(s.Text, "variables.")
			if !add(s) || !isVariable {
				continue
			}
			if v := evaluationOf(name, variables); v != nil {
				of(*v, s.Value)
			}
		}
	}
	of(e, "")
	return slices.DeleteFunc(
		slices.Clone(all),
		func(s explain.Step) bool { // of an error and the errors that it caused, the innermost
			last := len(all) - 1
			for last >= 0 && !(all[last].Error && all[last].Value == s.Value) {
				last--
			}
			return s.Error && all[last].Text != s.Text
		},
	)
}

// evaluationOf returns the last evaluation of a variable.
func evaluationOf(name string, variables []explain.Evaluation) *explain.Evaluation {
	for i := len(variables) - 1; i >= 0; i-- {
		v := &variables[i]
		for _, is := range v.Policy.Variables {
			if is.Name == name && is.Expr.Field == v.Expr.Field {
				return v
			}
		}
	}
	return nil
}

// resolve replaces a variable at the start of a path by the path that it refers to.
func resolve(path string, variables []explain.Evaluation) string {
	for range variables { // a variable may refer to another one
		rest, ok := strings.CutPrefix(path, "variables.")
		if !ok {
			return path
		}
		end := strings.IndexAny(rest+".", ".[")
		v := evaluationOf(rest[:end], variables)
		if v == nil {
			return ""
		}
		begin := v.Path()
		if number, after, ok := strings.Cut(strings.TrimPrefix(rest[end:], "["), "]"); begin == "" && ok {
			if index, err := strconv.Atoi(number); err == nil { // of a list made from several lists
				begin, rest, end = v.ItemPath(index), after, 0
			}
		}
		if begin == "" {
			return ""
		}
		path = begin + rest[end:]
	}
	if strings.HasPrefix(path, "variables.") {
		return ""
	}
	return path
}

// Reasons decides again about a prepared request and returns the reasons for the outcomes of its decision, by their
// index. An outcome may not have a reason.
func Reasons(
	ctx context.Context, engine *celgate.Engine, request *celgate.Prepared, outcomes []celgate.Outcome,
) map[int]Reason {
	seen, err := evaluations(ctx, engine, request)
	if err != nil {
		return nil
	}
	all := map[int]Reason{}
	next := map[*policy.Policy]int{} // the first evaluation of a policy that does not belong to an outcome yet
	for i, o := range outcomes {
		for at, e := range seen {
			p := e.Policy
			if at < next[p] || p.Kind != o.Kind || p.Name != o.Policy || e.Expr.Field != o.Field() ||
				e.Scope() != o.Scope && (e.Scope() != "" || !isWhole(p, o.Field())) {
				continue
			}
			var variables []explain.Evaluation
			for _, before := range seen[:at] {
				if before.Policy == p && isVariable(p, before.Expr.Field) {
					variables = append(variables, before)
				}
			}
			all[i] = ReasonOf(e, variables)
			next[p] = at + 1
			break
		}
	}
	return all
}

// ReasonOfError decides again about a prepared request and returns the error of the expression at a field of a policy,
// and the reason for it. Not ok: it is not an error.
func ReasonOfError(ctx context.Context, engine *celgate.Engine, request *celgate.Prepared, p policy.Ref, field string) (
	message string, reason Reason, ok bool) {
	seen, err := evaluations(ctx, engine, request)
	if err != nil {
		return "", Reason{}, false
	}
	var variables []explain.Evaluation
	for _, e := range seen {
		if e.Policy.Ref() != p {
			continue
		}
		if text, failed := e.Result(); failed && e.Expr.Field == field {
			return text, ReasonOf(e, variables), true
		}
		if isVariable(e.Policy, e.Expr.Field) {
			variables = append(variables, e)
		}
	}
	return "", Reason{}, false
}

// evaluations decides about a prepared request and returns the evaluations of expressions.
func evaluations(ctx context.Context, engine *celgate.Engine, request *celgate.Prepared) (seen []explain.Evaluation,
	err error) {
	_, err = engine.Explain(ctx, request, explain.Options{Trace: func(e explain.Event) {
		if e.Evaluation != nil {
			seen = append(seen, *e.Evaluation)
		}
	}})
	return seen, err
}

// isVariable reports whether a field is the expression of a variable in the policy or in a library.
func isVariable(p *policy.Policy, field string) bool {
	return slices.ContainsFunc(p.Variables, func(x policy.NamedExpr) bool { return x.Expr.Field == field })
}

// isWhole reports whether the rule at a field does not have a scope: the scope of its outcome is then the path of a
// template.
func isWhole(p *policy.Policy, field string) bool {
	return slices.ContainsFunc(p.Validations, func(x policy.Validation) bool {
		return x.Expr.Field == field && x.Scope.IsZero()
	})
}

// OutcomeOf returns the index of the outcome behind a violation; -1 if it does not come from an expression.
func OutcomeOf(d *celgate.Decision, v celgate.Violation) int {
	return slices.IndexFunc(d.Outcomes, func(o celgate.Outcome) bool {
		return o.Kind == v.Kind && o.Policy == v.Policy && o.Field() == v.Expr.Field &&
			(v.Binding == "" || o.Binding == v.Binding) && o.Param == v.Param && o.Scope == v.Scope
	})
}
