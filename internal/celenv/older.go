package celenv

import (
	"math"
	"net/netip"
	"slices"
	"strings"

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
	"k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/celgate/celgate/internal/pattern"
	"github.com/celgate/celgate/internal/plan"
	"github.com/celgate/celgate/internal/quirks"
)

// The language and its libraries are those of the newest minor, linked into this program. Differences of older minors
// are quirks, applied to environments here. They were recorded with the libraries of each minor by tools/celanswers:
// testdata/older.json.

// An olderLibrary is the effect of one quirk on an environment.
type olderLibrary struct {
	id       quirks.ID
	mentions pattern.Regexp // matches the text of every expression that may meet it
	options  []cel.EnvOption
	program  []cel.ProgramOption
	since    uint // the minor of the functions that options change; 0: all
}

func (l olderLibrary) LibraryName() string                 { return string(l.id) }
func (l olderLibrary) CompileOptions() []cel.EnvOption     { return l.options }
func (l olderLibrary) ProgramOptions() []cel.ProgramOption { return l.program }

// olderLibraries are the quirks of the language and its libraries; the options of searches depend on an environment.
var olderLibraries = []olderLibrary{
	{id: quirks.BacktickSyntax, mentions: pattern.New("`")}, // as Compile has it
	{id: quirks.BacktickToken, mentions: pattern.New("`")},
	{id: quirks.CIDRContains, mentions: pattern.New(`\bcontainsCIDR\b`), options: alignedCIDRs, since: 30},
	{id: quirks.EmptyTextSearch, mentions: pattern.New(`[iI]ndexOf\b`)},
	{id: quirks.FormatUnchecked, mentions: pattern.New(`\bformat\b`), // as Check has it
		options: []cel.EnvOption{cel.Variable(hiddenText, cel.StringType)}},
	{id: quirks.LibraryCosts, mentions: plan.LibraryFunctions},                          // as environments do
	{id: quirks.OptionalFunctions, mentions: pattern.New(`\b(first|last|unwrapOpt)\b`)}, // as Check has it
	{id: quirks.OptionalOfAny, mentions: pattern.New(`\bor(Value)?\b`),
		program: []cel.ProgramOption{cel.CustomDecoratorV2(makeLenient)}}, // see Program
	{id: quirks.QuantityAliased, mentions: pattern.New(`\b(quantity|add|sub)\b`), options: aliasedQuantities},
	{id: quirks.RangeUnbounded, mentions: pattern.New(`\brange\b`), since: 34,
		options: []cel.EnvOption{cel.Function("lists.range",
			cel.Overload("lists_range", []*cel.Type{cel.IntType}, cel.ListType(cel.IntType),
				cel.UnaryBinding(unboundedRange)))}},
	{id: quirks.SearchBounds, mentions: pattern.New(`[iI]ndexOf\b`)},
	{id: quirks.TextCosts, mentions: pattern.New(`\b(startsWith|endsWith|matches)\b`),
		program: []cel.ProgramOption{cel.CostTrackerOptions(
			interpreter.OverloadCostTracker(overloads.StartsWithString, costOfText),
			interpreter.OverloadCostTracker(overloads.EndsWithString, costOfText),
			interpreter.OverloadCostTracker(overloads.Matches,
				func([]ref.Val, ref.Val) *uint64 { return new(uint64(1)) }))}},
}

// olderOptions returns the effects of the quirks of a minor on env.
func olderOptions(env *cel.Env, known quirks.Set) ([]environment.VersionedOptions, error) {
	var all []environment.VersionedOptions
	for _, l := range olderLibraries {
		if !known.Has(l.id) {
			continue
		}
		empty, bounds := known.Has(quirks.EmptyTextSearch), known.Has(quirks.SearchBounds)
		if l.id == quirks.EmptyTextSearch || l.id == quirks.SearchBounds && !empty {
			var err error
			if l.options, err = searches(env, empty, bounds); err != nil {
				return nil, err
			}
		}
		all = append(all, environment.VersionedOptions{IntroducedVersion: version.MajorMinor(1, l.since),
			EnvOptions: []cel.EnvOption{cel.Lib(l)}})
	}
	return all, nil
}

// QuirksOf returns the quirks of the language that an expression may meet in the minor.
func (s *Set) QuirksOf(src string) []quirks.ID {
	var all []quirks.ID
	for _, l := range olderLibraries {
		if s.quirks.Has(l.id) && l.mentions().MatchString(src) {
			all = append(all, l.id)
		}
	}
	return all
}

