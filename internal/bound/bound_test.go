package bound_test

import (
	"cmp"
	"errors"
	"math"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"

	"github.com/celgate/celgate/internal/bound"
	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/quirks"
)

// free are functions that do not need a guard: their results are not longer than their arguments or have a fixed size,
// and their time is proportional to the arguments or included in their cost before the call.
var free = map[string]string{
	"logic and numbers": `!_ -_ _%_ _&&_ _*_ _-_ _/_ _<=_ _<_ _>=_ _>_ _?_:_ _||_ @not_strictly_false __not_strictly_false__
		bool double int uint dyn type size`,
	"part of a value":    `_?._ _[?_] _[_] first last hasValue or orValue value optional.none optional.of optional.ofNonZeroValue trim`,
	"search of a text":   `contains startsWith endsWith validate`,
	"times":              `duration timestamp getDate getDayOfMonth getDayOfWeek getDayOfYear getFullYear getHours getMilliseconds getMinutes getMonth getSeconds`,
	"addresses":          `family masked prefixLength containsIP containsCIDR isGlobalUnicast isLinkLocalMulticast isLinkLocalUnicast isLoopback isUnspecified`,
	"addresses of pages": `getScheme getHost getHostname getPort getEscapedPath getQuery`,
	"versions":           `major minor patch`,
	"named formats": `format.named format.byte format.date format.datetime format.dns1035Label format.dns1035LabelPrefix
		format.dns1123Label format.dns1123LabelPrefix format.dns1123Subdomain format.dns1123SubdomainPrefix
		format.labelValue
		format.qualifiedName format.uri format.uuid`,
	"authorization": `path group serviceAccount resource subresource namespace name check allowed reason errored error fieldSelector labelSelector`,
}

func environment(t testing.TB) *cel.Env {
	t.Helper()
	set, err := celenv.New("1.37", quirks.SetOf("1.37"))
	if err != nil {
		t.Fatal(err)
	}
	env, err := set.Scope(celenv.Run, true).Base(celenv.Declared{Params: true, Authorizer: true, Patch: true})
	if err != nil {
		t.Fatal(err)
	}
	return env
}

// Somebody has thought about each function of the environment.
func TestEveryFunction(t *testing.T) {
	known := map[string]bool{}
	for _, names := range free {
		for _, name := range strings.Fields(names) {
			known[name] = true
		}
	}
	for name := range environment(t).Functions() {
		switch guarded := bound.GuardOf(name, "") != nil; {
		case !guarded && !known[name]:
			t.Errorf("%s: it has no guard, and nobody says why it needs none", name)
		case guarded && known[name]:
			t.Errorf("%s has a guard", name)
		}
	}
}

// implementations are those of the environment by their overloads.
func implementations(t testing.TB) map[string]*functions.Overload {
	all := map[string]*functions.Overload{}
	for _, f := range environment(t).Functions() {
		bindings, err := f.Bindings()
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range bindings {
			all[b.Operator] = b
		}
	}
	return all
}

func call(t testing.TB, impl *functions.Overload, args []ref.Val) ref.Val {
	t.Helper()
	switch {
	case len(args) == 1 && impl.Unary != nil:
		return impl.Unary(args[0])
	case len(args) == 2 && impl.Binary != nil:
		return impl.Binary(args[0], args[1])
	case impl.Function != nil:
		return impl.Function(args...)
	}
	t.Fatalf("%s cannot be called with %d arguments", impl.Operator, len(args))
	return nil
}

// charge returns the charge of a guard.
func charge(t testing.TB, function, overload string, args []ref.Val) bound.Size {
	t.Helper()
	guard := bound.GuardOf(function, overload)
	if guard == nil {
		t.Fatalf("%s has no guard", function)
	}
	// A large step or a large number of bytes is charged at once.
	m := bound.Meter{Limits: bound.Limits{Bytes: math.MaxInt64, Steps: 1 << 40}}
	if err := guard(&m, args); err != nil {
		t.Fatalf("%s: %v", function, err)
	}
	mark := m.Total()
	return mark
}

