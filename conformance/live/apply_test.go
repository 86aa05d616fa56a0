package live

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/celgate/celgate/conformance/server"
)

const world = `
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {tier: front}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: limit, namespace: shop}
data: {max: "4"}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {color: {type: string, default: red}, size: {type: integer}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: celgate-dev}
rules:
- {apiGroups: ["", apps, example.com], resources: [namespaces, configmaps, deployments, widgets], verbs: [get, list, create, update, patch]}
- {apiGroups: [admissionregistration.k8s.io, apiextensions.k8s.io], resources: ["*"], verbs: [list]}
- {apiGroups: [authorization.k8s.io], resources: [subjectaccessreviews], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: celgate-dev}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: celgate-dev}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: dev}]
`

const policies = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: owner}
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: ["", apps, example.com], apiVersions: [v1], resources: [deployments, widgets], operations: [CREATE, UPDATE]}]
    namespaceSelector: {matchLabels: {tier: front}}
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: 'Object{metadata: Object.metadata{labels: {"owner": request.userInfo.username}}}'
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: owner}
spec: {policyName: owner}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: limit}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: [CREATE, UPDATE]}]
  validations:
  - expression: object.spec.replicas <= int(params.data.max)
    messageExpression: '"at most " + params.data.max + " for " + request.userInfo.username'
  - expression: oldObject == null || object.spec.replicas >= oldObject.spec.replicas
    message: no shrinking
  - expression: object.spec.replicas < 3 || authorizer.group("apps").resource("deployments").namespace(request.namespace).check("scale").allowed()
    messageExpression: '"may not scale in " + namespaceObject.metadata.labels["tier"]'
    reason: Forbidden
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: limit}
spec: {policyName: limit, validationActions: [Deny], paramRef: {name: limit, parameterNotFoundAction: Allow}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: color}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [example.com], apiVersions: [v1], resources: [widgets], operations: [CREATE]}]
  validations:
  - expression: object.spec.color == "blue"
    messageExpression: '"not " + object.spec.color'
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: color}
spec: {policyName: color, validationActions: [Deny]}
`

func deployment(namespace, name string, replicas int) string {
	return fmt.Sprintf(
		`{apiVersion: apps/v1, kind: Deployment, metadata: {name: %s, namespace: %s}, spec: {replicas: %d, selector: {matchLabels: {a: b}},
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: c}]}}}}`,
		name,
		namespace,
		replicas,
	)
}

func widget(spec string) string {
	return fmt.Sprintf("{apiVersion: example.com/v1, kind: Widget, metadata: {name: w, namespace: shop}, spec: %s}",
		spec)
}

// TestApply compares the answers of celgate and of the server for manifests under the policies of the cluster.
func TestApply(t *testing.T) {
	keep(t, world)
	put(t, policies)
	ask := func(manifest, user string) *server.Answer {
		tree := objects(t, manifest)[0]
		path := pathOf(tree)
		call := server.Call{Method: http.MethodPut, Path: path, Body: tree,
			Query: map[string][]string{"dryRun": {"All"}}, User: user}
		if a, err := api.Do(t.Context(), server.Call{Method: http.MethodGet, Path: path}); err != nil {
			t.Fatal(err)
		} else if a.Code == http.StatusNotFound {
			call.Method, call.Path = http.MethodPost, path[:strings.LastIndex(path, "/")]
		}
		answer, err := api.Do(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	eventually(t, func() string { // until all are in force
		const denied = http.StatusUnprocessableEntity // a definition that is not served yet answers 503
		if ask(deployment("shop", "x", 9), "").Code != denied || ask(widget("{}"), "").Code != denied {
			return "the policies are not in force"
		}
		return ""
	})
	put(t, deployment("shop", "web", 2))

	dev := kubeconfigAs(t, "dev")
	for name, c := range map[string]struct{ manifest, user string }{
		"create":                {deployment("shop", "new", 2), ""},
		"create as dev":         {deployment("shop", "new", 2), "dev"},
		"too many":              {deployment("shop", "new", 5), "dev"},
		"no right":              {deployment("shop", "new", 3), "dev"},
		"right":                 {deployment("shop", "new", 3), ""},
		"update":                {deployment("shop", "web", 2), ""},
		"shrink":                {deployment("shop", "web", 1), ""},
		"no param here":         {deployment("default", "web", 50), ""},
		"no namespace":          {deployment("nowhere", "web", 1), ""},
		"default of definition": {widget("{}"), ""},
		"custom":                {widget("{color: blue, size: 3}"), "dev"},
	} {
		t.Run(name, func(t *testing.T) {
			args := []string{"--kubeconfig=" + api.Kubeconfig}
			if c.user != "" {
				args = []string{"--kubeconfig=" + dev}
			}
			got, want := decide(t, c.manifest, args...), ask(c.manifest, c.user)
			status := want.Status()
			if got.Response.Allowed != (status == nil) {
				t.Fatalf("allowed %v\nserver %d %s", got.Response.Allowed, want.Code, want.Body)
			}
			if status != nil {
				if s := got.Response.Status; s.Message != status.Message || s.Code != int(status.Code) ||
					s.Reason != string(status.Reason) {
					t.Errorf("celgate %+v\nserver %+v", s, status)
				}
				return
			}
			tree, err := want.Object()
			if err != nil {
				t.Fatal(err)
			}
			labels := func(tree map[string]any) string {
				return fmt.Sprint(tree["metadata"].(map[string]any)["labels"], tree["spec"].(map[string]any)["color"])
			}
			if labels(got.Object) != labels(tree) {
				t.Errorf("celgate %s\nserver %s", labels(got.Object), labels(tree))
			}
		})
	}

	t.Run("given policies alone", func(t *testing.T) {
		path := t.TempDir() + "/policies.yaml"
		write(t, path, strings.ReplaceAll(policies, "object.spec.replicas <= int(params.data.max)",
			"object.spec.replicas == 7"))
		if got := decide(t, deployment("shop", "new", 2), "--kubeconfig="+api.Kubeconfig, "-p",
			path); got.Response.Allowed {
			t.Error("the policies of the cluster were asked")
		}
	})
	t.Run("rights of the batch", func(t *testing.T) {
		role := `
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: scale, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: dev}]
`
		// The admin of a namespace may do everything that is listed, of which "scale" is nothing: the role must be
		// read.
		r := celgate(t, strings.ReplaceAll(deployment("shop", "new", 3)+role, "name: admin", "name: cluster-admin"),
			"apply", "--kubeconfig="+api.Kubeconfig, "--as=dev", "-")
		if r.code != 0 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("state of the cluster", func(t *testing.T) {
		folder := t.TempDir()
		given, state := folder+"/policies.yaml", folder+"/state.yaml"
		write(t, given, policies)
		exported := celgate(t, "", "state", "--kubeconfig="+api.Kubeconfig, "-p", given)
		if exported.code != 0 || strings.Contains(exported.stdout, "resourceVersion") {
			t.Fatalf("%+v", exported)
		}
		write(t, state, exported.stdout)
		kinds := map[string]int{}
		for _, object := range objects(t, exported.stdout) {
			kinds[fmt.Sprint(object["kind"])]++
		}
		if kinds["ConfigMap"] != 1 || kinds["CustomResourceDefinition"] != 1 || kinds["Namespace"] < 4 ||
			kinds["ClusterRole"] < 2 || kinds["ClusterRoleBinding"] < 2 {
			t.Errorf("the state holds %v", kinds)
		}
		// The answers without the cluster are the same as in it.
		for _, manifest := range []string{
			deployment("shop", "fresh", 2), deployment("shop", "fresh", 3), deployment("shop", "fresh", 9),
			deployment("default", "fresh", 9),
			widget("{}"), widget("{color: blue}"), widget("{color: blue, size: 1, extra: x}"),
		} {
			alone := celgate(t, manifest, "apply", "--as=dev", "-p", given, "-c", state, "-o", "yaml", "-")
			there := celgate(t, manifest, "apply", "--as=dev", "-p", given, "--kubeconfig="+api.Kubeconfig, "-o",
				"yaml", "-")
			if alone.code != there.code || alone.stdout != there.stdout {
				t.Errorf("%s\nwith the state: %+v\nin the cluster: %+v", manifest, alone, there)
			}
		}
	})
	t.Run("what cannot be read", func(t *testing.T) {
		r := celgate(t, deployment("shop", "new", 3), "apply", "--kubeconfig="+kubeconfigAs(t, "nobody"), "-")
		if r.code != 2 || !strings.Contains(r.stderr,
			`validatingadmissionpolicies.admissionregistration.k8s.io is forbidden: User "nobody" cannot list`) {
			t.Errorf("%+v", r)
		}
		path := t.TempDir() + "/policies.yaml"
		write(t, path, policies)
		r = celgate(t, deployment("shop", "new", 3), "apply", "--kubeconfig="+kubeconfigAs(t, "nobody"), "-p", path, "-")
		if r.code != 2 || !strings.Contains(r.stderr, `deployments.apps "new" is forbidden`) {
			t.Errorf("%+v", r)
		}
	})
}