// Without returns the environments of the minor without one of its quirks.
func (s *Set) Without(id quirks.ID) *Set {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mended[id] == nil {
		s.mended[id] = newSet(s.minor, s.quirks.Without(id))
	}
	return s.mended[id]
}

// olderPlans returns the same for plans.
func olderPlans(known quirks.Set) plan.Older {
	return plan.Older{
		LibraryCosts:    known.Has(quirks.LibraryCosts),
		OptionalOfAny:   known.Has(quirks.OptionalOfAny),
		QuantityAliased: known.Has(quirks.QuantityAliased),
		TextCosts:       known.Has(quirks.TextCosts),
	}
}

// searches makes the search for an empty text return its start position, even behind the text, and makes any other
// search fail that starts behind the text.
func searches(env *cel.Env, empty, bounds bool) ([]cel.EnvOption, error) {
	var all []cel.EnvOption
	for overload, name := range map[string]string{"string_index_of_string": "indexOf",
		"string_index_of_string_int": "indexOf", "string_last_index_of_string": "lastIndexOf",
		"string_last_index_of_string_int": "lastIndexOf"} {
		bindings, err := env.Functions()[name].Bindings()
		if err != nil {
			return nil, err
		}
		for _, b := range bindings {
			if b.Operator != overload {
				continue
			}
			types := []*cel.Type{cel.StringType, cel.StringType}
			placed := strings.HasSuffix(overload, "_int")
			if placed {
				types = append(types, cel.IntType)
			}
			own := func(args ...ref.Val) ref.Val {
				if b.Binary != nil {
					return b.Binary(args[0], args[1])
				}
				return b.Function(args...)
			}
			search := searching{own, name == "lastIndexOf", empty && placed, bounds}
			binding := cel.FunctionBinding(search.call)
			if !placed {
				binding = cel.BinaryBinding(func(text, part ref.Val) ref.Val { return search.call(text, part) })
			}
			all = append(all, cel.Function(name, cel.MemberOverload(overload, types, cel.IntType, binding)))
		}
	}
	return all, nil
}

// A searching is indexOf or lastIndexOf of an older minor.
type searching struct {
	own           func(args ...ref.Val) ref.Val
	last          bool
	empty, bounds bool
}

func (s searching) call(args ...ref.Val) ref.Val {
	size := args[0].(types.String).Size().(types.Int)
	from := types.Int(0)
	switch {
	case len(args) > 2:
		from = args[2].(types.Int)
	case s.last:
		from = size - 1
	}
	switch {
	case args[1] == types.String("") && s.empty:
		return from
	case args[1] != types.String("") && s.bounds && (from < 0 || from >= size):
		return types.NewErr("index out of range: %d", from)
	}
	return s.own(args...)
}

// alignedCIDRs make a network contain only those that begin where it does (k8s.io/apiserver v0.31.14
// pkg/cel/library/cidr.go).
var alignedCIDRs = func() []cel.EnvOption {
	contains := func(left, right ref.Val) ref.Val {
		outer, ok := left.(apiservercel.CIDR)
		if !ok {
			return types.MaybeNoSuchOverloadErr(left)
		}
		var inner netip.Prefix
		switch right := right.(type) {
		case apiservercel.CIDR:
			inner = right.Prefix
		case types.String:
			var err error
			if inner, err = netip.ParsePrefix(string(right)); err != nil {
				return types.NewErr("network address parse error during conversion from string: %v", err)
			}
		default:
			return types.MaybeNoSuchOverloadErr(right)
		}
		aligned := outer.Prefix.Masked() == netip.PrefixFrom(inner.Addr(), outer.Bits())
		return types.Bool(aligned && outer.Bits() <= inner.Bits())
	}
	return []cel.EnvOption{cel.Function("containsCIDR",
		cel.MemberOverload("cidr_contains_cidr_string", []*cel.Type{apiservercel.CIDRType, cel.StringType}, cel.BoolType,
			cel.BinaryBinding(contains)),
		cel.MemberOverload("cidr_contains_cidr", []*cel.Type{apiservercel.CIDRType, apiservercel.CIDRType}, cel.BoolType,
			cel.BinaryBinding(contains)))}
}()