func listOf(items ...ref.Val) ref.Val { return types.NewRefValList(types.DefaultTypeAdapter, items) }

func texts(n int, s string) ref.Val {
	items := make([]ref.Val, n)
	for i := range items {
		items[i] = types.String(s)
	}
	return listOf(items...)
}

// bytesOf returns the memory of a result itself.
func bytesOf(v ref.Val) int64 {
	switch v := v.(type) {
	case types.String:
		return int64(len(v))
	case types.Bytes:
		return int64(len(v))
	case traits.Lister:
		n, _ := v.Size().(types.Int)
		return 16 * int64(n)
	}
	return 0
}

// Every function that makes something is predicted to make at least that, and not many times more.
func TestPredictions(t *testing.T) {
	impls := implementations(t)
	a := types.String(strings.Repeat("a", 5000))
	mixed := types.String(strings.Repeat("aé~/\"\n\x00\xff", 700))
	for _, c := range []struct {
		function, overload string
		args               []ref.Val
	}{
		{"_+_", "add_string", []ref.Val{a, mixed}},
		{"_+_", "add_bytes", []ref.Val{types.Bytes(a), types.Bytes(mixed)}},
		{"replace", "string_replace_string_string", []ref.Val{a, types.String("a"), a}},
		{"replace", "string_replace_string_string", []ref.Val{a, types.String(""), mixed}},
		{"replace", "string_replace_string_string", []ref.Val{a, types.String("aaa"), types.String("b")}},
		{"replace", "string_replace_string_string_int", []ref.Val{a, types.String("a"), a, types.Int(7)}},
		{"replace", "string_replace_string_string_int", []ref.Val{a, types.String("a"), a, types.Int(-1)}},
		{"join", "list_join", []ref.Val{texts(200, "some text")}},
		{"join", "list_join_string", []ref.Val{texts(200, "some text"), mixed}},
		{"join", "list_join_string", []ref.Val{listOf(), mixed}},
		{"split", "string_split_string", []ref.Val{a, types.String("")}},
		{"split", "string_split_string", []ref.Val{mixed, types.String("a")}},
		{"split", "string_split_string_int", []ref.Val{a, types.String("a"), types.Int(9)}},
		{"findAll", "string_find_all_string", []ref.Val{a, types.String("")}},
		{"findAll", "string_find_all_string_int", []ref.Val{a, types.String("a"), types.Int(9)}},
		{"lowerAscii", "string_lower_ascii", []ref.Val{mixed}},
		{"upperAscii", "string_upper_ascii", []ref.Val{mixed}},
		{"substring", "string_substring_int", []ref.Val{a, types.Int(3)}},
		{"strings.quote", "strings_quote", []ref.Val{mixed}},
		{"strings.quote", "strings_quote", []ref.Val{types.String(strings.Repeat("\xff", 5000))}},
		{"jsonpatch.escapeKey", "string_jsonpatch_escapeKey_string",
			[]ref.Val{types.String(strings.Repeat("~/", 5000))}},
		{"string", "bytes_to_string", []ref.Val{types.Bytes(a)}},
		{"bytes", "string_to_bytes", []ref.Val{mixed}},
		{"lists.range", "lists_range", []ref.Val{types.Int(10_000)}},
		{"slice", "list_slice", []ref.Val{texts(5000, "a"), types.Int(10), types.Int(4000)}},
		{"reverse", "list_reverse", []ref.Val{texts(5000, "a")}},
		{"sort", "list_string_sort", []ref.Val{texts(5000, "a")}},
		{"flatten", "list_flatten", []ref.Val{listOf(texts(5000, "a"), texts(5000, "b"))}},
		{"flatten", "list_flatten_int", []ref.Val{listOf(doubleList(10), doubleList(10)), types.Int(12)}},
		{"format", "string_format", []ref.Val{types.String("%s and %s"), listOf(a, mixed)}},
		{"format", "string_format", []ref.Val{types.String("%x %X"), listOf(a, types.Bytes(mixed))}},
		{"format", "string_format", []ref.Val{types.String("%.100f|%.90e|%b|%%|%d"),
			listOf(types.Double(1e300), types.Double(2), types.Int(math.MinInt64), types.Int(7))}},
		{"format", "string_format", []ref.Val{types.String("%s"), listOf(doubleList(10))}},
	} {
		impl := impls[c.overload]
		if impl == nil {
			impl = impls[c.function]
		}
		if impl == nil {
			t.Errorf("no %s", c.overload)
			continue
		}
		result := call(t, impl, c.args)
		if types.IsError(result) {
			t.Errorf("%s: %v", c.overload, result)
			continue
		}
		predicted, actual := charge(t, c.function, c.overload, c.args), bytesOf(result)
		if predicted.Bytes < actual {
			t.Errorf("%s: predicted %d bytes, and it made %d", c.overload, predicted.Bytes, actual)
		}
		if predicted.Bytes > 4*actual+1000 {
			t.Errorf("%s: predicted %d bytes, and it made no more than %d", c.overload, predicted.Bytes, actual)
		}
	}
}

