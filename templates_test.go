package celgate_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celgate/celgate"
)

// templatePolicy is a policy of the dialect about Pods, with a binding.
func templatePolicy(spec, rules, binding string) string {
	return `apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicy
metadata: {name: p}
spec:
  templates: [pods]
  matchConstraints:
    resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]` + rules + `}]
` + spec + `---
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicyBinding
metadata: {name: b}
spec: {policyName: p` + binding + `}
`
}

const noTag = "  validations: [{name: tag, scope: kubernetes.allContainers, expression: 'scope.image.contains(\":\")', message: has no tag}]\n"

// askDeployment decides about the creation of a Deployment with two containers; the second one does not have a tag.
func askDeployment(t *testing.T, policies string) *celgate.Decision {
	t.Helper()
	engine := engineOf(t, policies)
	for _, r := range engine.Rejections() {
		t.Fatal(r.Status.Message)
	}
	container := func(name, image string) any { return map[string]any{"name": name, "image": image} }
	labels := map[string]any{"app": "web"}
	object := map[string]any{"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "web", "namespace": "default"},
		"spec": map[string]any{"selector": map[string]any{"matchLabels": labels}, "template": map[string]any{
			"metadata": map[string]any{"labels": labels},
			"spec":     map[string]any{"containers": []any{container("a", "a:1"), container("b", "b")}}}}}
	prepared, err := engine.Prepare(t.Context(), &celgate.Request{
		Kind:      schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
		Resource:  schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
		Operation: celgate.Create, Namespace: "default", Name: "web", Object: object,
	})
	return admitPrepared(t, engine, prepared, err)
}

func TestTemplates(t *testing.T) {
	const place = "spec.template.spec.containers[1]"
	for name, c := range map[string]struct{ spec, rules, binding, want, scope string }{
		"warns":                {noTag, "", "", "tag: Warn", place},
		"denies":               {"  templateEnforcement: Deny\n" + noTag, "", "", "tag: Deny", place},
		"audits":               {"  templateEnforcement: Audit\n" + noTag, "", ", validationActions: [Deny, Audit]", "tag: Audit", place},
		"weaker":               {"  templateEnforcement: Deny\n" + noTag, "", ", validationActions: [Audit]", "tag: Audit", place},
		"unscoped":             {"  validations: [{name: x, expression: 'has(object.spec.nodeName)'}]\n", "", "", "x: Warn", "spec.template"},
		"an error":             {"  validations: [{name: x, expression: 'object.spec.nodeName == \"a\"'}]\n", "", "", "x: Warn", "spec.template"},
		"labels":               {noTag, "", ", matchResources: {objectSelector: {matchLabels: {app: web}}}", "tag: Warn", place},
		"other labels":         {noTag, "", ", matchResources: {objectSelector: {matchLabels: {app: db}}}", "", ""},
		"excluded":             {noTag, "", ", matchResources: {excludeNamespaces: [default]}", "", ""},
		"a binding for Pods":   {noTag, "", ", matchResources: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [pods]}]}", "tag: Warn", place},
		"a binding for others": {noTag, "", ", matchResources: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [secrets]}]}", "", ""},
		"without templates":    {noTag + "  combine: All\n", "", "", "tag: Warn", place},
	} {
		t.Run(name, func(t *testing.T) {
			d := askDeployment(t, templatePolicy(c.spec, c.rules, c.binding))
			if got := does(d); got != c.want {
				t.Fatalf("%q not %q", got, c.want)
			}
			if d.Allowed == strings.Contains(c.want, "Deny") || len(d.Violations) > 0 && d.Violations[0].Scope != c.scope {
				t.Errorf("%s: %+v", describeDecision(d), d.Violations)
			}
		})
	}
	d := askDeployment(t, templatePolicy("  templateEnforcement: Deny\n"+noTag, "", ""))
	if want := place + ": has no tag"; !strings.HasSuffix(d.Status.Message, want) || d.Status.Details.Causes[0].Field != place {
		t.Errorf("%+v", d.Status)
	}
}

func TestTemplatesRefused(t *testing.T) {
	for name, c := range map[string]struct{ spec, rules, want string }{
		"a name":         {"  validations: [{expression: 'object.metadata.name != \"a\"'}]\n", "", "spec.validations[0].expression: Invalid value"},
		"a status":       {"  variables: [{name: s, expression: object.status.phase}]\n" + noTag, "", "a Pod template does not have object.status"},
		"request.name":   {"  matchConditions: [{name: m, expression: 'request.name == \"a\"'}]\n" + noTag, "", "does not have request.name"},
		"asked with has": {"  validations: [{expression: '!has(object.status) && object.metadata.?name.orValue(\"\") == \"\"'}]\n", "", ""},
		"no validations": {"  auditAnnotations: [{key: k, valueExpression: '\"a\"'}]\n", "", ""},
		"names":          {noTag, ", resourceNames: [a]", "spec.templates: Invalid value"},
		"an enforcement": {"  templateEnforcement: Ask\n" + noTag, "", "spec.templateEnforcement: Unsupported value"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, r := range engineOf(t, templatePolicy(c.spec, c.rules, "")).Rejections() {
				got = append(got, r.Status.Message)
			}
			if all := strings.Join(got, "\n"); (c.want == "") != (all == "") || !strings.Contains(all, c.want) {
				t.Errorf("%s\nnot %s", all, c.want)
			}
		})
	}
	alone := strings.Replace(templatePolicy(noTag, "", ""), "templates: [pods]", "templateEnforcement: Deny", 1)
	if r := engineOf(t, alone).Rejections(); len(r) == 0 || !strings.Contains(r[0].Status.Message, "the policy has no templates") {
		t.Errorf("%+v", r)
	}
}
