package plan

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apiserver/pkg/cel/library"
)

// A costKind is the rule for the cost of a call, given its arguments and its result.
type costKind uint8

const (
	costUnit        costKind = iota
	costPrefix               // the length of the second argument
	costText                 // the length of the first argument
	costMembership           // the size of the second argument
	costSmaller              // the smaller of the two
	costBoth                 // the sum of the two
	costMatches              // the length of a text times that of a pattern
	costContains             // the length of a text times that of another
	costList                 // the size of the resulting list
	costFlatten              // the size of the first argument, for each level
	costCompare              // all pairs of items of the first argument
	costCompareKeys          // all pairs of items of the second argument
	costProduct              // the sizes of two lists
	costProducts             // twice the product
	costCopy                 // twice the length of the first argument
	costLibrary              // by the estimator of the server's libraries, or else by the overload
)

// costOf classifies a call as CostTracker.costCall in interpreter/runtimecost.go v0.29.2 does: by the trackers of the
// list and set libraries (ext v0.29.2), then as library.CostEstimator does, then by the overload. Trackers of other
// libraries are not covered.
func costOf(name, overload string) (kind costKind, covered bool) {
	switch overload {
	case "list_slice", "lists_range", "list_reverse":
		return costList, true
	case "list_flatten", "list_flatten_int":
		return costFlatten, true
	case "list_distinct":
		return costCompare, true
	case "list_sets_contains_list", "list_sets_intersects_list":
		return costProduct, true
	case "list_sets_equivalent_list":
		return costProducts, true
	}
	switch {
	case strings.HasPrefix(overload, "regex_"), strings.HasPrefix(overload, "hash_"),
		strings.HasPrefix(overload, "objects_"):
		return 0, false
	case strings.HasPrefix(overload, "list_") && strings.HasSuffix(overload, "_sort"):
		return costCompare, true
	case strings.HasPrefix(overload, "list_") && strings.HasSuffix(overload, "_sortByAssociatedKeys"):
		return costCompareKeys, true
	}
	if kind, known := libraryCosts[name]; known {
		return kind, true
	}
	return costKindOf(overload), true
}

// costOf is costOf for the minor of b.
func (b *builder) costOf(name, overload string) (kind costKind, covered bool) {
	if b.older.TextCosts {
		switch overload {
		case overloads.StartsWithString, overloads.EndsWithString:
			return costText, true
		case overloads.Matches:
			return costUnit, true
		}
	}
	if _, known := libraryCosts[name]; known && b.older.LibraryCosts {
		return costKindOf(overload), true
	}
	return costOf(name, overload)
}

// LibraryFunctions matches the names of the functions whose costs the libraries of Kubernetes define.
var LibraryFunctions = sync.OnceValue(func() *regexp.Regexp {
	names := strings.Join(slices.Sorted(maps.Keys(libraryCosts)), "|")
	return regexp.MustCompile(`\b(` + strings.ReplaceAll(names, ".", `\.`) + `)\b`)
})

func costKindOf(overload string) costKind {
	switch overload {
	case overloads.StartsWithString, overloads.EndsWithString:
		return costPrefix
	case overloads.StringToBytes, overloads.BytesToString, overloads.ExtQuoteString, overloads.ExtFormatString:
		return costText
	case overloads.InList:
		return costMembership
	case overloads.LessString, overloads.GreaterString, overloads.LessEqualsString, overloads.GreaterEqualsString,
		overloads.LessBytes, overloads.GreaterBytes, overloads.LessEqualsBytes, overloads.GreaterEqualsBytes:
		return costSmaller
	case overloads.AddString, overloads.AddBytes:
		return costBoth
	case overloads.Matches, overloads.MatchesString:
		return costMatches
	case overloads.ContainsString:
		return costContains
	}
	return costUnit
}

// libraryCosts has the functions that library.CostEstimator of k8s.io/apiserver v0.37.2 knows, for all overloads.
var libraryCosts = func() map[string]costKind {
	known := map[string]costKind{}
	for kind, names := range map[costKind]string{
		costUnit: `sign asInteger isInteger asApproximateFloat isGreaterThan isLessThan compareTo add sub major minor patch
			masked prefixLength family isUnspecified isLoopback isLinkLocalMulticast isLinkLocalUnicast isGlobalUnicast
			getScheme getHostname getHost getPort getEscapedPath getQuery format.named`,
		costText: `url lowerAscii upperAscii substring trim jsonpatch.escapeKey cidr isIP isCIDR quantity isQuantity semver isSemver`,
		costCopy: `replace split`, costMatches: `find findAll`,
		costLibrary: `check serviceAccount path group resource subresource namespace name allowed reason error errored fieldSelector
			labelSelector isSorted sum max min indexOf lastIndexOf includes join ip ip.isCanonical containsIP containsCIDR validate`,
	} {
		for _, name := range strings.Fields(names) {
			known[name] = kind
		}
	}
	return known
}()

