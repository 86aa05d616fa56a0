package compile

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/policy"
)

// A Checker compiles the expressions of one policy with the features that a server of the chosen minor allows in new
// policies. Close it after use.
type Checker struct {
	params bool
	calls  signatures
	fresh  compilers
	stored *compilers                     // for expressions of the old policy; nil for a new policy
	kept   map[policy.Use]map[string]bool // their texts
}

type compilers struct {
	conditions compiler // match conditions cannot use variables
	others     compiler
}

func newCompilers(set *celenv.Set, mode celenv.Mode, p *policy.Policy) compilers {
	noVariables := !p.Mutates() && len(p.Variables) == 0
	dialect := p.Kind == policy.Admission
	return compilers{
		conditions: compiler{scope: set.Scope(mode, true), dialect: dialect},
		others:     compiler{scope: set.Scope(mode, noVariables), dialect: dialect},
	}
}

// NewChecker returns a checker for p. old is the policy that p replaces, or nil: features that it uses may stay.
func NewChecker(set *celenv.Set, p, old *policy.Policy) *Checker {
	c := newChecker(set, celenv.Write, p)
	if old != nil {
		stored := newCompilers(set, celenv.Run, p)
		c.stored, c.kept = &stored, keptExpressions(old)
	}
	return c
}

// NewStoredChecker returns a checker for a stored policy: it may use all features that a server of the chosen minor
// evaluates.
func NewStoredChecker(set *celenv.Set, p *policy.Policy) *Checker {
	return newChecker(set, celenv.Run, p)
}

func newChecker(set *celenv.Set, mode celenv.Mode, p *policy.Policy) *Checker {
	c := &Checker{params: p.ParamKind != nil, fresh: newCompilers(set, mode, p)}
	c.calls = signatures{scope: c.fresh.others.scope, libraries: p.Libraries()}
	return c
}

// keptExpressions lists the expressions of a policy under the use by which the server looks them up on an update: it
// looks up a JSON patch among ApplyConfigurations, where it is seldom found (as
// pkg/apis/admissionregistration/validation/validation.go v1.37.2).
func keptExpressions(old *policy.Policy) map[policy.Use]map[string]bool {
	all := map[policy.Use]map[string]bool{}
	add := func(use policy.Use, src string) {
		if all[use] == nil {
			all[use] = map[string]bool{}
		}
		all[use][src] = true
	}
	for x := range old.Expressions() {
		switch x.Use {
		case policy.UseVariable, policy.UseJSONPatch:
		case policy.UseApplyConfiguration:
			add(policy.UseApplyConfiguration, x.Src)
			add(policy.UseJSONPatch, x.Src)
		default:
			add(x.Use, x.Src)
		}
	}
	return all
}

// Close returns the environments to the pool.
func (c *Checker) Close() {
	for _, all := range []*compilers{&c.fresh, c.stored} {
		if all != nil {
			all.conditions.scope.Close()
			all.others.scope.Close()
		}
	}
}

// Compile compiles an expression for [policy.ValidatePolicy].
func (c *Checker) Compile(x policy.Part) *field.Error {
	var e *Expression
	if x.Use == policy.UseVariable {
		e = c.variable(x.Name, x.Expr)
	} else {
		e = c.expression(x.Use, x.Locals, x.Expr)
	}
	if err := c.calls.check(x.Expr, c.fresh.others.declare(x.Use, x.Locals, c.params)); err != nil {
		return err
	}
	return compileError(e)
}

// variable compiles a variable and declares it. The server looks up old variables among validations.
func (c *Checker) variable(name string, x policy.Expr) *Expression {
	e := c.fresh.others.compile(x, c.fresh.others.declare(policy.UseVariable, "", c.params))
	if c.kept[policy.UseValidation][x.Src] {
		e = c.stored.others.compile(x, c.fresh.others.declare(policy.UseVariable, "", c.params))
	}
	c.fresh.others.scope.Declare(name, e.Output)
	if c.stored != nil {
		c.stored.others.scope.Declare(name, e.Output)
	}
	return e
}

func (c *Checker) expression(use policy.Use, locals string, x policy.Expr) *Expression {
	from := &c.fresh
	if c.kept[use][x.Src] {
		from = c.stored
	}
	in := &from.others
	if use == policy.UseMatchCondition {
		in = &from.conditions
	}
	return in.compileUse(x, use, locals, c.params)
}

func compileError(e *Expression) *field.Error {
	switch {
	case e.Err == nil:
		return nil
	case e.Internal:
		return field.InternalError(nil, e.Err)
	}
	return field.Invalid(nil, e.Src, e.Err.Error())
}
