package prove

import (
	"context"
	"fmt"
	"slices"

	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/internal/solve"
	"github.com/celgate/celgate/policy"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// A part of an expression is dead if a policy without it evaluates to the same values for all requests: an operand of
// && or ||, or a branch of ?:. The question is about two programs on one machine, of which the second has another
// syntax tree. An undecided part of the tree is one value in both programs only if it has the same text in both, so an
// operand within it counts as alive.

// A removal puts the other branch in place of a branch, or the neutral value in place of an operand.
type removal struct {
	part    ast.Expr
	keep    ast.Expr // the other branch
	neutral types.Bool
}

// findDead finds the dead parts of the expressions of a policy that have an effect, all of which can be removed
// together. Those of expressions that are reported already are left out.
func (r *Room) findDead(ctx context.Context, s *Side, p *program, cases []Case, reported []Vacuity,
	out *Vacuities) error {
	isReported := func(x policy.Expr) bool {
		return slices.ContainsFunc(reported, func(v Vacuity) bool { return v.Expr.Field == x.Field })
	}
	decides := func(x policy.Part) bool {
		return (x.Use == policy.UseMatchCondition || x.Use == policy.UseValidation) && !isReported(x.Expr)
	}
	for x := range p.Expressions() {
		if !decides(x) && (x.Use != policy.UseVariable ||
			!slices.ContainsFunc(slices.Collect(p.Expressions()), func(o policy.Part) bool {
				return decides(o) && p.reads(o, x.Name)
			})) {
			continue
		}
		tree := p.treeOf(x)
		if tree == nil {
			continue
		}
		_, err := tryEach(tree, tree.Expr(), func(made *ast.AST, removed removal, call ast.Expr) (bool, error) {
			dead, decided, err := r.isSameWith(ctx, s, p, p.withTree(x, made), cases, out)
			if err != nil || !decided {
				out.Undecided++
				return false, err
			}
			if dead {
				v := Vacuity{Policy: p.Name, Expr: x.Expr, Message: deadMessage(call)}
				v.From, v.To = compile.Extent(x.Src, tree, removed.part)
				if v.Instead = fmt.Sprint(removed.neutral); removed.keep != nil {
					from, to := compile.Extent(x.Src, tree, removed.keep)
					v.Instead = x.Src[from:to]
				}
				out.Found = append(out.Found, v)
			}
			return dead, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func deadMessage(call ast.Expr) string {
	switch call.AsCall().FunctionName() {
	case operators.LogicalAnd:
		return "has an operand of && that makes no difference"
	case operators.LogicalOr:
		return "has an operand of || that makes no difference"
	}
	return "has a branch of ?: that makes no difference"
}

// withTree returns the program with another syntax tree of one expression.
func (p *program) withTree(x policy.Part, tree *ast.AST) *program {
	out := *p
	switch x.Use {
	case policy.UseMatchCondition:
		out.conditions = slices.Clone(p.conditions)
		out.conditions[x.Index] = tree
	case policy.UseValidation:
		out.validations = slices.Clone(p.validations)
		out.validations[x.Index] = tree
	case policy.UseVariable:
		out.variables = map[string]*ast.AST{}
		for name, t := range p.variables {
			out.variables[name] = t
		}
		out.variables[x.Name] = tree
	}
	return &out
}

// isSameWith reports whether two programs of a policy have the same values for all requests; not decided: it is not
// known.
func (r *Room) isSameWith(ctx context.Context, s *Side, p, q *program, cases []Case,
	out *Vacuities) (same, decided bool, err error) {
	decided = true
	for b := range s.native.set.EachBinding() {
		if !b.Binds(p.Policy) {
			continue
		}
		for _, c := range cases {
			if c.isOutside() {
				decided = false
				continue
			}
			differ, known, err := r.differIn(ctx, p, q, b, c, out)
			if err != nil {
				return false, false, err
			}
			if known && differ {
				return false, true, nil
			}
			decided = decided && known
		}
	}
	return decided, decided, nil
}

// differIn reports whether two programs have different values for a request of a case.
func (r *Room) differIn(ctx context.Context, p, q *program, b *policy.Binding, c Case,
	out *Vacuities) (differ, known bool, err error) {
	sizes, keys := map[string]int{}, map[string][]string{}
	for range 200 {
		m := newMachine(sizes, keys)
		m.zeros = true // authors test a flag beside its presence
		req := newRequest(m, c, r.Types)
		goal := req.invoke(p, b).differ(m.store, req.invoke(q, b))
		if !m.settle() {
			continue
		}
		about := "policy " + p.Name + ", whether a part of an expression makes a difference"
		return r.isPossible(ctx, req, goal, about, out)
	}
	return false, false, fmt.Errorf("policy %s: the sizes of lists do not converge", p.Name)
}

// differ returns the condition that one of the expressions has different values in two invocations, and that the value
// has an effect.
func (i *invocation) differ(s *solve.Store, o *invocation) solve.Formula {
	unequal := func(a, b *value) solve.Formula {
		return s.Disjoin(s.Iff(a.truth, b.truth).Negate(), s.Iff(a.err, b.err).Negate())
	}
	out := solve.False
	for k, c := range i.conditions {
		no := solve.False // another condition is false, and decides
		for j, d := range i.conditions {
			if j != k {
				no = s.Disjoin(no, s.Conjoin(d.isBool, d.truth.Negate()))
			}
		}
		out = s.Disjoin(out, s.All(i.matched, i.exists, no.Negate(), unequal(c, o.conditions[k])))
	}
	for k, v := range i.values {
		out = s.Disjoin(out, s.Conjoin(i.applies, unequal(v, o.values[k])))
	}
	return out
}

// tryEach removes the operands and branches below a node of a tree one by one, outer ones and later ones first. It
// returns the tree without those for which isDead is true.
func tryEach(tree *ast.AST, e ast.Expr, isDead func(made *ast.AST, removed removal, call ast.Expr) (bool,
	error)) (*ast.AST, error) {
	removed := map[int64]bool{}
	for _, r := range removalsOf(tree, e) {
		if r.keep != nil && removed[r.keep.ID()] {
			continue
		}
		made := r.apply(tree)
		dead, err := isDead(made, r, e)
		if err != nil {
			return nil, err
		}
		if dead {
			tree, removed[r.part.ID()] = made, true
		}
	}
	for _, inner := range partsOfExpression(e) {
		if removed[inner.ID()] {
			continue
		}
		var err error
		if tree, err = tryEach(tree, inner, isDead); err != nil {
			return nil, err
		}
	}
	return tree, nil
}

// removalsOf returns the operands and branches of a call, later ones first.
func removalsOf(tree *ast.AST, e ast.Expr) (all []removal) {
	if _, isMacro := tree.SourceInfo().GetMacroCall(e.ID()); e.Kind() != ast.CallKind || isMacro {
		return nil
	}
	function, args := e.AsCall().FunctionName(), e.AsCall().Args()
	switch function {
	case operators.LogicalAnd, operators.LogicalOr:
		for i := 1; i >= 0 && !isAccumulator(args[0]); i-- {
			if args[i].Kind() != ast.CallKind || args[i].AsCall().FunctionName() != function { // else its operands
				all = append(all, removal{part: args[i], neutral: types.Bool(function == operators.LogicalAnd)})
			}
		}
	case operators.Conditional:
		if !isAccumulator(args[2]) {
			all = []removal{{part: args[2], keep: args[1]}, {part: args[1], keep: args[2]}}
		}
	}
	return all
}

// apply returns a tree with the removal.
func (r removal) apply(tree *ast.AST) *ast.AST {
	out := ast.Copy(tree)
	keep := ast.NewExprFactory().NewLiteral(0, r.neutral)
	var parts []ast.Expr // a branch may be there twice
	ast.PostOrderVisit(out.Expr(), ast.NewExprVisitor(func(x ast.Expr) {
		switch {
		case x.ID() == r.part.ID():
			parts = append(parts, x)
		case r.keep != nil && x.ID() == r.keep.ID():
			keep = x
		}
	}))
	delete(out.ReferenceMap(), r.part.ID())
	if reference := out.ReferenceMap()[keep.ID()]; reference != nil {
		out.SetReference(r.part.ID(), reference)
	}
	for _, part := range parts {
		part.SetKindCase(keep)
	}
	return out
}

// partsOfExpression returns the direct parts of an expression, later ones first.
func partsOfExpression(e ast.Expr) (all []ast.Expr) {
	switch e.Kind() {
	case ast.CallKind:
		c := e.AsCall()
		if c.IsMemberFunction() {
			all = append(all, c.Target())
		}
		all = append(all, c.Args()...)
	case ast.SelectKind:
		all = append(all, e.AsSelect().Operand())
	case ast.ListKind:
		all = append(all, e.AsList().Elements()...)
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			all = append(all, entry.AsMapEntry().Key(), entry.AsMapEntry().Value())
		}
	case ast.StructKind:
		for _, f := range e.AsStruct().Fields() {
			all = append(all, f.AsStructField().Value())
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		all = append(all, c.IterRange(), c.AccuInit(), c.LoopStep(), c.Result())
	}
	slices.Reverse(all)
	return all
}

// isAccumulator reports whether an expression is the value that a macro makes.
func isAccumulator(e ast.Expr) bool {
	return e.Kind() == ast.IdentKind && (e.AsIdent() == "__result__" || e.AsIdent() == "@result")
}
