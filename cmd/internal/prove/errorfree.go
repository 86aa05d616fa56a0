package prove

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/explain"
	"github.com/celgate/celgate/internal/solve"
	"github.com/celgate/celgate/policy"
	"github.com/google/cel-go/common/ast"
)

// An ErrorFree is the answer to the question whether an expression of a policy can be an error with an effect.
type ErrorFree struct {
	Policy  *policy.Policy
	Binding *policy.Binding // with which it is an error; nil: without a counterexample
	Part    policy.Part
	*Result
}

// ErrorFree proves for each expression of a set that it is not an error for a request that the policy matches with one
// of its bindings. An error counts if it has an effect: of a match condition if no other one is false, of a validation
// or an audit annotation if all match conditions are true, of a messageExpression if the validation is also false, of a
// variable if an expression that reads it is an error, too. Mutating policies are examined one by one.
func (r *Room) ErrorFree(ctx context.Context, s *Side) (all []ErrorFree, err error) {
	for _, p := range slices.Concat(s.programs, s.mutators) {
		for x := range p.Expressions() {
			one, err := r.errorFree(ctx, s, p, x)
			if err != nil {
				return nil, err
			}
			all = append(all, *one)
		}
	}
	return all, nil
}

// errorFree examines one expression with each binding of its policy.
func (r *Room) errorFree(ctx context.Context, s *Side, p *program, x policy.Part) (*ErrorFree, error) {
	out := &ErrorFree{Policy: p.Policy, Part: x, Result: &Result{Answer: Proved}}
	if p.Kind == policy.Mutating {
		out.Cases = r.mutationCases([]*program{p})
	} else {
		out.Cases = casesOf(r.Types, []*policy.Policy{p.Policy})
	}
	bound := false
	for b := range s.native.set.EachBinding() {
		if !b.Binds(p.Policy) || p.Kind == policy.Mutating && b.DryRun() {
			continue
		}
		bound = true
		alone, err := r.isolate(p, b)
		if err != nil {
			return nil, err
		}
		for _, c := range out.Cases {
			if out.isUnsupported(c, p) {
				continue
			}
			found, err := r.askOne(ctx, c, r.failureOf(alone, x), func(req *request) solve.Formula {
				return req.mayFail(alone, x)
			})
			if err != nil {
				return nil, err
			}
			if out.Result = out.worst(found); out.Answer.isFinal() {
				out.Binding = b
				return out, nil
			}
		}
	}
	if x.Use == policy.UseVariable && !slices.ContainsFunc(slices.Collect(p.Expressions()), func(o policy.Part) bool {
		return o.Use != policy.UseVariable && p.reads(o, x.Name)
	}) {
		out.addReason(Reason{Message: "no expression reads it"})
	}
	if !bound {
		out.addReason(Reason{Message: "no binding puts policy " + p.Name + " in force"})
	}
	return out, nil
}

// isUnsupported records that a case is outside of what can be decided about a policy.
func (out *Result) isUnsupported(c Case, p *program) bool {
	if p.Kind == policy.Mutating {
		return out.isOutsideFor(c)
	}
	if c.isOutside() {
		if out.Answer.rankOf() < Undecided.rankOf() {
			out.Answer, out.Case = Undecided, c
		}
		out.addReason(Reason{Message: c.String() + ": prove does not support such requests yet"})
	}
	return c.isOutside()
}

// isolate returns a side with one policy, which runs once, and one binding.
func (r *Room) isolate(p *program, b *policy.Binding) (*Side, error) {
	once := *p.Policy
	if p.Kind == policy.Mutating {
		once.Reinvocation = policy.Never
	}
	return r.NewSide(&policy.Set{Policies: []*policy.Policy{&once}, Bindings: []*policy.Binding{b}}, nil)
}

// program returns the policy of a side with one policy, and its binding.
func (s *Side) program() (*program, *policy.Binding) {
	return slices.Concat(s.programs, s.mutators)[0], s.Set.Bindings[0]
}

// mayFail returns the condition under which an expression is an error that has an effect.
func (r *request) mayFail(alone *Side, x policy.Part) solve.Formula {
	p, b := alone.program()
	if x.Use != policy.UseVariable {
		return r.failingOf(p, b, x).when
	}
	out := solve.False
	for other := range p.Expressions() {
		if other.Use == policy.UseVariable || !p.reads(other, x.Name) {
			continue
		}
		f := r.failingOf(p, b, other)
		if f.from == nil {
			out = r.m.store.Disjoin(out, f.when)
			continue
		}
		if v := f.from.known[x.Name]; v != nil { // nil: it is not read
			out = r.m.store.Disjoin(out, r.m.store.Conjoin(f.when, v.err))
		}
	}
	return out
}

