package policy_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/celgate/celgate/policy"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rogpeppe/go-internal/txtar"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1alpha1 "k8s.io/api/admissionregistration/v1alpha1"
	admissionv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
)

// object decodes a YAML object as the trees of this module are: with int64.
func object(t testing.TB, text string) map[string]any {
	t.Helper()
	data, err := yaml.ToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var obj map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

func mustPolicy(t testing.TB, text string, places rows) *policy.Policy {
	t.Helper()
	var place func(string) policy.Locator
	if places != nil {
		place = places.Place
	}
	p, b, err := policy.FromObject(object(t, text), place)
	if err != nil || p == nil || b != nil {
		t.Fatal(p, b, err)
	}
	return p
}

// rows is a file with a row for each of these fields.
type rows map[string]int

func (r rows) Place(path string) policy.Locator {
	for {
		if at, ok := r[path]; ok {
			return row(at)
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
}

type row int

func (r row) Locate(offset int) policy.Position {
	return policy.Position{Line: int(r), Column: 1 + offset}
}

// answer returns the server's answer for the object; nil if it would store it.
func answer(obj map[string]any) *metav1.Status {
	p, b, err := policy.FromObject(obj, nil)
	if failed := (*policy.DecodeError)(nil); errors.As(err, &failed) {
		return failed.Status()
	}
	if p != nil {
		if errs := policy.ValidatePolicy(p, nil); len(errs) > 0 {
			return p.Ref().Invalid(errs)
		}
	}
	if b != nil {
		if errs := policy.ValidateBinding(b); len(errs) > 0 {
			return b.Ref().Invalid(errs)
		}
	}
	return nil
}

// TestAnswers compares the answers with those of kube-apiserver's own code (conformance/policy records them). All
// expressions in the files compile.
func TestAnswers(t *testing.T) {
	for name, c := range corpus(t) {
		t.Run(name, func(t *testing.T) {
			var want *metav1.Status
			if c.want != "" {
				if err := json.Unmarshal([]byte(c.want), &want); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(want, answer(object(t, c.object))); diff != "" {
				t.Errorf("(-server +celgate):\n%s", diff)
			}
		})
	}
}

type answered struct{ object, want string }

func corpus(t testing.TB) map[string]answered {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no corpus", err)
	}
	all := map[string]answered{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range txtar.Parse(data).Files {
			name := strings.TrimSuffix(filepath.Base(file),
				".txtar") + "/" + strings.TrimSuffix(strings.TrimSuffix(f.Name, ".yaml"), ".want")
			c := all[name]
			if strings.HasSuffix(f.Name, ".want") {
				c.want = string(f.Data)
			} else {
				c.object = string(f.Data)
			}
			all[name] = c
		}
	}
	return all
}

const head = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]
`

func TestFromObject(t *testing.T) {
	all := &policy.MatchResources{
		NamespaceSelector: &metav1.LabelSelector{},
		ObjectSelector:    &metav1.LabelSelector{},
		MatchPolicy:       policy.Equivalent,
		ResourceRules: []policy.Rule{{
			APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"},
			Operations: []string{"CREATE"}, Scope: "*",
		}},
	}
	tests := map[string]struct {
		object  string
		policy  *policy.Policy
		binding *policy.Binding
	}{
		"validating": {
			object: head + `
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConditions: [{name: m, expression: a}]
  variables: [{name: x, expression: " 1\n"}]
  validations: [{expression: b, message: c, messageExpression: d, reason: Forbidden}, {expression: e}]
  auditAnnotations: [{key: f, valueExpression: g}]
`,
			policy: &policy.Policy{
				Kind: policy.Validating, APIVersion: "admissionregistration.k8s.io/v1", Name: "p",
				Metadata:         metav1.ObjectMeta{Name: "p"},
				FailurePolicy:    policy.Fail,
				ParamKind:        &policy.ParamKind{APIVersion: "v1", Kind: "ConfigMap"},
				MatchConstraints: all,
				MatchConditions: []policy.NamedExpr{
					{Name: "m", Expr: policy.Expr{Src: "a", Field: "spec.matchConditions[0].expression"}}},
				Variables: []policy.NamedExpr{
					{Name: "x", Expr: policy.Expr{Src: " 1\n", Field: "spec.variables[0].expression"}}},
				Validations: []policy.Validation{
					{
						Expr:        policy.Expr{Src: "b", Field: "spec.validations[0].expression"},
						Message:     "c",
						MessageExpr: policy.Expr{Src: "d", Field: "spec.validations[0].messageExpression"},
						Reason:      metav1.StatusReasonForbidden,
					},
					{Expr: policy.Expr{Src: "e", Field: "spec.validations[1].expression"}},
				},
				AuditAnnotations: []policy.NamedExpr{
					{Name: "f", Expr: policy.Expr{Src: "g", Field: "spec.auditAnnotations[0].valueExpression"}}},
			},
		},
		"mutating": {
			object: `
apiVersion: admissionregistration.k8s.io/v1beta1
kind: MutatingAdmissionPolicy
metadata: {generateName: p-, labels: {a: b}}
spec:
  failurePolicy: Ignore
  mutations:
  - {patchType: ApplyConfiguration, applyConfiguration: {expression: a}}
  - {patchType: JSONPatch, jsonPatch: {expression: b}}
  reinvocationPolicy: IfNeeded
`,
			policy: &policy.Policy{
				Kind: policy.Mutating, APIVersion: "admissionregistration.k8s.io/v1beta1", Name: "p-4b6g8",
				Metadata: metav1.ObjectMeta{Name: "p-4b6g8", GenerateName: "p-",
					Labels: map[string]string{"a": "b"}},
				FailurePolicy: policy.Ignore,
				Reinvocation:  policy.IfNeeded,
				Mutations: []policy.Mutation{
					{PatchType: policy.ApplyConfiguration,
						Expr: policy.Expr{Src: "a", Field: "spec.mutations[0].applyConfiguration.expression"}},
					{PatchType: policy.JSONPatch,
						Expr: policy.Expr{Src: "b", Field: "spec.mutations[1].jsonPatch.expression"}},
				},
			},
		},
		"validating binding": {
			object: `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: b}
spec:
  policyName: p
  paramRef: {name: x, namespace: ns}
  matchResources:
    matchPolicy: Exact
    namespaceSelector: {matchLabels: {a: b}}
    excludeResourceRules: [{resourceNames: [x], scope: Cluster}]
  validationActions: [Deny, Audit]
`,
			binding: &policy.Binding{
				Kind: policy.Validating, APIVersion: "admissionregistration.k8s.io/v1", Name: "b",
				Metadata:   metav1.ObjectMeta{Name: "b"},
				PolicyName: "p",
				ParamRef:   &policy.ParamRef{Name: "x", Namespace: "ns"},
				MatchResources: &policy.MatchResources{
					NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
					ObjectSelector:    &metav1.LabelSelector{},
					MatchPolicy:       policy.Exact,
					ExcludeRules:      []policy.Rule{{ResourceNames: []string{"x"}, Scope: "Cluster"}},
				},
				Actions: []policy.Action{policy.Deny, policy.Audit},
			},
		},
		"mutating binding v1alpha1": {
			object: `
apiVersion: admissionregistration.k8s.io/v1alpha1
kind: MutatingAdmissionPolicyBinding
metadata: {name: b}
spec: {policyName: p, paramRef: {selector: {}}}
`,
			binding: &policy.Binding{
				Kind: policy.Mutating, APIVersion: "admissionregistration.k8s.io/v1alpha1", Name: "b",
				Metadata:   metav1.ObjectMeta{Name: "b"},
				PolicyName: "p",
				ParamRef:   &policy.ParamRef{Selector: &metav1.LabelSelector{}, NotFoundAction: policy.NotFoundDeny},
			},
		},
	}
	unexported := cmpopts.IgnoreUnexported(policy.Policy{}, policy.Binding{}, policy.Validation{}, policy.Mutation{},
		policy.Expr{})
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			obj := object(t, test.object)
			if !policy.IsRecognised(obj) {
				t.Error("not recognised")
			}
			p, b, err := policy.FromObject(obj, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.policy, p, unexported); diff != "" {
				t.Errorf("policy (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.binding, b, unexported); diff != "" {
				t.Errorf("binding (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(object(t, test.object), obj); diff != "" {
				t.Errorf("the object was changed: %s", diff)
			}
		})
	}
}

func TestRecognised(t *testing.T) {
	for text, want := range map[string]bool{
		`{"apiVersion": "admissionregistration.k8s.io/v1alpha1", "kind": "MutatingAdmissionPolicyBinding"}`: true,
		`{"apiVersion": "admissionregistration.k8s.io/v2", "kind": "MutatingAdmissionPolicy"}`:              false,
		`{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}`:       false,
		`{"apiVersion": "v1", "kind": "ValidatingAdmissionPolicy"}`:                                         false,
		`{"apiVersion": 1, "kind": ["ValidatingAdmissionPolicy"]}`:                                          false,
		`{}`: false,
	} {
		obj := object(t, text)
		if got := policy.IsRecognised(obj); got != want {
			t.Errorf("%s: %v", text, got)
		}
		p, b, err := policy.FromObject(obj, nil)
		if (err == nil) != want || (p != nil || b != nil) != want {
			t.Errorf("%s: %v %v %v", text, p, b, err)
		}
	}
}

func TestDecodeErrorNamesAll(t *testing.T) {
	_, _, err := policy.FromObject(object(t, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p, labels: {a.b/c: 1}}
spec:
  failurepolicy: Ignore
  validations:
  - {expression: "true", reason: [Forbidden]}
  - true
  - {messageExpresion: "'a'"}
  matchConstraints: []
`), rows{
		"": 1, `metadata.labels["a.b/c"]`: 4, "spec.failurepolicy": 6,
		"spec.validations[0].reason": 8, "spec.validations[1]": 9, "spec.validations[2]": 10,
		"spec.matchConstraints": 11,
	}.Place)
	var failed *policy.DecodeError
	if !errors.As(err, &failed) {
		t.Fatalf("%T %v", err, err)
	}
	at := func(line int) policy.Position { return policy.Position{Line: line, Column: 1} }
	want := []policy.Problem{
		{at(4), `metadata.labels["a.b/c"]`, "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string", ""},
		{at(6), "spec.failurepolicy", `unknown field "spec.failurepolicy"`, "did you mean failurePolicy?"},
		{at(8), "spec.validations[0].reason",
			"json: cannot unmarshal array into Go struct field Validation.spec.validations.reason of type v1.StatusReason", ""},
		{at(9), "spec.validations[1]", "json: cannot unmarshal bool into Go struct field ValidatingAdmissionPolicySpec.spec.validations of type v1.Validation", ""},
		{at(10), "spec.validations[2].messageExpresion", `unknown field "spec.validations[2].messageExpresion"`,
			"did you mean messageExpression?"},
		{at(11), "spec.matchConstraints", "json: cannot unmarshal array into Go struct field ValidatingAdmissionPolicySpec.spec.matchConstraints of type v1.MatchResources", ""},
	}
	if diff := cmp.Diff(want, failed.Problems); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestVersionsHaveTheSameFields tests an assumption of FromObject, which reads all versions as v1.
