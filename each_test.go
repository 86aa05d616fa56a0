package celgate_test

import (
	"fmt"
	"strings"
	"testing"
)

// eachMutation is a mutation for the items of a list.
func eachMutation(list, more, expression string) string {
	return fmt.Sprintf(`  reinvocationPolicy: Never
  mutations:
  - name: each
    forEach: {name: x, expression: '%s'}
    %spatchType: ApplyConfiguration
    applyConfiguration: {expression: '%s'}
`, list, more, expression)
}

// TestForEach makes a mutation for each item of a list.
func TestForEach(t *testing.T) {
	const put = `Object{data: {x: x + object.data.?all.orValue("")}}`
	const all = `Object{data: {"all": object.data.?all.orValue("") + x}}`
	const failed = "403 Invalid: policy 'p', mutation 'each' with binding 'p' denied request: "
	for name, c := range map[string]struct{ spec, want string }{
		"items":                       {eachMutation(`object.data.l.split(",")`, "", put), "map[a:a b:b l:a,b]"},
		"one sees the one before":     {eachMutation(`object.data.l.split(",")`, "", all), "map[all:ab l:a,b]"},
		"none":                        {eachMutation(`[]`, "", put), "map[l:a,b]"},
		"an optional without a value": {eachMutation(`object.?data.?z.optMap(z, z.split(","))`, "", put), "map[l:a,b]"},
		"an optional with one":        {eachMutation(`object.?data.?l.optMap(z, z.split(","))`, "", put), "map[a:a b:b l:a,b]"},
		"a condition":                 {eachMutation(`object.data.l.split(",")`, "condition: x != \"a\"\n    ", put), "map[b:b l:a,b]"},
		"a condition that sees what was made": {eachMutation(`object.data.l.split(",")`, "condition: '!has(object.data.all)'\n    ", all),
			"map[all:a l:a,b]"},
		"a variable": {"  variables: [{name: l, expression: 'object.data.l.split(\",\")'}]\n" + eachMutation(`variables.l`, "", put), "map[a:a b:b l:a,b]"},
		"null":       {eachMutation(`object.data.l.split(",")`, "", `x == "a" ? null : `+put), "map[b:b l:a,b]"},
		"no list": {eachMutation(`dyn(object.data.l)`, "", put),
			failed + "forEach returned string instead of a list"},
		"an error of the list": {eachMutation(`[object.data.z]`, "", put), failed + "expression '[object.data.z]' resulted in error: no such key: z"},
		"too many":             {eachMutation(`lists.range(65).map(i, string(i))`, "", put), failed + "forEach gave 65 items, at most 64"},
		"as many as there may be": {eachMutation(`lists.range(64).map(i, "n" + string(i))`, "", `Object{data: {"n": string(int(object.data.?n.orValue("0")) + 1)}}`),
			"map[l:a,b n:64]"},
		"an error": {eachMutation(`object.data.l.split(",")`, "", `x == "b" ? Object{data: {"y": object.data.z}} : `+put),
			failed + "x[1]: expression 'x == \"b\" ? Object{data: {\"y\": object.data.z}} : " + put + "' resulted in error: no such key: z"},
		"an error that is ignored leaves nothing": {"  failurePolicy: Ignore\n" + eachMutation(`object.data.l.split(",")`, "", `x == "b" ? Object{data: {"y": object.data.z}} : `+put),
			"map[l:a,b]"},
		"an error of a condition": {eachMutation(`object.data.l.split(",")`, "condition: object.data.z == x\n    ", put),
			failed + "x[0]: expression 'object.data.z == x' resulted in error: no such key: z"},
		"a denial": {eachMutation(`object.data.l.split(",")`, "", `x == "b" ? false : `+put), "422 Invalid: policy 'p', mutation 'each' with binding 'p' denied request: x[1]: failed expression: x == \"b\" ? false : " + put},
		"a message": {eachMutation(`object.data.l.split(",")`, "messageExpression: '\"not \" + x'\n    ", `x == "b" ? false : `+put),
			"422 Invalid: policy 'p', mutation 'each' with binding 'p' denied request: not b"},
		"with a scope": {eachMutation(`["!", "?"]`, "scope: data[*]\n    condition: key == \"l\"\n    ", `objects.replace(item + x)`), "map[l:a,b!?]"},
		"a budget for all": {eachMutation(`lists.range(64).map(i, string(i))`, "", `Object{data: {"n": lists.range(60000).map(i, i).size() > 0 ? x : x}}`),
			failed + "x["},
		"what is made stays":    {"  mutationValidationPolicy: Fail\n" + eachMutation(`object.data.l.split(",")`, "", `Object{data: {x: x}}`), "map[a:a b:b l:a,b]"},
		"what is made does not": {"  mutationValidationPolicy: Fail\n" + eachMutation(`object.data.l.split(",")`, "", all), `422 Invalid: configmaps "cm" is forbidden: AdmissionPolicy 'p' with binding 'p' denied request: mutation each no longer holds: made again, it changes data.all from "ab" to "abab"`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := describeDecision(admit(t, dialectPolicy("p", c.spec), `{l: "a,b"}`)); got != c.want && !(strings.HasSuffix(c.want, "x[") && strings.HasPrefix(got, c.want)) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
	for name, c := range map[string]struct{ old, new, want string }{
		"an int":          {`'object.data.l'`, `'1'`, "spec.mutations[0].forEach.expression: Invalid value: \"1\": must evaluate to a list but got int"},
		"no name":         {"name: x", `name: ""`, "spec.mutations[0].forEach.name: Required value"},
		"no identifier":   {"name: x", "name: x-y", `spec.mutations[0].forEach.name: Invalid value: "x-y": must be a valid CEL identifier`},
		"a taken name":    {"name: x", "name: object", `spec.mutations[0].forEach.name: Invalid value: "object": has another meaning in expressions`},
		"no expression":   {`expression: 'object.data.l'}`, `expression: ""}`, "spec.mutations[0].forEach.expression: Required value"},
		"another name":    {"name: x", "name: w", "undeclared reference to 'x'"},
		"of another type": {`'object.data.l'`, `'[[1]]'`, "no matching overload for '_+_'"},
	} {
		t.Run("refused: "+name, func(t *testing.T) {
			got := ""
			for _, r := range engineOf(t, strings.Replace(dialectPolicy("p", eachMutation("object.data.l", "", put)), c.old, c.new, 1)).Rejections() {
				got += r.Status.Message
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
