package prove

import (
	"math"
	"math/big"
	"unicode/utf8"

	"github.com/celgate/celgate/internal/solve"
	"github.com/google/cel-go/common/operators"
)

// order is <, <=, > and >=.
func (f *frame) order(name string, a, b leaf) *value {
	if name == operators.Greater || name == operators.GreaterEquals {
		a, b = b, a
	}
	strict := name == operators.Less || name == operators.Greater
	if is := f.compareInts(a, b); is != nil {
		if strict {
			return newBool(is(-1))
		}
		return newBool(is(0))
	}
	if x, ok := a.(textLeaf); ok {
		if y, ok := b.(textLeaf); ok {
			if x.isConst() && y.isConst() {
				return newBool(formulaOf(x.before < y.before || !strict && x.before == y.before))
			}
			return f.opaqueOf(name, a, b)
		}
	}
	if isNumber(a) && isNumber(b) || sameKind(a, b) {
		return f.opaqueOf(name, a, b)
	}
	return failure()
}

func isNumber(l leaf) bool {
	switch l.(type) {
	case intLeaf, doubleLeaf, lengthLeaf, parsedLeaf, quotientLeaf:
		return true
	}
	return false
}

func sameKind(a, b leaf) bool {
	_, x := a.(boolLeaf)
	_, y := b.(boolLeaf)
	return x && y
}

// compareInts returns a function for a - b <= c, where c is 0 or -1; nil if it cannot be expressed.
func (f *frame) compareInts(a, b leaf) func(c int64) solve.Formula {
	switch x := a.(type) {
	case lengthLeaf, parsedLeaf, quotientLeaf:
		if y, ok := b.(doubleLeaf); ok {
			if n, ok := wholeOf(float64(y)); ok {
				b = numberOf(n)
			}
		}
		if y, ok := b.(intLeaf); ok && y.isConst() {
			return func(c int64) solve.Formula {
				return f.isAtMost(x, new(big.Int).Add(big.NewInt(y.more), big.NewInt(c)))
			}
		}
	case intLeaf:
		switch y := b.(type) {
		case lengthLeaf, parsedLeaf, quotientLeaf: // x - y <= c: not y <= x - c - 1
			if x.isConst() {
				return func(c int64) solve.Formula {
					return f.isAtMost(y, new(big.Int).Sub(big.NewInt(x.more), big.NewInt(c+1))).Negate()
				}
			}
		case intLeaf:
			return f.compareLinear(x, y)
		case doubleLeaf:
			if n, ok := wholeOf(float64(y)); ok {
				return f.compareLinear(x, numberOf(n))
			}
		}
	case doubleLeaf:
		if n, ok := wholeOf(float64(x)); ok {
			return f.compareInts(numberOf(n), b)
		}
	}
	return nil
}

// wholeOf returns a double that is a small whole number as an int64.
func wholeOf(d float64) (int64, bool) {
	if d != math.Trunc(d) || math.Abs(d) > 1<<52 {
		return 0, false
	}
	return int64(d), true
}

// isAtMost returns the condition that a number made of another value is at most n.
func (f *frame) isAtMost(l leaf, n *big.Int) solve.Formula {
	switch l := l.(type) {
	case parsedLeaf:
		return f.isIn(l.of, f.store.Numerals(n))
	case quotientLeaf:
		by := big.NewInt(l.by)
		most := new(big.Int).Mul(n, by) // of / by <= n: of < (n + 1) * by, and of <= n * by below zero
		if n.Sign() >= 0 {
			most.Add(most, by).Sub(most, big.NewInt(1))
		}
		return f.linear(l.of, most, 0)
	case lengthLeaf:
		switch {
		case n.Sign() < 0:
			return solve.False
		case !n.IsInt64():
			return solve.True
		}
		return f.isUpTo(l.of, n.Int64())
	}
	return solve.False
}

func (f *frame) isUpTo(t textLeaf, n int64) solve.Formula {
	n -= int64(utf8.RuneCountInString(t.before) + utf8.RuneCountInString(t.after))
	switch {
	case n < 0:
		return solve.False
	case n > longest:
		n = longest
	}
	return f.store.Member(t.x, f.store.UpTo(int(n)))
}

// longest is the length up to which lengths of texts are distinguished: the size limit of objects excludes longer
// texts.
const longest = 3 << 20

func (f *frame) compareLinear(x, y intLeaf) func(c int64) solve.Formula {
	switch {
	case x.isConst() && y.isConst():
		return func(c int64) solve.Formula { return formulaOf(x.more <= y.more && (c == 0 || x.more < y.more)) }
	case y.isConst(): // factor*x + more <= y + c
		return func(c int64) solve.Formula { return f.linear(x, big.NewInt(y.more), c) }
	case x.isConst(): // x <= y + c: not y <= x - c - 1
		return func(c int64) solve.Formula { return f.linear(y, big.NewInt(x.more), -c-1).Negate() }
	case x.factor == 1 && y.factor == 1:
		return func(c int64) solve.Formula { // x - y <= y.more - x.more + c
			bound := new(big.Int).Sub(big.NewInt(y.more), big.NewInt(x.more))
			bound.Add(bound, big.NewInt(c))
			if !bound.IsInt64() {
				return formulaOf(bound.Sign() > 0)
			}
			return f.store.Difference(x.x, y.x, bound.Int64())
		}
	}
	return nil
}

