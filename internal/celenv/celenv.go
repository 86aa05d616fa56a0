// Package celenv makes the CEL environments of admission policies for one Kubernetes minor.
//
// The language, its libraries and their versions come from k8s.io/apiserver/pkg/cel/environment, which only this
// package imports. The declarations of policies, their variables and types, are here (as
// pkg/admission/plugin/cel/compile.go v0.37.2 declares them).
package celenv

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	"k8s.io/apiserver/pkg/cel/mutation"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"

	"github.com/celgate/celgate/internal/locals"
	"github.com/celgate/celgate/internal/objects"
	"github.com/celgate/celgate/internal/plan"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/internal/tree"
)

// Limits of the API server (k8s.io/apiserver/pkg/apis/cel v0.37.2), in CEL cost units.
const (
	Budget               = 10_000_000 // of one invocation's validations, or of one mutation
	MatchBudget          = 2_500_000  // of one invocation's match conditions
	ExpressionLimit      = 1_000_000  // of one expression
	InterruptFrequency   = 100        // comprehension iterations between looks at the context
	MaxMessageBytes      = 5 * 1024   // of an evaluated messageExpression
	MaxAnnotationBytes   = 10 * 1024  // of an audit annotation's value
	Oldest               = 30         // minor whose environments are known
	variablesType        = "kubernetes.variables"
	variablesName        = "variables"
	newestSupportedMinor = 37
)

// VariablesName is the name of the variables of a policy in expressions.
const VariablesName = variablesName

// A Mode chooses between the two environments that a server has.
type Mode uint8

// Modes.
const (
	Run   Mode = iota // for stored policies: every library that the server knows
	Write             // for new expressions: the libraries of the minor before
)

// Declared selects the optional variables and types of an expression.
type Declared struct {
	Params     bool
	Authorizer bool
	Patch      bool   // Object, JSONPatch and jsonpatch.escapeKey
	Dialect    bool   // with Patch: functions for mutations of the dialect
	Merge      bool   // the result is a JSON merge patch; without effect on declarations
	Locals     string // names of any type, of locals.Join
	Extended   bool   // hash.* and reduce, for all expressions of the dialect
	Objects    bool   // objects.*, for mutations and variables of the dialect
	Pure       bool   // without the variables of a request
	Marks      bool   // with Objects: unset, remove and replace are allowed; without effect on declarations

	typed           bool // object, oldObject and params are declared by Typed
	withoutResource bool // authorizer.requestResource is not declared
}

// A Set holds the environments of one minor. It is safe for concurrent use.
type Set struct {
	base   *environment.EnvSet
	own    *environment.EnvSet // the libraries of an older minor, if this program's exceed them; nil: base
	minor  *version.Version
	quirks quirks.Set
	scopes [2]sync.Pool // by Mode

	mu        sync.Mutex
	mended    map[quirks.ID]*Set // see Without
	envs      map[envKey]*cel.Env
	functions map[envKey]*plan.Functions

	shared sync.Map // sharedKey → result of Scope.Memoise
}

type sharedKey struct {
	envKey
	key string
}

type envKey struct {
	mode     Mode
	declared Declared
}

// Release returns the release of the minor.
func (s *Set) Release() quirks.Release {
	return quirks.ReleaseOf(fmt.Sprintf("%d.%d", s.minor.Major(), s.minor.Minor()))
}

// New returns the environments of a minor such as "1.37", with the known quirks.
func New(minor string, known quirks.Set) (*Set, error) {
	v, err := version.ParseMajorMinor(minor)
	if err != nil || v.Major() != 1 || v.Minor() < Oldest || v.Minor() > newestSupportedMinor {
		return nil, fmt.Errorf("no CEL environment for Kubernetes %q, only for 1.%d to 1.%d", minor, Oldest,
			newestSupportedMinor)
	}
	return newSet(v, known), nil
}

func newSet(v *version.Version, known quirks.Set) *Set {
	set := &Set{
		// A server only accepts features that the minor before it can execute, so that a rollback is possible.
		base:      environment.MustBaseEnvSet(version.MajorMinor(1, v.Minor()-1)),
		minor:     v,
		quirks:    known,
		mended:    map[quirks.ID]*Set{},
		envs:      map[envKey]*cel.Env{},
		functions: map[envKey]*plan.Functions{},
	}
	if v.Minor() < newestSupportedMinor {
		set.own = environment.MustBaseEnvSet(version.MajorMinor(1, v.Minor()))
	}
	return set
}

