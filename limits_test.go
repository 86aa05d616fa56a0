package celgate_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
)

// costly is a validating policy whose validation costs some hundred units.
func costly(name, failurePolicy string) string {
	return strings.NewReplacer("NAME", name, "FAILURE", failurePolicy).Replace(`
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: NAME}
spec:
  failurePolicy: FAILURE
  matchConstraints:
    resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  validations: [{expression: 'lists.range(100).all(i, i >= 0)'}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: NAME}
spec: {policyName: NAME, validationActions: [Deny]}
`)
}

// TestRequestCost evaluates policies until a request exceeds its cost: each remaining policy has an error, and its
// failurePolicy decides, in the order of names.
func TestRequestCost(t *testing.T) {
	object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "c", "namespace": "default"}}
	ask := func(limit int64, policies string) *celgate.Decision {
		t.Helper()
		engine := engineWith(t, policies, celgate.Options{Limits: celgate.Limits{Cost: limit}, Timed: true})
		for _, r := range engine.Rejections() {
			t.Fatal(r.Status.Message)
		}
		return admitObject(t, engine, "configmaps", object)
	}
	all := costly("a", "Fail") + costly("b", "Fail") + costly("c", "Ignore") + costly("d", "Fail")
	free := ask(0, all)
	if !free.Allowed || free.Cost <= 0 || len(free.Timings()) != 4 {
		t.Fatalf("without a limit: %v, %d units, %v", free.Allowed, free.Cost, free.Timings())
	}
	one := free.Cost / 4
	for _, timing := range free.Timings() {
		if timing.Cost != one {
			t.Errorf("%s cost %d units, not %d", timing.Policy, timing.Cost, one)
		}
	}
	if d := ask(free.Cost, all); !d.Allowed || d.Cost != free.Cost {
		t.Errorf("at the limit: %s", describeDecision(d))
	}
	d := ask(2*one-1, all) // the second one exceeds the cost, and later ones are not evaluated
	var failed []string
	for _, o := range d.Outcomes {
		if errors.Is(o.Err, celgate.ErrRequestCost) && errors.Is(o.Err, celgate.ErrBudget) {
			failed = append(failed, o.Policy)
		}
	}
	if got := strings.Join(failed, ","); got != "c,d" || d.Allowed || d.Denial.Policy != "d" || d.Cost != 2*one {
		t.Errorf("beyond the limit: %q not evaluated, %s", got, describeDecision(d))
	}
	want := fmt.Sprintf("the policies before it cost %d CEL cost units, and the limit of a request is %d", 2*one,
		2*one-1)
	if !strings.Contains(d.Status.Message, want) {
		t.Error(d.Status.Message)
	}
	if d := ask(one-1, costly("a", "Fail")+costly("b", "Ignore")); !d.Allowed {
		t.Errorf("only a policy of Ignore is left out: %s", describeDecision(d))
	}
}

// TestRequestCostOfMutations stops between the mutations of one policy, too.
func TestRequestCostOfMutations(t *testing.T) {
	spec := `
  reinvocationPolicy: Never
  mutationValidationPolicy: Skip
  mutations:
  - {patchType: JSONMergePatch, jsonMergePatch: {expression: '{"data": {"a": lists.range(100).all(i, i >= 0) ? "1" : "2"}}'}}
  - {patchType: JSONMergePatch, jsonMergePatch: {expression: '{"data": {"b": lists.range(100).all(i, i >= 0) ? "1" : "2"}}'}}
`
	policies := strings.Replace(dialectPolicy("p", spec), configMapRules, mutableRules, 1)
	object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "c", "namespace": "default"}}
	ask := func(limit int64) *celgate.Decision {
		return admitObject(t, engineWith(t, policies, celgate.Options{Limits: celgate.Limits{Cost: limit}}), "configmaps",
			object)
	}
	if d := ask(0); !d.Allowed || len(d.Outcomes) != 2 {
		t.Fatal(describeDecision(d))
	}
	d := ask(1)
	if d.Allowed || len(d.Outcomes) != 2 || !errors.Is(d.Outcomes[1].Err, celgate.ErrRequestCost) {
		t.Errorf("%s %+v", describeDecision(d), d.Outcomes)
	}
}

// TestGrownObjects tests the limits of growing objects: the rules of metadata, as on a server, and the cost of an
// evaluation.
func TestGrownObjects(t *testing.T) {
	grow := func(text string) *celgate.Decision {
		expression := `Object{metadata: Object.metadata{annotations: {"a": ` + text + `}}}`
		return admitPod(t, engineOf(t, podPolicy(expression)), podOf(t, barePod))
	}
	const kilobyte = `lists.range(1024).map(i, "x").join("")`
	if d := grow(kilobyte); !d.Allowed || !d.Mutated {
		t.Error(describeDecision(d))
	}
	d := grow(`[` + kilobyte + `].map(k, lists.range(300).map(i, k).join(""))[0]`)
	if d.Allowed || !strings.Contains(d.Status.Message, "Too long: may not be more than 262144 bytes") {
		t.Errorf("more annotations than are stored: %.200s", describeDecision(d))
	}
	doubled := kilobyte
	for range 18 {
		doubled = `[` + doubled + `].map(k, k + k)[0]`
	}
	if d := grow(doubled); d.Allowed || !strings.Contains(d.Status.Message, "actual cost limit exceeded") {
		t.Errorf("256 MiB: %s", describeDecision(d))
	}
}

// TestSizes refuses policies and bindings beyond the configured sizes, in the order of names; stored ones remain in
// force.
func TestSizes(t *testing.T) {
	sizes := policy.Limits{Bindings: 1, Rules: 1, Validations: 1}
	text := costly("a", "Fail") + strings.ReplaceAll(costly("b", "Fail"), "[{expression: 'lists.range(100).all(i, i >= 0)'}]",
		"[{expression: 'true'}, {expression: 'true'}]") + `
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: a-second}
spec:
  policyName: a
  validationActions: [Deny]
`
	engine := engineWith(t, text, celgate.Options{Sizes: sizes})
	var got []string
	for _, r := range engine.Rejections() {
		got = append(got, r.Status.Message)
	}
	want := []string{
		`ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io "a-second" is invalid: spec.policyName: Too many: 2: ValidatingAdmissionPolicy a may have at most 1 bindings`,
		`ValidatingAdmissionPolicy.admissionregistration.k8s.io "b" is invalid: spec.validations: Too many: 2: must have at most 1 item`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	if rejected := engineWith(t, text, celgate.Options{}).Rejections(); len(rejected) > 0 {
		t.Errorf("without limits: %+v", rejected)
	}
	docs, problems := manifest.Read(strings.NewReader(text), "stored.yaml")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	set := manifest.NewBundle(docs...).Set
	for _, p := range set.Policies {
		p.Stored = true
	}
	for _, b := range set.Bindings {
		b.Stored = true
	}
	engine, err := celgate.New(&set, celgate.Options{Sizes: sizes})
	if err != nil || len(engine.Rejections()) > 0 {
		t.Errorf("stored: %v %+v", err, engine.Rejections())
	}
}
