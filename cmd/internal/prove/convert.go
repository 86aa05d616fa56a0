package prove

import (
	"math"
	"math/big"
	"strconv"

	"github.com/celgate/celgate/internal/solve"
	"github.com/google/cel-go/common/operators"
)

// ofDigits are the functions that digitsLeaf has a rule for.
var ofDigits = []string{operators.Equals, operators.NotEquals, operators.In, operators.OldIn, "int", "string", "dyn"}

func isDigits(l leaf) bool {
	_, ok := l.(digitsLeaf)
	return ok
}

// toText is string().
func (f *frame) toText(l leaf) *value {
	switch x := l.(type) {
	case textLeaf, digitsLeaf:
		return newLeaf(x)
	case intLeaf:
		if x.isConst() {
			return newLeaf(textOf(strconv.FormatInt(x.more, 10)))
		}
		return newLeaf(digitsLeaf{x})
	case boolLeaf:
		return f.choose(x.truth, newLeaf(textOf("true")), newLeaf(textOf("false")))
	}
	return f.opaqueOf("string", l)
}

// toInt is int().
func (f *frame) toInt(l leaf) *value {
	switch x := l.(type) {
	case intLeaf, parsedLeaf, quotientLeaf, lengthLeaf:
		return newLeaf(x)
	case digitsLeaf:
		return newLeaf(x.of)
	case textLeaf:
		if x.isConst() {
			n, err := strconv.ParseInt(x.before, 10, 64)
			if err != nil {
				return failure()
			}
			return newLeaf(numberOf(n))
		}
		below := new(big.Int).Sub(big.NewInt(math.MinInt64), big.NewInt(1))
		is := f.store.Conjoin(f.isIn(x, f.store.Numerals(big.NewInt(math.MaxInt64))),
			f.isIn(x, f.store.Numerals(below)).Negate())
		return f.choose(is, newLeaf(parsedLeaf{x}), failure())
	}
	return f.opaqueOf("int", l)
}

// equalDigits compares the numeral of a number; nil if that cannot be expressed.
func (f *frame) equalDigits(x digitsLeaf, other leaf) *value {
	switch y := other.(type) {
	case digitsLeaf:
		return f.equality(x.of, y.of)
	case textLeaf:
		if !y.isConst() {
			return nil
		}
		n, err := strconv.ParseInt(y.before, 10, 64)
		if err != nil || strconv.FormatInt(n, 10) != y.before {
			return newBool(solve.False)
		}
		return f.equality(x.of, numberOf(n))
	case boolLeaf, intLeaf, doubleLeaf, lengthLeaf, parsedLeaf, quotientLeaf:
		return newBool(solve.False)
	}
	return nil
}

// divide is / and %, by constants.
func (f *frame) divide(name string, l []leaf) *value {
	a, isInt := l[0].(intLeaf)
	b, ok := l[1].(intLeaf)
	switch {
	case !isInt || !ok || !b.isConst():
		if class := classOf(l[0]); class == "" || class == "text" || class == "list" || class != classOf(l[1]) {
			return failure()
		}
		return f.opaqueOf(name, l...)
	case b.more == 0:
		return failure()
	case a.isConst() && a.more == math.MinInt64 && b.more == -1:
		return failure()
	case a.isConst() && name == operators.Divide:
		return newLeaf(numberOf(a.more / b.more))
	case a.isConst():
		return newLeaf(numberOf(a.more % b.more))
	case name == operators.Divide && b.more == 1:
		return newLeaf(a)
	case name == operators.Divide && b.more > 0:
		return newLeaf(quotientLeaf{a, b.more})
	}
	return f.opaqueOf(name, l...)
}

// sort returns a list with the same items in an unknown order; nil if they may have different types.
func (f *frame) sort(l leaf) *value {
	from, ok := l.(*list)
	if !ok {
		return nil
	}
	class := ""
	for _, it := range from.items {
		for _, p := range it.value.parts() {
			here := classOf(p.leaf)
			if here != "text" && here != "int" || class != "" && here != class {
				return nil
			}
			class = here
		}
	}
	return newLeaf(&list{items: from.items, sources: from.sources, unordered: true})
}
