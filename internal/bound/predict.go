package bound

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// A Guard charges the predicted size of a call with the given arguments.
type Guard func(m *Meter, args []ref.Val) error

// GuardOf returns the guard of a function; nil for one whose result and time are at most proportional to its arguments.
// An unknown overload is empty.
func GuardOf(function, overload string) Guard {
	if strings.HasPrefix(overload, "add_") && overload != overloads.AddString && overload != overloads.AddBytes {
		return nil
	}
	if overload == overloads.InMap || strings.HasPrefix(overload, "semver_") {
		return nil
	}
	switch function {
	case "quantity", "isQuantity":
		return chargeQuantity
	case "isGreaterThan", "isLessThan", "compareTo", "add", "sub", "isInteger", "asInteger", "asApproximateFloat",
		"sign":
		return chargeDigits
	case overloads.Matches, "find":
		return chargeMatch
	case "findAll":
		return chargeFindAll
	}
	predict, known := predictors[function]
	if !known {
		return nil
	}
	return func(m *Meter, args []ref.Val) error {
		size := predict(args, m.stepsLeft())
		if size == (Size{}) {
			return nil
		}
		return m.Charge(size)
	}
}

// stepsLeft is the limit up to which predictions need to count.
func (m *Meter) stepsLeft() int64 { return m.limits().Steps + 1 }

// A predictor predicts the size of a call: never much less than the real one, and not many times more. It counts at
// most most steps. Arguments of a wrong type have size zero: the call is an error.
type predictor func(args []ref.Val, most int64) Size

const (
	slot   = 16 // bytes of a ref.Val or a string in a list
	number = 8  // of an int behind one
)

// predictors are the predictors by the name of the function, because the overload may be known only when it is called.
// TestEveryFunction has the reasons why other functions need none.
var predictors = map[string]predictor{
	"semver":                    predictVersion,
	"isSemver":                  predictVersion,
	"url":                       predictReading,
	"isURL":                     predictReading,
	"ip":                        predictReading,
	"isIP":                      predictReading,
	"cidr":                      predictReading,
	"isCIDR":                    predictReading,
	"ip.isCanonical":            predictReading,
	"hash.fnv32a":               predictHash,
	"hash.sha256":               predictHash,
	operators.Add:               predictAdd,
	operators.Equals:            predictEqual,
	operators.NotEquals:         predictEqual,
	operators.In:                predictSearch,
	operators.OldIn:             predictSearch,
	"in":                        predictSearch,
	"includes":                  predictIncludes,
	"indexOf":                   predictIndex,
	"lastIndexOf":               predictIndex,
	"replace":                   predictReplace,
	"join":                      predictJoin,
	"format":                    predictFormat,
	"split":                     predictSplit,
	"lowerAscii":                predictRunes,
	"upperAscii":                predictRunes,
	"substring":                 predictRunes,
	"charAt":                    predictSpareRunes,
	"strings.quote":             predictQuote,
	"jsonpatch.escapeKey":       predictEscape,
	overloads.TypeConvertString: predictConvert,
	overloads.TypeConvertBytes:  predictConvert,
	"lists.range":               predictRange,
	"slice":                     predictSlice,
	"reverse":                   predictCopy,
	"sort":                      predictSort,
	"@sortByAssociatedKeys":     predictSort,
	"distinct":                  predictDistinct,
	"flatten":                   predictFlatten,
	"sum":                       predictWalk,
	"min":                       predictWalk,
	"max":                       predictWalk,
	"isSorted":                  predictWalk,
	"sets.contains":             predictPairs,
	"sets.intersects":           predictPairs,
	"sets.equivalent":           predictPairsTwice,
	"optional.unwrap":           predictCopy,
	"unwrapOpt":                 predictCopy,
	"cel.@mapInsert":            predictInsert,
}

