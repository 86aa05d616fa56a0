package serve

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/quirks"
)

// A grower writes expressions whose results are larger than their inputs, or take long. All of them are false or
// errors, so all of them deny.
type grower struct{ *rand.Rand }

func (g grower) one(all ...string) string { return all[g.IntN(len(all))] }

// text is an expression that is a text.
func (g grower) text(depth int) string {
	if depth <= 0 {
		return g.one("object.data.long", "object.data.list", "object.data.wide", "object.data.pattern",
			"object.data.page", "object.data.q", "object.metadata.name",
			"'a'",
			"''",
			"'a*b|a'",
			`'\\pL'`,
			"'(a?a?){500}'",
			"'x{1000}'",
			"'/'",
			"'%s'",
			"'1.2.3-'",
			"'é'",
		)
	}
	x, y := func() string { return g.text(depth - 1) }, func() string { return g.text(g.IntN(depth)) }
	switch g.IntN(16) {
	case 0:
		return fmt.Sprintf("%s.replace(%s, %s)", x(), y(), y())
	case 1:
		return fmt.Sprintf("%s.replace(%s, %s, %d)", x(), y(), y(), g.IntN(1000)-1)
	case 2, 3:
		return fmt.Sprintf("(%s + %s)", x(), y())
	case 4:
		return fmt.Sprintf("%s.join()", g.list(depth-1))
	case 5:
		return fmt.Sprintf("%s.join(%s)", g.list(depth-1), y())
	case 6:
		return fmt.Sprintf("'%%s %%s %%x'.format([%s, %s, %s])", x(), g.list(depth-1), y())
	case 7:
		return fmt.Sprintf("'%%.%df %%b'.format([1.5, %d])", g.IntN(1<<31), g.IntN(100))
	case 8:
		return x() + g.one(".lowerAscii()", ".upperAscii()", ".trim()", ".reverse()", ".substring(1)", ".charAt(1)")
	case 9:
		return fmt.Sprintf("strings.quote(%s)", x())
	case 10:
		return fmt.Sprintf("string(bytes(%s))", x())
	case 11:
		return fmt.Sprintf("%s.find(%s)", x(), y())
	case 12:
		return fmt.Sprintf("url(%s).%s()", x(),
			g.one("getEscapedPath", "getHost", "getHostname", "getScheme", "getPort"))
	case 13:
		return fmt.Sprintf("string(%s)", g.one("lists.range(9).sum()", "size("+x()+")", "object.data == object.data",
			"quantity('1').asInteger()"))
	case 14:
		return fmt.Sprintf("(%s ? %s : %s)", g.judgement(depth-1), x(), y())
	}
	return fmt.Sprintf("lists.range(%d).map(i%d, %s).join(%s)", 1+g.IntN(3000), depth, x(), y())
}

// list is an expression that is a list of texts.
func (g grower) list(depth int) string {
	if depth <= 0 {
		return g.one("['a', 'b']", "object.data.list.split('')", "[object.data.long, object.data.wide]",
			"object.data.map(k, k)", "object.data.map(k, object.data[k])")
	}
	x, l := func() string { return g.text(g.IntN(depth)) }, func() string { return g.list(depth - 1) }
	switch g.IntN(14) {
	case 0:
		return fmt.Sprintf("%s.split(%s)", g.text(depth-1), x())
	case 1:
		return fmt.Sprintf("%s.split('')", g.text(depth-1))
	case 2:
		return fmt.Sprintf("%s.findAll(%s)", g.text(depth-1), x())
	case 3:
		return fmt.Sprintf("%s.findAll(%s, %d)", g.text(depth-1), x(), g.IntN(10000))
	case 4, 5:
		return fmt.Sprintf("(%s + %s)", l(), l())
	case 6:
		return fmt.Sprintf("%s.map(x%d, x%d + %s)", l(), depth, depth, x())
	case 7:
		return fmt.Sprintf("%s.filter(x%d, x%d.matches(%s))", l(), depth, depth, x())
	case 8:
		return l() + g.one(".distinct()", ".sort()", ".reverse()", ".slice(0, 2)")
	case 9:
		return fmt.Sprintf("%s.map(x%d, %s).flatten()", l(), depth, l())
	case 10:
		return fmt.Sprintf("lists.range(%d).map(i%d, %s)", 1+g.IntN(20000), depth, x())
	case 11:
		return fmt.Sprintf("url(%s).getQuery().map(q%d, q%d)", g.text(depth-1), depth, depth)
	case 12:
		return fmt.Sprintf("lists.range(%d).transformMap(i%d, v%d, %s).map(k%d, string(k%d))", 1+g.IntN(20000), depth,
			depth, x(), depth, depth)
	}
	return fmt.Sprintf("%s.sortBy(x%d, %s)", l(), depth,
		g.one(fmt.Sprintf("x%d", depth), fmt.Sprintf("size(x%d)", depth)))
}

