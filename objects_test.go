package celgate_test

import (
	"fmt"
	"strings"
	"testing"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/celgate/celgate"
)

// podPolicy is a policy with one ApplyConfiguration of Pods.
func podPolicy(expression string) string {
	return fmt.Sprintf(`
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicy
metadata: {name: p}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  reinvocationPolicy: IfNeeded
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: %q
---
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicyBinding
metadata: {name: p}
spec: {policyName: p}
`, expression)
}

// untypedPolicy is a policy whose types are not checked when it is written.
func untypedPolicy(text string) string {
	return strings.Replace(text, "  reinvocationPolicy:", "  typeChecking: \"Off\"\n  reinvocationPolicy:", 1)
}

// admitPod decides about the creation of a Pod.
func admitPod(t *testing.T, engine *celgate.Engine, object map[string]any) *celgate.Decision {
	t.Helper()
	return admitObject(t, engine, "pods", object)
}

const fullPod = `
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default, annotations: {old: a, kept: b}, finalizers: [x.io/a, x.io/b]}
spec:
  hostname: h
  nodeSelector: {disk: hdd}
  tolerations: [{key: k, operator: Exists}, {key: l, operator: Exists}]
  securityContext: {runAsUser: 5}
  containers:
  - {name: c, image: i, args: [a], env: [{name: A, value: "1"}, {name: F, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}
  volumes: [{name: here, emptyDir: {}}, {name: there, emptyDir: {}}]
`

const barePod = `
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default}
spec: {containers: [{name: c, image: i}]}
`

