package delta_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/delta"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
	"github.com/celgate/celgate/state"
)

const policies = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: limit}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  validations: [{expression: "int(object.data.n) %% 10 < %d", message: too large}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: limit}
spec: {policyName: limit, validationActions: [%s]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: label}
spec:
  reinvocationPolicy: Never
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  matchConditions: [{name: some, expression: "int(object.data.n) %% %d == 0"}]
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: 'Object{metadata: Object.metadata{labels: {"a": "%s"}}}'}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: label}
spec: {policyName: label}
`

// A rule is one of the sets above, and its effect on an object, by number.
type rule struct {
	below  int
	action policy.Action
	every  int
	label  string
}

func (r rule) fails(n int) bool { return n%10 >= r.below }

func (r rule) denies(n int) bool { return r.fails(n) && r.action == policy.Deny }

func (r rule) set(t *testing.T) *policy.Set {
	docs, problems := manifest.Read(strings.NewReader(fmt.Sprintf(policies, r.below, r.action, r.every, r.label)),
		"p.yaml")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	bundle := manifest.NewBundle(docs...)
	if err := bundle.Err(); err != nil {
		t.Fatal(err)
	}
	return &bundle.Set
}

func (r rule) engine(t *testing.T, types *schema.Registry) *celgate.Engine {
	cluster, err := state.New(types)
	if err != nil {
		t.Fatal(err)
	}
	engine, err := celgate.New(r.set(t), celgate.Options{Types: types, Cluster: cluster})
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// TestOf compares the differences of 1,000 pairs of answers with the known effects of the sets: the changes are exact,
// none for equal sets, and reversed from the new set to the old one.
func TestOf(t *testing.T) {
	types, err := builtin.Registry("1.37")
	if err != nil {
		t.Fatal(err)
	}
	answer := func(e *celgate.Engine, n int) *delta.Answer {
		r, err := e.Prepare(t.Context(), &celgate.Request{
			Kind:     schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
			Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
			Name:     fmt.Sprint("c", n), Namespace: "default", Operation: celgate.Create,
			UserInfo: celgate.UserInfo{Username: "u"},
			Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
				"metadata": map[string]any{"name": fmt.Sprint("c", n), "namespace": "default"},
				"data":     map[string]any{"n": fmt.Sprint(n)}},
		})
		if err != nil {
			t.Fatal(err)
		}
		d, err := e.Admit(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return &delta.Answer{Request: r.Request(), Decision: d}
	}
	a := rule{below: 7, action: policy.Warn, every: 3, label: "x"}
	for _, b := range []rule{
		{below: 7, action: policy.Deny, every: 3, label: "x"}, {below: 5, action: policy.Warn, every: 3, label: "x"},
		{below: 9, action: policy.Audit, every: 2, label: "x"}, {below: 5, action: policy.Deny, every: 3, label: "y"},
	} {
		old, now := a.engine(t, types), b.engine(t, types)
		for n := range 1000 {
			was, is := answer(old, n), answer(now, n)
			if d := delta.Compare(was, was, types); len(d.Changes)+len(d.Pairs)+len(d.Object) > 0 {
				t.Fatalf("%d: an answer differs from itself: %v", n, d.Changes)
			}
			wanted := map[delta.Change]bool{
				delta.NewlyDenied:     b.denies(n) && !a.denies(n),
				delta.NewlyChanged:    !b.denies(n) && n%b.every == 0 && (n%a.every != 0 || a.label != b.label),
				delta.NoLongerChanged: !b.denies(n) && n%a.every == 0 && n%b.every != 0,
				delta.NewlyWarned:     b.fails(n) && b.action == policy.Warn && !a.fails(n),
				delta.NewlyAudited:    b.fails(n) && b.action == policy.Audit,
				delta.NoLongerWarned:  a.fails(n) && !(b.fails(n) && b.action == policy.Warn) && !b.denies(n),
			}
			got := delta.Compare(was, is, types)
			for _, c := range delta.Changes() {
				if has := slices.Contains(got.Changes, c); has != wanted[c] {
					t.Errorf("%+v, object %d: %s is %v, not %v", b, n, c, has, wanted[c])
				}
			}
			back := delta.Compare(is, was, types)
			if len(back.Pairs) != len(got.Pairs) ||
				slices.Contains(back.Changes, delta.NoLongerDenied) != slices.Contains(got.Changes,
					delta.NewlyDenied) ||
				(len(back.Changes) == 0) != (len(got.Changes) == 0) {
				t.Errorf("%+v, object %d: %v one way, %v the other", b, n, got.Changes, back.Changes)
			}
		}
		if d := delta.Sets(delta.Source{Set: a.set(t), Types: types},
			delta.Source{Set: a.set(t), Types: types}); len(d) > 0 {
			t.Errorf("a set differs from itself: %v", d)
		}
		if d := delta.Sets(delta.Source{Set: a.set(t), Types: types},
			delta.Source{Set: b.set(t), Types: types}); len(d) == 0 {
			t.Errorf("%+v and %+v say the same", a, b)
		}
	}
}