// judgement is an expression that is true or false.
func (g grower) judgement(depth int) string {
	x, y, l := g.text(depth), g.text(depth/2), func() string { return g.list(depth - 1) }
	switch g.IntN(15) {
	case 0:
		return fmt.Sprintf("%s.matches(%s)", x, y)
	case 1:
		return fmt.Sprintf("%s.%s(%s)", x, g.one("contains", "startsWith", "endsWith"), y)
	case 2:
		return fmt.Sprintf("%s.%s(%s) > 5", x, g.one("indexOf", "lastIndexOf"), y)
	case 3:
		return fmt.Sprintf("quantity(%s).%s(quantity(%s))", x, g.one("isGreaterThan", "isLessThan"), y)
	case 4:
		return fmt.Sprintf("quantity(%s).%s(quantity(%s)).isInteger()", x, g.one("add", "sub"), y)
	case 5:
		return fmt.Sprintf("%s(%s)", g.one("isQuantity", "isIP", "isCIDR", "isURL", "isSemver"), x)
	case 6:
		return fmt.Sprintf("semver(%s).compareTo(semver(%s)) == 0", x, y)
	case 7:
		return fmt.Sprintf("%s == %s", l(), l())
	case 8:
		return fmt.Sprintf("%s in %s", x, l())
	case 9:
		return fmt.Sprintf("sets.%s(%s, %s)", g.one("contains", "intersects", "equivalent"), l(), l())
	case 10:
		return fmt.Sprintf("%s.all(x, %s.%s(x))", l(), x, g.one("contains", "matches"))
	case 11:
		return fmt.Sprintf("%s.exists_one(x, %s.exists(y, x == y))", l(), l())
	case 12:
		return fmt.Sprintf("%s.isSorted()", l())
	case 13:
		return fmt.Sprintf("format.%s().validate(%s).hasValue()",
			g.one("dns1123Label", "dns1123Subdomain", "uri", "qualifiedName", "labelValue", "uuid", "byte", "datetime"),
			x)
	}
	return fmt.Sprintf("%[1]s(%[2]s) < %[1]s(%[3]s)", g.one("duration", "timestamp", "double", "int"), x, y)
}

// never is an expression that is false or an error, and needs all of a judgement first.
func (g grower) never(depth int) string {
	switch g.IntN(4) {
	case 0:
		return fmt.Sprintf("size(%s) < 0", g.text(depth))
	case 1:
		return fmt.Sprintf("size(%s) < 0", g.list(depth))
	}
	return fmt.Sprintf("(%s ? 1 : 2) > 3", g.judgement(depth))
}

const (
	grown      = 40 // policies of one drawing
	grownDepth = 4
)

func grownName(i int) string { return fmt.Sprint("grown", i) }

// policies of failurePolicy Fail with expressions that compile, each for the object of its name.
func (g grower) policies(compiles func(string) bool) string {
	var b strings.Builder
	for i := range grown {
		expression := g.never(1 + g.IntN(grownDepth))
		for !compiles(expression) {
			expression = g.never(1 + g.IntN(grownDepth))
		}
		fmt.Fprintf(&b, `---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]}
  matchConditions: [{name: attack, expression: object.metadata.name == '%[1]s'}]
  validations: [{expression: %[2]q}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s, validationActions: [Deny]}
`, grownName(i), expression)
	}
	return b.String()
}

// data returns the data of an object for growing expressions.
func (g grower) data(name string) map[string]any {
	size := 1 << (8 + g.IntN(12))
	return map[string]any{"metadata": map[string]any{"name": name}, "data": map[string]any{
		"long": strings.Repeat("a", size), "list": strings.Repeat(g.one("a", "a,", "a/"), min(size, 2000)),
		"wide":    strings.Repeat("é", size/4),
		"pattern": strings.Repeat(g.one("x{1000}", `\pL`, "a*", "(a?a?){99}", ".{0,99}"), 1+g.IntN(2000)),
		"page":    "http://a/" + strings.Repeat("%41", size/8) + "?" + strings.Repeat("a&b&", size/8),
		"q": g.one("1e2147483647", "1e-2147483647", strings.Repeat("9", min(size, 100_000)),
			"0."+strings.Repeat("1", min(size, 100_000)), "1.2.3-"+strings.Repeat("a.", size/4)+"a",
			strings.Repeat("1:", size/4), "2020-01-01T00:00:00."+strings.Repeat("1", size)+"Z",
			strings.Repeat("1h", size/4)),
	}}
}

// compiler reports whether expressions are such that a policy may have.
func compiler(t *testing.T) func(string) bool {
	t.Helper()
	set, err := celenv.New("1.37", quirks.SetOf("1.37"))
	if err != nil {
		t.Fatal(err)
	}
	env, err := set.Scope(celenv.Run, true).Base(celenv.Declared{})
	if err != nil {
		t.Fatal(err)
	}
	return func(src string) bool {
		checked, issues := celenv.Compile(env, src)
		if issues.Err() != nil {
			return false
		}
		_, err := celenv.Program(env, checked) // calls of constants are made here
		return err == nil
	}
}

// Most expressions of a grower compile, so that they are evaluated.
func TestGrower(t *testing.T) {
	compiles := compiler(t)
	g, refused := grower{rand.New(rand.NewPCG(1, 2))}, 0
	const n = 500
	for range n {
		if !compiles(g.never(1 + g.IntN(grownDepth))) {
			refused++
		}
	}
	if refused > n/5 {
		t.Errorf("%d of %d do not compile", refused, n)
	}
}
