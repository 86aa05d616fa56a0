package serve

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/celgate/celgate/conformance/server"
)

// tidy uses the mutations of the dialect: functions of objects, a scope, forEach, a JSON merge patch.
const tidy = `
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicy
metadata: {name: tidy}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: [CREATE, UPDATE]}]
  reinvocationPolicy: IfNeeded
  mutationValidationPolicy: Fail
  mutations:
  - name: functions
    patchType: ApplyConfiguration
    applyConfiguration:
      expression: |
        Object{
          metadata: Object.metadata{annotations: {"ticket": objects.unset()}},
          spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{
            nodeSelector: objects.replace({"disk": "ssd"}),
            tolerations: objects.replace(object.spec.template.spec.?tolerations.orValue([]).map(t,
              objects.apply(t, Object.spec.template.spec.tolerations{effect: "NoSchedule", value: objects.unset()}))),
            initContainers: [objects.remove(Object.spec.template.spec.initContainers{name: "debug"})],
            containers: [Object.spec.template.spec.containers{name: "proxy", image: "proxy", args: ["--mesh"]}]
          }}}
        }
  - name: scope
    scope: kubernetes.allContainers
    condition: item.image.startsWith("local/")
    patchType: ApplyConfiguration
    applyConfiguration: {expression: 'Item{imagePullPolicy: "Never", env: [Item.env{name: "WHO", value: item.name}]}'}
  - name: unset-in-scope
    scope: spec.template.spec.containers[*].env[name=DEBUG]
    patchType: ApplyConfiguration
    applyConfiguration: {expression: objects.unset()}
  - name: each
    forEach: {name: label, expression: '["a", "b"]'}
    patchType: ApplyConfiguration
    applyConfiguration: {expression: 'Object{metadata: Object.metadata{labels: {label: object.metadata.?labels.a.orValue("0")}}}'}
    validation: {expression: '"a" in object.metadata.labels && "b" in object.metadata.labels'}
  - name: merge
    patchType: JSONMergePatch
    jsonMergePatch: {expression: '{"spec": {"paused": null, "revisionHistoryLimit": 3}}'}
---
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicyBinding
metadata: {name: tidy}
spec: {policyName: tidy}
`

const untidy = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: untidy, namespace: default, annotations: {ticket: "1234", other: kept}}
spec:
  paused: true
  selector: {matchLabels: {app: x}}
  template:
    metadata: {labels: {app: x}}
    spec:
      nodeSelector: {disk: hdd, zone: a}
      tolerations: [{key: k, operator: Exists}, {key: l, operator: Exists, effect: NoExecute}]
      initContainers: [{name: debug, image: debug}, {name: init, image: local/init}]
      containers:
      - {name: x, image: local/x, env: [{name: DEBUG, value: "1"}, {name: A, value: "1"}]}
`

// TestDialectMutations creates an object that a policy changes in each way, and updates it with the result: the object
// does not change again.
func TestDialectMutations(t *testing.T) {
	startManaged(t, 1)
	inForce(t, tidy)
	ask := func(tree map[string]any) (map[string]any, string) {
		a := do(t, server.Call{Method: http.MethodPost, Path: "/apis/apps/v1/namespaces/default/deployments",
			Query: map[string][]string{"dryRun": {"All"}}, Body: tree})
		if status := a.Status(); status != nil {
			return nil, status.Message
		}
		out, err := a.Object()
		if err != nil {
			t.Fatal(err)
		}
		return out, ""
	}
	const want = `annotations: map[other:kept]
labels: map[a:0 b:0]
paused: <nil>, 3 revisions
nodeSelector: map[disk:ssd]
tolerations: [{k Exists NoSchedule } {l Exists NoSchedule }]
initContainers: init Never [WHO=init]
containers: x Never [A=1 WHO=x], proxy Always [--mesh]
`
	var made map[string]any
	eventually(t, 15*time.Second, func() string {
		out, problem := ask(object(t, untidy))
		if problem != "" {
			return problem
		}
		if got := tidyFields(t, out); got != want {
			return got
		}
		made = out
		return ""
	})
	metadata := made["metadata"].(map[string]any)
	for _, name := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"} {
		delete(metadata, name)
	}
	delete(made, "status")
	again, problem := ask(made)
	if problem != "" {
		t.Fatal(problem)
	}
	if got := tidyFields(t, again); got != want {
		t.Errorf("made again:\n%s", got)
	}
}

// tidyFields returns the fields that the policy tidy may change.
func tidyFields(t *testing.T, tree map[string]any) string {
	t.Helper()
	text, err := yaml.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	type container struct {
		Name, ImagePullPolicy string
		Args                  []string
		Env                   []struct{ Name, Value string }
	}
	var d struct {
		Metadata struct{ Annotations, Labels map[string]string }
		Spec     struct {
			Paused               *bool
			RevisionHistoryLimit int
			Template             struct {
				Spec struct {
					NodeSelector               map[string]string
					Tolerations                []struct{ Key, Operator, Effect, Value string }
					InitContainers, Containers []container
				}
			}
		}
	}
	if err := yaml.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	list := func(all []container) string {
		var out []string
		for _, c := range all {
			values := c.Args
			for _, e := range c.Env {
				values = append(values, e.Name+"="+e.Value)
			}
			out = append(out, fmt.Sprint(c.Name, " ", c.ImagePullPolicy, " ", values))
		}
		return strings.Join(out, ", ")
	}
	spec := d.Spec.Template.Spec
	paused := "<nil>"
	if d.Spec.Paused != nil {
		paused = fmt.Sprint(*d.Spec.Paused)
	}
	return fmt.Sprintf("annotations: %v\nlabels: %v\npaused: %s, %d revisions\nnodeSelector: %v\ntolerations: %v\ninitContainers: %s\ncontainers: %s\n",
		d.Metadata.Annotations, d.Metadata.Labels, paused, d.Spec.RevisionHistoryLimit, spec.NodeSelector,
		spec.Tolerations, list(spec.InitContainers), list(spec.Containers))
}

// TestDialectTypes writes a policy with type errors for its matched kinds: it is refused or, with Warn, its status
// reports the errors.
func TestDialectTypes(t *testing.T) {
	startManaged(t, 1)
	const wrong = `
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicy
metadata: {name: wrong}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: [CREATE]}]
  reinvocationPolicy: Never
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: 'Object{spec: Object.spec{replicaz: 3}}'}
`
	const message = "undefined field 'replicaz'"
	path := dialectPath + "admissionpolicies"
	eventually(t, 10*time.Second, func() string {
		status := do(t, server.Call{Method: http.MethodPost, Path: path, Body: object(t, wrong),
			Query: map[string][]string{"dryRun": {"All"}}}).Status()
		if status == nil {
			return "it is taken"
		}
		if !strings.Contains(status.Message, message) || !strings.Contains(status.Message, "did you mean replicas?") {
			return status.Message
		}
		return ""
	})
	inForce(t, strings.Replace(wrong, "  reinvocation", "  typeChecking: Warn\n  reinvocation", 1))
	statusOf(t, "admissionpolicies/wrong", message, "fieldRef: spec.mutations[0].applyConfiguration.expression")
}
