package compile

import (
	"context"
	"errors"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/policy"
)

// programs makes the program of an expression with more options.
type programs func(...cel.ProgramOption) (cel.Program, error)

// recompile returns a copy of a program with replaced programs for the expressions that compile.
func recompile(
	set *celenv.Set, prog *Program, replace func(e *Expression, tree *cel.Ast, program programs) error,
) (*Program, error) {
	p := prog.Policy
	scope := set.Scope(celenv.Run, false)
	defer scope.Close()
	in := compiler{dialect: p.Kind == policy.Admission}
	var errs []error
	again := func(e *Expression, use policy.Use) *Expression {
		if e == nil || e.Err != nil {
			return e
		}
		d := in.declare(use, e.Locals, p.ParamKind != nil)
		env, err := scope.Env(d)
		if err != nil {
			errs = append(errs, err)
			return e
		}
		tree, issues := compileIn(env, d, e.Expr)
		if issues != nil {
			errs = append(errs, issues.Err())
			return e
		}
		fns, err := scope.Functions(d)
		if err != nil {
			errs = append(errs, err)
			return e
		}
		copied := *e
		errs = append(errs, replace(&copied, tree, func(options ...cel.ProgramOption) (cel.Program, error) {
			// Watched calls keep their guards.
			return celenv.Program(env, tree, append([]cel.ProgramOption{fns.Bound()}, options...)...)
		}))
		return &copied
	}
	all := func(given []*Expression, use policy.Use) []*Expression {
		var copies []*Expression
		for _, e := range given {
			copies = append(copies, again(e, use))
		}
		return copies
	}
	next := &Program{Policy: p, Turns: prog.Turns}
	for _, v := range prog.Variables {
		next.Variables = append(next.Variables, Variable{v.Name, again(v.Expression, policy.UseVariable)})
		scope.Declare(v.Name, v.Output)
	}
	next.MatchConditions = all(prog.MatchConditions, policy.UseMatchCondition)
	next.Validations = all(prog.Validations, policy.UseValidation)
	next.Messages = all(prog.Messages, policy.UseMessageExpression)
	next.Annotations = all(prog.Annotations, policy.UseAuditAnnotation)
	next.Conditions = all(prog.Conditions, policy.UseCondition)
	next.Lists = all(prog.Lists, policy.UseForEach)
	next.Checks = all(prog.Checks, policy.UseMutationCheck)
	next.MutationMessages = all(prog.MutationMessages, policy.UseMessageExpression)
	for i, e := range prog.Mutations {
		next.Mutations = append(next.Mutations, again(e, p.Mutations[i].Use()))
	}
	return next, errors.Join(errs...)
}

// A Listener receives the events of evaluations whose context has it, see [WithListener]. Either function may be nil.
type Listener struct {
	// Trace receives each evaluation of an expression of a program of [Trace].
	Trace func(*policy.Policy, policy.Expr, Seen)

	// Observe receives each value of a branch of an expression of a program of [Observe], and with branch -1 each value
	// of the expression itself.
	Observe func(p *policy.Policy, x policy.Expr, branch int, value ref.Val)
}

type listenerKey struct{}

// WithListener returns a context for evaluations that report to l.
func WithListener(ctx context.Context, l *Listener) context.Context {
	return context.WithValue(ctx, listenerKey{}, l)
}

// listenerOf returns the listener of a context; an empty one if it has none.
func listenerOf(ctx context.Context) *Listener {
	if l, ok := ctx.Value(listenerKey{}).(*Listener); ok {
		return l
	}
	return &Listener{}
}