// failingOf returns the condition of one expression that is not a variable.
func (r *request) failingOf(p *program, b *policy.Binding, x policy.Part) failing {
	s := r.m.store
	if x.Use != policy.UseMatchCondition && p.Kind == policy.Mutating {
		return r.invokeMutation(p, b, r.start(), solve.True).mutations[x.Index]
	}
	var object *value
	if p.Kind == policy.Mutating {
		object = r.start()
	}
	in := r.match(p, b, object)
	if in.matched == solve.False {
		return failing{when: solve.False}
	}
	if x.Use == policy.UseMatchCondition {
		fails := in.conditions[x.Index].err
		return failing{s.All(in.matched, in.exists, in.no.Negate(), fails), r.evaluator(p, in.roots)}
	}
	tree, applies := p.validations, in.applies
	expressions := r.evaluator(p, in.roots)
	switch x.Use {
	case policy.UseMessageExpression:
		v := r.m.toBool(expressions.valueOf(p.validations[x.Index], p.Policy.Validations[x.Index].Expr))
		applies = s.All(applies, v.isBool, v.truth.Negate())
		tree, expressions = p.messages, r.evaluator(p, withoutAuthorizer(in.roots))
	case policy.UseAuditAnnotation:
		tree, expressions = p.annotations, r.evaluator(p, withoutAuthorizer(in.roots))
	}
	v := expressions.valueOf(tree[x.Index], x.Expr)
	if x.Use == policy.UseValidation {
		v = r.m.toBool(v)
	}
	return failing{s.Conjoin(applies, v.err), expressions}
}

// withoutAuthorizer returns the names of messages and audit annotations: a server binds the authorizer for validations
// only.
func withoutAuthorizer(roots map[string]*value) map[string]*value {
	out := cloneRoots(roots)
	out["authorizer"], out["authorizer.requestResource"] = failure(), failure()
	return out
}

// failureOf asks whether an expression is an error with an effect.
func (r *Room) failureOf(alone *Side, x policy.Part) trial {
	p, _ := alone.program()
	return func(ctx context.Context, ex *Example) (bool, []string, error) {
		asked, err := r.prepareIn(ctx, ex, alone)
		if asked == nil || err != nil {
			return false, nil, err
		}
		var evaluated []explain.Evaluation
		options := explain.Options{}
		if x.Use == policy.UseVariable || x.Use == policy.UseMessageExpression {
			options.Trace = func(e explain.Event) {
				if e.Evaluation != nil {
					evaluated = append(evaluated, *e.Evaluation)
				}
			}
		}
		if asked.Decision, err = asked.Engine.Explain(ctx, asked.Prepared, options); err != nil {
			return false, nil, err
		}
		ex.Old, ex.New = *asked, Asked{}
		ex.noteRefusal(asked.Decision)
		if !hasFailed(p, x, asked.Decision, evaluated) {
			return false, nil, nil
		}
		if p.Kind == policy.Validating { // the registry has accepted the object before
			return true, nil, nil
		}
		without, err := r.prepareIn(ctx, ex, &Side{Set: &policy.Set{}})
		if without == nil || err != nil {
			return false, nil, err
		}
		if without.Decision, err = without.Engine.Admit(ctx, without.Prepared); err != nil {
			return false, nil, err
		}
		ex.noteRefusal(without.Decision)
		return without.Decision.Allowed, nil, nil
	}
}

// hasFailed reports whether an engine has found an error of an expression that has an effect.
func hasFailed(p *program, x policy.Part, d *celgate.Decision, evaluated []explain.Evaluation) bool {
	verdictOf := func(field string, verdict celgate.Verdict) bool {
		return slices.ContainsFunc(d.Outcomes, func(o celgate.Outcome) bool {
			return o.Field() == field && o.Verdict == verdict
		})
	}
	failed := func(field string) bool {
		return slices.ContainsFunc(evaluated, func(e explain.Evaluation) bool {
			_, failed := e.Result()
			return failed && e.Expr.Field == field
		})
	}
	switch x.Use {
	case policy.UseMatchCondition:
		skips := slices.ContainsFunc(p.MatchConditions, func(c policy.NamedExpr) bool {
			return verdictOf(c.Expr.Field, celgate.Skip)
		})
		return !skips && verdictOf(x.Field, celgate.Error)
	case policy.UseMessageExpression:
		return verdictOf(p.Policy.Validations[x.Index].Expr.Field, celgate.Denied) && failed(x.Field)
	case policy.UseVariable:
		if !failed(x.Field) {
			return false
		}
		for other := range p.Expressions() {
			if other.Use != policy.UseVariable && p.reads(other, x.Name) && hasFailed(p, other, d, evaluated) {
				return true
			}
		}
		return false
	}
	return verdictOf(x.Field, celgate.Error)
}

// reads reports whether an expression reads a variable, itself or by other variables.
func (p *program) reads(x policy.Part, name string) bool {
	var within func(tree *ast.AST, depth int) bool
	within = func(tree *ast.AST, depth int) bool {
		if tree == nil || depth > len(p.variables) {
			return false
		}
		return slices.ContainsFunc(variablesIn(tree.Expr()), func(read string) bool {
			return read == name || within(p.variables[read], depth+1)
		})
	}
	return within(p.treeOf(x), 0)
}

// treeOf returns the syntax tree of an expression.
func (p *program) treeOf(x policy.Part) *ast.AST {
	switch x.Use {
	case policy.UseMatchCondition:
		return p.conditions[x.Index]
	case policy.UseVariable:
		return p.variables[x.Name]
	case policy.UseValidation:
		return p.validations[x.Index]
	case policy.UseMessageExpression:
		return p.messages[x.Index]
	case policy.UseAuditAnnotation:
		return p.annotations[x.Index]
	}
	return p.mutations[x.Index]
}

// Claim returns the claim in words.
func (f *ErrorFree) Claim() string {
	return fmt.Sprintf("%s of policy %s is never an error", strings.TrimSuffix(f.Part.Field, ".expression"), f.Policy.Name)
}
