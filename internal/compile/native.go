package compile

import (
	"errors"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/policy"
)

// A NativeError says why an expression of the dialect is none that kube-apiserver would take.
type NativeError struct {
	policy.Expr
	Err error
}

var errVerdict = errors.New("kube-apiserver takes no null, true or false for a patch")

// NotNative returns the variables and mutations of a policy of the dialect that a released policy cannot have, or of
// which a server would not take every result.
func NotNative(set *celenv.Set, p *policy.Policy) (all []NativeError) {
	scope := set.Scope(celenv.Write, false)
	defer scope.Close()
	c := compiler{scope: scope}
	params := p.ParamKind != nil
	for x := range p.Expressions() {
		if x.Use != policy.UseVariable && !x.Use.Mutates() || x.Use == policy.UseJSONMergePatch {
			continue
		}
		e := c.compileAlone(x.Expr, declarations(x.Use, params), results[x.Use]...)
		if x.Use == policy.UseVariable {
			scope.Declare(x.Name, e.Output)
		}
		if e.Err == nil && x.Use.Mutates() && c.givesVerdict(x.Expr, declarations(x.Use, params)) {
			e.Err = errVerdict
		}
		if e.Err != nil {
			all = append(all, NativeError{x.Expr, e.Err})
		}
	}
	return all
}

func (c *compiler) givesVerdict(x policy.Expr, d celenv.Declared) bool {
	env, err := c.scope.Env(d)
	if err != nil {
		return false
	}
	parsed, issues := celenv.Parse(env, x.Src)
	return len(issues.Errors()) == 0 && celenv.GivesVerdict(parsed)
}