// doubleList is a list of two lists that are one, and so on: few values in memory, and 2^n of them in all.
func doubleList(n int) ref.Val {
	v := ref.Val(types.String("x"))
	for range n {
		v = listOf(v, v)
	}
	return v
}

// Calls that would need terabytes or years are refused at once.
func TestRefused(t *testing.T) {
	long := types.String(strings.Repeat("a", 1_000_000))
	huge := doubleList(60)
	many := texts(1000, "a")
	for range 40 {
		many = many.(traits.Adder).Add(many)
	}
	object := func(v ref.Val) ref.Val {
		return dynamic.NewObjectVal(types.NewObjectType("Object"), map[string]ref.Val{"a": v})
	}
	for _, c := range []struct {
		function string
		args     []ref.Val
	}{
		{"replace", []ref.Val{long, types.String("a"), long}},
		{"replace", []ref.Val{long, types.String(""), long}},
		{"join", []ref.Val{texts(1000, string(long))}},
		{"join", []ref.Val{many}},
		{"format", []ref.Val{types.String("%.2147483647f"), listOf(types.Double(1))}},
		{"format", []ref.Val{types.String("%s"), listOf(huge)}},
		{"format", []ref.Val{types.String(strings.Repeat("%s", 1000)), texts(1000, string(long))}},
		{"lists.range", []ref.Val{types.Int(math.MaxInt64)}},
		{"==", nil}, {"!=", nil},
		{"@in", []ref.Val{huge, listOf(huge)}},
		{"indexOf", []ref.Val{listOf(huge), huge}},
		{"lastIndexOf", []ref.Val{listOf(huge), huge}},
		{"includes", []ref.Val{listOf(huge), huge}},
		{"distinct", []ref.Val{listOf(huge, huge)}},
		{"distinct", []ref.Val{many}},
		{"sort", []ref.Val{many}},
		{"@sortByAssociatedKeys", []ref.Val{many, many}},
		{"slice", []ref.Val{many, types.Int(0), types.Int(1 << 40)}},
		{"reverse", []ref.Val{many}},
		{"sum", []ref.Val{many}}, {"min", []ref.Val{many}}, {"max", []ref.Val{many}}, {"isSorted", []ref.Val{many}},
		{"sets.contains", []ref.Val{many, many}}, {"sets.equivalent", []ref.Val{many, many}},
		{"sets.intersects", []ref.Val{listOf(huge), listOf(huge)}},
		{"flatten", []ref.Val{huge, types.Int(100)}},
		{"flatten", []ref.Val{listOf(many)}},
		{"unwrapOpt", []ref.Val{many}},
		{"quantity", []ref.Val{types.String("1e2147483647")}},
		{"quantity", []ref.Val{types.String("1e-2147483647")}},
		{"quantity", []ref.Val{types.String("1E+99999999")}},
		{"isQuantity", []ref.Val{types.String("-0.1e-1000000000")}},
		{"quantity", []ref.Val{types.String(strings.Repeat("9", 4_000_000))}},
		{"matches", []ref.Val{long, types.String(strings.Repeat("x{1000}", 3000))}},
		{"matches", []ref.Val{long, types.String(strings.Repeat(`\pL`, 30_000))}},
		{"matches", []ref.Val{long, types.String(strings.Repeat("(x?)", 20_000))}},
		{"matches", []ref.Val{long, types.String(strings.Repeat("a*", 100_000))}},
		{"matches", []ref.Val{long, types.String("(x?x?){500}")}},
		{"matches", []ref.Val{types.String("x"), types.String(strings.Repeat("((x{10}){10}){10}|", 200))}},
		{"find", []ref.Val{long, types.String(strings.Repeat(".{0,1000}", 300))}},
		{"findAll", []ref.Val{long, types.String(strings.Repeat("x{1000}", 3000))}},
	} {
		if c.args == nil {
			c.function, c.args = "_"+c.function+"_", []ref.Val{listOf(object(huge)), listOf(object(huge))}
		}
		start := time.Now()
		m := bound.Meter{Limits: bound.Served}
		if err := bound.GuardOf(c.function, "")(&m, c.args); err == nil {
			t.Errorf("%s(%d arguments) is not refused", c.function, len(c.args))
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%s: refused after %v", c.function, took)
		}
	}
	for _, v := range []ref.Val{huge, object(huge),
		types.NewRefValMap(types.DefaultTypeAdapter, map[ref.Val]ref.Val{types.String("a"): huge})} {
		if bound.ChargeMade(&bound.Meter{Limits: bound.Served}, v) == nil ||
			bound.ChargeTree(&bound.Meter{Limits: bound.Served}, v) == nil {
			t.Errorf("%v is not refused", v.Type())
		}
	}
}

