package celgate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/policy"
)

// abstractPolicy is a policy without resource rules; bindings follow it.
func abstractPolicy(spec string, bindings ...string) string {
	text := "\napiVersion: policy.celgate.dev/v1alpha1\nkind: AdmissionPolicy\nmetadata: {name: p}\nspec:\n  abstract: true\n" + spec
	for i, b := range bindings {
		text += fmt.Sprintf("\n---\napiVersion: policy.celgate.dev/v1alpha1\nkind: AdmissionPolicyBinding\n"+
			"metadata: {name: b%d}\nspec:\n  policyName: p\n%s", i, b)
	}
	return text + "\n---\n"
}

// rulesFor are match resources with one rule.
func rulesFor(group, version, resource string) string {
	return fmt.Sprintf("  matchResources: {resourceRules: [{apiGroups: [%q], apiVersions: [%s], operations: ['*'], resources: [%s]}]}",
		group, version, resource)
}

func messages(d *celgate.Decision) string {
	var all []string
	for _, v := range d.Violations {
		all = append(all, v.Binding+": "+v.Message)
	}
	return strings.Join(all, ", ")
}

// TestAbstract applies an abstract policy with each binding to the resources of the binding, in the version that it
// names.
func TestAbstract(t *testing.T) {
	const version = "  validations: [{expression: 'false', messageExpression: request.kind.version}]"
	for name, c := range map[string]struct {
		policy string
		object map[string]any
		want   string
	}{
		"each its own": {
			abstractPolicy(version, rulesFor("", "v1", "configmaps"), rulesFor("apps", "v1", "deployments")), configMap, "b0: v1",
		},
		"not the exclusions of the policy": {
			abstractPolicy("  matchConstraints: {excludeResourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}\n"+
				version, rulesFor("", "v1", "configmaps")), configMap, "",
		},
		"not the namespaces of the policy": {
			abstractPolicy("  matchConstraints: {excludeNamespaces: [default]}\n"+version, rulesFor("", "v1", "configmaps")), configMap, "",
		},
		"each in its version": {
			abstractPolicy(version, rulesFor("autoscaling", "v1", "horizontalpodautoscalers"),
				rulesFor("autoscaling", "v2", "horizontalpodautoscalers")), scaler, "b0: v1, b1: v2",
		},
		"in the version of the request alone": {
			abstractPolicy("  matchConstraints: {matchPolicy: Exact}\n"+version,
				rulesFor("autoscaling", "v1", "horizontalpodautoscalers"),
				rulesFor("autoscaling", "v2", "horizontalpodautoscalers")), scaler, "b1: v2",
		},
		"of a namespace, what is in it": {
			strings.NewReplacer("spec:\n  abstract", "spec:\n  bindable: [Namespaces]\n  abstract", "AdmissionPolicyBinding\nmetadata: {name: b0}",
				"NamespacedAdmissionPolicyBinding\nmetadata: {name: b0, namespace: default}").Replace(
				abstractPolicy(version, rulesFor("", "v1", "'*'"))), configMap, "default/b0: v1",
		},
		"of a namespace, nothing else": {
			strings.NewReplacer("spec:\n  abstract", "spec:\n  bindable: [Namespaces]\n  abstract", "AdmissionPolicyBinding\nmetadata: {name: b0}",
				"NamespacedAdmissionPolicyBinding\nmetadata: {name: b0, namespace: other}").Replace(
				abstractPolicy(version, rulesFor("", "v1", "'*'"))), configMap, "",
		},
		"templates": {
			abstractPolicy("  templates: [pods]\n  templateEnforcement: Deny\n"+version, rulesFor("", "v1", "pods"),
				rulesFor("", "v1", "services")), deploymentOf("a"), "b0: v1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			engine := engineOf(t, c.policy)
			for _, r := range engine.Rejections() {
				t.Fatal(r.Status.Message)
			}
			if got := messages(admitCreated(t, engine, c.object)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// admitCreated decides about an object that is created in the namespace default.
func admitCreated(t *testing.T, engine *celgate.Engine, object map[string]any) *celgate.Decision {
	t.Helper()
	prepared, err := engine.RequestFor(t.Context(), object, celgate.As{Namespace: "default"})
	return admitPrepared(t, engine, prepared, err)
}

var configMap = map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}}

var scaler = map[string]any{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
	"metadata": map[string]any{"name": "a"},
	"spec": map[string]any{"maxReplicas": int64(3),
		"scaleTargetRef": map[string]any{"kind": "Deployment", "name": "a", "apiVersion": "apps/v1"}}}

func deploymentOf(name string) map[string]any {
	labels := map[string]any{"app": name}
	return map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"selector": map[string]any{"matchLabels": labels}, "template": map[string]any{
			"metadata": map[string]any{"labels": labels},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": name, "image": name}}}}}}
}

func TestAbstractRefused(t *testing.T) {
	const validates = "  validations: [{expression: 'true'}]"
	const mutates = "  reinvocationPolicy: Never\n  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{data: {\"a\": \"b\"}}'}}]"
	configMaps := rulesFor("", "v1", "configmaps")
	for name, c := range map[string]struct{ policy, want string }{
		"rules of its own": {abstractPolicy("  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}\n" + validates),
			"spec.matchConstraints.resourceRules: Forbidden: must be set in the bindings of an abstract policy"},
		"a singleton": {abstractPolicy("  singletonPolicy: true\n" + validates), "spec.abstract: Forbidden: a singleton policy has no bindings"},
		"neither":     {strings.Replace(abstractPolicy(validates), "abstract: true", "abstract: false", 1), "spec.matchConstraints: Required value"},
		"a binding without rules": {abstractPolicy(validates, "  validationActions: [Warn]"),
			`AdmissionPolicyBinding.policy.celgate.dev "b0" is invalid: spec.matchResources.resourceRules: Required value: the policy p is abstract`},
		"a binding without rules of its own": {abstractPolicy(validates, configMaps, "  matchResources: {excludeNamespaces: [a]}"),
			`"b1" is invalid: spec.matchResources.resourceRules: Required value`},
		"a mutation on DELETE": {abstractPolicy(mutates, strings.Replace(configMaps, "'*'", "DELETE", 1)),
			`spec.matchResources.resourceRules.operations: Unsupported value: "DELETE"`},
		"a mutation of another kind": {abstractPolicy(mutates, configMaps, rulesFor("", "v1", "services")),
			`"b1" is invalid: spec.matchResources.resourceRules: Forbidden: AdmissionPolicy p cannot apply to these kinds: spec.mutations[0].applyConfiguration.expression`},
		"a scope of another kind": {abstractPolicy("  validations: [{scope: 'data[*]', expression: 'true'}]", rulesFor("", "v1", "services"), configMaps),
			`"b0" is invalid: spec.matchResources.resourceRules: Forbidden: AdmissionPolicy p cannot apply to these kinds: spec.validations[0].scope`},
	} {
		rejected := engineOf(t, c.policy).Rejections()
		if len(rejected) != 1 || !strings.Contains(rejected[0].Status.Message, c.want) {
			t.Errorf("%s: %+v", name, rejected)
			for _, r := range rejected {
				t.Log(r.Status.Message)
			}
		}
	}
}

// TestAbstractTogether has many bindings; some do not match Pods, which is not a mistake of the policy.
func TestAbstractTogether(t *testing.T) {
	var bindings []string
	for _, resource := range []string{"configmaps", "secrets", "services"} {
		bindings = append(bindings, rulesFor("", "v1", resource))
	}
	set := setOf(t, abstractPolicy("  templates: [pods]\n  validations: [{expression: 'true'}]", bindings...))
	for _, stored := range []bool{false, true} {
		if stored {
			set.MarkStored()
		}
		engine, err := celgate.New(set, celgate.Options{Sizes: policy.Limits{Rules: 2}})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range engine.Rejections() {
			t.Error(r.Status.Message)
		}
	}
}

// TestAbstractStored takes a stored binding without rules out of force, and leaves the others in it.
func TestAbstractStored(t *testing.T) {
	set := setOf(t, abstractPolicy("  validations: [{expression: 'false', message: m}]", "  validationActions: [Deny]",
		rulesFor("", "v1", "configmaps")))
	set.MarkStored()
	engine, err := celgate.New(set, celgate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r := engine.Rejections(); len(r) != 1 || r[0].Name != "b0" {
		t.Errorf("rejected: %v", r)
	}
	if d := admitCreated(t, engine, configMap); messages(d) != "b1: m" {
		t.Error(messages(d))
	}
	// With another binding the policy is compiled again, with the same ones it is not.
	again, err := celgate.New(&policy.Set{Policies: set.Policies, Bindings: set.Bindings}, celgate.Options{Before: engine})
	if err != nil {
		t.Fatal(err)
	}
	if d := admitCreated(t, again, configMap); messages(d) != "b1: m" {
		t.Error(messages(d))
	}
	fewer, err := celgate.New(&policy.Set{Policies: set.Policies}, celgate.Options{Before: again})
	if err != nil {
		t.Fatal(err)
	}
	if d := admitCreated(t, fewer, configMap); !d.Allowed || len(d.Violations) > 0 {
		t.Error(messages(d))
	}
}
