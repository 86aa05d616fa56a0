package prepare

import (
	"fmt"

	apiversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/version"

	"github.com/celgate/celgate/schema"
)

// A deprecation is the minor since which a kind is deprecated, and the end of the server's warning.
type deprecation struct {
	since uint
	then  string
}

// deprecated are the deprecated built-in kinds, by the functions APILifecycle* of k8s.io/api v0.37.2. The oracle of
// package prepare in the module conformance checks that the list is complete.
var deprecated = map[schema.GroupVersionKind]deprecation{
	{Version: "v1", Kind: "ComponentStatus"}: {19, ""},
	{Version: "v1", Kind: "Endpoints"}:       {33, "; use discovery.k8s.io/v1 EndpointSlice"},
	{Group: "admissionregistration.k8s.io", Version: "v1alpha1", Kind: "MutatingAdmissionPolicy"}: {35,
		", unavailable in v1.38+"},
	{Group: "admissionregistration.k8s.io", Version: "v1alpha1", Kind: "MutatingAdmissionPolicyBinding"}: {35,
		", unavailable in v1.38+"},
	{Group: "admissionregistration.k8s.io", Version: "v1beta1", Kind: "MutatingAdmissionPolicy"}: {37,
		", unavailable in v1.40+; use admissionregistration.k8s.io/v1 MutatingAdmissionPolicy"},
	{Group: "admissionregistration.k8s.io", Version: "v1beta1", Kind: "MutatingAdmissionPolicyBinding"}: {37,
		", unavailable in v1.40+; use admissionregistration.k8s.io/v1 MutatingAdmissionPolicyBinding"},
	{Group: "certificates.k8s.io", Version: "v1alpha1", Kind: "ClusterTrustBundle"}: {34,
		", unavailable in v1.37+"},
	{Group: "certificates.k8s.io", Version: "v1beta1", Kind: "ClusterTrustBundle"}: {37,
		", unavailable in v1.40+; use certificates.k8s.io/v1 ClusterTrustBundle"},
	{Group: "certificates.k8s.io", Version: "v1beta1", Kind: "PodCertificateRequest"}: {37,
		", unavailable in v1.40+; use certificates.k8s.io/v1 PodCertificateRequest"},
	{Group: "coordination.k8s.io", Version: "v1alpha2", Kind: "LeaseCandidate"}: {35,
		", unavailable in v1.38+"},
	{Group: "coordination.k8s.io", Version: "v1beta1", Kind: "LeaseCandidate"}: {36,
		", unavailable in v1.39+"},
	{Group: "networking.k8s.io", Version: "v1beta1", Kind: "IPAddress"}: {34,
		", unavailable in v1.37+"},
	{Group: "networking.k8s.io", Version: "v1beta1", Kind: "ServiceCIDR"}: {34,
		", unavailable in v1.37+"},
	{Group: "resource.k8s.io", Version: "v1alpha3", Kind: "DeviceTaintRule"}: {36,
		", unavailable in v1.39+"},
	{Group: "resource.k8s.io", Version: "v1beta1", Kind: "DeviceClass"}: {35,
		", unavailable in v1.38+"},
	{Group: "resource.k8s.io", Version: "v1beta1", Kind: "ResourceClaim"}: {35,
		", unavailable in v1.38+"},
	{Group: "resource.k8s.io", Version: "v1beta1", Kind: "ResourceClaimTemplate"}: {35,
		", unavailable in v1.38+"},
	{Group: "resource.k8s.io", Version: "v1beta1", Kind: "ResourceSlice"}: {35,
		", unavailable in v1.38+"},
	{Group: "resource.k8s.io", Version: "v1beta2", Kind: "DeviceClass"}: {36,
		", unavailable in v1.39+"},
	{Group: "resource.k8s.io", Version: "v1beta2", Kind: "ResourceClaim"}: {36,
		", unavailable in v1.39+"},
	{Group: "resource.k8s.io", Version: "v1beta2", Kind: "ResourceClaimTemplate"}: {36,
		", unavailable in v1.39+"},
	{Group: "resource.k8s.io", Version: "v1beta2", Kind: "ResourceSlice"}: {36,
		", unavailable in v1.39+"},
	{Group: "storage.k8s.io", Version: "v1beta1", Kind: "VolumeAttributesClass"}: {34,
		", unavailable in v1.37+; use storage.k8s.io/v1 VolumeAttributesClass"},
	{Group: "storagemigration.k8s.io", Version: "v1beta1", Kind: "StorageVersionMigration"}: {37,
		", unavailable in v1.40+; use storagemigration.k8s.io/v1 StorageVersionMigration"},
}

// DeprecationWarning returns the warning that a server of a minor sends with every request for a deprecated version of
// a resource; "" if it is not deprecated.
func DeprecationWarning(r *schema.Resource, minor string) string {
	if r == nil {
		return ""
	}
	if r.Definition == nil {
		d, known := deprecated[r.GroupVersionKind()]
		if v, err := apiversion.ParseMajorMinor(minor); !known || err != nil || v.Minor() < d.since {
			return ""
		}
		return fmt.Sprintf("%s %s is deprecated in v1.%d+%s", r.GroupVersion(), r.Kind, d.since, d.then)
	}
	spec := mapAt(r.Definition, "spec")
	for _, v := range objects(spec["versions"]) {
		if v["name"] != r.Version || v["deprecated"] != true {
			continue
		}
		if said, ok := v["deprecationWarning"].(string); ok {
			return said
		}
		said := fmt.Sprintf("%s %s is deprecated", r.GroupVersion(), r.Kind)
		best := ""
		for _, other := range objects(spec["versions"]) {
			name := text(other["name"])
			if other["served"] == true && other["deprecated"] != true &&
				version.CompareKubeAwareVersionStrings(r.Version, name) < 0 &&
				(best == "" || version.CompareKubeAwareVersionStrings(name, best) > 0) {
				best = name
			}
		}
		if best != "" {
			said += fmt.Sprintf("; use %s/%s %s", r.Group, best, r.Kind)
		}
		return said
	}
	return ""
}
