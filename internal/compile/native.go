package compile

import (
	"errors"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/objects"
	"github.com/celgate/celgate/policy"
)

// A NativeError says why an expression of the dialect is none that kube-apiserver would take.
type NativeError struct {
	policy.Expr
	Err error
}

var (
	errVerdict = errors.New("kube-apiserver takes no null, true or false for a patch")
	errUnset   = errors.New("?field: optional.none() takes the field away, and kube-apiserver leaves it alone")
)

// NativeErrors returns the expressions of a policy of the dialect that a released policy cannot have, or of which a
// server would make something else.
func NativeErrors(set *celenv.Set, p *policy.Policy) (all []NativeError) {
	scope := set.Scope(celenv.Write, false)
	defer scope.Close()
	c := compiler{scope: scope}
	params := p.ParamKind != nil
	for x := range p.Expressions() {
		if x.Use == policy.UseJSONMergePatch || x.Use == policy.UseCondition || x.Use == policy.UseMutationCheck ||
			x.Use == policy.UseForEach || x.Locals != "" {
			continue // which no released policy has
		}
		d := declarations(x.Use, params)
		e := c.compileAlone(x.Expr, d, results[x.Use]...)
		if x.Use == policy.UseVariable {
			scope.Declare(x.Name, e.Output)
		}
		if e.Err == nil && x.Use.Mutates() && c.givesVerdict(x.Expr, declarations(x.Use, params)) {
			e.Err = errVerdict
		}
		if e.Err == nil && x.Use == policy.UseApplyConfiguration && c.unsets(x.Expr, d) {
			e.Err = errUnset
		}
		if e.Err != nil {
			all = append(all, NativeError{x.Expr, e.Err})
		}
	}
	return all
}

func (c *compiler) unsets(x policy.Expr, d celenv.Declared) bool {
	env, err := c.scope.Env(d)
	if err != nil {
		return false
	}
	parsed, issues := celenv.ParseOwn(env, celenv.Declared{}, x)
	return len(issues.Errors()) == 0 && len(objects.Unsets(parsed)) > 0
}

func (c *compiler) givesVerdict(x policy.Expr, d celenv.Declared) bool {
	env, err := c.scope.Env(d)
	if err != nil {
		return false
	}
	parsed, issues := celenv.ParseOwn(env, celenv.Declared{}, x)
	return len(issues.Errors()) == 0 && celenv.GivesVerdict(parsed)
}
