// Package compile compiles policies to programs.
package compile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/locals"
	"github.com/celgate/celgate/internal/plan"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/policy"
)

// A Program is a compiled policy. It is immutable and safe for concurrent use.
type Program struct {
	*policy.Policy
	Variables       []Variable
	MatchConditions []*Expression
	Validations     []*Expression
	Turns           []int         // indices of Validations, in the order of evaluation
	Messages        []*Expression // by index of Validations; nil without a messageExpression
	Annotations     []*Expression // by index of Policy.AuditAnnotations
	Mutations       []*Expression // by index of Policy.Mutations

	// For policies of the dialect, by index of Policy.Mutations; nil if there is none.
	Conditions       []*Expression
	MutationMessages []*Expression
	Checks           []*Expression
	Lists            []*Expression
}

// A Variable is one member of variables.
type Variable struct {
	Name string
	*Expression
}

// An Expression is one compiled CEL expression.
type Expression struct {
	policy.Expr
	Locals  string      // additional names that it may use
	Name    string      // of a match condition
	Program cel.Program // nil if Err is set
	Plan    *plan.Plan  // a faster equivalent; nil if not covered
	// Watch evaluates the expression once more after each evaluation, to report the values of its parts; may be nil.
	// failed: the evaluation was an error.
	Watch  func(ctx context.Context, vars interpreter.Activation, failed bool)
	Output *cel.Type   // nil if Err is set
	Err    error       // the compilation error, with the server's text
	Issues *cel.Issues // the positions of the problems, if the text is invalid
	// Internal means that the error is not caused by the text.
	Internal bool
	// Mended are the expression without each quirk of the language that it may meet, to detect whether it does.
	Mended []Mended
}

// Mended is an expression compiled without a quirk.
type Mended struct {
	Quirk quirks.ID
	*Expression
}

// Policy compiles p as the API server does to execute it. Expressions that do not compile keep their error
// and fail when they are evaluated.
func Policy(set *celenv.Set, p *policy.Policy) (*Program, error) {
	prog, err := compilePolicy(set, p)
	return prog, cmp.Or(err, mend(set, prog))
}

func compilePolicy(set *celenv.Set, p *policy.Policy) (*Program, error) {
	scope := set.Scope(celenv.Run, false)
	defer scope.Close()
	c := compiler{scope: scope, dialect: p.Kind == policy.Admission}
	prog := &Program{Policy: p}

	params := p.ParamKind != nil
	for _, v := range p.Variables {
		e := c.compile(v.Expr, c.declare(policy.UseVariable, "", params))
		scope.Declare(v.Name, e.Output)
		prog.Variables = append(prog.Variables, Variable{v.Name, e})
	}
	local := func(names string) func(policy.Expr, policy.Use) *Expression {
		return func(x policy.Expr, u policy.Use) *Expression {
			return c.compileUse(x, u, names, params)
		}
	}
	use := local("")
	for _, m := range p.MatchConditions {
		e := use(m.Expr, policy.UseMatchCondition)
		e.Name = m.Name
		prog.MatchConditions = append(prog.MatchConditions, e)
	}
	prog.Turns = p.Turns()
	for i := range p.Validations {
		v, in := &p.Validations[i], local(p.Validations[i].Locals())
		prog.Validations = append(prog.Validations, in(v.Expr, policy.UseValidation))
		var message *Expression
		if !v.MessageExpr.IsZero() {
			message = in(v.MessageExpr, policy.UseMessageExpression)
		}
		prog.Messages = append(prog.Messages, message)
	}
	for _, a := range p.AuditAnnotations {
		prog.Annotations = append(prog.Annotations, use(a.Expr, policy.UseAuditAnnotation))
	}
	for i := range p.Mutations {
		m, use := &p.Mutations[i], local(p.Mutations[i].Locals())
		prog.Mutations = append(prog.Mutations, use(m.Expr, m.Use()))
		if !c.dialect {
			continue
		}
		optional := func(x policy.Expr, u policy.Use) *Expression {
			if x.IsZero() {
				return nil
			}
			return use(x, u)
		}
		prog.Conditions = append(prog.Conditions, optional(m.Condition, policy.UseCondition))
		prog.MutationMessages = append(prog.MutationMessages, optional(m.MessageExpr, policy.UseMessageExpression))
		use = local("")
		prog.Lists = append(prog.Lists, optional(m.ForEach.Expr, policy.UseForEach))
		prog.Checks = append(prog.Checks, optional(m.AtEnd, policy.UseMutationCheck))
	}
	return prog, c.err
}

