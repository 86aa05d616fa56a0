package policy_test

import (
	"errors"
	"reflect"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1alpha1 "k8s.io/api/admissionregistration/v1alpha1"
	admissionv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/celgate/celgate/policy"
)

// TestNewSet makes sets of objects from typed and dynamic clients, in all versions, with and without their kind.
func TestNewSet(t *testing.T) {
	tree := map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
		"metadata": map[string]any{"name": "p"},
		"spec":     map[string]any{"validations": []any{map[string]any{"expression": "true"}}},
	}
	want, _, err := policy.FromObject(tree, nil)
	if err != nil {
		t.Fatal(err)
	}
	meta := metav1.ObjectMeta{Name: "p"}
	v1 := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: meta, Spec: admissionv1.ValidatingAdmissionPolicySpec{
			Validations: []admissionv1.Validation{{Expression: "true"}}},
	}
	said := v1.DeepCopy()
	said.APIVersion, said.Kind = "admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"
	for name, object := range map[string]runtime.Object{
		"v1":           v1,
		"v1 with kind": said,
		"list":         &admissionv1.ValidatingAdmissionPolicyList{Items: []admissionv1.ValidatingAdmissionPolicy{*v1}},
		"unstructured": &unstructured.Unstructured{Object: tree},
		"unstructured list": &unstructured.UnstructuredList{
			Object: map[string]any{"apiVersion": "v1", "kind": "List"},
			Items:  []unstructured.Unstructured{{Object: tree}},
		},
	} {
		set, err := policy.NewSet(object)
		if err != nil || len(set.Policies) != 1 || len(set.Bindings) != 0 {
			t.Errorf("%s: %v, %+v", name, err, set)
			continue
		}
		if !reflect.DeepEqual(set.Policies[0], want) {
			t.Errorf("%s: %+v, want %+v", name, set.Policies[0], want)
		}
	}
	older, err := policy.NewSet(
		&admissionv1beta1.ValidatingAdmissionPolicy{ObjectMeta: meta},
		&admissionv1alpha1.MutatingAdmissionPolicy{ObjectMeta: meta},
		&admissionv1beta1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta,
			Spec: admissionv1beta1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "p"}},
		&admissionv1alpha1.MutatingAdmissionPolicyBinding{ObjectMeta: meta,
			Spec: admissionv1alpha1.MutatingAdmissionPolicyBindingSpec{PolicyName: "p"}},
	)
	if err != nil || len(older.Policies) != 2 || len(older.Bindings) != 2 ||
		older.Policies[1].Kind != policy.Mutating ||
		older.Policies[1].APIVersion != "admissionregistration.k8s.io/v1alpha1" ||
		older.Bindings[1].PolicyName != "p" {
		t.Errorf("%v, %+v", err, older)
	}
	var twice *policy.DuplicateError
	if _, err := policy.NewSet(v1, said); !errors.As(err, &twice) {
		t.Errorf("two of one name: %v", err)
	}
	if _, err := policy.NewSet(&corev1.Pod{}); err == nil {
		t.Error("a Pod is taken for a policy")
	}
	if _, err := policy.NewSet(&unstructured.Unstructured{
		Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}); err == nil {
		t.Error("an unstructured Pod is taken for a policy")
	}
}