func TestVersionsHaveTheSameFields(t *testing.T) {
	for _, versions := range [][]any{
		{admissionv1.ValidatingAdmissionPolicy{}, admissionv1beta1.ValidatingAdmissionPolicy{},
			admissionv1alpha1.ValidatingAdmissionPolicy{}},
		{admissionv1.ValidatingAdmissionPolicyBinding{}, admissionv1beta1.ValidatingAdmissionPolicyBinding{},
			admissionv1alpha1.ValidatingAdmissionPolicyBinding{}},
		{admissionv1.MutatingAdmissionPolicy{}, admissionv1beta1.MutatingAdmissionPolicy{},
			admissionv1alpha1.MutatingAdmissionPolicy{}},
		{admissionv1.MutatingAdmissionPolicyBinding{}, admissionv1beta1.MutatingAdmissionPolicyBinding{},
			admissionv1alpha1.MutatingAdmissionPolicyBinding{}},
	} {
		want := shape(reflect.TypeOf(versions[0]))
		for _, v := range versions[1:] {
			if diff := cmp.Diff(want, shape(reflect.TypeOf(v))); diff != "" {
				t.Errorf("%T (-v1 +%[1]T):\n%s", v, diff)
			}
		}
	}
}

// shape describes how JSON is decoded into a type.
func shape(t reflect.Type) any {
	switch {
	case t.Kind() == reflect.Pointer:
		return shape(t.Elem())
	case t.Kind() == reflect.Slice:
		return []any{shape(t.Elem())}
	case t.Kind() == reflect.Struct && t.PkgPath() != reflect.TypeFor[metav1.ObjectMeta]().PkgPath():
		fields := map[string]any{}
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			if inner, ok := shape(t.Field(i).Type).(map[string]any); ok && name == "" {
				for k, v := range inner {
					fields[k] = v
				}
				continue
			}
			fields[name] = shape(t.Field(i).Type)
		}
		return fields
	case t.Kind() == reflect.Struct:
		return t.String()
	}
	return t.Kind().String()
}

