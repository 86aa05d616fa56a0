package serve

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/kube"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
)

// reachable is a policy and a binding of it that can act; the tests take something away.
const reachable = `
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicy
metadata: {name: p, uid: "1"}
spec:
  bindable: [Cluster, Namespaces]
  matchConstraints:
    matchPolicy: Equivalent
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]
  validations: [{level: 2, expression: 'true'}]
---
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicyBinding
metadata: {name: b, uid: "2"}
spec:
  policyName: p
`

func newest(t *testing.T) *schema.Registry {
	t.Helper()
	types, err := builtin.Registry(celgate.Newest)
	if err != nil {
		t.Fatal(err)
	}
	return types
}

// TestReady removes, one after the other, everything that a policy needs to be in force: then neither the policy nor
// its binding is Ready, and both give the reason.
func TestReady(t *testing.T) {
	types := newest(t)
	const rule = "resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]"
	cluster, team := "kind: AdmissionPolicyBinding\nmetadata: {name: b, uid: \"2\"}", "kind: NamespacedAdmissionPolicyBinding\nmetadata: {name: b, namespace: team, uid: \"2\"}"
	nodes := "resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [nodes]}]"
	broken := errors.New("no")
	for name, c := range map[string]struct {
		replace  []string // texts of the policies, two and two
		policy   string   // the reasons why they are not ready
		binding  string
		change   func(*writing, []kube.Source)
		unread   string
		reached  bool // though it is not ready
		stripped bool // the binding is not in force
	}{
		"all is well":                {policy: "InForce", binding: "InForce", reached: true},
		"unbound":                    {policy: "Unbound", stripped: true},
		"a policy that there is not": {replace: []string{"policyName: p", "policyName: q"}, policy: "Unbound", binding: "NoPolicy"},
		"a group that there is not":  {replace: []string{"apiGroups: [apps]", "apiGroups: [app]"}, policy: "NoResource", binding: "NoResource"},
		"a version that there is not": {replace: []string{"apiVersions: [v1]", "apiVersions: [v9]"}, policy: "NoResource",
			binding: "NoResource"},
		"a scope that it has not": {replace: []string{"resources: [deployments]", "resources: [deployments], scope: Cluster"},
			policy: "NoResource", binding: "NoResource"},
		"a kind that it has not": {replace: []string{"resources: [deployments]", "resources: ['*'], kinds: [Deploymend]"},
			policy: "NoResource", binding: "NoResource"},
		"all of it excluded": {replace: []string{"    " + rule, "    " + rule + "\n    excludeResourceRules: [{apiGroups: [apps], apiVersions: ['*'], operations: ['*'], resources: ['*']}]"},
			policy: "NoResource", binding: "NoResource"},
		"some of it excluded": {replace: []string{"    " + rule, "    " + rule + "\n    excludeResourceRules: [{apiGroups: [apps], apiVersions: ['*'], operations: [CREATE], resources: ['*']}]"},
			policy: "InForce", binding: "InForce", reached: true},
		"a name of it excluded": {replace: []string{"    " + rule, "    " + rule + "\n    excludeResourceRules: [{apiGroups: [apps], apiVersions: ['*'], operations: ['*'], resources: ['*'], resourceNames: [x]}]"},
			policy: "InForce", binding: "InForce", reached: true},
		"an exempt resource": {replace: []string{rule, "resourceRules: [{apiGroups: [policy.celgate.dev], apiVersions: ['*'], operations: ['*'], resources: ['*']}]"},
			policy: "Exempt", binding: "Exempt"},
		"a binding for something else": {replace: []string{"policyName: p", "policyName: p\n  matchResources: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [daemonsets]}]}"},
			policy: "NoOverlap", binding: "NoOverlap"},
		"a binding for another operation": {replace: []string{"policyName: p", "policyName: p\n  matchResources: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [DELETE], resources: [deployments]}]}"},
			policy: "NoOverlap", binding: "NoOverlap"},
		"a binding for a part": {replace: []string{"policyName: p", "policyName: p\n  matchResources: {resourceRules: [{apiGroups: ['*'], apiVersions: ['*'], operations: [UPDATE], resources: ['*']}]}"},
			policy: "InForce", binding: "InForce", reached: true},
		"a binding that excludes it": {replace: []string{"policyName: p", "policyName: p\n  matchResources: {excludeResourceRules: [{apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: ['*']}]}"},
			policy: "NoOverlap", binding: "NoOverlap"},
		"an abstract policy": {replace: []string{"bindable", "abstract: true\n  bindable", "    " + rule + "\n", "",
			"policyName: p", "policyName: p\n  matchResources: {" + rule + "}"}, policy: "InForce", binding: "InForce", reached: true},
		"an abstract policy for what there is not": {replace: []string{"bindable", "abstract: true\n  bindable", "    " + rule + "\n", "",
			"policyName: p", "policyName: p\n  matchResources: {" + strings.Replace(rule, "v1", "v9", 1) + "}"}, policy: "NoResource", binding: "NoResource"},
		"an abstract policy for what is exempt": {replace: []string{"bindable", "abstract: true\n  bindable", "    " + rule + "\n", "",
			"policyName: p", "policyName: p\n  matchResources: {resourceRules: [{apiGroups: [policy.celgate.dev], apiVersions: ['*'], operations: ['*'], resources: ['*']}]}"},
			policy: "Exempt", binding: "Exempt"},
		"a binding of a namespace":        {replace: []string{cluster, team}, policy: "InForce", binding: "InForce", reached: true},
		"nodes in a namespace":            {replace: []string{cluster, team, rule, nodes}, policy: "NoOverlap", binding: "NoOverlap"},
		"nodes in the cluster":            {replace: []string{rule, nodes}, policy: "InForce", binding: "InForce", reached: true},
		"a level below all":               {replace: []string{"policyName: p", "policyName: p\n  enforcement: {level: 1}"}, policy: "NoValidation", binding: "NoValidation"},
		"a level":                         {replace: []string{"policyName: p", "policyName: p\n  enforcement: {level: 2}"}, policy: "InForce", binding: "InForce", reached: true},
		"a param kind that there is not":  {replace: []string{"  bindable", "  paramKind: {apiVersion: example.com/v1, kind: None}\n  bindable"}, policy: "NoParamKind", binding: "NoParamKind"},
		"params that may not be read":     {policy: "ParamsUnreadable", binding: "ParamsUnreadable", unread: "no", reached: true},
		"expressions that do not compile": {policy: "Invalid", change: func(*writing, []kube.Source) {}},
		"disabled":                        {policy: "Disabled", binding: "InForce", change: func(_ *writing, s []kube.Source) { s[0].Disabled = true }, reached: true},
		"an author who may not read the params": {policy: "AuthorMayNot", binding: "InForce", change: func(_ *writing, s []kube.Source) {
			s[0].Withheld = &kube.Condition{Type: "Ready", Reason: "AuthorMayNot"}
		}, reached: true},
		"a replica that does not have it":          {policy: "Waiting", binding: "Waiting", change: func(w *writing, _ []kube.Source) { w.all = append(w.all, kube.Report{}) }, reached: true},
		"no replicas":                              {policy: "Waiting", binding: "Waiting", change: func(w *writing, _ []kube.Source) { w.all = nil }, reached: true},
		"only compared":                            {policy: "Shadow", binding: "Shadow", change: func(w *writing, _ []kube.Source) { w.shadow = true }, reached: true},
		"configurations that cannot be written":    {policy: "NotAsked", binding: "NotAsked", change: func(w *writing, _ []kube.Source) { w.unasked = broken }, reached: true},
		"another one of the name in the directory": {policy: "Directory", change: func(w *writing, s []kube.Source) { other := *s[0].Policy; s[0].Policy = &other }, reached: true},
	} {
		text := strings.NewReplacer(c.replace...).Replace(reachable)
		set := setOf(t, text)
		if c.stripped {
			set.Bindings = nil
		}
		now := kube.Loaded{}
		sources := []kube.Source{{Policy: set.Policies[0], Object: map[string]any{"metadata": map[string]any{"uid": "1", "generation": int64(1)}}}}
		if len(set.Bindings) > 0 {
			sources = append(sources, kube.Source{Binding: set.Bindings[0], Object: map[string]any{"metadata": map[string]any{"uid": "2", "generation": int64(1)}}})
		}
		for _, s := range sources {
			now.Add(s.Object)
		}
		w := &writing{loaded: &loaded{set: set, types: types}, all: []kube.Report{{Loaded: now}}}
		if c.change != nil {
			c.change(w, sources)
		}
		for i, s := range sources {
			want := []string{c.policy, c.binding}[i]
			if want == "" {
				continue
			}
			got := w.readyCondition(s, want != "Invalid", c.unread)
			if got.Reason != want || got.True != (want == "InForce") || got.Message == "" && want != "AuthorMayNot" {
				t.Errorf("%s: %+v, not %s", name, got, want)
			}
			if to := w.reachCondition(s); want != "Invalid" && to.True != c.reached {
				t.Errorf("%s: %+v", name, to)
			}
		}
	}
}