// env returns the environment without the variables variable.
func (s *Set) env(mode Mode, d Declared) (*cel.Env, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := envKey{mode, d}
	if env := s.envs[key]; env != nil {
		return env, nil
	}
	var opts []cel.EnvOption
	if !d.Pure {
		opts = append(opts, cel.Variable("namespaceObject", namespaceType.CelType()),
			cel.Variable("request", requestType.CelType()))
	}
	if !d.typed && !d.Pure {
		opts = append(opts, cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType))
		if d.Params {
			opts = append(opts, cel.Variable("params", cel.DynType))
		}
	}
	for _, name := range locals.Names(d.Locals) {
		t := cel.DynType
		if name == locals.Path(locals.Whole) {
			t = cel.StringType
		}
		opts = append(opts, cel.Variable(name, t))
	}
	if d.Authorizer {
		opts = append(opts, cel.Variable("authorizer", library.AuthorizerType))
		if !d.withoutResource {
			opts = append(opts, cel.Variable("authorizer.requestResource", library.ResourceCheckType))
		}
	}
	others, err := olderOptions(s.base.StoredExpressionsEnv(), s.quirks)
	if err != nil {
		return nil, fmt.Errorf("CEL environment: %w", err)
	}
	more := append([]environment.VersionedOptions{{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions:        opts,
		DeclTypes:         []*apiservercel.DeclType{namespaceType, requestType},
	}}, append(others, s.costs())...)
	if d.Patch {
		more = append(more, environment.VersionedOptions{
			IntroducedVersion: version.MajorMinor(1, 0),
			EnvOptions: []cel.EnvOption{
				common.ResolverEnvOption(resolver(d)),
				library.JSONPatch(),
			},
		})
	}
	if d.Extended {
		more = append(more, environment.VersionedOptions{
			IntroducedVersion: version.MajorMinor(1, 0),
			EnvOptions:        []cel.EnvOption{cel.Lib(extended{})},
		})
	}
	if d.Objects {
		more = append(more, environment.VersionedOptions{
			IntroducedVersion: version.MajorMinor(1, 0),
			EnvOptions:        []cel.EnvOption{cel.Lib(objects.Library{})},
		})
	}
	if d.Dialect {
		more = append(more, environment.VersionedOptions{
			IntroducedVersion: version.MajorMinor(1, 0), EnvOptions: []cel.EnvOption{verdicts()},
		})
	}
	set, err := extend(s.base, more)
	if err != nil {
		return nil, err
	}
	run := set.StoredExpressionsEnv()
	if s.own != nil {
		evaluated, err := extend(s.own, more)
		if err != nil {
			return nil, err
		}
		run = evaluated.NewExpressionsEnv()
	}
	s.envs[envKey{Run, d}], s.envs[envKey{Write, d}] = run, set.NewExpressionsEnv()
	return s.envs[key], nil
}

// resolver knows the types of literals: Object and, in a mutation with a scope, Item.
func resolver(d Declared) common.TypeResolver {
	if slices.Contains(locals.Names(d.Locals), locals.Item) {
		return itemResolver{}
	}
	return &mutation.DynamicTypeResolver{}
}

type itemResolver struct{ mutation.DynamicTypeResolver }

func (r itemResolver) Resolve(name string) (common.ResolvedType, bool) {
	if name == locals.ItemType || strings.HasPrefix(name, locals.ItemType+".") {
		return dynamic.NewObjectType(name), true
	}
	return r.DynamicTypeResolver.Resolve(name)
}

// costs returns options that count the costs of libraries, or ignore them for a quirk.
func (s *Set) costs() environment.VersionedOptions {
	if !s.quirks.Has(quirks.LibraryCosts) {
		return environment.StrictCostOpt
	}
	return environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		ProgramOptions:    []cel.ProgramOption{cel.CostTracking(nil)},
	}
}

// extend adds options one after the other, because later ones resolve the types of earlier ones.
func extend(set *environment.EnvSet, more []environment.VersionedOptions) (_ *environment.EnvSet, err error) {
	for _, options := range more {
		if set, err = set.Extend(options); err != nil {
			return nil, fmt.Errorf("CEL environment: %w", err)
		}
	}
	return set, nil
}

// A Scope compiles the expressions of one policy: the members of its variables variable are those that Declare added. A
// Scope is for one goroutine; return it with Close.
//
// Extending an environment costs more than compiling most policies, so scopes are reused: a compiled expression does
// not refer to the type of its variables.
type Scope struct {
	set       *Set
	mode      Mode
	variables *apiservercel.DeclType
	declared  bool // the variables variable exists
	envs      map[Declared]*cel.Env
}

