package prove

import (
	"fmt"
	"math"
	"math/big"
	"strings"

	"github.com/celgate/celgate/internal/solve"
	"github.com/google/cel-go/common/operators"
	"gopkg.in/inf.v0"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Quantities are rational numbers, and an order of rationals with differences is decided by integers: if all constants
// are multiples of n, a system of n-1 comparisons that rationals satisfy, some of them strict, is satisfied by integers
// too. So an integer counts 64ths of a thousandth, and constants are whole thousandths.
const (
	quantityParts = 64
	quantityUnit  = 1000 * quantityParts // the number 1
)

// A quantityLeaf is x + more, in parts; x is zero for a constant.
type quantityLeaf struct {
	x     solve.Int
	more  int64
	isSum bool // a result of add or sub, which == does not accept on its right side
}

// quantityPattern matches the texts that ParseQuantity of k8s.io/apimachinery/pkg/api/resource reads: its number may
// lack digits where it takes the fast path (quantity.go v0.37.2; TestQuantityPattern compares both). Some texts that
// oddQuantity matches are read as well: the exponent of the others, cut to 32 bits, is too small.
var quantityPattern = func() string {
	digits := `([0-9]+\.?[0-9]*|\.[0-9]+)`
	exponent := `[eE](\+?0*` + upTo(math.MaxInt64) + `|-0*` + upTo(math.MaxInt64) + `|-0*9223372036854775808)`
	full := digits + `([numkMGTPE]|[KMGTPE]i|` + exponent + `)?`
	short := `\.|\.?([numkMGTPE]|[KMGT]i|[eE](\+?0*[0-9]{1,9}|-0*[0-9]))`
	return `\A([+-]|[+-]?(` + full + `|` + short + `))\z`
}()

// encodedQuantity matches the quantities that Go writes.
const encodedQuantity = `\A-?[0-9]+(\.[0-9]+)?([numkMGTPE]|[KMGTPE]i|e-?[0-9]+)?\z`

const oddQuantity = `\A[+-]?\.?[eE][+-]?[0-9]*[1-9][0-9]{9,}\z`

// upTo returns a pattern of the numerals of at most n, without a sign and leading zeros.
func upTo(n int64) string {
	text := fmt.Sprint(n)
	all := []string{fmt.Sprintf("[0-9]{1,%d}", len(text)-1), text}
	for i, d := range text {
		if d > '0' {
			all = append(all, fmt.Sprintf("%s[0-%c][0-9]{%d}", text[:i], d-1, len(text)-i-1))
		}
	}
	return "(" + strings.Join(all, "|") + ")"
}

// A quantity is the number that a text is the quantity of.
type quantity struct {
	of         textLeaf
	valid      solve.Formula
	num        solve.Int
	isCompared bool // not only asked whether it is one
}

// quantityOf is quantity().
func (f *frame) quantityOf(l leaf) *value {
	t, isText := l.(textLeaf)
	switch {
	case !isText:
		return failure()
	case t.isConst():
		q, err := resource.ParseQuantity(t.before)
		if err != nil {
			return failure()
		}
		n, ok := partsOf(q)
		if !ok {
			return f.opaqueOf("quantity", l)
		}
		return newLeaf(quantityLeaf{more: n})
	}
	q := f.quantity(t)
	q.isCompared = true
	return f.choose(q.valid, newLeaf(quantityLeaf{x: q.num}), failure())
}

// isQuantity is isQuantity().
func (f *frame) isQuantity(l leaf) *value {
	t, ok := l.(textLeaf)
	switch {
	case !ok:
		return failure()
	case t.isConst():
		_, err := resource.ParseQuantity(t.before)
		return newBool(formulaOf(err == nil))
	}
	return newBool(f.quantity(t).valid)
}

// quantity returns the number of a text.
func (f *frame) quantity(t textLeaf) *quantity {
	q := f.quantities[t]
	if q == nil {
		s := f.store
		valid := s.Disjoin(f.isMatch(t, quantityPattern), s.Conjoin(f.isMatch(t, oddQuantity), s.NewBool()))
		q = &quantity{of: t, valid: valid, num: s.NewInt(math.MinInt64, math.MaxInt64, quantityUnit)}
		f.quantities[t] = q
	}
	return q
}

// isMatch returns the condition that a text matches a constant pattern.
func (m *machine) isMatch(t textLeaf, pattern string) solve.Formula {
	lang, err := m.store.Matching(pattern)
	if err != nil {
		panic(err)
	}
	return m.isIn(t, lang)
}

// partsOf returns a quantity in parts; not ok: it is not whole thousandths, or too large.
func partsOf(q resource.Quantity) (int64, bool) {
	amount := new(inf.Dec).Set(q.AsDec())
	if amount.Scale() < -20 || amount.Scale() > 40 {
		return 0, false
	}
	thousandths := new(inf.Dec).Mul(amount, inf.NewDec(1000, 0))
	whole := new(inf.Dec).Round(thousandths, 0, inf.RoundDown)
	if whole.Cmp(thousandths) != 0 {
		return 0, false
	}
	n := new(big.Int).Mul(whole.UnscaledBig(), big.NewInt(quantityParts))
	return n.Int64(), n.IsInt64() && n.CmpAbs(big.NewInt(mostParts)) <= 0
}

// mostParts bounds a constant. Twice as much bounds the sum of all comparisons, so that the variables that satisfy them
// fit an int64.
const mostParts = 1 << 61

// quantityText returns a text of a quantity.
func quantityText(parts int64) string {
	billionths := new(big.Int).Mul(big.NewInt(parts), big.NewInt(1e9/quantityUnit))
	amount := inf.NewDecBig(billionths, 9)
	text := strings.TrimRight(amount.String(), "0")
	return strings.TrimSuffix(text, ".")
}

// isUpToQuantity returns the condition a - b <= c, where c is 0 or -1; not ok: the numbers are too large.
func (f *frame) isUpToQuantity(a, b quantityLeaf, c int64) (solve.Formula, bool) {
	bound := new(big.Int).Sub(big.NewInt(b.more), big.NewInt(a.more))
	bound.Add(bound, big.NewInt(c))
	if a.x == b.x {
		return formulaOf(bound.Sign() >= 0), true
	}
	if !bound.IsInt64() || bound.CmpAbs(big.NewInt(mostParts)) > 0 {
		return 0, false
	}
	if edge := [3]int64{int64(a.x), int64(b.x), bound.Int64()}; !f.compared[edge] {
		f.compared[edge] = true
		f.distance.Add(&f.distance, new(big.Int).Abs(bound))
	}
	if f.distance.Cmp(big.NewInt(2*mostParts)) > 0 || len(f.quantities) >= quantityParts-1 {
		return 0, false
	}
	return f.store.Difference(a.x, b.x, bound.Int64()), true
}

// applyQuantities evaluates a function of the quantity library, or == of quantities; nil if there is no rule.
func (f *frame) applyQuantities(name string, l []leaf) *value {
	a, ok := l[0].(quantityLeaf)
	if !ok {
		return nil
	}
	b := quantityLeaf{}
	if len(l) == 2 {
		switch y := l[1].(type) {
		case quantityLeaf:
			b = y
		case intLeaf:
			if n := new(big.Int).Mul(big.NewInt(y.more), big.NewInt(quantityUnit)); y.isConst() && n.IsInt64() &&
				(name == "add" || name == "sub") {
				b = quantityLeaf{more: n.Int64()}
				break
			}
			return nil
		default:
			return nil
		}
	}
	switch name {
	case "add", "sub":
		return f.addQuantities(name, a, b)
	case "compareTo", "sign", "isLessThan", "isGreaterThan":
	case operators.Equals, operators.NotEquals:
		if b.isSum {
			return nil
		}
	default:
		return nil
	}
	notAbove, ok := f.isUpToQuantity(a, b, 0)
	below, known := f.isUpToQuantity(a, b, -1)
	if !ok || !known {
		return nil
	}
	equal := f.store.Conjoin(notAbove, below.Negate())
	switch name {
	case "isLessThan":
		return newBool(below)
	case "isGreaterThan":
		return newBool(notAbove.Negate())
	case operators.Equals:
		return newBool(equal)
	case operators.NotEquals:
		return newBool(equal.Negate())
	}
	g := f.newMerger()
	g.addLeaf(below, numberOf(-1))
	g.addLeaf(equal, numberOf(0))
	g.addLeaf(notAbove.Negate(), numberOf(1))
	return g.value()
}

// addQuantities is add and sub, of which one operand is a constant; nil for others.
func (f *frame) addQuantities(name string, a, b quantityLeaf) *value {
	if name == "sub" {
		if b.x != 0 {
			return nil
		}
		b.more = -b.more
	}
	if b.x != 0 {
		a, b = b, a
	}
	more := new(big.Int).Add(big.NewInt(a.more), big.NewInt(b.more))
	if b.x != 0 || more.CmpAbs(big.NewInt(mostParts)) > 0 {
		return nil
	}
	return newLeaf(quantityLeaf{x: a.x, more: more.Int64(), isSum: true})
}