// calls records the expressions to compile and refuses those that contain "bad".
type calls struct{ log []string }

func (c *calls) compile(x policy.Part) *field.Error {
	c.log = append(c.log, strings.TrimSpace(string(x.Use)+" "+x.Name)+"|"+x.Src)
	switch {
	case strings.Contains(x.Src, "internal"):
		return field.InternalError(nil, errors.New("no program"))
	case strings.Contains(x.Src, "bad"):
		return field.Invalid(nil, x.Src, "compilation failed")
	}
	return nil
}

func TestCompile(t *testing.T) {
	validating := head + `
  matchConditions: [{name: m, expression: " bad1 "}, {name: o, expression: " "}]
  variables: [{name: x, expression: " bad2 "}, {name: "!", expression: ok}]
  validations: [{expression: " bad3 ", messageExpression: " bad4 "}, {expression: internal, messageExpression: " "}]
  auditAnnotations: [{key: a, valueExpression: " bad5 "}]
`
	mutating := `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: p}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]
  mutations:
  - {patchType: JSONPatch, jsonPatch: {expression: " bad6 "}}
  - {patchType: ApplyConfiguration, applyConfiguration: {expression: " bad7 "}}
  reinvocationPolicy: Never
`
	tests := map[string]struct {
		object     string
		calls, err []string
	}{
		"validating": {validating,
			[]string{
				"match condition|bad1", "variable x| bad2 ", "variable !|ok",
				"validation| bad3 ", "message expression| bad4 ", "validation|internal", "audit annotation|bad5",
			},
			[]string{
				`spec.matchConditions[0].expression: Invalid value: "bad1": compilation failed`,
				`spec.matchConditions[1].expression: Required value`,
				`spec.variables[0].expression: Invalid value: " bad2 ": compilation failed`,
				`spec.variables[1].name: Invalid value: "!": must be a valid CEL identifier`,
				`spec.validations[0].expression: Invalid value: " bad3 ": compilation failed`,
				`spec.validations[0].messageExpression: Invalid value: " bad4 ": compilation failed`,
				`spec.validations[1].expression: Internal error: no program`,
				`spec.validations[1].messageExpression: Invalid value: " ": must be non-empty if specified`,
				`spec.auditAnnotations[0].valueExpression: Invalid value: " bad5 ": compilation failed`,
			},
		},
		"mutating": {mutating,
			[]string{"JSON patch|bad6", "apply configuration|bad7"},
			[]string{
				`spec.mutations[0].jsonPatch.expression: Invalid value: "bad6": compilation failed`,
				`spec.mutations[1].applyConfiguration.expression: Invalid value: "bad7": compilation failed`,
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var c calls
			errs := policy.ValidatePolicy(mustPolicy(t, test.object, nil), c.compile)
			if diff := cmp.Diff(test.err, texts(errs)); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.calls, c.log); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

func texts(errs field.ErrorList) []string {
	var out []string
	for _, err := range errs {
		out = append(out, err.Error())
	}
	return out
}

// TestDuplicateVariables is the one rule that is not the server's.
func TestDuplicateVariables(t *testing.T) {
	p := mustPolicy(t, head+`
  variables: [{name: x, expression: "1"}, {name: z, expression: "1"}, {name: x, expression: " "}, {name: x, expression: "bad"}]
  validations: [{expression: "true"}]
`, rows{"": 1, "spec.variables[3].name": 9})
	var c calls
	errs := policy.ValidatePolicy(p, c.compile)
	want := []string{
		`spec.variables[2].expression: Required value: expression is not specified`,
		`spec.variables[2].name: Duplicate value: "x": each variable must have a name of its own`,
		`spec.variables[3].name: Duplicate value: "x": each variable must have a name of its own`,
	}
	if diff := cmp.Diff(want, texts(errs)); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	if at := p.Locate(errs[2]); at != (policy.Position{Line: 9, Column: 1}) {
		t.Error(at)
	}
	if diff := cmp.Diff([]string{"variable x|1", "variable z|1", "validation|true"}, c.log); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestLocate(t *testing.T) {
	p := mustPolicy(t, head+`
  matchConditions: [{name: m, expression: "\n  a\n  é && b"}]
  validations: [{expression: "  a\n  bb", messageExpression: "c"}]
  auditAnnotations: [{key: a, valueExpression: "d"}]
`, rows{"": 1, "spec": 4, "spec.matchConditions[0].expression": 10, "spec.validations[0].expression": 11, "spec.auditAnnotations[0].valueExpression": 12})
	tests := []struct {
		field, detail string
		want          policy.Position
	}{
		{"spec.matchConditions[0].expression", "compilation failed: ERROR: <input>:2:6: undeclared",
			policy.Position{Line: 10, Column: 1 + len("\n  a\n  é &")}},
		{"spec.validations[0].expression", "compilation failed: ERROR: <input>:1:3: x\n | y\nERROR: <input>:2:1: z",
			policy.Position{Line: 11, Column: 3}},
		{"spec.validations[0].expression", "must evaluate to bool but got int", policy.Position{Line: 11, Column: 1}},
		{"spec.validations[0].expression", "ERROR: <input>:9:9: beyond",
			policy.Position{Line: 11, Column: 1 + len("  a\n")}},
		{"spec.validations[0].expression", "ERROR: <input>:1:99: beyond", policy.Position{Line: 11, Column: 4}},
		{"spec.validations[0].expression", "ERROR: <input>:x:y: none", policy.Position{Line: 11, Column: 1}},
		{"spec.auditAnnotations[0].valueExpression", "ERROR: <input>:1:1: x", policy.Position{Line: 12, Column: 1}},
		{"spec.matchConstraints.resourceRules.operations", "", policy.Position{Line: 4, Column: 1}},
		{"metadata.name", "", policy.Position{Line: 1, Column: 1}},
	}
	for _, test := range tests {
		err := &field.Error{Type: field.ErrorTypeInvalid, Field: test.field, Detail: test.detail}
		if got := p.Locate(err); got != test.want {
			t.Errorf("%s %q: %v, want %v", test.field, test.detail, got, test.want)
		}
	}
	p = mustPolicy(t, strings.Replace(head, "[CREATE]", "[CREATE, DELETE, PATCH]", 1),
		rows{"": 1, "spec.matchConstraints.resourceRules[0].operations[2]": 6})
	p.Kind = policy.Mutating
	for _, err := range policy.ValidatePolicy(p, nil) {
		if got := p.Locate(err); (err.BadValue != nil && strings.Contains(err.Error(), "PATCH")) != (got.Line == 6) {
			t.Errorf("%v: %v", err, got)
		}
	}
	if got := mustPolicy(t, head, nil).Locate(&field.Error{Field: "spec"}); got.IsValid() {
		t.Errorf("without places: %v", got)
	}
}