// Scope returns a scope without variables. If none will be declared and noVariables is set, the name
// variables is unknown, as in a ValidatingAdmissionPolicy without variables when it is written.
func (s *Set) Scope(mode Mode, noVariables bool) *Scope {
	sc, _ := s.scopes[mode].Get().(*Scope)
	if sc == nil {
		sc = &Scope{
			set:       s,
			mode:      mode,
			variables: apiservercel.NewObjectType(variablesType, map[string]*apiservercel.DeclField{}),
			envs:      map[Declared]*cel.Env{},
		}
	}
	sc.declared = !noVariables
	return sc
}

// Close returns the scope to the pool.
func (sc *Scope) Close() {
	clear(sc.variables.Fields)
	sc.set.scopes[sc.mode].Put(sc)
}

// Mode returns the mode of the scope.
func (sc *Scope) Mode() Mode { return sc.mode }

// Declare adds a variable; a nil type, of one that does not compile, is dyn.
func (sc *Scope) Declare(name string, t *cel.Type) {
	sc.variables.Fields[name] = apiservercel.NewDeclField(name, declType(t), true, nil, nil)
}

// TypeOf returns the type of a declared variable; nil for others.
func (sc *Scope) TypeOf(name string) *cel.Type {
	if f := sc.variables.Fields[name]; f != nil {
		return f.Type.CelType()
	}
	return nil
}

// Memoise memoises make for each key, mode and declaration. The result must
// not depend on the variables of the scope.
func (sc *Scope) Memoise(d Declared, key string, make func() any) any {
	k := sharedKey{envKey{sc.mode, d}, key}
	if v, ok := sc.set.shared.Load(k); ok {
		return v
	}
	v, _ := sc.set.shared.LoadOrStore(k, make())
	return v
}

// Base returns the environment for expressions with the given declarations, without the variables variable. It does
// not change with the scope.
func (sc *Scope) Base(d Declared) (*cel.Env, error) { return sc.set.env(sc.mode, d) }

// Functions returns the implementations of the functions that expressions with the given declarations may call.
func (sc *Scope) Functions(d Declared) (*plan.Functions, error) {
	env, err := sc.set.env(sc.mode, d)
	if err != nil {
		return nil, err
	}
	sc.set.mu.Lock()
	defer sc.set.mu.Unlock()
	key := envKey{sc.mode, Declared{Patch: d.Patch, Dialect: d.Dialect, Extended: d.Extended,
		Objects: d.Objects}}
	if fns := sc.set.functions[key]; fns != nil {
		return fns, nil
	}
	fns, err := plan.NewFunctions(env, olderPlans(sc.set.quirks))
	if err == nil {
		sc.set.functions[key] = fns
	}
	return fns, err
}

// Env returns the environment for expressions with the given declarations.
func (sc *Scope) Env(d Declared) (*cel.Env, error) {
	if !sc.declared {
		return sc.set.env(sc.mode, d)
	}
	if env := sc.envs[d]; env != nil {
		return env, nil
	}
	env, err := sc.set.env(sc.mode, d)
	if err != nil {
		return nil, err
	}
	types := apiservercel.NewDeclTypeProvider(sc.variables)
	types.SetRecognizeKeywordAsFieldName(true)
	provider, err := types.EnvOptions(env.CELTypeProvider())
	if err != nil {
		return nil, fmt.Errorf("CEL environment: %w", err)
	}
	env, err = env.Extend(append(provider, cel.Variable(variablesName, sc.variables.CelType()))...)
	if err != nil {
		return nil, fmt.Errorf("CEL environment: %w", err)
	}
	sc.envs[d] = env
	return env, nil
}

// declType returns the declared type of a variable whose expression has type t: scalars and lists and maps of them keep
// their type, others are dyn (as pkg/admission/plugin/cel/composition.go v0.37.2).
func declType(t *cel.Type) *apiservercel.DeclType {
	if t == nil {
		return apiservercel.DynType
	}
	if d, ok := scalarTypes[t]; ok {
		return d
	}
	if t.HasTrait(traits.ContainerType) && t.HasTrait(traits.IndexerType) {
		switch p := t.Parameters(); len(p) {
		case 1:
			return apiservercel.NewListType(declType(p[0]), -1)
		case 2:
			return apiservercel.NewMapType(declType(p[0]), declType(p[1]), -1)
		}
	}
	return apiservercel.DynType
}

