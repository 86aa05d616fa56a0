package celgate_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/lower"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
)

// scopedMutations are mutations of Pods and Deployments that have a native form.
var scopedMutations = map[string]string{
	"scalar":         applies("kubernetes.allContainers", `Item{imagePullPolicy: "Never"}`),
	"computed":       applies("kubernetes.allContainers", `Item{workingDir: "/" + item.name + scopePath.field}`),
	"condition":      "condition: item.image.startsWith('r/') && key == 0\n" + applies("kubernetes.allContainers", `Item{tty: true}`),
	"nothing":        applies("spec.containers[*]", `item.name == "a" ? null : Item{image: "c"}`),
	"struct":         applies("kubernetes.allContainers", `Item{securityContext: Item.securityContext{runAsNonRoot: true, privileged: objects.unset()}}`),
	"unset member":   applies("kubernetes.allContainers", `Item{workingDir: objects.unset(), ?tty: optional.none(), args: objects.unset()}`),
	"replace member": applies("kubernetes.allContainers", `Item{args: objects.replace(["x", string(item.name)])}`),
	"optional":       applies("kubernetes.allContainers", `Item{?workingDir: item.?image, ?stdin: item.?stdinOnce}`),
	"keyed list":     applies("kubernetes.allContainers", `Item{env: [Item.env{name: "PROXY", value: "p"}, Item.env{name: "A", value: item.name}]}`),
	"keyed list, one": "condition: key > 0\n" + applies("spec.containers[*]",
		`Item{env: [Item.env{name: "PROXY", value: "p"}], ports: [Item.ports{containerPort: 80, protocol: "TCP", name: "x"}]}`),
	"unset items":     applies("kubernetes.allContainers", `item.image.startsWith("r/") ? objects.unset() : null`),
	"unset inside":    applies("spec.containers[*].env[name=A]", `objects.unset()`),
	"unset by value":  "condition: item.value == 'v'\n" + applies("spec.containers[*].env[*]", `objects.unset()`),
	"values of a map": applies("metadata.labels[k]", `scopePath.k.startsWith("x") ? objects.replace(key + item) : null`),
	"unset of a map":  "condition: key.contains('/')\n" + applies("metadata.labels[*]", `objects.unset()`),
	"quoted member":   applies(`metadata.labels["x.b/c"]`, `objects.replace(item + "1")`),
	"pod spec":        applies("kubernetes.podSpec", `Item{hostNetwork: false, nodeSelector: objects.replace({"a": "b"})}`),
	"map":             applies("metadata", `Item{labels: {"x.b/c": "1", "new": string(key == null), "a": objects.unset()}}`),
	"replace items":   applies("spec.tolerations[*]", `objects.replace(Item{key: item.key, operator: "Exists"})`),
	"atomic items":    applies("spec.tolerations[*]", `Item{effect: "NoExecute"}`),
	"struct member":   applies("spec.containers[*].securityContext", `Item{privileged: false}`),
	"JSON patch": "scope: spec.containers[c].env[e]\npatchType: JSONPatch\njsonPatch: {expression: " +
		`'[JSONPatch{op: "add", path: "/value", value: string(scopePath.c) + string(scopePath.e)}]'}`,
	"JSON patch of a literal": "scope: kubernetes.allContainers\npatchType: JSONPatch\njsonPatch: {expression: " +
		`'has(item.securityContext) ? [] : [JSONPatch{op: "add", path: "/securityContext", value: Item.securityContext{privileged: true}}]'}`,
	"JSON patch of all": "scope: kubernetes.allContainers\npatchType: JSONPatch\njsonPatch: {expression: " +
		`'["a", "b"].map(x, JSONPatch{op: "add", path: "/env/" + "-", value: {"name": x}})'}`,
	"variables": applies("kubernetes.allContainers", `Item{workingDir: variables.proxy + object.metadata.name}`),
	"for each": `forEach: {name: label, expression: '["a", "new"]'}` + "\ncondition: '!(label in object.metadata.?labels.orValue({}))'\n" +
		"patchType: ApplyConfiguration\napplyConfiguration: {expression: 'Object{metadata: Object.metadata{labels: {label: label + \"!\"}}}'}",
	"for each in a scope": `forEach: {name: env, expression: '["A", "B"]'}` + "\ncondition: item.name != 'b'\n" +
		applies("kubernetes.allContainers", `Item{env: [Item.env{name: env, value: "v" + env}]}`),
	"condition alone": "condition: has(object.metadata.labels) && variables.proxy != ''\n" +
		"patchType: ApplyConfiguration\napplyConfiguration: {expression: 'Object{metadata: Object.metadata{labels: {\"c\": \"d\"}}}'}",
	"condition of a JSON patch": "condition: has(object.metadata.labels)\n" +
		"patchType: JSONPatch\njsonPatch: {expression: '[JSONPatch{op: \"add\", path: \"/metadata/labels/z\", value: \"d\"}]'}",
	"null alone": "patchType: JSONPatch\njsonPatch: {expression: 'has(object.metadata.labels) ? " +
		"[JSONPatch{op: \"add\", path: \"/metadata/labels/z\", value: \"d\"}] : null'}",
}

