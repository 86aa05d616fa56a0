package conformance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/scope"
)

// templatePolicies are policies about Pods and templates; %s is templateEnforcement.
var templatePolicies = map[string]string{
	"variables": `
  variables:
  - {name: host, expression: 'object.spec.?hostNetwork.orValue(false)'}
  validations:
  - {expression: '!variables.host', message: no host network, reason: Forbidden}
  - {expression: 'has(object.metadata.labels) && "app" in object.metadata.labels'}
  - {expression: 'object.spec.containers.all(c, c.image != "bad")',
	messageExpression: '"images: " + object.spec.containers.map(c, c.image).join(" ")'}
`,
	"conditions": `
  matchConditions: [{name: labelled, expression: has(object.metadata.labels)}]
  validations: [{expression: 'oldObject == null ||
	object.spec.containers[0].image == oldObject.spec.containers[0].image', message: stays}]
  auditAnnotations: [{key: image, valueExpression: 'string(object.spec.containers[0].image)'}]
`,
	"errors": `
  failurePolicy: Ignore
  validations:
  - {expression: object.spec.nodeName == "a", failurePolicy: Fail}
  - {expression: 'object.spec.serviceAccountName == "a"'}
`,
	"objects": `
  validations: [{expression: '["object"].all(o, o == "object") && object != null && {"object": 1}.object == 1 &&
	!has(object.spec.hostPID)', message: "object"}]
`,
}

func templatePolicy(spec, enforcement string) string {
	return `apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicy
metadata: {name: p}
spec:
  templates: [pods]
` + enforcement + `  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE,
	UPDATE, DELETE], resources: [pods]}]}
` + strings.TrimPrefix(spec, "\n") + `---
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicyBinding
metadata: {name: b}
spec: {policyName: p, validationActions: [Deny, Audit]}
`
}

// podSpecs are those of Pods and templates.
var podSpecs = []map[string]any{
	{"containers": []any{map[string]any{"name": "a", "image": "good"}}},
	{"hostNetwork": true, "containers": []any{map[string]any{"name": "a", "image": "bad"}}},
	{"hostPID": true, "nodeName": "a", "serviceAccountName": "a", "containers": []any{map[string]any{"name": "a",
		"image": "x"}}},
}

// workloadOf is an object of a kind with a template.
func workloadOf(t scope.Template, template map[string]any) map[string]any {
	inner := any(template)
	members := t.Members()
	for _, member := range slices.Backward(members[1:]) {
		inner = map[string]any{member: inner}
	}
	object := map[string]any{"kind": t.Kind, "metadata": map[string]any{"name": "w", "namespace": "one"},
		members[0]:   inner,
		"apiVersion": apischema.GroupVersion{Group: t.Group, Version: t.Version}.String()}
	if spec, ok := object["spec"].(map[string]any); ok {
		switch t.Kind {
		case "CronJob":
			spec["schedule"] = "0 0 * * *"
		case "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet":
			spec["selector"] = map[string]any{"matchLabels": map[string]any{"app": "a"}}
		case "ReplicationController":
			spec["selector"] = map[string]any{"app": "a"}
		}
	}
	return object
}

// TestTemplates evaluates the templates of all kinds of workloads: the answer of a policy for a template is its answer
// for the Pod, weakened by templateEnforcement and with the path of the template, and its native form gives the same
// answer.
func TestTemplates(t *testing.T) {
	w, own := generatedWorld(t)
	for name, spec := range templatePolicies {
		for _, enforcement := range []string{"", "  templateEnforcement: Deny\n", "  templateEnforcement: Audit\n"} {
			p, refused := w.pair(t, templatePolicy(spec, enforcement), own)
			if p == nil {
				t.Errorf("%s%s: refused: %v", name, enforcement, refused)
				continue
			}
			for i, podSpec := range podSpecs {
				for _, labelled := range []bool{true, false} {
					template := map[string]any{"spec": podSpec}
					if labelled {
						template["metadata"] = map[string]any{"labels": map[string]any{"app": "a"}}
					}
					for _, kind := range scope.Templates {
						template := maps.Clone(template)
						if spec := maps.Clone(podSpec); kind.Kind == "Job" || kind.Kind == "CronJob" {
							spec["restartPolicy"] = "Never"
							template["spec"] = spec
						} else if !labelled && kind.Kind != "PodTemplate" {
							continue // the selector would select nothing, which the registry refuses
						}
						t.Run(fmt.Sprint(name, " ", strings.TrimSpace(enforcement), " ", i, labelled, " ", kind.Kind),
							func(t *testing.T) {
								p.compareTemplate(t, kind, template, strings.Contains(enforcement, "Deny"))
							})
					}
				}
			}
		}
	}
}

// compareTemplate compares the answer for a workload with that of the native form, and with that for the Pod.
func (p *pair) compareTemplate(t *testing.T, kind scope.Template, template map[string]any, denies bool) {
	t.Helper()
	object := workloadOf(kind, template)
	request := &celgate.Request{Operation: celgate.Create, Name: "w", Namespace: "one", Object: object,
		Kind:     apischema.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind},
		Resource: apischema.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: kind.Resource}}
	deleted, updated := *request, *request
	deleted.Operation, deleted.Object, deleted.OldObject = celgate.Delete, nil, object
	updated.Operation = celgate.Update
	updated.OldObject = workloadOf(kind, map[string]any{"spec": podSpecs[0]})
	pod := maps.Clone(template)
	pod["apiVersion"], pod["kind"] = "v1", "Pod"
	metadata, _ := pod["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["name"], metadata["namespace"] = "w", "one"
	pod["metadata"] = metadata
	ofPod := &celgate.Request{Operation: celgate.Create, Name: "w", Namespace: "one", Object: pod,
		Kind:     apischema.GroupVersionKind{Version: "v1", Kind: "Pod"},
		Resource: apischema.GroupVersionResource{Version: "v1", Resource: "pods"}}
	var dialect told
	for _, r := range []*celgate.Request{&deleted, &updated, ofPod, request} {
		dialect = ask(t, p.dialect, r)
		if diff := differ(dialect, ask(t, p.native, r), p.parts); diff != "" {
			t.Fatalf("%s\n%s\n%s", p.texts, r.Operation, diff)
		}
	}
	about := ask(t, p.dialect, ofPod)
	if len(about.Denials) != len(dialect.Denials) && denies || dialect.Allowed != (about.Allowed || !denies) {
		t.Errorf("the Pod: %+v\nthe template: %+v", about, dialect)
	}
}
