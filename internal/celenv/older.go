package celenv

import (
	"math"
	"regexp"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	"github.com/google/cel-go/parser"
	"k8s.io/apimachinery/pkg/api/resource"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/celgate/celgate/internal/plan"
	"github.com/celgate/celgate/internal/quirks"
)

// The language and its libraries are those of the newest minor, linked into this program. What they did otherwise in an
// older one is a quirk of it, which is put into its environments here. Recorded with cel-go v0.26.0 and
// k8s.io/apiserver v0.36.3: testdata/older.json.

// olderLibrary is what one quirk changes in an environment, which then knows it by its name.
type olderLibrary struct {
	id       quirks.ID
	mentions *regexp.Regexp // in the text of every expression that may meet it
	options  []cel.EnvOption
	program  []cel.ProgramOption
}

func (l olderLibrary) LibraryName() string                 { return string(l.id) }
func (l olderLibrary) CompileOptions() []cel.EnvOption     { return l.options }
func (l olderLibrary) ProgramOptions() []cel.ProgramOption { return l.program }

// olderLibraries are those of the language and its libraries; the options of EmptyTextSearch depend on an environment.
var olderLibraries = []olderLibrary{
	{id: quirks.BacktickSyntax, mentions: regexp.MustCompile("`")}, // as Compile has it
	{id: quirks.EmptyTextSearch, mentions: regexp.MustCompile(`[iI]ndexOf\b`)},
	{id: quirks.OptionalOfAny, mentions: regexp.MustCompile(`\bor(Value)?\b`),
		program: []cel.ProgramOption{cel.CustomDecoratorV2(lenient)}}, // see Program
	{id: quirks.QuantityAliased, mentions: regexp.MustCompile(`\b(quantity|add|sub)\b`), options: aliasedQuantities},
	{id: quirks.RangeUnbounded, mentions: regexp.MustCompile(`\brange\b`),
		options: []cel.EnvOption{cel.Function("lists.range",
			cel.Overload("lists_range", []*cel.Type{cel.IntType}, cel.ListType(cel.IntType),
				cel.UnaryBinding(unboundedRange)))}},
	{id: quirks.TextCosts, mentions: regexp.MustCompile(`\b(startsWith|endsWith|matches)\b`),
		program: []cel.ProgramOption{cel.CostTrackerOptions(
			interpreter.OverloadCostTracker(overloads.StartsWithString, costOfText),
			interpreter.OverloadCostTracker(overloads.EndsWithString, costOfText),
			interpreter.OverloadCostTracker(overloads.Matches,
				func([]ref.Val, ref.Val) *uint64 { return new(uint64(1)) }))}},
}

// older returns what the quirks of a minor change in env.
func older(env *cel.Env, known quirks.Set) ([]cel.EnvOption, error) {
	var all []cel.EnvOption
	for _, l := range olderLibraries {
		if !known.Has(l.id) {
			continue
		}
		if l.id == quirks.EmptyTextSearch {
			var err error
			if l.options, err = emptySearch(env); err != nil {
				return nil, err
			}
		}
		all = append(all, cel.Lib(l))
	}
	return all, nil
}

// Met returns the quirks of the language, of those of the minor, that an expression may meet.
func (s *Set) Met(src string) []quirks.ID {
	var all []quirks.ID
	for _, l := range olderLibraries {
		if s.quirks.Has(l.id) && l.mentions.MatchString(src) {
			all = append(all, l.id)
		}
	}
	return all
}

// Without returns the environments that the minor would have without one of its quirks.
func (s *Set) Without(id quirks.ID) *Set {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mended[id] == nil {
		s.mended[id] = newSet(s.minor, s.quirks.Without(id))
	}
	return s.mended[id]
}

// olderPlans is the same for plans.
func olderPlans(known quirks.Set) plan.Older {
	return plan.Older{
		OptionalOfAny:   known.Has(quirks.OptionalOfAny),
		QuantityAliased: known.Has(quirks.QuantityAliased),
		TextCosts:       known.Has(quirks.TextCosts),
	}
}

// emptySearch makes the search for an empty text return the place where it begins, wherever that is.
func emptySearch(env *cel.Env) ([]cel.EnvOption, error) {
	var all []cel.EnvOption
	for name, overload := range map[string]string{"indexOf": "string_index_of_string_int",
		"lastIndexOf": "string_last_index_of_string_int"} {
		bindings, err := env.Functions()[name].Bindings()
		if err != nil {
			return nil, err
		}
		for _, b := range bindings {
			if b.Operator != overload {
				continue
			}
			search := func(args ...ref.Val) ref.Val {
				if args[1] == types.String("") {
					return args[2]
				}
				return b.Function(args...)
			}
			all = append(all, cel.Function(
				name,
				cel.MemberOverload(overload, []*cel.Type{cel.StringType, cel.StringType, cel.IntType}, cel.IntType,
					cel.FunctionBinding(search))))
		}
	}
	return all, nil
}