// mend compiles a policy again for each quirk of the language that its expressions may meet.
func mend(set *celenv.Set, prog *Program) error {
	met := map[quirks.ID][]int{} // indices of expressions, by quirk
	own := slices.Collect(prog.expressions())
	for i, e := range own {
		for _, id := range set.QuirksOf(e.Code()) {
			met[id] = append(met[id], i)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(met)) {
		mended, err := compilePolicy(set.Without(id), prog.Policy)
		if err != nil {
			return err
		}
		others := slices.Collect(mended.expressions())
		for _, i := range met[id] {
			own[i].Mended = append(own[i].Mended, Mended{id, others[i]})
		}
	}
	return nil
}

// expressions yields the expressions of a program.
func (p *Program) expressions() iter.Seq[*Expression] {
	return func(yield func(*Expression) bool) {
		for _, v := range p.Variables {
			if !yield(v.Expression) {
				return
			}
		}
		for _, list := range [][]*Expression{p.MatchConditions, p.Validations, p.Messages, p.Annotations, p.Mutations} {
			for _, e := range list {
				if e != nil && !yield(e) {
					return
				}
			}
		}
	}
}

// results are the allowed types of the expressions of each use; a variable may have any type.
var results = map[policy.Use][]*cel.Type{
	policy.UseMatchCondition:     {cel.BoolType},
	policy.UseValidation:         {cel.BoolType},
	policy.UseMessageExpression:  {cel.StringType},
	policy.UseAuditAnnotation:    {cel.StringType, cel.NullType},
	policy.UseApplyConfiguration: {cel.ObjectType("Object")},
	policy.UseJSONPatch:          {cel.ListType(cel.ObjectType("JSONPatch"))},
	policy.UseCondition:          {cel.BoolType},
	policy.UseMutationCheck:      {cel.BoolType},
}

// Declare returns the names that expressions of a use may use in a policy, in addition to some locals.
func Declare(p *policy.Policy, use policy.Use, locals string) celenv.Declared {
	return (&compiler{dialect: p.Kind == policy.Admission}).declare(use, locals, p.ParamKind != nil)
}

// declare returns the names that expressions of a use may use in a policy. Variables of the dialect may hold parts of
// an Object.
func (c *compiler) declare(use policy.Use, locals string, params bool) celenv.Declared {
	d := declarations(use, params)
	d.Locals, d.Extended = locals, c.dialect
	if c.dialect && (use.Mutates() || use == policy.UseVariable) {
		d.Patch, d.Dialect, d.Merge = true, use.Mutates(), use == policy.UseJSONMergePatch
		d.Objects, d.Marks = true, use == policy.UseVariable || use == policy.UseApplyConfiguration
	}
	return d
}

func declarations(use policy.Use, params bool) celenv.Declared {
	return celenv.Declared{
		Params:     params,
		Authorizer: use != policy.UseMessageExpression,
		Patch:      use.Mutates(),
	}
}

type compiler struct {
	scope   *celenv.Scope
	dialect bool  // the policy is one of the dialect
	err     error // of an environment, a defect of this program
}

// compileUse compiles an expression for a use.
func (c *compiler) compileUse(x policy.Expr, use policy.Use, locals string, params bool) *Expression {
	e := c.compile(x, c.declare(use, locals, params), results[use]...)
	if use == policy.UseForEach && e.Err == nil && !mayBeList(e.Output) {
		e.Err = fmt.Errorf("must evaluate to a list but got %s", e.Output)
	}
	return e
}

// mayBeList reports whether a type is a list, an optional list, or dyn.
func mayBeList(t *cel.Type) bool {
	if of := t.Parameters(); len(of) == 1 && t.IsExactType(cel.OptionalType(of[0])) {
		t = of[0]
	}
	return t.Kind() == types.ListKind || t.Kind() == types.DynKind
}

// compile checks the expression and its result, which must be exactly one of the given types; without types any will
// do. Equal expressions that cannot depend on the variables of their policies are compiled once.
func (c *compiler) compile(x policy.Expr, d celenv.Declared, results ...*cel.Type) *Expression {
	if _, problem := x.Problem(); problem != "" || x.InlinedText() != nil ||
		strings.Contains(x.Src, celenv.VariablesName) {
		return c.compileAlone(x, d, results...)
	}
	compiled := c.scope.Memoise(d, fmt.Sprint(results, " ", x.Src),
		func() any { return c.compileAlone(x, d, results...) })
	e := *compiled.(*Expression)
	e.Expr = x
	return &e
}

func (c *compiler) compileAlone(x policy.Expr, d celenv.Declared, results ...*cel.Type) *Expression {
	env, err := c.scope.Env(d)
	if err != nil {
		c.err = errors.Join(c.err, err)
		return &Expression{Expr: x, Err: err, Internal: true}
	}
	checked, issues := compileIn(env, d, x)
	if issues != nil {
		return &Expression{Expr: x, Err: fmt.Errorf("compilation failed: %s", issues.String()), Issues: issues}
	}
	switch got := checked.OutputType(); {
	case d.Merge:
		err = checkMergePatch(got)
	case d.Marks && scopedMutation(d):
		err = checkItem(checked, got)
	case !d.Dialect || !isVerdict(got, results):
		err = checkResult(got, results)
	}
	if err != nil {
		return &Expression{Expr: x, Err: err}
	}
	// Neither the plan nor the program of an expression needs the declared variables.
	base, err := c.scope.Base(d)
	var fns *plan.Functions
	if err == nil {
		fns, err = c.scope.Functions(d)
	}
	if err == nil {
		if p := plan.New(env, fns, checked, celenv.ExpressionLimit); p != nil {
			if c.scope.Mode() == celenv.Write { // such expressions are never evaluated
				return &Expression{Expr: x, Output: checked.OutputType()}
			}
			return &Expression{Expr: x, Locals: d.Locals, Plan: p,
				Program: &lateProgram{env: base, ast: checked, functions: fns},
				Output:  checked.OutputType()}
		}
	}
	if err != nil {
		c.err = errors.Join(c.err, err)
		return &Expression{Expr: x, Err: err, Internal: true}
	}
	prog, err := celenv.Program(base, checked, fns.Bound())
	if err != nil {
		return &Expression{Expr: x, Err: fmt.Errorf("program instantiation failed: %w", err), Internal: true}
	}
	return &Expression{Expr: x, Locals: d.Locals, Program: prog, Output: checked.OutputType()}
}

// compileIn compiles an expression with the declarations d.
func compileIn(env *cel.Env, d celenv.Declared, x policy.Expr) (*cel.Ast, *cel.Issues) {
	if d.Extended || x.InlinedText() != nil {
		return celenv.CompileOwn(env, d, x)
	}
	return celenv.Compile(env, x.Src)
}

// checkResult returns the error about a result of type got, with the text of pkg/admission/plugin/cel/compile.go
// v0.37.2.
func checkResult(got *cel.Type, want []*cel.Type) error {
	if len(want) == 0 {
		return nil
	}
	names := make([]string, len(want))
	for i, t := range want {
		if got.IsExactType(t) {
			return nil
		}
		names[i] = t.String()
	}
	if len(want) == 1 {
		return fmt.Errorf("must evaluate to %s but got %s", names[0], got)
	}
	return fmt.Errorf("must evaluate to one of [%s] but got %s", strings.Join(names, " "), got)
}

// isVerdict reports whether an expression of the dialect may evaluate, in place of a patch of one of the types in want,
// to an optional patch, to a verdict, or to a value of unknown type.
func isVerdict(got *cel.Type, want []*cel.Type) bool {
	for _, t := range append([]*cel.Type{cel.DynType}, want...) {
		if got.IsExactType(cel.OptionalType(t)) {
			return true
		}
	}
	nothing := []*cel.Type{cel.DynType, cel.BoolType, cel.NullType}
	if len(want) > 0 && want[0].Kind() == types.ListKind {
		nothing = append(nothing, cel.ListType(cel.DynType))
	}
	return slices.ContainsFunc(nothing, got.IsExactType)
}

// scopedMutation reports whether the declarations are those of a mutation with a scope.
func scopedMutation(d celenv.Declared) bool {
	return d.Dialect && slices.Contains(locals.Names(d.Locals), locals.Item)
}

// checkItem returns an error if a result of type got cannot change a value of a scope: it must be an Item, a verdict,
// or the result of objects.unset and replace.
func checkItem(checked *cel.Ast, got *cel.Type) error {
	item := []*cel.Type{cel.ObjectType(locals.ItemType)}
	if got.IsExactType(item[0]) || isVerdict(got, item) || marks(checked.NativeRep().Expr()) {
		return nil
	}
	return checkResult(got, item)
}

// marks reports whether an expression evaluates to a mark, or to an Item.
func marks(e ast.Expr) bool {
	if e.Kind() != ast.CallKind {
		return e.Kind() == ast.StructKind && e.AsStruct().TypeName() == locals.ItemType
	}
	switch c := e.AsCall(); c.FunctionName() {
	case operators.Conditional:
		return marks(c.Args()[1]) && marks(c.Args()[2])
	case "objects.unset", "objects.replace":
		return true
	}
	return false
}

// checkMergePatch returns an error if a result of type got is not a JSON merge patch.
func checkMergePatch(got *cel.Type) error {
	of := got
	if of.Kind() == types.OpaqueKind && len(of.Parameters()) == 1 { // an optional value
		of = of.Parameters()[0]
	}
	switch of.Kind() {
	case types.MapKind, types.DynKind, types.BoolKind, types.NullTypeKind:
		return nil
	}
	if of.IsExactType(cel.ObjectType("Object")) {
		return nil
	}
	return fmt.Errorf("must evaluate to a map or an Object but got %s", got)
}

// A lateProgram is the program of an expression with a plan: it is made on demand, because it is seldom needed.
type lateProgram struct {
	env *cel.Env
	ast *cel.Ast

	functions *plan.Functions

	once sync.Once
	prog cel.Program
	err  error
}

func (p *lateProgram) program() (cel.Program, error) {
	p.once.Do(func() {
		p.prog, p.err = celenv.Program(p.env, p.ast, p.functions.Bound())
		p.env, p.ast, p.functions = nil, nil, nil
	})
	return p.prog, p.err
}

func (p *lateProgram) Eval(vars any) (ref.Val, *cel.EvalDetails, error) {
	prog, err := p.program()
	if err != nil {
		return nil, nil, err
	}
	return prog.Eval(vars)
}

func (p *lateProgram) ContextEval(ctx context.Context, vars any) (ref.Val, *cel.EvalDetails, error) {
	prog, err := p.program()
	if err != nil {
		return nil, nil, err
	}
	return prog.ContextEval(ctx, vars)
}
