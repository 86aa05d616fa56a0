package compile

import (
	"errors"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/objects"
	"github.com/celgate/celgate/policy"
)

// A NativeError is the reason why kube-apiserver would not accept an expression of the dialect.
type NativeError struct {
	policy.Expr
	Err error
}

var (
	errVerdict = errors.New("kube-apiserver does not accept null, true or false as a patch")
	errUnset   = errors.New("?field: optional.none() removes the field, but kube-apiserver leaves it unchanged")
)

// NativeErrors returns the expressions of a policy of the dialect that a native policy cannot have, or that a server
// would evaluate differently.
func NativeErrors(set *celenv.Set, p *policy.Policy) (all []NativeError) {
	scope := set.Scope(celenv.Write, false)
	defer scope.Close()
	c := compiler{scope: scope}
	params := p.ParamKind != nil
	for x := range p.Expressions() {
		if x.Use == policy.UseJSONMergePatch || x.Use == policy.UseCondition || x.Use == policy.UseMutationCheck ||
			x.Use == policy.UseForEach || x.Locals != "" {
			continue // native policies do not have these
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