// TestMatchedKinds tests the matched kinds in the status of a policy, with the generation of a definition, and the
// estimated cost.
func TestMatchedKinds(t *testing.T) {
	types, err := newest(t).WithCustomResources(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "widgets.example.com", "generation": int64(3)},
		"spec": map[string]any{"group": "example.com", "scope": "Namespaced",
			"names": map[string]any{"kind": "Widget", "plural": "widgets"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	set := setOf(t, strings.NewReplacer("apiGroups: [apps]", "apiGroups: [apps, example.com]", "resources: [deployments]",
		"resources: [deployments, deployments/scale, widgets]", "expression: 'true'",
		"expression: 'object.metadata.annotations.all(k, object.metadata.annotations.all(l, k != l || k.contains(l)))'").Replace(reachable))
	w := &writing{loaded: &loaded{set: set, types: types, minor: celgate.Newest}}
	got := w.kindsOf(set.Policies[0])
	want := []kube.MatchedKind{{APIVersion: "apps/v1", Kind: "Deployment"}, {APIVersion: "autoscaling/v1", Kind: "Scale"},
		{APIVersion: "example.com/v1", Kind: "Widget", Generation: 3}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	costs := costsOf(w.loaded, set.Policies[0])
	if len(costs) != 1 || costs[0].Of != "validations" || costs[0].Limit != celgate.Budget || costs[0].Units < 32*32 {
		t.Errorf("%+v", costs)
	}
	released := *set.Policies[0]
	released.Kind = policy.Validating
	if costs := costsOf(w.loaded, &released); costs != nil {
		t.Errorf("of a released kind: %+v", costs)
	}
}

// TestLibraryStatus tests the status of a library, which does not have bindings or requests.
func TestLibraryStatus(t *testing.T) {
	set := setOf(t, "apiVersion: policy.celgate.dev/v1alpha1\nkind: AdmissionPolicyLibrary\nmetadata: {name: images}\n"+
		"spec: {functions: [{name: one, expression: '1'}]}\n")
	s := kube.Source{Library: set.Libraries[0], Object: map[string]any{"metadata": map[string]any{"uid": "1", "generation": int64(1)}}}
	now := kube.Loaded{}
	now.Add(s.Object)
	w := &writing{loaded: &loaded{set: set, types: newest(t)}, all: []kube.Report{{Loaded: now}}}
	var said []string
	for _, c := range new(loader).status(w, s).Conditions {
		said = append(said, c.Type+" "+c.Reason)
	}
	if got := strings.Join(said, ", "); got != "Compiled Compiled, Ready InForce" {
		t.Error(got)
	}
}