// The memory of a pattern is predicted for any pattern.
func TestPatterns(t *testing.T) {
	for _, part := range []string{
		"a*", `\pL`, `[^\PL]`, "(?i)k", "x{1000}", "(x{10}){100}", `\pL{100}`, "[a-c]", "(a|b)", "(a)", "a|", "x?",
		"(x?x?){500}", "(?:(?i)k{1000})", ".{0,1000}",
		"(?:a{3,}|b){50}", "[[:word:]]{200}", `(\d+\.){3}`, "(?P<name>a)", "(x?)", "(?:x??){500}", "(?:|x){300}",
	} {
		for _, n := range []int{1, 10, 100} {
			pattern := strings.Repeat(strings.Replace(part, "name", "n", 1), n)
			if strings.Contains(part, "name") {
				pattern = part
			}
			predicted := bound.PatternOf(pattern, bound.Served.Bytes).Spare
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			re, err := regexp.Compile(pattern)
			if err != nil {
				t.Errorf("%s: %v", part, err)
				continue
			}
			re.MatchString("xxxaaa")
			runtime.ReadMemStats(&after)
			if used := int64(after.TotalAlloc - before.TotalAlloc); used > 2*predicted+64<<10 {
				t.Errorf("%d times %s: predicted %d bytes, and it allocated %d", n, part, predicted, used)
			} else if predicted > 20*used+100_000 {
				t.Errorf("%d times %s: predicted %d bytes, and it allocated no more than %d", n, part, predicted, used)
			}
		}
	}
}

