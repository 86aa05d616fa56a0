package policy

import "iter"

// A Use is what an expression is for, which decides the names that it may use and the type it must have.
type Use string

// The uses of expressions.
const (
	UseMatchCondition     Use = "match condition"
	UseVariable           Use = "variable"
	UseValidation         Use = "validation"
	UseMessageExpression  Use = "message expression"
	UseAuditAnnotation    Use = "audit annotation"
	UseApplyConfiguration Use = "apply configuration"
	UseJSONPatch          Use = "JSON patch"
	UseJSONMergePatch     Use = "JSON merge patch"
	UseCondition          Use = "condition"      // of one mutation
	UseForEach            Use = "list of items"  // of one mutation
	UseMutationCheck      Use = "mutation check" // of one mutation, for the final object
)

// Mutates reports whether the expression makes a change of the object.
func (u Use) Mutates() bool {
	return u == UseApplyConfiguration || u == UseJSONPatch || u == UseJSONMergePatch
}

// Use returns the use of the mutation's expression.
func (m *Mutation) Use() Use {
	switch m.PatchType {
	case JSONPatch:
		return UseJSONPatch
	case JSONMergePatch:
		return UseJSONMergePatch
	}
	return UseApplyConfiguration
}

// A Part is one expression of a policy with its use.
type Part struct {
	Expr
	Use   Use
	Name  string // of a match condition or a variable, the key of an audit annotation
	Index int    // in the list of the policy that has the expression

	Locals string // the additional names that it may use, joined by commas
}

// Expressions returns all expressions of p that are not empty, in the server's order.
func (p *Policy) Expressions() iter.Seq[Part] {
	return func(yield func(Part) bool) {
		var all []Part
		for i, x := range p.MatchConditions {
			all = append(all, Part{Expr: x.Expr, Use: UseMatchCondition, Name: x.Name, Index: i})
		}
		for i, x := range p.Variables {
			all = append(all, Part{Expr: x.Expr, Use: UseVariable, Name: x.Name, Index: i})
		}
		for i, x := range p.Validations {
			all = append(all, Part{x.Expr, UseValidation, "", i, x.Locals()},
				Part{x.MessageExpr, UseMessageExpression, "", i, x.Locals()})
		}
		for i, x := range p.AuditAnnotations {
			all = append(all, Part{Expr: x.Expr, Use: UseAuditAnnotation, Name: x.Name, Index: i})
		}
		for i, x := range p.Mutations {
			all = append(all, Part{Expr: x.ForEach.Expr, Use: UseForEach, Name: x.Name, Index: i},
				Part{x.Condition, UseCondition, x.Name, i, x.Locals()},
				Part{x.Expr, x.Use(), x.Name, i, x.Locals()},
				Part{x.MessageExpr, UseMessageExpression, x.Name, i, x.Locals()},
				Part{Expr: x.AtEnd, Use: UseMutationCheck, Name: x.Name, Index: i})
		}
		for _, x := range all {
			if !x.IsZero() && !yield(x) {
				return
			}
		}
	}
}

// ExpressionAt returns the expression of p at a field path; the zero Expr if there is none.
func (p *Policy) ExpressionAt(path string) Expr {
	for x := range p.Expressions() {
		if x.Field == path {
			return x.Expr
		}
	}
	return Expr{}
}