// unknownFunctions returns the problems of functions of optional values that an environment must not know.
func unknownFunctions(env *cel.Env, parsed *cel.Ast) *common.Errors {
	if !env.HasLibrary(string(quirks.OptionalFunctions)) {
		return nil
	}
	var found *common.Errors
	tree := parsed.NativeRep()
	visit(parsed, func(e ast.Expr) {
		if e.Kind() != ast.CallKind || !e.AsCall().IsMemberFunction() {
			return
		}
		switch name := e.AsCall().FunctionName(); name {
		case "first", "last", "unwrapOpt":
			if found == nil {
				found = common.NewErrors(parsed.Source())
			}
			found.ReportErrorAtID(e.ID(), tree.SourceInfo().GetStartLocation(e.ID()),
				"undeclared reference to '%s' (in container '')", name)
		}
	})
	return found
}

// hiddenText is a name that no expression can have.
const hiddenText = "@text"

// hideFormats adds stand-ins for the texts of format in an environment that must not check them.
func hideFormats(env *cel.Env, parsed *cel.Ast, hidden standIns) {
	if !env.HasLibrary(string(quirks.FormatUnchecked)) {
		return
	}
	made := ast.NewExprFactory()
	visit(parsed, func(e ast.Expr) {
		if e.Kind() != ast.CallKind || !e.AsCall().IsMemberFunction() || e.AsCall().FunctionName() != "format" {
			return
		}
		if text := e.AsCall().Target(); text.Kind() == ast.LiteralKind && text.AsLiteral().Type() == types.StringType {
			hidden[text.ID()] = made.NewIdent(text.ID(), hiddenText)
		}
	})
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

// An overlong list exceeds the cost limit by its size alone: its items are never read.
type overlong struct {
	traits.Lister
	size types.Int
}

func (l overlong) Size() ref.Val { return l.size }

// aliasedQuantities make sums and differences in a copy that shares its digits with the first quantity, if these exceed
// an int64.
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

// costOfText returns the cost of a text whose beginning or end is read.
func costOfText(args []ref.Val, _ ref.Val) *uint64 {
	runes := uint64(1)
	if text, ok := args[0].(types.String); ok {
		runes = uint64(text.Size().(types.Int))
	}
	cost := uint64(math.Ceil(float64(runes) * common.StringTraversalCostFactor))
	return &cost
}

// lenientNames are the names of the functions or and orValue in a Program, so that decorators of cel-go do not
// recognise them.
var lenientNames = map[string]string{"or": "@or", "orValue": "@orValue"}

// makeLenient decorates these.
func makeLenient(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
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

// An alternative is or or orValue, which return a value that is not an optional unchanged.
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

// Program makes the program of a checked expression. It may change the expression, which is not used afterwards.
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
	_, found := p.Parse(src)
	if len(found.GetErrors()) == 0 {
		return nil
	}
	if env.HasLibrary(string(quirks.BacktickToken)) {
		found = unknownTokens(p, src, found)
	}
	return cel.NewIssues(found)
}

// unknownTokens returns the problems of an expression in a language of which a backtick is not a token: each backtick
// is one, and so is what is wrong in the text without backticks. found are the problems in a language that only refuses
// names in backticks.
func unknownTokens(p *parser.Parser, src common.Source, found *common.Errors) *common.Errors {
	text, told := []rune(src.Content()), common.NewErrors(src)
	report := func(at int) {
		if place, ok := src.OffsetLocation(int32(at)); ok {
			told.ReportErrorString(place, "Syntax error: token recognition error at: '`'")
		}
		text[at] = noToken
	}
	for _, e := range found.GetErrors() {
		begin, ok := src.LocationOffset(e.Location)
		if at := int(begin); ok && at < len(text) && text[at] == '`' {
			report(at)
			if end := slices.Index(text[at:], '`'); end >= 0 {
				report(at + end)
			}
		}
	}
	others := found
	if len(told.GetErrors()) > 0 {
		_, others = p.Parse(common.NewStringSource(string(text), src.Description()))
	}
	for _, e := range others.GetErrors() {
		told.ReportErrorString(e.Location, withoutEscapes.Replace(e.Message))
	}
	return told
}

// noToken is space between tokens in the place of a backtick; a text that repeats the expression does not have it.
const noToken = '\f'

var withoutEscapes = strings.NewReplacer(string(noToken), "",
	"{IDENTIFIER, ESC_IDENTIFIER}", "IDENTIFIER", ", ESC_IDENTIFIER", "")