// Searches that take hours end soon after their request was abandoned, and when they exceed the limit by far.
func TestSearchesEnd(t *testing.T) {
	long, nullable := types.String(strings.Repeat("x", 1_000_000)), types.String(strings.Repeat("x?", 20_000)+"y")
	for _, c := range []struct {
		function string
		args     []ref.Val
	}{
		{"findAll", []ref.Val{long, types.String("x*y|x")}},
		{"findAll", []ref.Val{long, types.String("x*y|x"), types.Int(500_000)}},
		{"findAll", []ref.Val{long, nullable}},
		{"find", []ref.Val{long, nullable}},
		{"matches", []ref.Val{long, nullable}},
	} {
		for _, given := range []bool{true, false} {
			done := make(chan struct{})
			m := bound.Meter{Limits: bound.Limits{Bytes: 1 << 30, Steps: 2_000_000}, Done: done}
			if given {
				m.Limits.Steps = 2_000_000_000_000 // only done ends it
				time.AfterFunc(100*time.Millisecond, func() { close(done) })
			}
			start := time.Now()
			err := bound.GuardOf(c.function, "")(&m, c.args)
			if err == nil || m.Err() == nil {
				t.Errorf("%s is not stopped (%v)", c.function, given)
			}
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("%s: stopped after %v", c.function, took)
			}
			if _, refused := m.Excess(); refused == given {
				t.Errorf("%s: %v", c.function, err)
			}
		}
	}
	waiting := bound.Meter{Limits: bound.Served, Done: make(chan struct{})}
	long = types.String(strings.Repeat("x", 8_000)) // a second with the race detector
	for _, args := range [][]ref.Val{
		{long, types.String("x")}, {long, types.String("x*y|x"), types.Int(1)}, {long, types.String("x"), types.Int(0)},
		{long, types.String("(")},
	} {
		for _, function := range []string{"findAll", "find", "matches"} {
			if err := bound.GuardOf(function, "")(&waiting, args); err != nil {
				t.Errorf("%s: %v", function, err)
			}
			waiting.Begin()
		}
	}
}

// Garbage of calls counts as time, so that a loop that creates more garbage than the collector frees ends.
func TestGarbage(t *testing.T) {
	m := bound.Meter{Limits: bound.Served}
	made := 0
	for m.Charge(bound.Size{Spare: 1 << 20}) == nil {
		if made++; made > 1000 {
			t.Fatal("a gigabyte is made")
		}
	}
	if made < 100 {
		t.Errorf("stopped after %d MiB", made)
	}
	long := types.String(strings.Repeat("(a?a?)", 20))
	m = bound.Meter{Limits: bound.Served}
	calls := 0
	for bound.GuardOf("matches", "")(&m, []ref.Val{types.String("a"), long}) == nil {
		if calls++; calls > 100_000 {
			t.Fatal("a pattern is read without an end")
		}
	}
	t.Logf("%d calls", calls)
}

// Ordinary calls are charged next to nothing.
func TestOrdinary(t *testing.T) {
	for _, c := range []struct {
		function string
		args     []ref.Val
	}{
		{"quantity", []ref.Val{types.String("1e9")}},
		{"quantity", []ref.Val{types.String("100Gi")}},
		{"quantity", []ref.Val{types.String("no quantity")}},
		{"quantity", []ref.Val{types.String("1e99999999999")}}, // an error
		{"_+_", []ref.Val{types.Int(1), types.Int(2)}},
		{"_==_", []ref.Val{texts(100, "a"), texts(100, "a")}},
		{"@in", []ref.Val{types.String("a"), texts(100, "b")}},
		{"isGreaterThan", []ref.Val{types.Int(1), types.Int(1)}},
	} {
		if size := charge(t, c.function, "", c.args); size.Bytes > 1000 || size.Steps > 1000 {
			t.Errorf("%s: %+v", c.function, size)
		}
	}
}

// The fields of object literals are found: cel-go's successors may call them otherwise.
func TestObjectFields(t *testing.T) {
	v := dynamic.NewObjectVal(types.NewObjectType("Object"), map[string]ref.Val{"a": texts(100, "x")})
	if values, text := bound.Weight(v, 1<<20); values != 102 || text != 101 {
		t.Errorf("%d values, %d bytes of text", values, text)
	}
}