func predictAdd(args []ref.Val, _ int64) Size {
	switch l := args[0].(type) {
	case types.String:
		if r, ok := args[1].(types.String); ok {
			return Size{Bytes: int64(len(l)) + int64(len(r))}
		}
	case types.Bytes:
		if r, ok := args[1].(types.Bytes); ok {
			return Size{Bytes: int64(len(l)) + int64(len(r))}
		}
	}
	return Size{} // a list of two lists holds both
}

// predictEqual counts the values compared in lockstep: those of the smaller side. If one side is not made by an
// expression, that is at most the size of the object.
func predictEqual(args []ref.Val, most int64) Size {
	if !IsMade(args[0]) || !IsMade(args[1]) || count(args[0]) != count(args[1]) {
		return Size{}
	}
	l, lt := Weight(args[0], most)
	r, rt := Weight(args[1], l)
	return Size{Steps: add(min(l, r), min(lt, rt)/128)}
}

// count returns the number of items of a list or map.
func count(v ref.Val) int64 {
	if sized, ok := v.(traits.Sizer); ok {
		n, _ := sized.Size().(types.Int)
		return int64(n)
	}
	return 1
}

// lister returns an argument as a list.
func lister(args []ref.Val, i int) (l traits.Lister, n int64) {
	if i >= len(args) {
		return nil, 0
	}
	l, ok := args[i].(traits.Lister)
	if !ok {
		return nil, 0
	}
	return l, count(l)
}

// deepWeight returns the weight of the items of a list if they may be lists themselves, else their number.
func deepWeight(l traits.Lister, n, most int64) int64 {
	if n == 0 {
		return 0
	}
	if first := l.Get(types.IntZero); !IsDeep(first) {
		return n
	}
	w, _ := Weight(l, most)
	return w
}

func predictSearch(args []ref.Val, most int64) Size {
	l, n := lister(args, len(args)-1)
	if l == nil {
		return Size{}
	}
	return predictFind(args[0], l, n, most)
}

func predictFind(wanted ref.Val, l traits.Lister, n, most int64) Size {
	if !IsDeep(wanted) {
		return Size{Steps: n}
	}
	return Size{Steps: deepWeight(l, n, most)}
}

func predictIncludes(args []ref.Val, most int64) Size {
	l, n := lister(args, 0)
	if l == nil {
		return Size{}
	}
	return predictFind(args[1], l, n, most)
}

func predictIndex(args []ref.Val, most int64) Size {
	switch s := args[0].(type) {
	case types.String:
		size := Size{Spare: 4 * int64(len(s))}
		if part, ok := args[1].(types.String); ok {
			size.Spare += 4 * int64(len(part))
			size.Steps = mul(int64(len(s)), int64(len(part))) / 16
		}
		return size
	case traits.Lister:
		return predictFind(args[1], s, count(s), most)
	}
	return Size{}
}

func text(args []ref.Val, i int) (string, bool) {
	if i >= len(args) {
		return "", false
	}
	s, ok := args[i].(types.String)
	return string(s), ok
}

func limit(args []ref.Val, i int) int64 {
	if i < len(args) {
		if n, ok := args[i].(types.Int); ok && n >= 0 {
			return int64(n)
		}
	}
	return math.MaxInt64
}

func predictReplace(args []ref.Val, _ int64) Size {
	s, ok := text(args, 0)
	from, ok1 := text(args, 1)
	to, ok2 := text(args, 2)
	if !ok || !ok1 || !ok2 {
		return Size{}
	}
	n := int64(len(s))
	if len(to) <= len(from) {
		return Size{Bytes: n, Steps: n / 16}
	}
	found := min(int64(strings.Count(s, from)), limit(args, 3))
	bytes := add(n, mul(found, int64(len(to)-len(from))))
	return Size{Bytes: bytes, Steps: bytes / 16}
}

func predictJoin(args []ref.Val, most int64) Size {
	l, n := lister(args, 0)
	if l == nil {
		return Size{}
	}
	if n > most {
		return Size{Steps: n}
	}
	separator, _ := text(args, 1)
	bytes := mul(int64(len(separator)), max(0, n-1))
	for it := l.Iterator(); it.HasNext() == types.True; {
		s, _ := it.Next().(types.String)
		bytes = add(bytes, int64(len(s)))
	}
	return Size{Bytes: bytes, Spare: bytes, Steps: add(mul(4, n), bytes/16)} // spare: a builder that grows
}