// linear returns factor*x + more <= bound + c.
func (f *frame) linear(l intLeaf, bound *big.Int, c int64) solve.Formula {
	right := new(big.Int).Add(bound, big.NewInt(c))
	right.Sub(right, big.NewInt(l.more))
	factor := big.NewInt(l.factor)
	quotient, rest := new(big.Int).QuoRem(right, factor, new(big.Int)) // towards zero
	inexact := rest.Sign() != 0
	if l.factor > 0 { // x <= floor
		if inexact && right.Sign() < 0 {
			quotient.Sub(quotient, big.NewInt(1))
		}
		return f.boundAbove(l.x, quotient)
	}
	if inexact && right.Sign() < 0 { // x >= ceiling; both are negative: the quotient is positive and below
		quotient.Add(quotient, big.NewInt(1))
	}
	return f.boundAbove(l.x, quotient.Sub(quotient, big.NewInt(1))).Negate()
}

func (f *frame) boundAbove(x solve.Int, n *big.Int) solve.Formula {
	if !n.IsInt64() {
		return formulaOf(n.Sign() > 0)
	}
	return f.store.Difference(x, 0, n.Int64())
}

// calculate is +, -, * and the sign; + also joins texts and lists.
func (f *frame) calculate(name string, l []leaf) *value {
	if len(l) == 1 {
		n, ok := l[0].(intLeaf)
		switch {
		case !ok && isNumber(l[0]):
			return f.opaqueOf(name, l...)
		case !ok:
			return failure()
		}
		return f.product(n, -1, name, l)
	}
	if class := classOf(l[0]); class == "" || class != classOf(l[1]) {
		return failure()
	}
	switch a := l[0].(type) {
	case intLeaf:
		if b, ok := l[1].(intLeaf); ok {
			return f.arithmetic(name, a, b, l)
		}
	case textLeaf:
		b, ok := l[1].(textLeaf)
		if !ok || name != operators.Add {
			break
		}
		switch {
		case b.isConst() && a.isConst():
			return newLeaf(textOf(a.before + b.before))
		case b.isConst():
			a.after += b.before
			return newLeaf(a)
		case a.isConst():
			b.before = a.before + b.before
			return newLeaf(b)
		}
		return f.join(a, b)
	case *list:
		b, ok := l[1].(*list)
		if !ok || name != operators.Add {
			break
		}
		out := &list{items: append(append([]*item{}, a.items...), b.items...), unordered: a.unordered || b.unordered}
		for _, part := range []*list{a, b} {
			for _, n := range part.sources {
				out.sources = addNode(out.sources, n)
			}
		}
		return newLeaf(out)
	}
	return f.opaqueOf(name, l...)
}

// classOf returns the type class of operands: numbers of different types cannot be added.
func classOf(l leaf) string {
	switch l.(type) {
	case intLeaf, lengthLeaf, parsedLeaf, quotientLeaf:
		return "int"
	case doubleLeaf:
		return "double"
	case textLeaf:
		return "text"
	case *list:
		return "list"
	}
	return ""
}

func (f *frame) arithmetic(name string, a, b intLeaf, l []leaf) *value {
	switch {
	case name == operators.Multiply && b.isConst():
		return f.product(a, b.more, name, l)
	case name == operators.Multiply && a.isConst():
		return f.product(b, a.more, name, l)
	case name == operators.Add && b.isConst():
		return f.sum(a, 1, big.NewInt(b.more), name, l)
	case name == operators.Add && a.isConst():
		return f.sum(b, 1, big.NewInt(a.more), name, l)
	case name == operators.Subtract && b.isConst():
		return f.sum(a, 1, new(big.Int).Neg(big.NewInt(b.more)), name, l)
	case name == operators.Subtract && a.isConst():
		return f.sum(b, -1, big.NewInt(a.more), name, l)
	}
	return f.opaqueOf(name, l...)
}

func (f *frame) product(a intLeaf, by int64, name string, l []leaf) *value {
	if by == 0 {
		return newLeaf(numberOf(0))
	}
	factor := new(big.Int).Mul(big.NewInt(a.factor), big.NewInt(by))
	more := new(big.Int).Mul(big.NewInt(a.more), big.NewInt(by))
	return f.checkRange(a.x, factor, more, name, l)
}

func (f *frame) sum(a intLeaf, sign int64, more *big.Int, name string, l []leaf) *value {
	factor := new(big.Int).Mul(big.NewInt(a.factor), big.NewInt(sign))
	total := new(big.Int).Mul(big.NewInt(a.more), big.NewInt(sign))
	return f.checkRange(a.x, factor, total.Add(total, more), name, l)
}

// checkRange returns factor*x + more, and an error if it does not fit int64.
func (f *frame) checkRange(x solve.Int, factor, more *big.Int, name string, l []leaf) *value {
	if x == 0 {
		if !more.IsInt64() {
			return failure()
		}
		return newLeaf(numberOf(more.Int64()))
	}
	if !factor.IsInt64() || !more.IsInt64() {
		return f.opaqueOf(name, l...)
	}
	out := intLeaf{x, factor.Int64(), more.Int64()}
	most, least := big.NewInt(math.MaxInt64), big.NewInt(math.MinInt64)
	fits := f.store.Conjoin(f.linear(out, most, 0), f.linear(out, least, -1).Negate())
	return f.choose(fits, newLeaf(out), failure())
}
