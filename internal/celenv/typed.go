package celenv

import (
	"fmt"
	"maps"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// Types are declared types that static checks put in the place of dyn. Nil is dyn.
type Types struct {
	Object    *apiservercel.DeclType // of object and oldObject
	Params    *apiservercel.DeclType
	Variables *apiservercel.DeclType // an object type called [VariablesType]; nil: variables is not declared
}

// VariablesType is the name of the type of the variables variable.
const VariablesType = variablesType

// Typed returns an environment like those of [Scope.Env] in which object, params and variables have types. With
// withoutResource authorizer.requestResource is not declared, as in the server's type checker
// (pkg/admission/plugin/policy/validating/typechecking.go v0.37.2).
func (s *Set) Typed(d Declared, t Types, withoutResource bool) (*cel.Env, error) {
	params := d.Params
	d.typed, d.withoutResource, d.Params = true, withoutResource, false
	env, err := s.env(Run, d)
	if err != nil {
		return nil, err
	}
	var declared []*apiservercel.DeclType
	var opts []cel.EnvOption
	declare := func(t *apiservercel.DeclType, names ...string) {
		celType := cel.DynType
		if t != nil {
			celType = t.CelType()
			declared = append(declared, t)
		}
		for _, name := range names {
			opts = append(opts, cel.Variable(name, celType))
		}
	}
	declare(t.Object, "object", "oldObject")
	if params {
		declare(t.Params, "params")
	}
	if t.Variables != nil {
		declare(t.Variables, variablesName)
	}
	types := apiservercel.NewDeclTypeProvider(declared...)
	types.SetRecognizeKeywordAsFieldName(true)
	provider, err := types.EnvOptions(env.CELTypeProvider())
	if err != nil {
		return nil, fmt.Errorf("CEL environment: %w", err)
	}
	env, err = env.Extend(append(provider, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("CEL environment: %w", err)
	}
	return env, nil
}

// VariableType is the declared type that the server gives a variable whose expression has type t.
func VariableType(t *cel.Type) *apiservercel.DeclType { return declType(t) }

// With returns an environment for stored expressions whose variables object, oldObject, params and variables have the
// types that vars gives them. Types are found by what provide makes of that which finds all others.
func (s *Set) With(d Declared, provide func(types.Provider) types.Provider, vars map[string]*cel.Type) (*cel.Env,
	error) {
	d.typed, d.Params = true, false
	env, err := s.env(Run, d)
	if err != nil {
		return nil, err
	}
	opts := []cel.EnvOption{cel.CustomTypeProvider(provide(env.CELTypeProvider()))}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		opts = append(opts, cel.Variable(name, vars[name]))
	}
	if env, err = env.Extend(opts...); err != nil {
		return nil, fmt.Errorf("CEL environment: %w", err)
	}
	return env, nil
}