func TestMeter(t *testing.T) {
	pool := &bound.Pool{Bytes: 10 << 20}
	m := bound.Meter{Limits: bound.Limits{Bytes: 8 << 20, Steps: 1000}, Pool: pool}
	charge := func(n int, ok bool) {
		t.Helper()
		if err := m.ChargeBytes(n); (err == nil) != ok {
			t.Fatalf("%d: %v", n, err)
		}
	}
	charge(100, true)
	if pool.Usage() != 0 {
		t.Errorf("%d bytes of the pool for next to nothing", pool.Usage())
	}
	charge(6<<20, true)
	charge(6<<20, false)
	m.Keep()
	m.Begin()
	charge(6<<20, false) // kept memory counts
	charge(1<<20, true)
	m.Begin()
	charge(1<<20, true)
	other := bound.Meter{Limits: m.Limits, Pool: pool}
	if err := other.ChargeBytes(7 << 20); err == nil || !strings.Contains(err.Error(), "other evaluations") {
		t.Errorf("beyond the pool: %v", err)
	}
	m.End()
	if pool.Usage() != 0 {
		t.Errorf("%d bytes of the pool are not given back", pool.Usage())
	}
	if err := other.ChargeBytes(7 << 20); err != nil {
		t.Error(err)
	}
	other.End()
	if err := (*bound.Meter)(nil).ChargeBytes(1 << 30); err == nil {
		t.Error("without a meter there is no bound")
	}
}

func TestTexts(t *testing.T) {
	for want, size := range map[string]bound.Size{
		"about 400 MB of memory":         {Bytes: 400_000_000},
		"about 13s":                      {Steps: 1_300_000_000},
		"about 13s and 1.5 GB of memory": {Bytes: 1_500_000_000, Steps: 1_300_000_000},
		"about a year or more":           {Steps: math.MaxInt64},
		"about 9.22e+03 PB of memory":    {Bytes: math.MaxInt64},
		"about 1h0m0s":                   {Steps: int64(time.Hour / 10)},
	} {
		if got := size.String(); got != want {
			t.Errorf("%+v: %q, want %q", size, got, want)
		}
	}
}

// fraction returns the number with the same bits as another one.
func fraction(n int64) types.Double { return types.Double(math.Float64frombits(uint64(n))) }

// spare is the predicted garbage of a call, which a refusal reports and a meter ignores.
func spare(function, overload string, args []ref.Val) int64 {
	m := bound.Meter{Limits: bound.Limits{Steps: 1 << 40}}
	var refused *bound.Error
	if errors.As(bound.GuardOf(function, overload)(&m, args), &refused) {
		return refused.Size.Spare
	}
	return 0
}

