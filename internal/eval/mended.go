package eval

import (
	"context"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/api/resource"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/internal/quirks"
)

// A quirk of the language is met where an expression comes to something else than it would without the quirk. So
// expressions that may meet one are evaluated both ways, on the same variables.

// mended is what is known of the expressions of one budget.
type mended struct {
	saved      map[quirks.ID]int64           // what they would have cost less without a quirk
	quantities map[*resource.Quantity]string // those that expressions came to, as they were then
}

// An outcome is what an expression came to.
type outcome struct {
	value ref.Val
	cost  int64
	err   error
}

// compare evaluates an expression and tells the witness which quirks it meets.
func (a *activation) compare(ctx context.Context, e *compile.Expression) (ref.Val, int64, error) {
	others := make([]outcome, len(e.Mended)) // before its own: that may change quantities that variables hold
	for i, m := range e.Mended {
		others[i] = a.try(ctx, m.Expression)
	}
	var own outcome
	own.value, own.cost, own.err = runAlone(ctx, e, a)
	for i, m := range e.Mended {
		if differ(own, others[i]) {
			a.Witness.NoteQuirk(m.Quirk)
		}
		if q := quantityOf(own.value); q != nil && m.Quirk == quirks.QuantityAliased {
			if a.mended.quantities == nil {
				a.mended.quantities = map[*resource.Quantity]string{}
			}
			a.mended.quantities[q] = digits(q)
		}
		if cost := others[i].cost; own.cost != cost && own.cost >= 0 && cost >= 0 {
			if a.mended.saved == nil {
				a.mended.saved = map[quirks.ID]int64{}
			}
			a.mended.saved[m.Quirk] += own.cost - cost
		}
	}
	return own.value, own.cost, own.err
}

// try evaluates an expression and leaves everything as it was.
func (a *activation) try(ctx context.Context, e *compile.Expression) (o outcome) {
	if e.Err != nil {
		return outcome{err: e.Err}
	}
	saved := *a
	a.variables.values = append([]ref.Val(nil), saved.variables.values...)
	a.Witness = nil
	a.Meter.DoExempt(a.Meter.Mark(), func() { o.value, o.cost, o.err = runAlone(ctx, e, a) })
	*a = saved
	return o
}

// meetRefused tells the witness which quirks keep an expression from being compiled.
func (a *activation) meetRefused(e *compile.Expression) {
	for _, m := range e.Mended {
		if m.Err == nil && a.Witness != nil {
			a.Witness.NoteQuirk(m.Quirk)
		}
	}
}

// isOverdrawn reports that a budget is spent, and tells the witness which quirks make the difference. It is short, so
// that it is no call where there are none.
func (a *activation) isOverdrawn(left int64) bool {
	if a.mended.saved != nil {
		a.meetSpent(left)
	}
	return left < 0
}

// meetSpent tells the witness which quirks decide whether a budget is spent.
func (a *activation) meetSpent(left int64) {
	for id, saved := range a.mended.saved {
		if (left < 0) != (left+saved < 0) {
			a.Witness.NoteQuirk(id)
		}
	}
}

// differ reports that two evaluations are not answered alike. What is not comparable is taken to be equal.
func differ(a, b outcome) bool {
	if a.err != nil || b.err != nil {
		return a.err == nil || b.err == nil || a.err.Error() != b.err.Error()
	}
	if x, ok := a.value.(types.Double); ok && x != x { // not a number
		y, ok := b.value.(types.Double)
		return !ok || y == y
	}
	return a.value.Equal(b.value) == types.False
}

// meetAliased tells the witness of a variable that is used again and is another quantity than it was.
func (a *activation) meetAliased(v ref.Val) {
	if a.mended.quantities == nil || a.Witness == nil {
		return
	}
	if q := quantityOf(v); q != nil && a.mended.quantities[q] != digits(q) {
		a.Witness.NoteQuirk(quirks.QuantityAliased)
	}
}

func quantityOf(v ref.Val) *resource.Quantity {
	switch v := v.(type) {
	case apiservercel.Quantity:
		return v.Quantity
	case *apiservercel.Quantity:
		return v.Quantity
	}
	return nil
}

// digits are those of a quantity, which stays as it is.
func digits(q *resource.Quantity) string {
	copied := q.DeepCopy()
	return copied.AsDec().String()
}

// holdsBigInteger reports that a value holds an integer which the JSON form of CEL makes a text, as the tree of this
// form may show.
func holdsBigInteger(v ref.Val, tree any) bool {
	const most = 1<<53 - 1
	switch tree := tree.(type) {
	case string:
		switch n := v.(type) {
		case types.Int:
			return n > most || n < -most
		case types.Uint:
			return n > most
		}
	case []any:
		list, ok := v.(traits.Lister)
		if !ok {
			return false
		}
		for i, item := range tree {
			if holdsBigInteger(list.Get(types.Int(i)), item) {
				return true
			}
		}
	case map[string]any:
		m, ok := v.(traits.Mapper) // no Object literal, whose integers become numbers
		if !ok {
			return false
		}
		for name, member := range tree {
			if of, found := m.Find(types.String(name)); found && holdsBigInteger(of, member) {
				return true
			}
		}
	}
	return false
}
