package celenv

import (
	"fmt"
	"maps"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// Types are declared types that static checks put in the place of dyn. Nil is dyn.
type Types struct {
	Object *DeclaredType // of object and oldObject
	Params *DeclaredType

	// Variables is an object type called [VariablesType]; nil: variables is not declared. It may get members while its
	// environment is in use, of the types in Object and Params.
	Variables *apiservercel.DeclType
}

// A DeclaredType is a type with its component types, by their names.
type DeclaredType struct {
	*apiservercel.DeclType
	known *apiservercel.DeclTypeProvider
}

// Declare finds the component types of a type, which takes longer than checking most expressions.
func Declare(t *apiservercel.DeclType) *DeclaredType {
	known := apiservercel.NewDeclTypeProvider(t)
	known.SetRecognizeKeywordAsFieldName(true)
	return &DeclaredType{t, known}
}

// VariablesType is the name of the type of the variables variable.
const VariablesType = variablesType

// EnvOfTypes returns an environment like those of [Scope.Env] in which object, params and variables have types. With
// withoutResource authorizer.requestResource is not declared, as in the server's type checker
// (pkg/admission/plugin/policy/validating/typechecking.go v0.37.2).
func (s *Set) EnvOfTypes(d Declared, t Types, withoutResource bool) (*cel.Env, error) {
	d.withoutResource = withoutResource
	var known []*apiservercel.DeclTypeProvider
	vars := map[string]*cel.Type{}
	declare := func(t *DeclaredType, names ...string) {
		celType := cel.DynType
		if t != nil {
			celType = t.CelType()
			known = append(known, t.known)
		}
		for _, name := range names {
			vars[name] = celType
		}
	}
	declare(t.Object, "object", "oldObject")
	if d.Params {
		declare(t.Params, "params")
	}
	if t.Variables != nil {
		declare(Declare(t.Variables), variablesName)
	}
	return s.EnvWith(d, func(others types.Provider) types.Provider { return typeProvider{others, known} }, vars)
}

// A typeProvider knows declared types beside those of another provider.
type typeProvider struct {
	types.Provider
	declared []*apiservercel.DeclTypeProvider
}

// FindStructType returns the type of a name.
func (p typeProvider) FindStructType(name string) (*types.Type, bool) {
	return p.providerOf(name).FindStructType(name)
}

// FindStructFieldType returns the type of a member.
func (p typeProvider) FindStructFieldType(name, member string) (*types.FieldType, bool) {
	return p.providerOf(name).FindStructFieldType(name, member)
}

// providerOf returns the provider that knows a name.
func (p typeProvider) providerOf(name string) types.Provider {
	for _, declared := range p.declared {
		if _, ok := declared.FindDeclType(name); ok {
			return declared
		}
	}
	return p.Provider
}

// VariableType is the declared type that the server gives a variable whose expression has type t.
func VariableType(t *cel.Type) *apiservercel.DeclType { return declType(t) }

// EnvWith returns an environment for stored expressions in which the variables object, oldObject, params and variables
// have the types in vars. provide wraps the provider of all other types, and its result finds types.
func (s *Set) EnvWith(d Declared, provide func(types.Provider) types.Provider, vars map[string]*cel.Type) (*cel.Env,
	error) {
	d.typed, d.Params = true, false
	env, err := s.env(Run, d)
	if err != nil {
		return nil, err
	}
	opts := []cel.EnvOption{cel.CustomTypeProvider(provide(env.CELTypeProvider())),
		cel.CostEstimatorOptions(checker.OverloadCostEstimate("lists_range", rangeOfItems))}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		opts = append(opts, cel.Variable(name, vars[name]))
	}
	if env, err = env.Extend(opts...); err != nil {
		return nil, fmt.Errorf("CEL environment: %w", err)
	}
	return env, nil
}