func predictFormat(args []ref.Val, most int64) Size {
	form, ok := text(args, 0)
	l, n := lister(args, 1)
	if !ok || l == nil {
		return Size{}
	}
	bytes, steps := int64(len(form)), int64(len(form))/16
	next := int64(0)
	for i := 0; i < len(form); i++ {
		if form[i] != '%' {
			continue
		}
		if i++; i < len(form) && form[i] == '%' {
			continue
		}
		precision := int64(0)
		if i < len(form) && form[i] == '.' {
			start := i + 1
			for i++; i < len(form) && form[i] >= '0' && form[i] <= '9'; i++ {
			}
			p, err := strconv.ParseInt(form[start:i], 10, 64)
			if err != nil {
				return Size{Bytes: bytes}
			}
			precision = p
		}
		if next >= n || i >= len(form) {
			break // an error
		}
		switch v := l.Get(types.Int(next)).(type) {
		case types.String:
			factor := int64(1)
			if form[i] == 'x' || form[i] == 'X' {
				factor = 2
			}
			bytes = add(bytes, mul(factor, int64(len(v))))
		case types.Bytes:
			bytes = add(bytes, 2*int64(len(v)))
		case types.Double, types.Int, types.Uint:
			bytes = add(bytes, numberBytes)
			switch form[i] {
			case 'f', 's', 'd':
				bytes = add(bytes, precision)
				if f, is := v.(types.Double); is {
					bytes = add(bytes, fractionBytes(float64(f)))
				}
			case 'e':
				bytes = add(bytes, precision)
			case 'b':
				bytes = add(bytes, 64)
			}
			steps = add(steps, precision/16)
		default:
			if !IsDeep(v) {
				bytes = add(bytes, scalarBytes)
				break
			}
			values, inside := TextWeight(v, most)
			bytes, steps = add(bytes, inside), add(steps, mul(values, 4))
		}
		next++
	}
	return Size{Bytes: bytes, Spare: bytes, Steps: steps}
}

func predictSplit(args []ref.Val, _ int64) Size {
	s, ok := text(args, 0)
	separator, ok1 := text(args, 1)
	if !ok || !ok1 {
		return Size{}
	}
	n := int64(strings.Count(s, separator)) + 1
	if separator == "" {
		n = int64(utf8.RuneCountInString(s))
	}
	n = min(n, limit(args, 2))
	return Size{Bytes: slot * n, Steps: n + int64(len(s))/16}
}

// predictVersion predicts a version, which is a list of the parts between its dots.
func predictVersion(args []ref.Val, _ int64) Size {
	s, _ := text(args, 0)
	if len(s) <= shortReading {
		return Size{}
	}
	n := int64(len(s))
	dots := int64(strings.Count(s, "."))
	return Size{Bytes: 40*dots + n, Spare: 200*dots + 2*n, Steps: 4*dots + n}
}

// predictReading predicts a value that is at most as long as its text, or an error that quotes it.
func predictReading(args []ref.Val, _ int64) Size {
	s, _ := text(args, 0)
	if len(s) <= shortReading {
		return Size{}
	}
	n := int64(len(s))
	return Size{Bytes: 2 * n, Spare: 14 * n, Steps: n}
}

// predictHash predicts a hash of a text or bytes, which is short.
func predictHash(args []ref.Val, _ int64) Size {
	n := int64(0)
	switch v := firstOf(args).(type) {
	case types.String:
		n = int64(len(v))
	case types.Bytes:
		n = int64(len(v))
	}
	if n <= shortReading {
		return Size{}
	}
	return Size{Spare: n, Steps: n / 2}
}

func firstOf(args []ref.Val) ref.Val {
	if len(args) == 0 {
		return nil
	}
	return args[0]
}