// unboundedRange is lists.range without bounds.
func unboundedRange(n ref.Val) ref.Val {
	size := max(n.(types.Int), 0)
	if size > ExpressionLimit {
		return overlong{types.NewRefValList(types.DefaultTypeAdapter, nil), size}
	}
	items := make([]ref.Val, size)
	for i := range items {
		items[i] = types.Int(i)
	}
	return types.NewRefValList(types.DefaultTypeAdapter, items)
}

// An overlong list costs more than an expression may, for its size alone: nothing ever looks at its items.
type overlong struct {
	traits.Lister
	size types.Int
}

func (l overlong) Size() ref.Val { return l.size }

// aliasedQuantities make sums and differences of a copy that has the digits of the first quantity in common with it, if
// it is one of more digits than an int64 holds.
var aliasedQuantities = func() []cel.EnvOption {
	calculate := func(do func(q *resource.Quantity, other resource.Quantity)) cel.OverloadOpt {
		return cel.BinaryBinding(func(left, right ref.Val) ref.Val {
			q, ok := left.Value().(*resource.Quantity)
			if !ok {
				return types.MaybeNoSuchOverloadErr(left)
			}
			shared := *q
			switch other := right.Value().(type) {
			case *resource.Quantity:
				do(&shared, *other)
			case int64:
				do(&shared, *resource.NewQuantity(other, resource.DecimalExponent))
			default:
				return types.MaybeNoSuchOverloadErr(left)
			}
			return &apiservercel.Quantity{Quantity: &shared}
		})
	}
	both := func(name string, do func(q *resource.Quantity, other resource.Quantity)) cel.EnvOption {
		quantity := apiservercel.QuantityType
		return cel.Function(name,
			cel.MemberOverload("quantity_"+name, []*cel.Type{quantity, quantity}, quantity, calculate(do)),
			cel.MemberOverload("quantity_"+name+"_int", []*cel.Type{quantity, cel.IntType}, quantity, calculate(do)))
	}
	return []cel.EnvOption{
		both("add", func(q *resource.Quantity, other resource.Quantity) { q.Add(other) }),
		both("sub", func(q *resource.Quantity, other resource.Quantity) { q.Sub(other) }),
	}
}()

// costOfText is what the text costs whose beginning or end is looked at.
func costOfText(args []ref.Val, _ ref.Val) *uint64 {
	runes := uint64(1)
	if text, ok := args[0].(types.String); ok {
		runes = uint64(text.Size().(types.Int))
	}
	cost := uint64(math.Ceil(float64(runes) * common.StringTraversalCostFactor))
	return &cost
}

// lenientNames are what Program calls the functions or and orValue, so that no decorator of cel-go knows them.
var lenientNames = map[string]string{"or": "@or", "orValue": "@orValue"}

// lenient decorates these.
func lenient(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok {
		return i, nil
	}
	switch name := call.Function(); name {
	case lenientNames["or"], lenientNames["orValue"]:
		return &alternative{id: call.ID(), optional: call.Args()[0], otherwise: call.Args()[1],
			unwrap: name == lenientNames["orValue"]}, nil
	}
	return i, nil
}

// An alternative is or or orValue, which return what is no optional value as it is.
type alternative struct {
	id                  int64
	optional, otherwise interpreter.InterpretableV2
	unwrap              bool
}

func (a *alternative) ID() int64 { return a.id }

func (a *alternative) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	v := a.optional.Exec(frame)
	optional, ok := v.(*types.Optional)
	switch {
	case !ok:
		return v
	case !optional.HasValue():
		return a.otherwise.Exec(frame)
	case a.unwrap:
		return optional.GetValue()
	}
	return v
}

func (a *alternative) Eval(vars interpreter.Activation) ref.Val {
	return a.Exec(interpreter.AsFrame(vars))
}

// Program makes the program of a checked expression, which it may change: nothing else uses the tree afterwards.
func Program(env *cel.Env, checked *cel.Ast, opts ...cel.ProgramOption) (cel.Program, error) {
	if env.HasLibrary(string(quirks.OptionalOfAny)) {
		made := ast.NewExprFactory()
		ast.PostOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
			if e.Kind() != ast.CallKind || !e.AsCall().IsMemberFunction() || len(e.AsCall().Args()) != 1 {
				return
			}
			call := e.AsCall()
			if name := lenientNames[call.FunctionName()]; name != "" {
				e.SetKindCase(made.NewMemberCall(e.ID(), name, call.Target(), call.Args()...))
			}
		}))
	}
	return env.Program(checked, append([]cel.ProgramOption{cel.InterruptCheckFrequency(InterruptFrequency)},
		opts...)...)
}

// refusedSyntax returns the problems of names in backticks in an environment that does not know them.
func refusedSyntax(env *cel.Env, src common.Source) *cel.Issues {
	if !env.HasLibrary(string(quirks.BacktickSyntax)) {
		return nil
	}
	p, err := parser.NewParser(parser.Macros(env.Macros()...), parser.EnableOptionalSyntax(true),
		parser.EnableIdentEscapeSyntax(false))
	if err != nil {
		return nil
	}
	if _, found := p.Parse(src); len(found.GetErrors()) > 0 {
		return cel.NewIssues(found)
	}
	return nil
}
