package eval

import (
	"context"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/api/resource"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/mutation"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"

	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/internal/quirks"
)

// An expression meets a quirk of the language if its result without the quirk would differ. Expressions that may meet
// one are therefore evaluated both ways, on the same variables.

// mended accumulates the effects of quirks for the expressions of one budget.
type mended struct {
	saved      map[quirks.ID]int64           // the cost that would have been saved without each quirk
	quantities map[*resource.Quantity]string // resulting quantities of expressions, with their values at that time
}

// An outcome is the result of an expression.
type outcome struct {
	value ref.Val
	cost  int64
	err   error
}

// compare evaluates an expression, and reports the quirks that it meets to the witness.
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

// try evaluates an expression without side effects on the activation.
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

// meetRefused reports the quirks that prevent an expression from being compiled.
func (a *activation) meetRefused(e *compile.Expression) {
	for _, m := range e.Mended {
		if m.Err == nil && a.Witness != nil {
			a.Witness.NoteQuirk(m.Quirk)
		}
	}
}

// isOverdrawn reports whether a budget is exceeded, and tells the witness of the quirks responsible. It is short enough
// to be inlined.
func (a *activation) isOverdrawn(left int64) bool {
	if a.mended.saved != nil {
		a.meetSpent(left)
	}
	return left < 0
}

// meetSpent reports the quirks that decide whether a budget is exceeded.
func (a *activation) meetSpent(left int64) {
	for id, saved := range a.mended.saved {
		if (left < 0) != (left+saved < 0) {
			a.Witness.NoteQuirk(id)
		}
	}
}

// differ reports whether two evaluations have different answers. Incomparable values count as equal.
func differ(a, b outcome) bool {
	if a.err != nil || b.err != nil {
		return a.err == nil || b.err == nil || a.err.Error() != b.err.Error()
	}
	if x, ok := a.value.(types.Double); ok && x != x { // NaN
		y, ok := b.value.(types.Double)
		return !ok || y == y
	}
	return !isSame(a.value, b.value)
}

// isSame reports whether two values of different environments are equal. Objects and JSON patches are compared by their
// content: their own Equal also compares the environments, while other goroutines may be compiling in those.
func isSame(a, b ref.Val) bool {
	switch a := a.(type) {
	case *dynamic.ObjectVal:
		x, err := a.ConvertToNative(reflect.TypeFor[map[string]any]())
		if b, ok := b.(*dynamic.ObjectVal); ok && err == nil {
			y, err := b.ConvertToNative(reflect.TypeFor[map[string]any]())
			return err == nil && reflect.DeepEqual(x, y)
		}
		return err != nil // incomparable
	case *mutation.JSONPatchVal:
		b, ok := b.(*mutation.JSONPatchVal)
		if !ok || a.Op != b.Op || a.Path != b.Path || a.From != b.From || (a.Val == nil) != (b.Val == nil) {
			return false
		}
		return a.Val == nil || isSame(a.Val, b.Val)
	case traits.Lister:
		if b, ok := b.(traits.Lister); ok && isPatch(a) && a.Size().Equal(b.Size()) == types.True {
			for i, j := a.Iterator(), b.Iterator(); i.HasNext() == types.True; {
				if !isSame(i.Next(), j.Next()) {
					return false
				}
			}
			return true
		}
	}
	return a.Equal(b) != types.False
}

// isPatch reports whether a list holds operations of a JSON patch.
func isPatch(list traits.Lister) bool {
	i := list.Iterator()
	if i.HasNext() != types.True {
		return false
	}
	_, ok := i.Next().(*mutation.JSONPatchVal)
	return ok
}

// meetAliased reports a variable whose quantity has changed since its last use.
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

// digits returns the text of a quantity without caching it there.
func digits(q *resource.Quantity) string {
	copied := q.DeepCopy()
	return copied.AsDec().String()
}

// holdsBigInteger reports whether a value contains an integer that CEL's JSON form writes as a string, as the tree in
// this form may show.
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
		m, ok := v.(traits.Mapper) // not an Object literal, whose integers stay numbers
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