// shortReading is the length of a text whose derived values are all small.
const shortReading = 1024

func predictRunes(args []ref.Val, _ int64) Size {
	s, _ := text(args, 0)
	n := int64(len(s))
	if !utf8.ValidString(s) {
		n *= 3 // an invalid byte becomes a rune of three bytes
	}
	return Size{Bytes: n, Spare: 4 * int64(len(s)), Steps: int64(len(s)) / 4}
}

func predictSpareRunes(args []ref.Val, _ int64) Size {
	s, _ := text(args, 0)
	return Size{Spare: 4 * int64(len(s)), Steps: int64(len(s)) / 4}
}

func predictQuote(args []ref.Val, _ int64) Size {
	s, _ := text(args, 0)
	n := int64(len(s))
	return Size{Bytes: 2 + 3*n, Spare: 5 * n, Steps: n} // an invalid byte becomes three bytes
}

func predictEscape(args []ref.Val, _ int64) Size {
	s, _ := text(args, 0)
	n := int64(len(s))
	return Size{Bytes: n + int64(strings.Count(s, "~")+strings.Count(s, "/")), Steps: n / 16}
}

func predictConvert(args []ref.Val, _ int64) Size {
	switch v := args[0].(type) {
	case types.String:
		return Size{Bytes: int64(len(v))}
	case types.Bytes:
		return Size{Bytes: int64(len(v))}
	}
	return Size{}
}

func predictRange(args []ref.Val, _ int64) Size {
	n, ok := args[0].(types.Int)
	if !ok || n < 0 {
		return Size{}
	}
	return Size{Bytes: mul(slot+number, int64(n)), Steps: int64(n)}
}

func predictSlice(args []ref.Val, _ int64) Size {
	l, n := lister(args, 0)
	if l == nil || len(args) < 3 {
		return Size{}
	}
	from, ok := args[1].(types.Int)
	to, ok1 := args[2].(types.Int)
	if !ok || !ok1 || from < 0 || to < from || int64(to) > n {
		return Size{}
	}
	return Size{Bytes: slot * int64(to-from), Spare: slot * int64(to-from), Steps: int64(to - from)}
}

// predictCopy predicts functions that append the items of a list to a new one.
func predictCopy(args []ref.Val, _ int64) Size {
	_, n := lister(args, 0)
	return Size{Bytes: mul(slot, n), Spare: mul(slot, n), Steps: n}
}

func predictSort(args []ref.Val, _ int64) Size {
	_, n := lister(args, 0)
	return Size{Bytes: mul(slot, n), Spare: mul(3*slot, n), Steps: mul(n, int64(math.Log2(float64(n+1)))*4)}
}

func predictDistinct(args []ref.Val, most int64) Size {
	l, n := lister(args, 0)
	if l == nil {
		return Size{}
	}
	// Scalars are found in a map; other values are compared with each other.
	steps := n
	if n > 0 && IsDeep(l.Get(types.IntZero)) {
		steps = mul(n, deepWeight(l, n, most))
	}
	return Size{Bytes: mul(slot, n), Spare: mul(slot, n), Steps: steps}
}

func predictFlatten(args []ref.Val, most int64) Size {
	l, _ := lister(args, 0)
	if l == nil {
		return Size{}
	}
	depth := int64(1)
	if len(args) > 1 {
		n, ok := args[1].(types.Int)
		if !ok || n < 0 {
			return Size{}
		}
		depth = int64(n)
	}
	if values, _ := Weight(l, most); values >= most {
		return Size{Steps: values}
	}
	n, levels := leaves(l, depth, most)
	return Size{Bytes: mul(slot, n), Spare: mul(slot, n), Steps: mul(n, levels)}
}

// leaves counts the items of a list after flattening some levels, and those levels.
func leaves(l traits.Lister, depth, most int64) (n, levels int64) {
	for it := l.Iterator(); it.HasNext() == types.True && n <= most; {
		inner, ok := it.Next().(traits.Lister)
		if !ok || depth == 0 {
			n++
			continue
		}
		more, below := leaves(inner, depth-1, most-n)
		n, levels = n+more+1, max(levels, below)
	}
	return n, levels + 1
}

