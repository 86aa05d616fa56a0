package celgate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// itemPolicy is a policy of Pods with mutations, as they are written in YAML.
func itemPolicy(mutations ...string) string {
	var b strings.Builder
	for _, m := range mutations {
		b.WriteString("  - " + strings.ReplaceAll(m, "\n", "\n    ") + "\n")
	}
	return fmt.Sprintf(`
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicy
metadata: {name: p}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  reinvocationPolicy: IfNeeded
  variables: [{name: proxy, expression: '"http://proxy"'}]
  mutations:
%s
---
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicyBinding
metadata: {name: p}
spec: {policyName: p}
`, b.String())
}

func applies(scope, expression string) string {
	return fmt.Sprintf("scope: %s\npatchType: ApplyConfiguration\napplyConfiguration: {expression: %q}", scope, expression)
}

// TestItems changes the values of scopes. Wanted is the spec of the Pod, or the message of a denial.
func TestItems(t *testing.T) {
	const object = `{initContainers: [{name: i, image: example.com/i, args: [x]}],
		containers: [{name: a, image: example.com/a, env: [{name: KEEP, value: k}, {name: DROP, value: d}]}, {name: b, image: b}],
		tolerations: [{key: k, operator: Exists}], nodeSelector: {disk: hdd}}`
	for _, c := range []struct{ name, policy, want string }{
		{"all containers", itemPolicy(applies("kubernetes.allContainers", `Item{imagePullPolicy: "Never"}`)),
			`{initContainers: [{name: i, image: example.com/i, args: [x], imagePullPolicy: Never}], containers: [
			{name: a, image: example.com/a, imagePullPolicy: Never, env: [{name: KEEP, value: k}, {name: DROP, value: d}]},
			{name: b, image: b, imagePullPolicy: Never}], tolerations: [{key: k, operator: Exists}], nodeSelector: {disk: hdd}}`},
		{"a condition", itemPolicy("condition: item.image.startsWith('example.com/') && key == 0\n" +
			applies("spec.containers[*]", `Item{env: [Item.env{name: "PROXY", value: variables.proxy}]}`)),
			`{initContainers: [{name: i, image: example.com/i, args: [x]}], containers: [
			{name: a, image: example.com/a, env: [{name: KEEP, value: k}, {name: DROP, value: d}, {name: PROXY, value: "http://proxy"}]},
			{name: b, image: b}], tolerations: [{key: k, operator: Exists}], nodeSelector: {disk: hdd}}`},
		{"an item goes", itemPolicy(applies("spec.containers[*].env[name=DROP]", `objects.unset()`)),
			`{initContainers: [{name: i, image: example.com/i, args: [x]}], containers: [
			{name: a, image: example.com/a, env: [{name: KEEP, value: k}]},
			{name: b, image: b}], tolerations: [{key: k, operator: Exists}], nodeSelector: {disk: hdd}}`},
		{"an atomic list", itemPolicy(applies("spec.tolerations[*]", `Item{effect: "NoSchedule"}`)),
			`{initContainers: [{name: i, image: example.com/i, args: [x]}], containers: [
			{name: a, image: example.com/a, env: [{name: KEEP, value: k}, {name: DROP, value: d}]}, {name: b, image: b}],
			tolerations: [{key: k, operator: Exists, effect: NoSchedule}], nodeSelector: {disk: hdd}}`},
		{"values of a map", itemPolicy(applies("spec.nodeSelector[k]", `objects.replace(scopePath.k + "-" + item + "-" + key)`)),
			`{initContainers: [{name: i, image: example.com/i, args: [x]}], containers: [
			{name: a, image: example.com/a, env: [{name: KEEP, value: k}, {name: DROP, value: d}]}, {name: b, image: b}],
			tolerations: [{key: k, operator: Exists}], nodeSelector: {disk: disk-hdd-disk}}`},
		{"a JSON patch", itemPolicy("scope: spec.containers[*]\npatchType: JSONPatch\n" +
			`jsonPatch: {expression: '[JSONPatch{op: "add", path: "/image", value: scopePath.field}]'}`),
			`{initContainers: [{name: i, image: example.com/i, args: [x]}], containers: [
			{name: a, image: "spec.containers[0]", env: [{name: KEEP, value: k}, {name: DROP, value: d}]}, {name: b, image: "spec.containers[1]"}],
			tolerations: [{key: k, operator: Exists}], nodeSelector: {disk: hdd}}`},
		{"a JSON merge patch", itemPolicy("scope: spec.containers[*]\npatchType: JSONMergePatch\n" +
			`jsonMergePatch: {expression: '{"env": null, "image": item.name}'}`),
			`{initContainers: [{name: i, image: example.com/i, args: [x]}], containers: [{name: a, image: a}, {name: b, image: b}],
			tolerations: [{key: k, operator: Exists}], nodeSelector: {disk: hdd}}`},
		{"absent", itemPolicy(applies("spec.ephemeralContainers[*].ports[*]", `Item{name: "x"}`)), object},
		{"null changes nothing", itemPolicy(applies("spec.containers[*]", `item.name == "a" ? null : Item{image: "c"}`)),
			`{initContainers: [{name: i, image: example.com/i, args: [x]}], containers: [
			{name: a, image: example.com/a, env: [{name: KEEP, value: k}, {name: DROP, value: d}]}, {name: b, image: c}],
			tolerations: [{key: k, operator: Exists}], nodeSelector: {disk: hdd}}`},
		{"an optional that is none", itemPolicy(applies("spec.initContainers[*]", `Item{?args: optional.none()}`)),
			`{initContainers: [{name: i, image: example.com/i}], containers: [
			{name: a, image: example.com/a, env: [{name: KEEP, value: k}, {name: DROP, value: d}]}, {name: b, image: b}],
			tolerations: [{key: k, operator: Exists}], nodeSelector: {disk: hdd}}`},
		{"a part of the value", itemPolicy(applies("spec.containers[*]", `objects.replace(objects.apply(item, Item{image: "c"}))`)),
			`{initContainers: [{name: i, image: example.com/i, args: [x]}], containers: [
			{name: a, image: c, env: [{name: KEEP, value: k}, {name: DROP, value: d}]}, {name: b, image: c}],
			tolerations: [{key: k, operator: Exists}], nodeSelector: {disk: hdd}}`},
		{"a part of the object", itemPolicy(applies("spec.containers[name=a].env[name=DROP]",
			`objects.replace(objects.apply(item, Object.spec.containers.env{value: "e"}))`)),
			`{initContainers: [{name: i, image: example.com/i, args: [x]}], containers: [
			{name: a, image: example.com/a, env: [{name: KEEP, value: k}, {name: DROP, value: e}]}, {name: b, image: b}],
			tolerations: [{key: k, operator: Exists}], nodeSelector: {disk: hdd}}`},
		{"no such part", itemPolicy(applies("spec.containers[*]", `objects.replace(objects.apply(item, Item.nope{image: "c"}))`)),
			`!policy 'p' with binding 'p' denied request: spec.containers[0]: expression 'objects.replace(objects.apply(item, ` +
				`Item.nope{image: "c"}))' resulted in error: objects.apply: no Item.nope in v1 Pod`},
		{"removed", itemPolicy(applies("spec.containers[*]", `objects.remove(item)`)), `!policy 'p' with binding 'p' denied request: ` +
			`error applying patch: spec.containers[0]: objects.remove(…) is for items of lists: write objects.unset()`},
		{"what cannot be decoded, ignored", strings.Replace(itemPolicy("scope: spec.containers[*]\npatchType: JSONPatch\n"+
			`jsonPatch: {expression: '[JSONPatch{op: "add", path: "/image", value: dyn(3)}]'}`), "spec:\n", "spec:\n  failurePolicy: Ignore\n", 1), object},
		{"two scopes", itemPolicy(applies("spec.containers[*]", `Item{image: "c"}`), applies("spec.containers[name=b]", `Item{image: item.image + "!"}`)),
			`{initContainers: [{name: i, image: example.com/i, args: [x]}], containers: [
			{name: a, image: c, env: [{name: KEEP, value: k}, {name: DROP, value: d}]}, {name: b, image: c!}],
			tolerations: [{key: k, operator: Exists}], nodeSelector: {disk: hdd}}`},
		{"false", itemPolicy(applies("spec.containers[*]", `item.name == "b" ? false : null`)),
			`!policy 'p' with binding 'p' denied request: spec.containers[1]: failed expression: item.name == "b" ? false : null`},
		{"false with a message", itemPolicy("message: not this one\n" + applies("spec.containers[*]", `item.name == "b" ? false : null`)),
			`!policy 'p' with binding 'p' denied request: spec.containers[1]: not this one`},
		{"false with a message made of it", itemPolicy("messageExpression: scopePath.field + ' is ' + item.name\n" +
			applies("spec.containers[*]", `item.name == "b" ? false : null`)),
			`!policy 'p' with binding 'p' denied request: spec.containers[1] is b`},
		{"an error", itemPolicy(applies("spec.containers[*]", `Item{image: item.none}`)),
			`!policy 'p' with binding 'p' denied request: spec.containers[0]: expression 'Item{image: item.none}' resulted in error: no such key: none`},
		{"no consent", itemPolicy(applies("spec.initContainers[*]", `Item{args: ["y"]}`)),
			`!policy 'p' with binding 'p' denied request: error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: ` +
				`.spec.initContainers[0].args: the object has another value there, objects.replace(…) consents`},
		{"no such field", itemPolicy(applies("spec.containers[*]", `Item{imagination: "y"}`)),
			`!policy 'p' with binding 'p' denied request: error applying patch: spec.containers[0]: failed to convert patch object to typed object: ` +
				`.imagination: field not declared in schema`},
	} {
		t.Run(c.name, func(t *testing.T) {
			engine := engineOf(t, untypedPolicy(c.policy))
			for _, r := range engine.Rejections() {
				t.Fatal(r.Status.Message)
			}
			d := admitPod(t, engine, podOf(t, pod(object)))
			if message, denied := strings.CutPrefix(c.want, "!"); denied {
				if d.Allowed || d.Status.Message != message {
					t.Errorf("got  %s\nwant %s", describeDecision(d), message)
				}
				return
			}
			if !d.Allowed {
				t.Fatal(d.Status.Message)
			}
			plain := engineOf(t, podPolicy("Object{}"))
			got, want := show(d.Object), show(admitPod(t, plain, podOf(t, pod(c.want))).Object)
			if strings.ReplaceAll(got, "imagePullPolicy: Always", "imagePullPolicy: IfNotPresent") !=
				strings.ReplaceAll(want, "imagePullPolicy: Always", "imagePullPolicy: IfNotPresent") {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// TestItemsRefused tests mistakes that are known before a request.
func TestItemsRefused(t *testing.T) {
	for policy, want := range map[string]string{
		itemPolicy(applies("spec.containers[0]", `Item{}`)):                  "an index may be another item later",
		itemPolicy(applies("spec.containers[*]", `Object{}`)):                "must evaluate to Item but got Object",
		itemPolicy(applies("spec.containers[*]", `"x"`)):                     "must evaluate to Item but got string",
		itemPolicy(applies("spec.containers[*]", `Item{a: scope}`)):          "undeclared reference to 'scope'",
		strings.Replace(podPolicy(`Item{}`), "p.example.com", "p", 1):        "undeclared reference to 'Item'",
		podPolicy(`Object{spec: Object.spec{hostname: item}}`):               "undeclared reference to 'item'",
		itemPolicy("condition: item\n" + applies("spec.hosts[*]", `Item{}`)): "must evaluate to bool",
	} {
		engine := engineOf(t, policy)
		if len(engine.Rejections()) == 0 || !strings.Contains(engine.Rejections()[0].Status.Message, want) {
			t.Errorf("%s\nis taken, want %s", policy, want)
		}
	}
}

// TestItemsBounds tests that all values of a scope share one budget, and that their number is limited.
func TestItemsBounds(t *testing.T) {
	annotations := map[string]any{}
	for i := range 10_001 {
		annotations[fmt.Sprintf("a%05d", i)] = "x"
	}
	object := podOf(t, barePod)
	object["metadata"].(map[string]any)["annotations"] = annotations
	for policy, want := range map[string]string{
		itemPolicy(applies("metadata.annotations[*]", `objects.replace("y")`)): "has more than 10000 values",
	} {
		d := admitPod(t, engineOf(t, policy), object)
		if d.Allowed || !strings.Contains(d.Status.Message, want) {
			t.Errorf("got %s, want %s", describeDecision(d), want)
		}
	}
	delete(annotations, "a10000")
	costly := "[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, a + b + c > 0)))"
	d := admitPod(t, engineOf(t, itemPolicy("condition: '"+costly+"'\n"+applies("metadata.annotations[*]", `objects.replace("y")`))), object)
	if d.Allowed || !strings.Contains(d.Status.Message, "running out of cost budget") {
		t.Errorf("got %s", describeDecision(d))
	}
	d = admitPod(t, engineOf(t, itemPolicy(applies("metadata.annotations[*]", `objects.replace("y")`))), object)
	if !d.Allowed || !d.Mutated {
		t.Errorf("got %s", describeDecision(d))
	}
}

// TestItemsOrder tests that the writer of the values of a scope runs before their reader.
func TestItemsOrder(t *testing.T) {
	named := func(name, text string) string {
		return strings.ReplaceAll(strings.ReplaceAll(text, "name: p}", "name: "+name+"}"), "policyName: p}", "policyName: "+name+"}")
	}
	engine := engineOf(t, named("a", itemPolicy(applies("spec.containers[*]", `Item{image: item.image + "-" + item.imagePullPolicy}`)))+"---\n"+
		named("b", itemPolicy(applies("kubernetes.allContainers", `Item{imagePullPolicy: "Never"}`)))+"---\n"+
		named("c", itemPolicy(applies("spec.volumes[*]", `Item{name: item.name + "x"}`))))
	turns, err := engine.Turns()
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, turn := range turns {
		order = append(order, turn.Ref.Name)
	}
	if !slices.Equal(order, []string{"b", "a", "c"}) && !slices.Equal(order, []string{"b", "c", "a"}) {
		t.Errorf("the order is %v", order)
	}
}

// BenchmarkItems compares a scope over 100 containers with the same mutation written by hand.
func BenchmarkItems(b *testing.B) {
	var containers []any
	for i := range 100 {
		containers = append(containers, map[string]any{"name": fmt.Sprintf("c%d", i), "image": "registry.example.com/i"})
	}
	text, err := yaml.Marshal(map[string]any{"containers": containers})
	if err != nil {
		b.Fatal(err)
	}
	object := "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: default}\nspec:\n  " +
		strings.ReplaceAll(string(text), "\n", "\n  ")
	for name, policy := range map[string]string{
		"scope": itemPolicy("condition: item.image.startsWith('registry.example.com/')\n" +
			applies("spec.containers[*]", `Item{imagePullPolicy: "Never"}`)),
		"hand": itemPolicy(strings.Replace(applies("x", `Object{spec: Object.spec{containers: object.spec.containers.filter(c,
			c.image.startsWith('registry.example.com/')).map(c, Object.spec.containers{name: c.name, imagePullPolicy: "Never"})}}`), "scope: x\n", "", 1)),
	} {
		b.Run(name, func(b *testing.B) {
			engine := engineOf(b, policy)
			request := podRequest(b, engine, object, "")
			b.ReportAllocs()
			for b.Loop() {
				d, err := engine.Mutate(b.Context(), request)
				if err != nil || !d.Mutated {
					b.Fatal(d, err)
				}
			}
		})
	}
}
