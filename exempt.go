package celgate

import "github.com/celgate/celgate/schema"

// policyGroup is the group of policies and bindings. Policies are not evaluated for them, but the registry has rules.
const policyGroup = "admissionregistration.k8s.io"

// Exempt reports whether the server does not evaluate policies for a resource, or, if static is set, static policies:
// reviews of authentication and authorization, which are not stored, and, unless a policy is static, policies and
// bindings (as pkg/kubeapiserver/admission/exclusion/resources.go v1.37.2 and apiserver
// pkg/admission/plugin/policy/generic/plugin.go v0.37.2).
func Exempt(resource schema.GroupResource, static bool) bool {
	return reviewResources[resource] || !static && policyResource(resource)
}

var reviewResources = map[schema.GroupResource]bool{
	{Group: "authentication.k8s.io", Resource: "selfsubjectreviews"}:       true,
	{Group: "authentication.k8s.io", Resource: "tokenreviews"}:             true,
	{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"}: true,
	{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"}:  true,
	{Group: "authorization.k8s.io", Resource: "selfsubjectrulesreviews"}:   true,
	{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"}:      true,
}

// policyResource reports whether a resource is one of policies or bindings, for which only static policies are
// evaluated.
func policyResource(resource schema.GroupResource) bool {
	if resource.Group != policyGroup {
		return false
	}
	switch resource.Resource {
	case "validatingadmissionpolicies", "validatingadmissionpolicybindings",
		"mutatingadmissionpolicies", "mutatingadmissionpolicybindings":
		return true
	}
	return false
}