func predictWalk(args []ref.Val, _ int64) Size {
	_, n := lister(args, 0)
	return Size{Steps: n}
}

func predictPairs(args []ref.Val, most int64) Size {
	l, n := lister(args, 0)
	r, m := lister(args, 1)
	if l == nil || r == nil {
		return Size{}
	}
	return Size{Steps: max(mul(deepWeight(l, n, most), m), mul(deepWeight(r, m, most), n))}
}

func predictPairsTwice(args []ref.Val, most int64) Size {
	return Size{Steps: mul(2, predictPairs(args, most).Steps)}
}

// predictInsert predicts the macro transformMapEntry, which inserts a map in each iteration.
func predictInsert(args []ref.Val, _ int64) Size {
	if len(args) != 2 {
		return Size{}
	}
	n := count(args[1])
	return Size{Bytes: mul(4*slot, n), Steps: n}
}

// shortExponent is the largest exponent of a quantity that is not written out digit by digit for reading, comparing or
// adding it.
const shortExponent = 1000

// chargeQuantity charges reading a quantity. ParseQuantity of k8s.io/apimachinery v0.37.2 does not limit exponents.
func chargeQuantity(m *Meter, args []ref.Val) error {
	s, ok := text(args, 0)
	if !ok {
		return nil
	}
	digits := digitsOf(s)
	if digits <= shortExponent {
		return nil
	}
	if m == nil { // a constant is parsed when it is needed
		return &Error{Size: digitsSize(digits)}
	}
	m.digits = max(m.digits, digits)
	return m.Charge(digitsSize(digits))
}

// chargeDigits charges computing with quantities, by the longest one so far.
func chargeDigits(m *Meter, _ []ref.Val) error {
	if m == nil || m.digits == 0 {
		return nil
	}
	return m.Charge(digitsSize(m.digits))
}

// digitsSize is the size of an operation on two numbers, one of which is extended to this number of digits. The time is
// measured.
func digitsSize(digits int64) Size {
	return Size{Spare: 2 * digits, Steps: int64(math.Pow(float64(digits), 1.6) / 33)}
}

// digitsOf returns the number of digits of a text as a number without an exponent.
func digitsOf(s string) int64 {
	n := int64(len(s))
	if i := max(strings.LastIndexByte(s, 'e'), strings.LastIndexByte(s, 'E')); i >= 0 {
		exponent := strings.TrimLeft(s[i+1:], "+-")
		e, err := strconv.ParseInt(exponent, 10, 32)
		if err == nil {
			n += e
		} else if strings.Trim(exponent, "0123456789") == "" && exponent != "" {
			return n // beyond int32 it is not a quantity
		}
	}
	return n
}

// ChargeMade charges traversing a list, map or object that an expression has just made. Without this, thirty lists that
// each contain the previous one twice would be two to the thirtieth values for an operation that compares, writes or
// converts them.
func ChargeMade(m *Meter, v ref.Val) error {
	values, _ := Weight(v, m.stepsLeft())
	return m.Charge(Size{Steps: values})
}

// ChargeTree charges the JSON tree of a value in a patch; also of a given value, because the next mutation may repeat
// it with the result.
func ChargeTree(m *Meter, v ref.Val) error {
	if !IsDeep(v) {
		return nil
	}
	values, _ := Weight(v, m.stepsLeft())
	return m.Charge(Size{Bytes: mul(values, 3*slot), Steps: values})
}

// manyGiven is the number of values from the object that a list may hold without being weighed; each may be the whole
// object.
const manyGiven = 1000

// IsHeavy reports whether the items of a list or map must be charged when it is made: made by an expression, or very
// many.
func IsHeavy(items []ref.Val) bool {
	for _, item := range items {
		if IsMade(item) {
			return true
		}
	}
	return len(items) > manyGiven && IsDeep(items[0])
}
