// Package blame finds what made an expression what it is: the values of its parts, the item of a list at which it failed, and
// the variable in which an error happened.
package blame

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/policy"
)

// A Reason is why an expression came to what it did.
type Reason struct {
	Expr     policy.Expr    // to show: the expression, or the variable of it in which an error happened
	Variable string         // the name of that variable; empty: Expr is the expression itself
	From, To int            // of the part of the text of Expr that decided; both 0 if it is not known
	Values   []celgate.Step // the parts of Expr, and of the variables in it, that decided
}

// Field is the most exact path in the object that the values are of; empty if there is none.
func (r *Reason) Field() string {
	best, depth := "", 0
	for _, v := range r.Values {
		if d := 1 + strings.Count(v.Path, ".") + strings.Count(v.Path, "["); v.Path != "" && d > depth && !strings.HasPrefix(v.Path, "variables.") {
			best, depth = v.Path, d
		}
	}
	return best
}

// Of returns why an evaluation came to its value. Variables are the evaluations of variables before it.
func Of(e celgate.Evaluation, variables []celgate.Evaluation) Reason {
	r := Reason{Expr: e.Expr, Values: values(e, variables)}
	r.From, r.To = e.Decisive()
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
		r.From, r.To = e.Decisive()
	}
	return r
}

// failedVariable returns the evaluation of the variable whose error is that of the expression.
func failedVariable(e celgate.Evaluation, variables []celgate.Evaluation) (*celgate.Evaluation, string) {
	for _, s := range e.Steps() {
		if name, ok := strings.CutPrefix(s.Text, "variables."); ok && s.Error {
			if v := evaluationOf(name, variables); v != nil && v.Expr.Field != e.Expr.Field {
				return v, name
			}
		}
	}
	return nil, ""
}

// values are the steps of an evaluation, with those of each variable behind it.
func values(e celgate.Evaluation, variables []celgate.Evaluation) []celgate.Step {
	var all []celgate.Step
	add := func(s celgate.Step) bool {
		if slices.ContainsFunc(all, func(had celgate.Step) bool { return had.Text == s.Text }) {
			return false
		}
		all = append(all, s)
		return true
	}
	var of func(e celgate.Evaluation, known string)
	of = func(e celgate.Evaluation, known string) {
		for _, s := range e.Steps() {
			if s.Value == known && !strings.HasPrefix(s.Text, "variables.") {
				continue // what the variable's expression ends in
			}
			s.Path = resolved(s.Path, variables)
			if name, label, ok := strings.Cut(s.Item, "]"); ok && strings.HasPrefix(name, "variables.") {
				if path := resolved(name+"]", variables); path != "" {
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
	return slices.DeleteFunc(slices.Clone(all), func(s celgate.Step) bool { // of an error and those that it is the reason for, the innermost
		last := len(all) - 1
		for last >= 0 && !(all[last].Error && all[last].Value == s.Value) {
			last--
		}
		return s.Error && all[last].Text != s.Text
	})
}

// evaluationOf returns the last evaluation of a variable.
func evaluationOf(name string, variables []celgate.Evaluation) *celgate.Evaluation {
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

// resolved replaces a variable at the beginning of a path by the path that it stands for.
func resolved(path string, variables []celgate.Evaluation) string {
	for range variables { // a variable may stand for another one
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
			if index, err := strconv.Atoi(number); err == nil { // of a list that is made of several
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

// A Tracer decides again about requests, to find out why they were decided as they were.
type Tracer struct {
	engine func() *celgate.Engine // nil if it cannot be made

	mutex sync.Mutex
	seen  []celgate.Evaluation // of the request at hand
}

// NewTracer returns the tracer for an engine of the same policies and options. It compiles when it is first needed.
func NewTracer(set *policy.Set, opts celgate.Options) *Tracer {
	t := &Tracer{}
	t.engine = sync.OnceValue(func() *celgate.Engine {
		engine, err := celgate.NewTraced(set, opts, func(e celgate.Event) {
			if e.Evaluation != nil {
				t.seen = append(t.seen, *e.Evaluation)
			}
		})
		if err != nil {
			return nil
		}
		return engine
	})
	return t
}

// Reasons decides again about a prepared request and returns the reasons for the outcomes of its decision, by their index. An
// outcome may have none.
func (t *Tracer) Reasons(ctx context.Context, request *celgate.Prepared, outcomes []celgate.Outcome) map[int]Reason {
	engine := t.engine()
	if engine == nil {
		return nil
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.seen = nil
	if _, err := engine.Admit(ctx, request); err != nil {
		return nil
	}
	all := map[int]Reason{}
	next := map[*policy.Policy]int{} // the first evaluation of a policy that belongs to no outcome yet
	for i, o := range outcomes {
		for at, e := range t.seen {
			p := e.Policy
			if at < next[p] || p.Kind != o.Kind || p.Name != o.Policy || e.Expr.Field != o.Field {
				continue
			}
			var variables []celgate.Evaluation
			for _, before := range t.seen[:at] {
				if before.Policy == p && strings.HasPrefix(before.Expr.Field, "spec.variables") {
					variables = append(variables, before)
				}
			}
			all[i] = Of(e, variables)
			next[p] = at + 1
			break
		}
	}
	return all
}

// OutcomeOf returns the index of the outcome that became a violation; -1 if it came from no expression.
func OutcomeOf(d *celgate.Decision, v celgate.Violation) int {
	return slices.IndexFunc(d.Outcomes, func(o celgate.Outcome) bool {
		return o.Kind == v.Kind && o.Policy == v.Policy && o.Field == v.Expr.Field &&
			(v.Binding == "" || o.Binding == v.Binding) && o.Param == v.Param
	})
}