// FuzzPredict compares predictions with the results of functions and their allocations.
func FuzzPredict(f *testing.F) {
	impls := implementations(f)
	f.Add(uint8(0), "aaa", "a", "bbbb", int64(-1))
	f.Add(uint8(1), "a,b", ",", "", int64(3))
	f.Add(uint8(4), "%s %.3f", "x", "y", int64(2))
	f.Add(uint8(9), "xxxxxxxx", "(x{10}){10}", "", int64(0))
	f.Add(uint8(6), "\xff\x00\"", "", "", int64(0))
	f.Add(uint8(4), strings.Repeat("%% \xff", 300)+"%s%s%s%s%s%s%s", "\x00é\\", strings.Repeat("\xff\"", 900), int64(-1<<52|7))
	f.Add(uint8(4), "%s %e %b %s %X %.9f %s", "\U000e0001", "\u0080", int64(7))
	f.Add(uint8(3), strings.Repeat("é", 900), strings.Repeat("ab", 900), "", int64(-1))
	f.Add(uint8(9), strings.Repeat("x", 2000), strings.Repeat("%f[a-z]", 300), "", int64(0))
	f.Add(uint8(5), strings.Repeat("x", 20), "x|"+strings.Repeat("é~", 500), "", int64(0))
	cases := []struct {
		function, overload string
		args               func(a, b, c string, n int64) []ref.Val
	}{
		{"replace", "string_replace_string_string_int", func(a, b, c string, n int64) []ref.Val {
			return []ref.Val{types.String(a), types.String(b), types.String(c), types.Int(n)}
		}},
		{"split", "string_split_string_int", func(a, b, _ string, n int64) []ref.Val {
			return []ref.Val{types.String(a), types.String(b), types.Int(n)}
		}},
		{"_+_", "add_string", func(a, b, _ string,
			_ int64) []ref.Val {
			return []ref.Val{types.String(a), types.String(b)}
		}},
		{"join", "list_join_string", func(a, b, c string, n int64) []ref.Val {
			return []ref.Val{texts(int(uint64(n)%100), a+c), types.String(b)}
		}},
		{"format", "string_format", func(a, b, c string, n int64) []ref.Val {
			return []ref.Val{types.String(a),
				listOf(types.String(b), types.Double(n), types.Int(n), texts(3, c), types.Bytes(b), fraction(n),
					listOf(fraction(n), types.Int(n), types.Bytes(c), types.String(b), types.Timestamp{Time: time.Unix(n%1e11, n%1e9)}))}
		}},
		{"findAll", "string_find_all_string",
			func(a, b, _ string, _ int64) []ref.Val { return []ref.Val{types.String(a), types.String(b)} }},
		{"strings.quote", "strings_quote", func(a, _, _ string,
			_ int64) []ref.Val {
			return []ref.Val{types.String(a)}
		}},
		{"jsonpatch.escapeKey", "string_jsonpatch_escapeKey_string",
			func(a, _, _ string, _ int64) []ref.Val { return []ref.Val{types.String(a)} }},
		{"lists.range", "lists_range", func(_, _, _ string,
			n int64) []ref.Val {
			return []ref.Val{types.Int(n % 10_000)}
		}},
		{"matches", "matches_string", func(a, b, _ string,
			_ int64) []ref.Val {
			return []ref.Val{types.String(a), types.String(b)}
		}},
		{"quantity", "string_to_quantity", func(a, _, _ string,
			_ int64) []ref.Val {
			return []ref.Val{types.String(a)}
		}},
	}
	f.Fuzz(func(t *testing.T, which uint8, a, b, c string, n int64) {
		k := cases[int(which)%len(cases)]
		args := k.args(a, b, c, n)
		m := bound.Meter{Limits: bound.Limits{Bytes: 16 << 20, Steps: 10_000_000}}
		if bound.GuardOf(k.function, k.overload)(&m, args) != nil {
			return
		}
		predicted := m.Total()
		predicted.Spare = spare(k.function, k.overload, args)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		result := call(t, cmp.Or(impls[k.overload], impls[k.function]), args)
		took := time.Since(start)
		runtime.ReadMemStats(&after)
		if types.IsError(result) {
			return
		}
		if actual := bytesOf(result); predicted.Bytes < actual {
			t.Errorf("%s(%q): predicted %d bytes, and it made %d", k.overload, args, predicted.Bytes, actual)
		}
		if used := int64(after.TotalAlloc - before.TotalAlloc); used > 4*(predicted.Bytes+predicted.Spare)+64<<10 {
			t.Errorf("%s(%q): predicted %d and %d bytes, and it allocated %d", k.overload, args,
				predicted.Bytes, predicted.Spare, used)
		}
		if took > time.Second+20*bound.Time(predicted.Steps) {
			t.Errorf("%s(%q): predicted %v, and it took %v", k.overload, args, bound.Time(predicted.Steps), took)
		}
	})
}

