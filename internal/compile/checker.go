package compile

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/policy"
)

// A Checker compiles the expressions of one policy with what a server of the chosen minor lets new policies
// use. Close it after use.
type Checker struct {
	params bool
	calls  signatures
	fresh  compilers
	stored *compilers                     // for expressions that the policy has already; nil for a new policy
	kept   map[policy.Use]map[string]bool // the text of these
}

type compilers struct {
	conditions compiler // match conditions may not name variables
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

// NewChecker returns a checker for p. Old is the policy that p is an update of, or nil: what it uses may stay.
func NewChecker(set *celenv.Set, p, old *policy.Policy) *Checker {
	c := newChecker(set, celenv.Write, p)
	if old != nil {
		stored := newCompilers(set, celenv.Run, p)
		c.stored, c.kept = &stored, keptExpressions(old)
	}
	return c
}

// NewStoredChecker returns a checker for a policy that is stored: it may use all that a server of the chosen minor
// evaluates.
func NewStoredChecker(set *celenv.Set, p *policy.Policy) *Checker {
	return newChecker(set, celenv.Run, p)
}

func newChecker(set *celenv.Set, mode celenv.Mode, p *policy.Policy) *Checker {
	c := &Checker{params: p.ParamKind != nil, fresh: newCompilers(set, mode, p)}
	c.calls = signatures{scope: c.fresh.others.scope, libraries: p.Libraries()}
	return c
}

// keptExpressions lists the expressions of a policy by where the server looks for them when it is updated: a JSON patch
// among those of ApplyConfigurations, where it seldom is (as pkg/apis/admissionregistration/validation/validation.go
// v1.37.2).
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

// Close gives the environments back.
func (c *Checker) Close() {
	for _, all := range []*compilers{&c.fresh, c.stored} {
		if all != nil {
			all.conditions.scope.Close()
			all.others.scope.Close()
		}
	}
}

// Compile compiles an expression as [policy.ValidatePolicy] asks.
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

// variable compiles a variable and declares it. The server looks for a variable among the validations that there were.
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
