package celgate

import "github.com/celgate/celgate/schema"

// policyGroup has the resources of policies and bindings. No policy is asked about them, but the registry has rules.
const policyGroup = "admissionregistration.k8s.io"

// Exempt reports that the server asks no policy about a resource, or no static one: reviews of authentication and
// authorization, which are not stored, and, unless a policy is static, policies and bindings (as
// pkg/kubeapiserver/admission/exclusion/resources.go v1.37.2 and apiserver
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

// policyResource reports a resource of policies or of bindings, about which only static policies are asked.
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
