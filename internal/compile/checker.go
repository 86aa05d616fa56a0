package compile

import (
	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/policy"
)

// A Checker compiles the expressions of one policy with what a server of the chosen minor lets new policies
// use. It is the policy.Checker of the write-time rules. Close it after use.
type Checker struct {
	params     bool
	conditions compiler // match conditions may not name variables
	others     compiler
}

// NewChecker returns a checker for p.
func NewChecker(set *celenv.Set, p *policy.Policy) *Checker {
	noVariables := p.Kind == policy.Validating && len(p.Variables) == 0
	return &Checker{
		params:     p.ParamKind != nil,
		conditions: compiler{scope: set.Scope(celenv.Write, true)},
		others:     compiler{scope: set.Scope(celenv.Write, noVariables)},
	}
}

// Close gives the environments back.
func (c *Checker) Close() {
	c.conditions.scope.Close()
	c.others.scope.Close()
}

// Variable compiles a variable and declares it.
func (c *Checker) Variable(name, src string) *policy.CompileError {
	e := c.others.compile(policy.Expr{Src: src}, declared(useVariable, c.params))
	c.others.scope.Declare(name, e.Output)
	return compileError(e)
}

// Expression compiles an expression.
func (c *Checker) Expression(use policy.Use, src string) *policy.CompileError {
	in := &c.others
	if use == policy.UseMatchCondition {
		in = &c.conditions
	}
	return compileError(in.compile(policy.Expr{Src: src}, declared(use, c.params), results[use]...))
}

func compileError(e *Expression) *policy.CompileError {
	if e.Err == nil {
		return nil
	}
	return &policy.CompileError{Detail: e.Err.Error(), Internal: e.Internal}
}