func podOf(t *testing.T, text string) map[string]any {
	t.Helper()
	var object map[string]any
	data, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(data, &object)
	}
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// TestObjects removes, replaces and merges existing and absent values, and runs again on the result.
func TestObjects(t *testing.T) {
	for _, c := range []struct{ name, expression, full, bare string }{
		{"an entry of a map", `Object{metadata: Object.metadata{annotations: {"old": objects.unset()}}}`,
			`annotations: {kept: b}`, ``},
		{"an entry of a map, as the proposals write it", `Object{metadata: Object.metadata{annotations: {?"old": optional.none()}}}`,
			`annotations: {kept: b}`, ``},
		{"an optional that is computed", `Object{spec: Object.spec{?hostname: object.metadata.?annotations["none"]}}`, ``, ``},
		{"a map", `Object{metadata: Object.metadata{annotations: objects.unset()}}`, `annotations: null`, ``},
		{"a scalar", `Object{spec: Object.spec{hostname: objects.unset()}}`, `hostname: null`, ``},
		{"a struct", `Object{spec: Object.spec{securityContext: objects.unset()}}`, `securityContext: {}`, ``},
		{"a member of a struct", `Object{spec: Object.spec{securityContext: Object.spec.securityContext{runAsUser: objects.unset()}}}`,
			`securityContext: {}`, ``},
		{"an atomic map", `Object{spec: Object.spec{nodeSelector: objects.unset()}}`, `nodeSelector: null`, ``},
		{"an atomic map anew", `Object{spec: Object.spec{nodeSelector: objects.replace({"disk": "ssd"})}}`,
			`nodeSelector: {disk: ssd}`, `nodeSelector: {disk: ssd}`},
		{"an atomic list", `Object{spec: Object.spec{tolerations: objects.unset()}}`, `tolerations: null`, ``},
		{"an atomic list without an item", `Object{spec: Object.spec{tolerations: objects.replace(object.spec.?tolerations.orValue([]).filter(t, t.key != "k"))}}`,
			`tolerations: [{key: l, operator: Exists}]`, ``},
		{"a keyed list", `Object{spec: Object.spec{volumes: [objects.remove(Object.spec.volumes{name: "here"})]}}`,
			`volumes: [{name: there, emptyDir: {}}]`, ``},
		{"a set", `Object{metadata: Object.metadata{finalizers: [objects.remove("x.io/b")]}}`, `finalizers: [x.io/a]`, ``},
		{"a container without an env", `Object{spec: Object.spec{containers: [Object.spec.containers{name: "c",
			env: [objects.remove(Object.spec.containers.env{name: "A"})]}]}}`,
			`containers: [{name: c, image: i, args: [a], env: [{name: F, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}]`, ``},
		{"what is equal once it is stored", `Object{spec: Object.spec{containers: [Object.spec.containers{name: "c",
			env: [Object.spec.containers.env{name: "F", valueFrom: Object.spec.containers.env.valueFrom{
			fieldRef: Object.spec.containers.env.valueFrom.fieldRef{fieldPath: "metadata.name"}}}]}]}}`, ``,
			`containers: [{name: c, image: i, env: [{name: F, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}]`},
		{"what is not equal", `Object{spec: Object.spec{containers: [Object.spec.containers{name: "c", args: ["b"]}]}}`,
			`!.spec.containers[name="c"].args: the object has another value there, objects.replace(…) consents`,
			`containers: [{name: c, image: i, args: [b]}]`},
		{"apply", `Object{spec: Object.spec{containers: object.spec.containers.map(c,
			objects.replace(objects.apply(c, Object.spec.containers{image: "j", args: objects.replace(["b"])})))}}`,
			`containers: [{name: c, image: j, args: [b], env: [{name: A, value: "1"}, {name: F, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}]`,
			`containers: [{name: c, image: j, args: [b]}]`},
		{"apply at a place that there is not", `Object{spec: objects.apply(object.spec, Object.spec.gadgets{a: 1})}`,
			`!objects.apply: no Object.spec.gadgets in v1 Pod`, `!objects.apply: no Object.spec.gadgets in v1 Pod`},
		{"a mark with a wrong name", `Object{spec: Object.spec{volumes: [objects.remove(Object.spec.containers{name: "here"})]}}`,
			`!unexpected type name "Object.spec.containers", expected "Object.spec.volumes"`, `!unexpected type name`},
		{"maps in lists", `Object{spec: Object.spec{volumes: [{"name": "more"}]}}`,
			`volumes: [{name: here, emptyDir: {}}, {name: there, emptyDir: {}}, {name: more, emptyDir: {}}]`,
			`volumes: [{name: more, emptyDir: {}}]`},
		{"hashes", `Object{spec: Object.spec{hostname: "h" + string(hash.fnv32a("foobar") % 3)}}`, `hostname: h1`, `hostname: h1`},
		{"a fold", `Object{spec: Object.spec{hostname: object.spec.containers.reduce(all, "x", c, all + c.name)}}`, `hostname: xc`, `hostname: xc`},
	} {
		t.Run(c.name, func(t *testing.T) {
			engine := engineOf(t, untypedPolicy(podPolicy(c.expression)))
			for _, r := range engine.Rejections() {
				t.Fatal(r.Status.Message)
			}
			plain := engineOf(t, podPolicy("Object{}"))
			for _, of := range []struct{ pod, want string }{{fullPod, c.full}, {barePod, c.bare}} {
				d := admitPod(t, engine, podOf(t, of.pod))
				if message, denied := strings.CutPrefix(of.want, "!"); denied {
					if d.Allowed || !strings.Contains(d.Status.Message, message) {
						t.Errorf("got %s, want a denial with %s", describeDecision(d), message)
					}
					continue
				}
				if !d.Allowed {
					t.Errorf("denied: %s", d.Status.Message)
					continue
				}
				wanted := podOf(t, of.pod)
				for name, value := range podOf(t, of.want) {
					part := wanted["spec"].(map[string]any)
					if name == "annotations" || name == "finalizers" {
						part = wanted["metadata"].(map[string]any)
					}
					if part[name] = value; value == nil {
						delete(part, name)
					}
				}
				want := admitPod(t, plain, wanted)
				if show(want.Object) != show(d.Object) {
					t.Errorf("got  %s\nwant %s", show(d.Object), show(want.Object))
				}
				again := admitPod(t, engine, d.Object)
				if !again.Allowed || again.Mutated {
					t.Errorf("once more: %v, %s", again.Mutated, show(again.Object))
				}
			}
		})
	}
}

// show writes the parts of a Pod without times.
func show(object map[string]any) string {
	metadata := object["metadata"].(map[string]any)
	text, err := yaml.Marshal([]any{object["spec"], metadata["annotations"], metadata["finalizers"]})
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// TestObjectsRefused tests mistakes that are known before a request.
func TestObjectsRefused(t *testing.T) {
	patches := func(expression string) string {
		return strings.Replace(strings.Replace(podPolicy(expression), "ApplyConfiguration", "JSONPatch", 1),
			"applyConfiguration", "jsonPatch", 1)
	}
	for policy, want := range map[string]string{
		patches(`[JSONPatch{op: "add", path: "/a", value: objects.unset()}]`): "objects.unset is for ApplyConfiguration",
		podPolicy(`Object{spec: objects.apply(object.spec, {"a": "b"})}`):     "objects.apply: want an Object type, got map(string, string)",
		podPolicy(`Object{spec: objects.apply(object.spec)}`):                 "found no matching overload for 'objects.apply' applied to '(dyn)'",
		podPolicy(`Object{metadata: Object.metadata{name: hash.fnv32a(1)}}`):  "found no matching overload for 'hash.fnv32a' applied to '(int)'",
	} {
		engine := engineOf(t, policy)
		if len(engine.Rejections()) == 0 || !strings.Contains(engine.Rejections()[0].Status.Message, want) {
			t.Errorf("%s\nis taken, want %s: %v", policy, want, engine.Rejections()[0].Status.Message)
		}
	}
}
