package compile

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/inline"
	"github.com/celgate/celgate/policy"
)

// Library returns the errors of a linked library. A stored one may use all features that a server of the minor
// evaluates.
func Library(set *celenv.Set, l *policy.Library) field.ErrorList {
	mode := celenv.Write
	if l.Stored {
		mode = celenv.Run
	}
	scope := set.Scope(mode, false)
	defer scope.Close()
	c := compiler{scope: scope, dialect: true}
	d := c.declare(policy.UseVariable, "", true)
	declare := func(v policy.NamedExpr) *Expression {
		e := c.compile(v.Expr, d)
		scope.Declare(v.Name, e.Output)
		return e
	}
	for _, other := range l.Libraries() {
		for _, v := range other.SharedVariables() {
			declare(v)
		}
	}
	calls := signatures{scope: scope, libraries: append(l.Libraries(), l)}
	shared := map[string]policy.NamedExpr{}
	for _, v := range l.SharedVariables() {
		shared[v.Full()] = v
	}
	return policy.ValidateLibrary(l, func(v policy.NamedExpr) *field.Error {
		err := calls.check(v.Expr, d) // it sees the variables before this one
		e := declare(shared[l.Name+"."+v.Name])
		if err != nil {
			return err
		}
		return compileError(e)
	}, func(f policy.Function) *field.Error { return c.function(f, &calls) })
}

// function returns the error of a function.
func (c *compiler) function(f policy.Function, calls *signatures) *field.Error {
	d := celenv.Declared{Pure: true, Extended: true}
	env, err := c.scope.Base(d)
	var params []cel.EnvOption
	for _, p := range f.Params {
		params = append(params, cel.Variable(p.Name, typeNamed(p.Type)))
	}
	if err == nil {
		env, err = env.Extend(params...)
	}
	if err != nil {
		return field.InternalError(nil, err)
	}
	if err := calls.checkIn(env, f.Expr, d); err != nil {
		return err
	}
	checked, issues := celenv.CompileOwn(env, d, f.Expr)
	if issues != nil {
		return field.Invalid(nil, f.Expr.Src, fmt.Sprintf("compilation failed: %s", issues.String()))
	}
	want := typeNamed(f.Type)
	if got := checked.OutputType(); !got.IsExactType(want) && !got.IsExactType(cel.DynType) &&
		!want.IsExactType(cel.DynType) {
		return field.Invalid(nil, f.Expr.Src, checkResult(got, []*cel.Type{want}).Error())
	}
	return nil
}

// signatures check the calls of library functions against the types of their parameters, in the text as written:
// compiled code has the bodies inlined.
type signatures struct {
	scope     *celenv.Scope
	libraries []*policy.Library
}

// check returns the error about the calls in an expression.
func (s *signatures) check(x policy.Expr, d celenv.Declared) *field.Error {
	if x.InlinedText() == nil {
		return nil
	}
	env, err := s.scope.Env(d)
	if err != nil {
		return field.InternalError(nil, err)
	}
	return s.checkIn(env, x, d)
}

func (s *signatures) checkIn(env *cel.Env, x policy.Expr, d celenv.Declared) *field.Error {
	if x.InlinedText() == nil {
		return nil
	}
	options := []cel.EnvOption{cel.Function("selectors.matches",
		cel.Overload("selectors_matches", []*cel.Type{cel.DynType, cel.DynType}, cel.BoolType))}
	for _, l := range s.libraries {
		for _, f := range l.Functions {
			options = append(options, declaration(l.Name, f))
		}
		if d.Pure {
			continue
		}
		for _, v := range l.SharedVariables() {
			if t := s.scope.TypeOf(v.Name); t != nil {
				options = append(options, cel.Variable(v.Full(), t))
			}
		}
	}
	env, err := env.Extend(options...)
	if err != nil {
		return field.InternalError(nil, err)
	}
	if _, issues := celenv.CompileOwn(env, d, policy.Expr{Src: x.Src}); issues != nil {
		return field.Invalid(nil, x.Src, fmt.Sprintf("compilation failed: %s", issues.String()))
	}
	return nil
}

// declaration declares a function of a library.
func declaration(library string, f policy.Function) cel.EnvOption {
	params := make([]*cel.Type, len(f.Params))
	for i, p := range f.Params {
		params[i] = typeNamed(p.Type)
	}
	return cel.Function(library+"."+f.Name, cel.Overload(library+"_"+f.Name, params, typeNamed(f.Type)))
}

// typeNamed returns a type by its name in functions; dyn for other names.
func typeNamed(text string) *cel.Type {
	t, _ := inline.ParseType(text)
	return typeOf(t)
}

func typeOf(t inline.Type) *cel.Type {
	switch t.Name {
	case "list":
		return cel.ListType(typeOf(t.Of[0]))
	case "map":
		return cel.MapType(typeOf(t.Of[0]), typeOf(t.Of[1]))
	}
	if scalar := scalars[t.Name]; scalar != nil {
		return scalar
	}
	return cel.DynType
}

var scalars = map[string]*cel.Type{
	"bool": cel.BoolType, "int": cel.IntType, "uint": cel.UintType, "double": cel.DoubleType, "string": cel.StringType,
	"bytes": cel.BytesType, "duration": cel.DurationType, "timestamp": cel.TimestampType,
}
