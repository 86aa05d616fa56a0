package serve

import (
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
)

func setOf(t *testing.T, text string) *policy.Set {
	t.Helper()
	file := t.TempDir() + "/policies.yaml"
	write(t, file, text)
	docs, problems := manifest.Load(file)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	bundle := manifest.NewBundle(docs...)
	if err := bundle.Err(); err != nil {
		t.Fatal(err)
	}
	return &bundle.Set
}

const pair2 = `
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicy
metadata: {name: a}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]
  reinvocationPolicy: Never
  mutations:
  - {name: sets, patchType: JSONMergePatch, jsonMergePatch: {expression: '{"data": {"a": "b"}}'}}
  - {condition: "false", patchType: JSONMergePatch, jsonMergePatch: {expression: "{}"}}
  validations: [{expression: "true"}]
---
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicy
metadata: {name: b}
spec:
  failurePolicy: Ignore
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]
  validations: [{expression: "true"}]
---
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicyBinding
metadata: {name: both}
spec: {policies: [{name: a}, {name: b}]}
`

func managedLoader() *loader {
	l := newLoader(Options{Log: slog.New(slog.DiscardHandler), Manage: true})
	l.moved = map[policy.Ref]time.Time{}
	return l
}

// TestTogether compiles a binding of policies of both failurePolicies for two engines.
func TestTogether(t *testing.T) {
	l := managedLoader()
	set := setOf(t, pair2)
	bound := func(set *policy.Set) (refs int, rejected map[policy.Ref]celgate.Rejection) {
		made, rejected, err := l.compileAll(set, celgate.Options{WithoutQuirks: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range l.parts(set) {
			for _, b := range part.Bindings {
				refs += len(b.Policies)
			}
		}
		if len(made) != 2 {
			t.Fatal(made)
		}
		return refs, rejected
	}
	if refs, rejected := bound(set); refs != 2 || len(rejected) != 0 {
		t.Error(refs, rejected)
	}
	half := &policy.Set{Policies: set.Policies[:1], Bindings: set.Bindings}
	_, rejected := bound(half)
	if r := rejected[set.Bindings[0].Ref()]; len(rejected) != 1 || !strings.Contains(r.Status.Message,
		`spec.policies[1]: Invalid value: "AdmissionPolicy b"`) {
		t.Error("a binding without one of its policies:", rejected)
	}
	made, _, err := l.compileAll(half, celgate.Options{WithoutQuirks: true})
	if err != nil {
		t.Fatal(err)
	}
	request := &celgate.Request{UID: "u", Operation: celgate.Create, Namespace: "default", Name: "c",
		Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c"}}}
	request.Kind.Version, request.Kind.Kind = "v1", "ConfigMap"
	request.Resource.Version, request.Resource.Resource = "v1", "configmaps"
	ask := func(engine *celgate.Engine) *celgate.Decision {
		d, err := engine.Mutate(t.Context(), celgate.AssumePrepared(request))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if d := ask(made[&l.fail]); d.Mutated {
		t.Error("a half of a binding is in force")
	}
	made, _, err = l.compileAll(set, celgate.Options{WithoutQuirks: true})
	if err != nil {
		t.Fatal(err)
	}
	d := ask(made[&l.fail])
	got := slices.Collect(mutationResults(d, set))
	want := []mutationResult{{policy.Admission, "a", "both", "sets", "changed"},
		{policy.Admission, "a", "both", "1", "skipped"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

// TestLingering moves a policy with both phases to the other failurePolicy: its validations stay a while in the engine
// where they were, its mutations do not.
func TestLingering(t *testing.T) {
	l := managedLoader()
	before := setOf(t, pair2)
	l.current.Store(&loaded{set: before})
	after := &policy.Set{Bindings: before.Bindings}
	for _, p := range before.Policies {
		moved := *p
		moved.FailurePolicy = policy.Ignore
		after.Policies = append(after.Policies, &moved)
	}
	l.noteMoved(after)
	fail := l.parts(after)[&l.fail]
	if len(fail.Policies) != 1 || fail.Policies[0].Name != "a" || fail.Policies[0].Mutates() ||
		!fail.Policies[0].Validates() || !fail.Binds(policy.Admission.Ref("a")) {
		t.Errorf("%+v", fail.Policies)
	}
	if _, rejected, err := l.compileAll(after, celgate.Options{WithoutQuirks: true}); err != nil || len(rejected) > 0 {
		t.Error(rejected, err)
	}
	if ignore := l.parts(after)[&l.ignore]; len(ignore.Policies) != 2 {
		t.Errorf("%+v", ignore.Policies)
	}
}

// TestTurns has policies of the dialect whose names have another order than their reads and writes.
func TestTurns(t *testing.T) {
	own := func(name, expression string) string {
		return `
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicy
metadata: {name: ` + name + `}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  reinvocationPolicy: Never
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: '` + expression + `'}}]
---
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicyBinding
metadata: {name: ` + name + `}
spec: {policyName: ` + name + `}
---`
	}
	set := setOf(t, own("a", `Object{data: {"x": object.data.z}}`)+own("b", `Object{data: {"z": "1"}}`))
	engine, err := celgate.New(set, celgate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	turns, err := turnsOf(engine)
	if err != nil {
		t.Fatal(err)
	}
	a, b := turns[policy.Admission.Ref("a")], turns[policy.Admission.Ref("b")]
	if a.place != 2 || b.place != 1 || len(a.Why) != 1 || a.Why[0] != "after b, which writes data.z" {
		t.Errorf("a %+v, b %+v, rejected %v", a, b, engine.Rejections())
	}
}
