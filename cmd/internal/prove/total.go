package prove

import (
	"slices"
	"strings"

	"github.com/celgate/celgate/internal/solve"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// totals are functions that are never an error if their arguments have these kinds: t a string, l a list, m a map and
// s a list of strings.
var totals = map[string][]string{
	"split": {"tt"}, "trim": {"t"}, "lowerAscii": {"t"}, "upperAscii": {"t"}, "replace": {"ttt"},
	"startsWith": {"tt"}, "endsWith": {"tt"}, "contains": {"tt"}, "indexOf": {"tt"}, "lastIndexOf": {"tt"},
	"size": {"t", "l", "m"}, "join": {"s", "st"}, "isIP": {"t"}, "isCIDR": {"t"}, "isURL": {"t"},
	operators.Add: {"ll", "tt"}, operators.Less: {"tt"}, operators.LessEquals: {"tt"}, operators.Greater: {"tt"},
	operators.GreaterEquals: {"tt"}, "==": {"tt"}, operators.Equals: {"tt"}, operators.NotEquals: {"tt"},
	"sets.contains": {"ll"}, "sets.intersects": {"ll"}, "sets.equivalent": {"ll"},
	operators.In: {"ts", "tm"}, "in": {"st", "mt"}, // the machine's own name of in has the list first
}

// isTotal reports whether a function of values, none of which is an error, is never an error.
func isTotal(function string, args []*value) bool {
	kinds := make([]string, len(args))
	for i, v := range args {
		kinds[i] = kindsOf(v)
	}
	return slices.ContainsFunc(totals[function], func(pattern string) bool {
		return fits(pattern, kinds)
	})
}

func fits(pattern string, kinds []string) bool {
	if len(pattern) != len(kinds) {
		return false
	}
	for i, has := range kinds {
		if !strings.Contains(has, pattern[i:i+1]) {
			return false
		}
	}
	return true
}

// kindsOf returns the kinds that a value has in each of its alternatives; empty: none, or it may be an error.
func kindsOf(v *value) string {
	if v.err != solve.False || v.isBool != solve.False {
		return ""
	}
	kinds := "tlms"
	for _, a := range v.alts {
		has := kindsOfLeaf(a.leaf)
		kinds = strings.Map(func(k rune) rune {
			if strings.ContainsRune(has, k) {
				return k
			}
			return -1
		}, kinds)
	}
	return kinds
}

func kindsOfLeaf(l leaf) string {
	switch l := l.(type) {
	case textLeaf, digitsLeaf:
		return "t"
	case *list:
		if slices.ContainsFunc(l.items, func(i *item) bool { return !strings.Contains(kindsOf(i.value), "t") }) {
			return "l"
		}
		return "ls"
	case *dict:
		return "m"
	case *node, *record:
		if isMapLeaf(l) {
			return "m"
		}
	case opaqueLeaf:
		switch {
		case l.typ == nil:
		case l.typ.Kind() == types.ListKind && l.typ.Parameters()[0].IsExactType(types.StringType):
			return "ls"
		case l.typ.Kind() == types.ListKind:
			return "l"
		case l.typ.Kind() == types.MapKind:
			return "m"
		}
	}
	return ""
}