func (k costKind) of1(name, overload string, arg, result ref.Val) uint64 {
	switch k {
	case costUnit:
		return 1
	case costText:
		return traversal(size(arg))
	case costCopy:
		return traversal(2 * size(arg))
	}
	return k.cost(name, overload, []ref.Val{arg}, result)
}

func (k costKind) of2(name, overload string, left, right, result ref.Val) uint64 {
	switch k {
	case costUnit:
		return 1
	case costPrefix:
		return traversal(size(right))
	case costText:
		return traversal(size(left))
	case costCopy:
		return traversal(2 * size(left))
	case costMembership:
		return size(right)
	case costSmaller:
		return smallerCost(left, right)
	case costBoth:
		return traversal(size(left) + size(right))
	case costMatches:
		return textCost(size(left)) * regexCost(right)
	case costContains:
		return traversal(size(left)) * traversal(size(right))
	}
	return k.cost(name, overload, []ref.Val{left, right}, result)
}

func (k costKind) cost(name, overload string, args []ref.Val, result ref.Val) uint64 {
	if k == costLibrary {
		if cost := estimator.CallCost(name, overload, args, result); cost != nil {
			return *cost
		}
		k = costKindOf(overload)
	}
	switch {
	case k == costList:
		return listCost(1, size(result))
	case k == costFlatten:
		depth := 1.0
		if len(args) == 2 {
			if levels, ok := args[1].(types.Int); ok && levels >= 0 {
				depth = float64(levels)
			}
		}
		return listCost(depth, size(args[0]))
	case k == costCompare:
		return comparisonCost(args[0])
	case k == costCompareKeys:
		return comparisonCost(args[1])
	case k == costProduct:
		return 1 + size(args[0])*size(args[1])
	case k == costProducts:
		return 1 + 2*size(args[0])*size(args[1])
	case k == costText && len(args) > 0:
		return traversal(size(args[0]))
	case k == costCopy && len(args) > 0:
		return traversal(2 * size(args[0]))
	case len(args) == 2, k == costMatches && len(args) > 2:
		return k.of2(name, overload, args[0], args[1], result)
	}
	return 1
}

// listCost is trackAllocatingListCall of ext/lists.go v0.29.2.
func listCost(factor float64, size uint64) uint64 {
	return uint64(float64(size)*factor) + 1 + common.ListCreateBaseCost
}

// comparisonCost is trackListSelfCompare there.
func comparisonCost(v ref.Val) uint64 {
	n, factor := size(v), 2.0
	if l, ok := v.(traits.Lister); ok && n > 0 {
		if first := l.Get(types.IntZero).Type(); first == types.StringType || first == types.BytesType {
			factor += common.StringTraversalCostFactor
		}
	}
	return listCost(factor, n*n)
}

var estimator library.CostEstimator

func equalityCost(left, right, result ref.Val) uint64 {
	switch left.(type) {
	case types.String, types.Int, types.Bool, types.Double, types.Uint, types.Null, types.Bytes, types.Timestamp,
		types.Duration,
		traits.Lister, traits.Mapper:
	default:
		if cost := estimator.CallCost("_==_", overloads.Equals, []ref.Val{left, right}, result); cost != nil {
			return *cost
		}
	}
	return smallerCost(left, right)
}

func smallerCost(left, right ref.Val) uint64 { return traversal(min(size(left), size(right))) }

// smallerText is smallerCost of texts.
func smallerText(left, right string) uint64 { return traversal(min(runes(left), runes(right))) }

// runes counts the characters of a text. For ASCII, the usual case, it processes eight at once.
func runes(s string) uint64 {
	i := 0
	for ; i+8 <= len(s); i += 8 {
		b := s[i : i+8]
		eight := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
			uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		if eight&0x8080808080808080 != 0 {
			break
		}
	}
	return uint64(i + utf8.RuneCountInString(s[i:]))
}

func traversal(n uint64) uint64 {
	return uint64(math.Ceil(float64(n) * common.StringTraversalCostFactor))
}

func textCost(size uint64) uint64 {
	return uint64(math.Ceil((1.0 + float64(size)) * common.StringTraversalCostFactor))
}

func regexCost(v ref.Val) uint64 {
	return uint64(math.Ceil(float64(size(v)) * common.RegexStringLengthCostFactor))
}

// size is actualSize of interpreter/runtimecost.go v0.29.2.
func size(v ref.Val) uint64 {
	switch v := v.(type) {
	case types.String:
		return runes(string(v))
	case types.Int, types.Bool, types.Double:
		return 1
	case traits.Sizer:
		return uint64(v.Size().(types.Int))
	case *types.Optional:
		if v.HasValue() {
			return size(v.GetValue())
		}
	}
	return 1
}
