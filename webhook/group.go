package webhook

import "maps"

// Group is the API group of celgate's own kinds, which have the names and the spec of the policies and bindings of
// admissionregistration.k8s.io/v1, for clusters that do not serve those.
const Group = "policy.celgate.dev"

const (
	ownVersion    = Group + "/v1"
	nativeVersion = "admissionregistration.k8s.io/v1"
)

// Native returns the object of admissionregistration.k8s.io/v1 that an object of [Group] stands for, without its
// status. Other objects are returned as they are.
func Native(object map[string]any) map[string]any {
	if object["apiVersion"] != ownVersion {
		return object
	}
	native := maps.Clone(object)
	native["apiVersion"] = nativeVersion
	delete(native, "status")
	return native
}