// TestLoweredMutations changes random objects by mutations of the dialect, and by the native ones that they become.
func TestLoweredMutations(t *testing.T) {
	types, err := builtin.Registry("1.37")
	if err != nil {
		t.Fatal(err)
	}
	for name, mutation := range scopedMutations {
		t.Run(name, func(t *testing.T) {
			policies := strings.ReplaceAll(itemPolicy(mutation), `{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}`,
				`{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}, {apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}`)
			if strings.Contains(mutation, "scope: spec.") {
				policies = itemPolicy(mutation)
			}
			policies = strings.ReplaceAll(policies, "IfNeeded", "Never") // kube-apiserver also means where it is not
			own := engineOf(t, policies)
			native := engineOf(t, nativeText(t, policies, types))
			for _, r := range append(own.Rejections(), native.Rejections()...) {
				t.Fatal(r.Status.Message)
			}
			random := rand.New(rand.NewPCG(14, 0))
			mutated := 0
			for i := range 60 {
				object := randomWorkload(random, i%2 == 1 && !strings.Contains(mutation, "scope: spec."))
				want, got := admitNew(t, own, object), admitNew(t, native, object)
				if want.Allowed != got.Allowed || !tree.Equal(want.Object, got.Object) {
					text, _ := yaml.Marshal(object)
					a, _ := yaml.Marshal(want.Object)
					b, _ := yaml.Marshal(got.Object)
					t.Fatalf("%s\n%s\ndialect: %s\n%s\nnative: %s\n%s\n%s", mutation, text, describeDecision(want), a, describeDecision(got), b,
						nativeText(t, policies, types))
				}
				if want.Mutated {
					mutated++
				}
			}
			if mutated == 0 {
				t.Error("nothing was changed")
			}
		})
	}
}

// nativeText is the YAML of the native form of policies of the dialect and their bindings.
func nativeText(t *testing.T, policies string, types *schema.Registry) string {
	t.Helper()
	docs, problems := manifest.Read(strings.NewReader(policies), "policies.yaml")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	bundle := manifest.NewBundle(docs...)
	own, err := celenv.New("1.37", quirks.SetOf("1.37"))
	if err != nil {
		t.Fatal(err)
	}
	lowering := lower.New(&bundle.Set, types, own)
	var all []string
	for _, d := range docs {
		natives, refusals := []map[string]any(nil), []lower.Refusal(nil)
		if p := bundle.Set.Policy(policy.RefOf(d.Object)); p != nil {
			natives, refusals = lowering.Policy(d.Object, p)
		} else {
			natives, refusals = lowering.Binding(d.Object, bundle.Set.Binding(policy.RefOf(d.Object)))
		}
		if len(refusals) > 0 {
			t.Fatal(refusals)
		}
		for _, object := range natives {
			text, err := yaml.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, string(text))
		}
	}
	return strings.Join(all, "---\n")
}

// randomWorkload is a Pod or a Deployment.
func randomWorkload(r *rand.Rand, deployment bool) map[string]any {
	maybe := func() bool { return r.IntN(2) == 0 }
	containers := func(stem string) []any {
		var all []any
		for i := range 1 + r.IntN(3) {
			c := map[string]any{"name": fmt.Sprintf("%s%c", stem, 'a'+i), "image": []string{"r/app", "app"}[r.IntN(2)]}
			if stem == "" {
				c["name"] = string(rune('a' + i))
			}
			if maybe() {
				c["args"], c["workingDir"] = []any{"x"}, "/w"
			}
			if maybe() {
				c["securityContext"] = map[string]any{"privileged": maybe()}
			}
			if maybe() {
				c["tty"] = true
			}
			if maybe() {
				for n := range 1 + r.IntN(3) {
					env, _ := c["env"].([]any)
					c["env"] = append(env, map[string]any{"name": string(rune('A' + n)), "value": []string{"v", "w"}[r.IntN(2)]})
				}
			}
			if maybe() {
				c["ports"] = []any{map[string]any{"containerPort": int64(80)}, map[string]any{"containerPort": int64(81)}}
			}
			all = append(all, c)
		}
		return all
	}
	spec := map[string]any{"containers": containers("")}
	if maybe() {
		spec["initContainers"] = containers("i")
	}
	if maybe() {
		spec["nodeSelector"] = map[string]any{"disk": "ssd"}
	}
	if maybe() {
		spec["tolerations"] = []any{map[string]any{"key": "k", "operator": "Exists"}, map[string]any{"key": "l", "value": "m"}}
	}
	metadata := map[string]any{"name": "p", "namespace": "default"}
	if maybe() {
		metadata["labels"] = map[string]any{"a": "b", "x.b/c": "d", "xy": "e"}
	}
	if !deployment {
		return map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
	}
	labels := map[string]any{"app": "p"}
	return map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": map[string]any{
		"selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": spec}}}
}

// admitNew returns the answer of an engine for the creation of an object.
func admitNew(t *testing.T, engine *celgate.Engine, object map[string]any) *celgate.Decision {
	t.Helper()
	kind := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	resource := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	if object["kind"] == "Deployment" {
		kind.Group, kind.Kind, resource.Group, resource.Resource = "apps", "Deployment", "apps", "deployments"
	}
	prepared, err := engine.Prepare(t.Context(), &celgate.Request{Kind: kind, Resource: resource, Operation: celgate.Create,
		Namespace: "default", Name: "p", Object: object})
	if err != nil {
		t.Fatal(err)
	}
	d, err := engine.Admit(t.Context(), prepared)
	if err != nil {
		t.Fatal(err)
	}
	metadata, _ := d.Object["metadata"].(map[string]any)
	d.Object = tree.Object(d.Object).WithMetadata(tree.Object(metadata).Without("creationTimestamp", "uid"))
	return d
}