// Results of functions that parse a long text are charged, and those for ordinary texts are free.
func TestLongTexts(t *testing.T) {
	known, n := implementations(t), 300_000
	for _, c := range []struct{ function, overload, text string }{
		{"semver", "string_to_semver", "1.0.0-" + strings.Repeat("a.", n/2) + "a"},
		{"isSemver", "is_semver_string", "1.0.0-" + strings.Repeat("a.", n/2) + "a"},
		{"url", "string_to_url", "http://x/" + strings.Repeat("%41", n/3)},
		{"url", "string_to_url", "http://x/" + strings.Repeat("é", n/2)},
		{"isURL", "is_url_string", "http://x/" + strings.Repeat("é", n/2)},
		{"ip", "string_to_ip", strings.Repeat("1.", n/2)},
		{"isIP", "is_ip", strings.Repeat("1:", n/2)},
		{"cidr", "string_to_cidr", strings.Repeat("1.", n/2)},
		{"quantity", "string_to_quantity", strings.Repeat("1", n)},
		{"trim", "string_trim", strings.Repeat(" ", n)},
		{"timestamp", "string_to_timestamp", strings.Repeat("a", n)},
		{"duration", "string_to_duration", strings.Repeat("1h", n/2)},
		{"int", "string_to_int64", strings.Repeat("1", n)},
		{"double", "string_to_double", strings.Repeat("1", n)},
	} {
		impl := known[c.overload]
		if impl == nil {
			t.Errorf("%s: there is no %s", c.function, c.overload)
			continue
		}
		m := bound.Meter{Limits: bound.Limits{Bytes: 1 << 50, Steps: 1 << 50}}
		args := []ref.Val{types.String(c.text)}
		most := int64(8 * n)
		if guard := bound.GuardOf(c.function, c.overload); guard != nil {
			if err := guard(&m, args); err != nil {
				t.Fatal(err)
			}
			refused := bound.Meter{Limits: bound.Limits{Bytes: 1000, Steps: 1 << 50}}
			if c.function != "quantity" && guard(&refused, args) == nil {
				t.Errorf("%s(%.10s…) is charged less than 1,000 bytes", c.function, c.text)
			}
			most = 110 * int64(len(c.text)) // of spare
			if err := guard(&m, []ref.Val{types.String("1.2.3")}); err != nil {
				t.Error(err)
			}
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		call(t, impl, args)
		runtime.ReadMemStats(&after)
		used := int64(after.TotalAlloc - before.TotalAlloc)
		if c.function != "quantity" && used > most+m.Total().Bytes { // of a quantity it is garbage
			t.Errorf("%s(%.10s…): charged %+v, and it allocated %d", c.function, c.text, m.Total(), used)
		}
	}
}

// How long classes take that take no notice of case is known before they are parsed.
func TestFolding(t *testing.T) {
	for _, c := range []struct {
		pattern string
		slow    bool
	}{
		{strings.Repeat("(?i)[B-𞥂]", 200), true},
		{"(?i)" + strings.Repeat(`[\x{42}-\x{1E942}]`, 200), true},
		{"(?i)" + strings.Repeat(`[B-\x{10FFFF}]`, 200), true},
		{"(?i)^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", false},
		{strings.Repeat("[B-𞥂]", 200), false},
	} {
		start := time.Now()
		if _, err := regexp.Compile(c.pattern); err != nil {
			t.Fatal(err)
		}
		took, known := time.Since(start), bound.Time(bound.FoldingSteps(c.pattern))
		if c.slow != (known > 100*time.Millisecond) || c.slow && took > 100*known { // a machine may be slow, the order of magnitude is not
			t.Errorf("%.40s: taken to take %v, and it took %v", c.pattern, known, took)
		}
		if small := bound.PatternOf(c.pattern, bound.Served.Bytes).IsSmall(); c.slow && small {
			t.Errorf("%.40s is small", c.pattern)
		}
	}
}
