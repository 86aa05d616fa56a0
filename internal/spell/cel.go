package spell

import (
	"strings"

	"github.com/celgate/celgate/internal/wording"
)

// celNames are the functions and macros that policies may use.
var celNames = []string{
	"all", "allowed", "asApproximateFloat", "asInteger", "base64.decode", "base64.encode", "bool", "bytes", "charAt",
	"check", "compareTo",
	"contains", "containsIP", "containsCIDR", "distinct", "double", "duration", "dyn", "endsWith", "exists",
	"exists_one", "filter",
	"find", "findAll", "first", "flatten", "format", "getHost", "has", "hasValue", "indexOf", "int", "ip", "isCIDR",
	"isGreaterThan",
	"isInteger", "isIP", "isLessThan", "isQuantity", "isSemver", "isSorted", "isURL", "join", "last", "lastIndexOf",
	"lowerAscii",
	"map", "matches", "max", "min", "optMap", "optFlatMap", "orValue", "prefixLength", "quantity", "replace", "reverse",
	"semver",
	"size", "slice", "sort", "split", "startsWith", "string", "substring", "sum", "timestamp", "transformMap", "trim",
	"type", "uint",
	"upperAscii", "url", "value",
}

// elsewhere are names of other languages for what CEL has.
var elsewhere = map[string]string{
	"any": "exists", "some": "exists", "every": "all", "each": "all", "forall": "all", "one": "exists_one",
	"select": "filter", "where": "filter",
	"collect": "map", "len": "size", "length": "size", "count": "size", "includes": "in", "has_key": "in",
	"haskey": "in", "containskey": "in", "regex": "matches",
	"match": "matches", "tolower": "lowerAscii", "tolowercase": "lowerAscii", "lower": "lowerAscii",
	"toupper":     "upperAscii",
	"touppercase": "upperAscii", "upper": "upperAscii", "hasprefix": "startsWith", "hassuffix": "endsWith",
	"str": "string", "tostring": "string",
	"number": "int", "float": "double", "parseint": "int", "strip": "trim", "default": "orValue", "exist": "exists",
}

var operators = map[string]string{"and": "&&", "or": "||", "not": "!", "is": "=="}

// CEL says which name or operator of CEL was probably meant in an expression of which the compiler has this to say;
// empty if none is near.
func CEL(said wording.Sentence) string {
	name := said.Name
	switch said.Kind {
	case wording.Undeclared:
		meant := elsewhere[strings.ToLower(name)]
		if meant == "" && len(name) > 2 {
			meant = Nearest(name, celNames, max(1, len(name)/4))
		}
		switch {
		case meant == "" || meant == name:
		case meant == "in":
			return "write value in list, or key in map"
		default:
			return "did you mean " + meant + "?"
		}
	case wording.SingleOperator:
		return "did you mean " + name + name + "?"
	case wording.WordForOperator:
		return "did you mean " + operators[strings.ToLower(name)] + "?"
	}
	return ""
}
