package kube

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

func TestManifest(t *testing.T) {
	own := map[string]any{
		"apiVersion": "policy.celgate.dev/v1", "kind": "MutatingAdmissionPolicyBinding",
		"metadata": map[string]any{
			"name": "b", "uid": "u", "generation": int64(2), "labels": map[string]any{"a": "b"},
			"annotations": map[string]any{"celgate.dev/disabled": "false",
				"kubectl.kubernetes.io/last-applied-configuration": "{}", "kept": "yes"},
		},
		"spec": map[string]any{"policyName": "p"}, "status": map[string]any{"observedGeneration": int64(2)},
	}
	beta := schema.GroupVersion{Group: nativeGroup, Version: "v1beta1"}
	h := &Handover{Served: map[string]schema.GroupVersionResource{
		"mutatingadmissionpolicybindings": beta.WithResource("mutatingadmissionpolicybindings")}}
	want := map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1beta1", "kind": "MutatingAdmissionPolicyBinding",
		"metadata": map[string]any{"name": "b", "labels": map[string]any{"a": "b"},
			"annotations": map[string]any{"kept": "yes"}},
		"spec": map[string]any{"policyName": "p"},
	}
	if diff := cmp.Diff(want, h.Manifest(own)); diff != "" {
		t.Error(diff)
	}
	own["kind"] = "MutatingAdmissionPolicy"
	if got := h.Manifest(own); got != nil {
		t.Error("a manifest of a kind that the server does not serve", got)
	}
}

// TestHandedOver leaves a binding to the server when it is natively there with its policy and the server has the
// plugin.
func TestHandedOver(t *testing.T) {
	f, client := startFake(t)
	f.texts["/apis"] = `{"kind": "APIGroupList", "groups": [{"name": "admissionregistration.k8s.io", "versions": [{"version": "v1"}, {"version": "v1beta1"}]}]}`
	f.texts["/apis/admissionregistration.k8s.io/v1"] = `{"resources": [{"name": "validatingadmissionpolicies", "kind": "ValidatingAdmissionPolicy"},
		{"name": "validatingadmissionpolicybindings", "kind": "ValidatingAdmissionPolicyBinding"}]}`
	f.texts["/apis/admissionregistration.k8s.io/v1beta1"] = `{"resources": [{"name": "mutatingadmissionpolicies", "kind": "MutatingAdmissionPolicy"},
		{"name": "mutatingadmissionpolicybindings", "kind": "MutatingAdmissionPolicyBinding"}]}`
	f.texts["/metrics"] = "# HELP x\napiserver_admission_controller_admission_duration_seconds_count{name=\"MutatingAdmissionPolicy\",operation=\"CREATE\"} 193\n"
	put := func(version, resource, kind, name, policyName string) string {
		path := "/apis/admissionregistration.k8s.io/" + version + "/" + resource + "/" + name
		f.put(path, map[string]any{
			"apiVersion": "admissionregistration.k8s.io/" + version, "kind": kind,
			"metadata": map[string]any{"name": name}, "spec": map[string]any{"policyName": policyName},
		})
		return path
	}
	put("v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", "v", "")
	put("v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", "v", "v")
	put("v1beta1", "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", "m", "m")
	w, err := client.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	over := func(kind policy.Kind, name, policyName string) bool {
		return w.IsHandedOver(&policy.Binding{Kind: kind, Name: name, PolicyName: policyName})
	}
	if over(policy.Validating, "v", "v") {
		t.Error("the server has no plugin for validating policies")
	}
	if over(policy.Mutating, "m", "m") {
		t.Error("a binding without its policy does nothing")
	}
	path := put("v1beta1", "mutatingadmissionpolicies", "MutatingAdmissionPolicy", "m", "")
	eventually(t, "the server acts on it", func() bool { return over(policy.Mutating, "m", "m") })
	if over(policy.Mutating, "m", "other") || over(policy.Mutating, "other", "m") {
		t.Error("another binding")
	}
	f.remove(path)
	eventually(t, "the policy is gone", func() bool { return !over(policy.Mutating, "m", "m") })
	if err := w.NativeError(); err != nil {
		t.Error(err)
	}
}
