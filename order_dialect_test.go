package celgate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/celgate/celgate"
)

// sets is a policy of the dialect that sets a key of a ConfigMap's data; more are further members of its spec.
func sets(name, key, value, more string) string {
	return mutates(name, `Object{data: {"`+key+`": `+value+`}}`, more)
}

func mutates(name, expression, more string) string {
	if !strings.Contains(more, "reinvocationPolicy") {
		more += "\n  reinvocationPolicy: Never"
	}
	return strings.Replace(dialectPolicy(name, fmt.Sprintf(`
  %s
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: '%s'`, more, expression)), configMapRules, mutableRules, 1)
}

const ifNeeded = "reinvocationPolicy: IfNeeded"

// turns are the names of the mutating policies in their order, each with its reasons.
func turns(t *testing.T, e *celgate.Engine) string {
	t.Helper()
	all, err := e.Turns()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, turn := range all {
		line := turn.Name
		if len(turn.Why) > 0 {
			line += ": " + strings.Join(turn.Why, ", ")
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func orderProblems(t *testing.T, e *celgate.Engine) string {
	t.Helper()
	all, err := e.OrderProblems()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for i := range all {
		lines = append(lines, all[i].Reason+" "+all[i].Error())
	}
	return strings.Join(lines, "\n")
}

// TestOrderOfDialect tests the order of policies, given in the order of their names a, b, c, and the problems with it.
func TestOrderOfDialect(t *testing.T) {
	condition := func(expression string) string {
		return "matchConditions: [{name: c, expression: '" + expression + "'}]"
	}
	for name, c := range map[string]struct{ policies, want, problems string }{
		"names alone": {sets("b", "y", `"1"`, "") + sets("a", "x", `"1"`, ""), "a\nb", ""},
		"a reader comes behind": {sets("a", "x", "object.data.y", "") + sets("b", "y", `"1"`, ""),
			"b\na: after b, which writes data.y", ""},
		"a match condition reads": {sets("a", "x", `"1"`, condition(`has(object.data.y)`)) + sets("b", "y", `"1"`, ""),
			"b\na: after b, which writes data.y", ""},
		"a variable reads": {sets("a", "x", "variables.v", "variables: [{name: v, expression: 'object.data.?y.orValue(\"\") + \"!\"'}]") +
			sets("b", "y", `"1"`, ""), "b\na: after b, which writes data.y", ""},
		"a chain": {sets("a", "x", "object.data.y", "") + sets("b", "y", "object.data.z", "") + sets("c", "z", `"1"`, ""),
			"c\nb: after c, which writes data.z\na: after b, which writes data.y", ""},
		"guards of neighbours are no reads": {
			sets("a", "x", `"1"`, condition(`!has(object.data) || !("x" in object.data)`)) +
				sets("b", "y", `"1"`, condition(`!has(object.data) || !("y" in object.data)`)), "a\nb", ""},
		"a loop over keys comes behind": {sets("a", "x", "string(size(object.data))", "") + sets("b", "y", `"1"`, ""),
			"b\na: after b, which writes data", ""},
		"other operations do not meet": {strings.Replace(sets("a", "x", "object.data.y", ""), "CREATE", "UPDATE", 1) +
			sets("b", "y", `"1"`, ""), "a\nb", ""},
		"a cycle": {sets("a", "x", "object.data.y", "") + sets("b", "y", "object.data.x", "") + sets("c", "c", "object.data.x", ""),
			"a\nb\nc: after a, which writes data.x",
			"Cycle policies.yaml:2:1: AdmissionPolicy a: b reads data.x, which a writes; a reads data.y, which b writes"},
		"order breaks a cycle": {sets("a", "x", "object.data.y", "order: {after: [b]}") + sets("b", "y", "object.data.x", ""),
			"b\na: after b, by spec.order.after[0], after b, which writes data.y", ""},
		"order before": {sets("a", "x", `"1"`, "") + sets("b", "y", `"1"`, "order: {before: [a]}"),
			"b\na: after b, by its spec.order.before[0]", ""},
		"order overrides what is read": {sets("a", "x", "object.data.y", "order: {before: [b]}") + sets("b", "y", `"1"`, ""),
			"a\nb: after a, by its spec.order.before[0]", ""},
		"order names nobody": {sets("a", "x", `"1"`, "order: {after: [z]}"), "a",
			`UnknownPolicy policies.yaml:8:19: AdmissionPolicy a: spec.order.after[0]: Invalid value: "z": a mutating policy of this name is not in force`},
		"order contradicts another": {sets("a", "x", `"1"`, "order: {after: [b]}") + sets("b", "y", `"1"`, "order: {after: [a]}"),
			"b\na: after b, by spec.order.after[0]",
			`Contradiction policies.yaml:27:19: AdmissionPolicy b: spec.order.after[0]: Invalid value: "a": a is already after b`},
		"failurePolicy decides": {sets("a", "x", "object.data.y", "") + sets("b", "y", `"1"`, "failurePolicy: Ignore"),
			"a\nb", "OtherWebhook policies.yaml:2:1: AdmissionPolicy a: a reads data.y, which b writes: failurePolicy Fail runs before Ignore"},
		"order against failurePolicy": {sets("a", "x", `"1"`, "order: {after: [b]}") + sets("b", "y", `"1"`, "failurePolicy: Ignore"),
			"a\nb", `Contradiction policies.yaml:8:19: AdmissionPolicy a: spec.order.after[0]: Invalid value: "b": b has failurePolicy Ignore and a Fail, which runs first`},
		"released policies come first": {sets("a", "x", "object.data.y", "") + releasedPolicy("b", `Object{data: {"y": "1"}}`), "b\na", ""},
		"order before a released one": {sets("a", "x", `"1"`, "order: {before: [b]}") + releasedPolicy("b", "Object{}"), "b\na",
			`Contradiction policies.yaml:8:20: AdmissionPolicy a: spec.order.before[0]: Invalid value: "b": b is a MutatingAdmissionPolicy, and those run before policies of the dialect`},
		"what is computed may be everything": {mutates("b", `variables.p`, "variables: [{name: p, expression: 'dyn([Object{}])[0]'}]") +
			sets("a", "x", "object.data.y", ""), "b\na: after b, which may write data.y", ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := engineOf(t, c.policies)
			for _, r := range e.Rejections() {
				t.Error(r.Status.Message)
			}
			if got := turns(t, e); got != c.want {
				t.Errorf("order\n%s\nwant\n%s", got, c.want)
			}
			if got := orderProblems(t, e); got != c.problems {
				t.Errorf("problems\n%s\nwant\n%s", got, c.problems)
			}
		})
	}
}

func releasedPolicy(name, expression string) string {
	native := strings.NewReplacer("policy.celgate.dev/v1alpha1", "admissionregistration.k8s.io/v1",
		"kind: AdmissionPolicy", "kind: MutatingAdmissionPolicy")
	return native.Replace(mutates(name, expression, ""))
}

// TestDerivedOrderNeedsOnePass runs chains of policies whose names are in the wrong order: one pass in the derived
// order has the same result as as many passes as there are policies in the order of the names.
func TestDerivedOrderNeedsOnePass(t *testing.T) {
	chain := sets("a", "a", "object.data.b", "") + sets("b", "b", "object.data.c", "") + sets("c", "c", `"1"`, "")
	if got := describeDecision(admit(t, chain, "{b: \"0\", c: \"0\"}")); got != "map[a:1 b:1 c:1]" {
		t.Error(got)
	}
}

func TestPassesOfDialect(t *testing.T) {
	// The orders make a run before b and b before c, although a reads fields that b writes, and b fields that c writes.
	chain := func(more string) string {
		return sets("a", "a", "object.data.b", more+"\n  order: {before: [b]}") +
			sets("b", "b", "object.data.c", more+"\n  order: {before: [c]}") + sets("c", "c", `"1"`, more)
	}
	for name, c := range map[string]struct {
		policies, data, want string
		changes              int
		fights               string
	}{
		"never": {chain(""), "{b: \"0\", c: \"0\"}", "map[a:0 b:0 c:1]", 2, ""},
		"twice": {chain(ifNeeded), "{b: \"0\", c: \"0\"}", "map[a:1 b:1 c:1]", 4, ""},
		"more than twice": {sets("a", "a", "object.data.b", ifNeeded+"\n  order: {before: [b]}") +
			sets("b", "b", "object.data.c", ifNeeded+"\n  order: {before: [c]}") +
			sets("c", "c", `object.data.?c.orValue("") + "+"`, ifNeeded), "{b: \"0\", c: \"0\"}", "map[a:0+ b:0+ c:0+]", 4, ""},
		"what nobody changed does not run again": {
			mutates("a", `Object{data: {"count": object.data.count + "+"}}`, ifNeeded) + sets("b", "key", `"1"`, ifNeeded),
			"{count: \"\"}", "map[count:+ key:1]", 2, ""},
		"what was read runs again": {
			mutates("a", `Object{data: {"a": object.data.key}}`, ifNeeded+"\n  order: {before: [b]}") + sets("b", "key", `"1"`, ""),
			"{key: \"0\"}", "map[a:1 key:1]", 3, ""},
		"what was written over runs again": {sets("a", "x", `"a"`, ifNeeded) + sets("b", "x", `"b"`, ""),
			"{}", "map[x:a]", 3, ""},
		"a fight": {sets("a", "x", `"a"`, ifNeeded) + sets("b", "x", `"b"`, ifNeeded), "{}", "map[x:b]", 4,
			`[AdmissionPolicy a does not converge: it conflicts with AdmissionPolicy b over data.x: "a", "b", "a", "b", "a"]`},
		"a fight that is allowed more": {sets("a", "x", `"a"`, ifNeeded+"\n  maxPasses: 5") +
			sets("b", "x", `"b"`, ifNeeded+"\n  maxPasses: 5"), "{}", "map[x:b]", 10,
			`[AdmissionPolicy a does not converge: it conflicts with AdmissionPolicy b over data.x: "a", "b", "a", "b", "a", "b", "a", "b", "a", "b", "a"]`},
		"released policies run again as ever": {
			strings.ReplaceAll(releasedPolicy("a", `Object{data: {"count": object.data.count + "+"}}`), "Never", "IfNeeded") +
				sets("b", "key", `"1"`, ""), "{count: \"\"}", "map[count:++ key:1]", 3, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := admit(t, c.policies, c.data)
			fights := ""
			if len(d.Fights()) > 0 {
				fights = fmt.Sprint(d.Fights())
			}
			if got := describeDecision(d); got != c.want || len(d.Changes) != c.changes || fights != c.fights {
				t.Errorf("%s in %d changes, fights %s\nwant %s in %d, %s", got, len(d.Changes), fights, c.want, c.changes, c.fights)
			}
			for _, f := range d.Fights() {
				if !strings.Contains(strings.Join(d.WarningTexts(), "\n"), f.String()) {
					t.Errorf("no warning about %v: %q", f, d.WarningTexts())
				}
			}
		})
	}
}

func TestCycleIsToldWhereItTookPart(t *testing.T) {
	const want = "b reads data.x, which a writes; a reads data.w, which b writes"
	a := sets("a", "x", "object.data.w", "")
	for name, c := range map[string]struct {
		policies string
		told     bool
	}{
		"both": {a + sets("b", "w", "object.data.x", ""), true},
		"one": {a + sets("b", "w", "object.data.x",
			"matchConditions: [{name: c, expression: 'object.metadata.name == \"other\"'}]"), false},
	} {
		d := admit(t, c.policies, "{x: \"1\", w: \"2\"}")
		if told := strings.Contains(fmt.Sprint(d.Notes), want); told != c.told {
			t.Errorf("%s: notes %v", name, d.Notes)
		}
	}
}