var scalarTypes = map[*cel.Type]*apiservercel.DeclType{
	cel.AnyType:       apiservercel.AnyType,
	cel.BoolType:      apiservercel.BoolType,
	cel.BytesType:     apiservercel.BytesType,
	cel.DoubleType:    apiservercel.DoubleType,
	cel.DurationType:  apiservercel.DurationType,
	cel.IntType:       apiservercel.IntType,
	cel.NullType:      apiservercel.NullType,
	cel.StringType:    apiservercel.StringType,
	cel.TimestampType: apiservercel.TimestampType,
	cel.UintType:      apiservercel.UintType,
}

var (
	groupVersionKind = object("kubernetes.GroupVersionKind", fields{
		"group": apiservercel.StringType, "version": apiservercel.StringType, "kind": apiservercel.StringType,
	})
	groupVersionResource = object("kubernetes.GroupVersionResource", fields{
		"group": apiservercel.StringType, "version": apiservercel.StringType, "resource": apiservercel.StringType,
	})
	stringList  = apiservercel.NewListType(apiservercel.StringType, -1)
	stringMap   = apiservercel.NewMapType(apiservercel.StringType, apiservercel.StringType, -1)
	requestType = object("kubernetes.AdmissionRequest", fields{
		"kind":               groupVersionKind,
		"resource":           groupVersionResource,
		"subResource":        apiservercel.StringType,
		"requestKind":        groupVersionKind,
		"requestResource":    groupVersionResource,
		"requestSubResource": apiservercel.StringType,
		"name":               apiservercel.StringType,
		"namespace":          apiservercel.StringType,
		"operation":          apiservercel.StringType,
		"userInfo": object("kubernetes.UserInfo", fields{
			"username": apiservercel.StringType,
			"uid":      apiservercel.StringType,
			"groups":   stringList,
			"extra":    apiservercel.NewMapType(apiservercel.StringType, stringList, -1),
		}),
		"dryRun":  apiservercel.BoolType,
		"options": apiservercel.DynType,
	})
	namespaceMetadata = fields{
		"name":                       apiservercel.StringType,
		"generateName":               apiservercel.StringType,
		"namespace":                  apiservercel.StringType,
		"labels":                     stringMap,
		"annotations":                stringMap,
		"UID":                        apiservercel.StringType,
		"creationTimestamp":          apiservercel.TimestampType,
		"deletionGracePeriodSeconds": apiservercel.IntType,
		"deletionTimestamp":          apiservercel.TimestampType,
		"generation":                 apiservercel.IntType,
		"resourceVersion":            apiservercel.StringType,
		"finalizers":                 stringList,
	}
	namespaceType = object("kubernetes.Namespace", fields{
		"metadata": object("kubernetes.NamespaceMetadata", namespaceMetadata),
		"spec":     object("kubernetes.NamespaceSpec", fields{"finalizers": stringList}),
		"status": object("kubernetes.NamespaceStatus", fields{
			"phase": apiservercel.StringType,
			"conditions": apiservercel.NewListType(object("kubernetes.NamespaceCondition", fields{
				"status":             apiservercel.StringType,
				"type":               apiservercel.StringType,
				"lastTransitionTime": apiservercel.TimestampType,
				"message":            apiservercel.StringType,
				"reason":             apiservercel.StringType,
			}), -1),
		}),
	})
)

type fields map[string]*apiservercel.DeclType

func object(name string, members fields) *apiservercel.DeclType {
	declared := make(map[string]*apiservercel.DeclField, len(members))
	for field, t := range members {
		declared[field] = apiservercel.NewDeclField(field, t, true, nil, nil)
	}
	return apiservercel.NewObjectType(name, declared)
}

// DeclaredNamespace returns the copy of a namespace that validations see: with only the declared members of its
// metadata (as CreateNamespaceObject in pkg/admission/plugin/cel/condition.go v0.37.2, which declares UID and sets
// uid).
func DeclaredNamespace(namespace map[string]any) map[string]any {
	if namespace == nil {
		return nil
	}
	whole := tree.Object(namespace).Metadata()
	metadata := map[string]any{}
	for member := range namespaceMetadata {
		if member == "UID" {
			member = "uid"
		}
		if v, ok := whole[member]; ok {
			metadata[member] = v
		}
	}
	return map[string]any{"metadata": metadata, "spec": namespace["spec"], "status": namespace["status"]}
}
