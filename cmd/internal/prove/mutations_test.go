package prove

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// changing returns a mutating policy for a resource, in force; a text that starts with [ is a JSON patch. A condition
// may come first, before " => ".
func changing(name, group, version, resource, text string) string {
	condition, expression, ok := strings.Cut(text, " => ")
	conditions := ""
	if ok {
		conditions = fmt.Sprintf("  matchConditions: [{name: c, expression: %q}]\n", condition)
	} else {
		expression = text
	}
	kind, member := "ApplyConfiguration", "applyConfiguration"
	if strings.HasPrefix(expression, "[") || strings.HasPrefix(expression, "(") {
		kind, member = "JSONPatch", "jsonPatch"
	}
	return fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: %s}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [%q], apiVersions: [%q], operations: [CREATE], resources: [%q]}
%s  reinvocationPolicy: Never
  mutations:
  - patchType: %s
    %s: {expression: %q}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: %s}
spec: {policyName: %s}
`, name, group, version, resource, conditions, kind, member, expression, name, name)
}

// mutationResources are the resources of the texts in tests.
var mutationResources = map[string][3]string{"Pod": {"", "v1", "pods"}, "Deployment": {"apps", "v1", "deployments"},
	"ConfigMap": {"", "v1", "configmaps"}}

const (
	mapAll     = "Object{spec: Object.spec{containers: object.spec.containers.map(c, Object.spec.containers{name: c.name, "
	allContext = mapAll + "securityContext: Object.spec.containers.securityContext{allowPrivilegeEscalation: false}})}}"
	always     = mapAll + "imagePullPolicy: 'Always'})}}"
	oneLabel   = "Object{metadata: Object.metadata{labels: {'team': 'a'}}}"
	sidecar    = "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'side', image: 'side:1'}]}}"
)

func TestAccepts(t *testing.T) {
	r := room(t)
	for _, test := range []struct {
		kind, change, check string
		want                Answer
	}{
		{"Pod", always, "object.spec.containers.all(c, c.imagePullPolicy == 'Always')", Proved},
		{"Pod", always, "object.spec.containers.all(c, c.imagePullPolicy == 'Never')", Counterexample},
		{"Pod", "object.spec.hostNetwork == true => " + always, "object.spec.containers.all(c, c.imagePullPolicy == 'Always')", Proved},
		{"Pod", always, "object.spec.initContainers.all(c, c.imagePullPolicy == 'Always')", Counterexample},
		{"Pod", allContext, "object.spec.containers.all(c, has(c.securityContext) && !c.securityContext.allowPrivilegeEscalation)", Proved},
		{"Pod", allContext, "object.spec.containers.all(c, c.securityContext.runAsNonRoot)", Counterexample},
		{"Pod", oneLabel, "object.metadata.labels['team'] == 'a'", Proved},
		{"Pod", oneLabel, "object.metadata.labels['team'] == 'b'", Counterexample},
		{"Pod", oneLabel, "object.metadata.labels.all(k, object.metadata.labels[k] == 'a')", Counterexample},
		{"Pod", oneLabel, "object.metadata.labels.exists(k, object.metadata.labels[k] == 'a') && size(object.metadata.labels) > 0", Proved},
		{"Pod", sidecar, "object.spec.containers.exists(c, c.name == 'side' && c.image == 'side:1')", Proved},
		{"Pod", sidecar, "object.spec.containers.all(c, c.image == 'side:1')", Counterexample},
		{"Pod", sidecar, "size(object.spec.containers) > 1", Counterexample},
		{"Pod", "!object.spec.containers.exists(c, c.name == 'side') => " + sidecar, "size(object.spec.containers) > 1", Proved},
		{"Pod", sidecar, "object.spec.containers.all(c, c.name == 'side' ? c.imagePullPolicy == 'IfNotPresent' : true)", Counterexample},
		{"Deployment", "Object{spec: Object.spec{replicas: 3}}", "object.spec.replicas == 3", Proved},
		{"Deployment", "object.spec.replicas > 5 => Object{spec: Object.spec{replicas: 5}}", "object.spec.replicas <= 5", Proved},
		{"Deployment", "object.spec.replicas > 6 => Object{spec: Object.spec{replicas: 5}}", "object.spec.replicas > 4", Proved},
		{"Deployment", "Object{spec: Object.spec{replicas: object.spec.replicas / 2}}", "object.spec.replicas < 1073741824", Proved},
		{"Deployment", "[JSONPatch{op: 'replace', path: '/spec/replicas', value: 4}]", "object.spec.replicas == 4", Proved},
		{"Deployment", "[JSONPatch{op: 'remove', path: '/spec/paused'}]", "!has(object.spec.paused)", Proved},
		{"Deployment", "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b'), value: 'c'}]", "object.metadata.labels['a/b'] == 'c'", Proved},
		{"Deployment", "(has(object.metadata.labels) ? [] : [JSONPatch{op: 'add', path: '/metadata/labels', value: {}}]) + [JSONPatch{op: 'add', path: '/metadata/labels/b', value: 'c'}]",
			"object.metadata.labels['b'] == 'c'", Proved},
		{"Pod", "[JSONPatch{op: 'replace', path: '/spec/containers/0/image', value: 'a'}]", "object.spec.containers[0].image == 'a'", Proved},
		{"Pod", "[JSONPatch{op: 'replace', path: '/spec/containers/0/image', value: 'a'}]", "object.spec.containers.all(c, c.image == 'a')", Counterexample},
		{"Pod", "has(object.spec.tolerations) => [JSONPatch{op: 'add', path: '/spec/tolerations/-', value: Object.spec.tolerations{key: 'k', operator: 'Exists'}}]",
			"object.spec.tolerations.exists(t, t.key == 'k')", Proved},
		{"Pod", "Object{spec: Object.spec{hostNetwork: false}}", "!has(object.spec.hostNetwork)", Proved},
		{"Pod", "Object{spec: Object.spec{automountServiceAccountToken: false}}", "has(object.spec.automountServiceAccountToken)", Proved},
		{"Pod", "Object{spec: Object.spec{volumes: [Object.spec.volumes{name: 'v'}]}}", "object.spec.volumes.exists(v, v.name == 'v')", Proved},
		{"Pod", "!object.spec.?volumes.orValue([]).exists(v, v.name == 'v') => Object{spec: Object.spec{volumes: [Object.spec.volumes{name: 'v'}]}}",
			"object.spec.volumes.exists(v, v.name == 'v' && has(v.emptyDir))", Proved},
		{"ConfigMap", "Object{data: {'a': 'b'}}", "object.data.a == 'b'", Proved},
		{"ConfigMap", "Object{data: {?'a': 'x' in object.?data.orValue({}) ? optional.of('b') : optional.none()}}",
			"'x' in object.?data.orValue({}) ? object.data.a == 'b' : true", Proved},
		{"ConfigMap", "Object{data: {'a': object.metadata.name}}", "object.data.a == object.metadata.name", Undecided},
	} {
		at := mutationResources[test.kind]
		changes := sideOf(t, r, changing("m", at[0], at[1], at[2], test.change))
		checks := sideOf(t, r, one(at[0], at[1], at[2], test.check))
		got, err := r.Accepts(context.Background(), changes, checks)
		if err != nil {
			t.Errorf("%s\n%s: %v", test.change, test.check, err)
			continue
		}
		if got.Answer != test.want {
			t.Errorf("%s\n%s: %s, want %s %+v", test.change, test.check, got.Answer, test.want, got.Reasons)
		}
		if got.Found != nil && testing.Verbose() {
			text, _ := yaml.Marshal(got.Found.Request.Object)
			t.Logf("%s\n%s:\n%s", test.change, test.check, text)
		}
	}
}

func TestIdempotent(t *testing.T) {
	r := room(t)
	for _, test := range []struct {
		kind, change string
		want         Answer
	}{
		{"Pod", always, Proved},
		{"Pod", allContext, Proved},
		{"Pod", oneLabel, Proved},
		{"Pod", sidecar, Proved},
		{"ConfigMap", "Object{data: {'a': object.?data[?'a'].orValue('') + 'x'}}", Counterexample},
		{"Deployment", "Object{spec: Object.spec{replicas: object.spec.replicas * 2}}", Counterexample},
		{"Deployment", "object.spec.replicas > 5 => Object{spec: Object.spec{replicas: 5}}", Proved},
		{"Deployment", "Object{spec: Object.spec{replicas: object.spec.replicas - 1}}", Counterexample},
		{"Deployment", "Object{spec: Object.spec{replicas: object.spec.replicas / 2}}", Undecided}, // a quotient of a quotient
		{"Deployment", "Object{spec: Object.spec{paused: !object.spec.?paused.orValue(false)}}", Counterexample},
		{"Deployment", "has(object.spec.paused) => [JSONPatch{op: 'remove', path: '/spec/paused'}]", Proved},
		{"Deployment", "[JSONPatch{op: 'remove', path: '/spec/paused'}]", Counterexample},
		{"Pod", "has(object.spec.imagePullSecrets) => [JSONPatch{op: 'add', path: '/spec/imagePullSecrets/-', value: Object.spec.imagePullSecrets{name: 'k'}}]", Counterexample},
		{"Pod", "has(object.spec.tolerations) && !object.spec.tolerations.exists(t, t.?key.orValue('') == 'k') => [JSONPatch{op: 'add', path: '/spec/tolerations/-', value: Object.spec.tolerations{key: 'k', operator: 'Exists'}}]", Proved},
		{"Pod", "Object{spec: Object.spec{volumes: [Object.spec.volumes{name: 'v', configMap: Object.spec.volumes.configMap{name: 'c'}}]}}", Proved},
		{"ConfigMap", "Object{data: object.?data.orValue({}).map(k, k).map(k, {k: 'a'})[0]}", Undecided},
	} {
		at := mutationResources[test.kind]
		got, err := r.Idempotence(context.Background(), sideOf(t, r, changing("m", at[0], at[1], at[2], test.change)))
		if err != nil || len(got) != 1 {
			t.Errorf("%s: %v", test.change, err)
			continue
		}
		if got[0].Answer != test.want {
			t.Errorf("%s: %s, want %s %+v", test.change, got[0].Answer, test.want, got[0].Reasons)
		}
	}
}

func TestCommutative(t *testing.T) {
	r := room(t)
	const otherLabel = "Object{metadata: Object.metadata{labels: {'team': 'b'}}}"
	for _, test := range []struct {
		kind, one, two string
		want           Answer
	}{
		{"Pod", oneLabel, always, Proved},
		{"Pod", oneLabel, otherLabel, Counterexample},
		{"Pod", oneLabel, strings.Replace(otherLabel, "team", "app", 1), Proved},
		{"Pod", always, allContext, Proved},
		{"Pod", always, sidecar, Counterexample},
		{"Pod", "!has(object.metadata.labels) => " + oneLabel, strings.Replace(otherLabel, "team", "app", 1), Counterexample},
		{"Deployment", "object.spec.replicas > 5 => Object{spec: Object.spec{replicas: 5}}",
			"object.spec.replicas < 2 => Object{spec: Object.spec{replicas: 2}}", Proved},
		{"Deployment", "object.spec.replicas > 5 => Object{spec: Object.spec{replicas: 1}}",
			"object.spec.replicas < 2 => Object{spec: Object.spec{replicas: 2}}", Counterexample},
		{"Deployment", "[JSONPatch{op: 'add', path: '/spec/paused', value: true}]",
			"[JSONPatch{op: 'add', path: '/spec/minReadySeconds', value: 5}]", Proved},
		{"Deployment", "[JSONPatch{op: 'add', path: '/spec/paused', value: true}]",
			"has(object.spec.paused) => [JSONPatch{op: 'remove', path: '/spec/paused'}]", Counterexample},
	} {
		at := mutationResources[test.kind]
		got, err := r.Commutativity(context.Background(), sideOf(t, r, changing("m", at[0], at[1], at[2], test.one)+"---\n"+
			changing("o", at[0], at[1], at[2], test.two)))
		if err != nil || len(got) != 1 {
			t.Errorf("%s: %v", test.one, err)
			continue
		}
		if got[0].Answer != test.want {
			t.Errorf("%s\n%s: %s, want %s %+v", test.one, test.two, got[0].Answer, test.want, got[0].Reasons)
		}
	}
}
