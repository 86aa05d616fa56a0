package compile

import (
	"errors"

	"github.com/google/cel-go/cel"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/policy"
)

// programs makes the program of an expression with more options.
type programs func(...cel.ProgramOption) (cel.Program, error)

// recompile is [Policy] for engines that watch expressions: each one that compiles is compiled again, for replace to
// put another program in its place.
func recompile(set *celenv.Set, p *policy.Policy, replace func(e *Expression, tree *cel.Ast, program programs) error) (*Program, error) {
	prog, err := Policy(set, p)
	if err != nil {
		return nil, err
	}
	scope := set.Scope(celenv.Run, false)
	defer scope.Close()
	again := func(e *Expression, use policy.Use) error {
		if e == nil || e.Err != nil {
			return nil
		}
		env, err := scope.Env(declared(use, p.ParamKind != nil))
		if err != nil {
			return err
		}
		tree, issues := celenv.Compile(env, e.Src)
		if issues != nil {
			return issues.Err()
		}
		fns, err := scope.Functions(declared(use, p.ParamKind != nil))
		if err != nil {
			return err
		}
		return replace(e, tree, func(options ...cel.ProgramOption) (cel.Program, error) {
			// What watches an expression watches calls with their guards.
			return celenv.Program(env, tree, append([]cel.ProgramOption{fns.Bounded()}, options...)...)
		})
	}
	var errs []error
	each := func(e *Expression, use policy.Use) { errs = append(errs, again(e, use)) }
	for _, v := range prog.Variables {
		each(v.Expression, useVariable)
		scope.Declare(v.Name, v.Output)
	}
	for _, e := range prog.MatchConditions {
		each(e, policy.UseMatchCondition)
	}
	for i, e := range prog.Validations {
		each(e, policy.UseValidation)
		each(prog.Messages[i], policy.UseMessageExpression)
	}
	for _, e := range prog.Annotations {
		each(e, policy.UseAuditAnnotation)
	}
	for i, e := range prog.Mutations {
		each(e, patchUse(p.Mutations[i].PatchType))
	}
	return prog, errors.Join(errs...)
}
