package lower_test

import (
	"maps"
	"reflect"
	"strings"
	"sync"
	"testing"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/lower"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema/builtin"
)

func object(t testing.TB, text string) map[string]any {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

const rules = `matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}`

// FuzzLower turns released specs into the dialect by their kind alone: lowering them gives the same spec.
func FuzzLower(f *testing.F) {
	for _, spec := range []string{
		`{` + rules + `, validations: [{expression: "true"}]}`,
		`{` + rules + `, failurePolicy: Ignore, variables: [{name: a, expression: "1"}], auditAnnotations: [{key: a, valueExpression: "'b'"}]}`,
		`{` + rules + `, reinvocationPolicy: Never, mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{}"}}]}`,
		`{` + rules + `, reinvocationPolicy: IfNeeded, mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[]"}}], matchConditions: [{name: a, expression: "true"}], paramKind: {apiVersion: v1, kind: ConfigMap}}`,
		`{matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, DELETE], resources: [pods]}]}, validations: [{expression: "true"}]}`,
		`{policyName: a, validationActions: [Deny, Audit]}`,
		`{policyName: a, paramRef: {name: b, parameterNotFoundAction: Allow}, matchResources: {namespaceSelector: {matchLabels: {a: b}}}}`,
	} {
		f.Add(spec)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var spec map[string]any
		if err := yaml.Unmarshal([]byte(text), &spec); err != nil || spec == nil {
			return
		}
		for _, kind := range []string{"ValidatingAdmissionPolicy", "MutatingAdmissionPolicy",
			"ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicyBinding"} {
			released := map[string]any{"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
				"metadata": map[string]any{"name": "n"}, "spec": spec}
			p, b, err := policy.FromObject(released, nil)
			if err != nil || p != nil && len(policy.ValidatePolicy(p, nil)) > 0 ||
				b != nil && len(policy.ValidateBinding(b)) > 0 {
				continue
			}
			turned := maps.Clone(released)
			turned["apiVersion"] = policy.Dialect
			turned["kind"] = strings.TrimPrefix(strings.TrimPrefix(kind, "Validating"), "Mutating")
			got, refusals := lowerObject(t, turned, kind)
			if len(refusals) > 0 || len(got) != 1 || !reflect.DeepEqual(got[0], released) {
				t.Errorf("%s became %v, refused %v", text, got, refusals)
			}
		}
	})
}

// lowerObject lowers a policy, or a binding of a policy that one of the released kind is.
func lowerObject(t *testing.T, object map[string]any, kind string) ([]map[string]any, []lower.Refusal) {
	t.Helper()
	p, b, err := policy.FromObject(object, nil)
	if err != nil {
		t.Fatal(err)
	}
	if p != nil {
		if errs := policy.ValidatePolicy(p, nil); len(errs) > 0 {
			t.Fatal(errs)
		}
		return newLowering(t, &policy.Set{Policies: []*policy.Policy{p}}).Policy(object, p)
	}
	bound := &policy.Policy{Kind: policy.Admission, Name: b.PolicyName, FailurePolicy: policy.Fail,
		Validations: make([]policy.Validation, 1)}
	if strings.HasPrefix(kind, "Mutating") {
		bound = &policy.Policy{Kind: policy.Admission, Name: b.PolicyName, Mutations: make([]policy.Mutation, 1)}
	}
	set := &policy.Set{Policies: []*policy.Policy{bound}, Bindings: []*policy.Binding{b}}
	return newLowering(t, set).Binding(object, b)
}

var natively = sync.OnceValues(func() (*celenv.Set, error) { return celenv.New("1.37", quirks.SetOf("1.37")) })

func newLowering(t testing.TB, set *policy.Set) *lower.Lowering {
	t.Helper()
	own, err := natively()
	if err != nil {
		t.Fatal(err)
	}
	types, err := builtin.Registry("1.37")
	if err != nil {
		t.Fatal(err)
	}
	return lower.New(set, types, own)
}

func TestLowerBoth(t *testing.T) {
	dialect := object(t, `
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicy
metadata: {name: both}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE, DELETE], resources: [pods]}
    - {apiGroups: [""], apiVersions: [v1], operations: [DELETE], resources: [secrets]}
  reinvocationPolicy: Never
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{}"}}]
  validations: [{expression: "true"}]
status: {conditions: []}
`)
	got, refusals := lowerObject(t, dialect, "")
	want := []map[string]any{object(t, `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: both}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  reinvocationPolicy: Never
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{}"}}]
`), object(t, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: both}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE, DELETE], resources: [pods]}
    - {apiGroups: [""], apiVersions: [v1], operations: [DELETE], resources: [secrets]}
  validations: [{expression: "true"}]
`)}
	if len(refusals) > 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, refused %v", got, refusals)
	}
}

// TestLowerOnlyDelete shows that a binding which is for DELETE alone is none of the mutations.
func TestLowerOnlyDelete(t *testing.T) {
	binding := object(t, `
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicyBinding
metadata: {name: both}
spec:
  policyName: p
  matchResources: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [DELETE], resources: [pods]}]}
`)
	_, b, err := policy.FromObject(binding, nil)
	if err != nil {
		t.Fatal(err)
	}
	both := &policy.Policy{Kind: policy.Admission, Name: "p", FailurePolicy: policy.Fail,
		Mutations: make([]policy.Mutation, 1), Validations: make([]policy.Validation, 1)}
	set := &policy.Set{Policies: []*policy.Policy{both}, Bindings: []*policy.Binding{b}}
	got, refusals := newLowering(t, set).Binding(binding, b)
	if len(refusals) > 0 || len(got) != 1 || got[0]["kind"] != "ValidatingAdmissionPolicyBinding" {
		t.Errorf("got %v, refused %v", got, refusals)
	}
	got, refusals = newLowering(t, &policy.Set{Bindings: set.Bindings}).Binding(binding, b)
	if len(got) > 0 || len(refusals) != 1 || refusals[0].Field != "spec.policyName" {
		t.Errorf("got %v, refused %v", got, refusals)
	}
}
