package registry

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validate"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/tree"
)

// A metaRule is what a kind asks of its metadata beyond what all kinds do.
type metaRule struct {
	name  metavalidation.ValidateNameFunc // nil: what all kinds ask for
	plain bool                            // finalizers may be any qualified names
	long  bool                            // a declarative rule judges the name, in other words, and not generateName
	limit int                             // of the bytes of the name; 0: that of the rule
}

var (
	subdomain = metaRule{name: metavalidation.NameIsDNSSubdomain}
	long      = metaRule{name: metavalidation.NameIsDNSSubdomain, long: true}
	label     = metaRule{name: metavalidation.NameIsDNSLabel}
	segment   = metaRule{name: func(name string, _ bool) []string { return content.IsPathSegmentName(name) }}
	free      = metaRule{name: func(string, bool) []string { return nil }}
)

// metaRules are the rules of built-in kinds (pkg/apis/*/validation/validation.go of v1.37.2). About the metadata of a
// kind that is not here nothing is known: it may not be stored.
var metaRules = map[apischema.GroupKind]metaRule{}

func init() {
	for group, kinds := range map[string]map[string]metaRule{
		"": {
			"ConfigMap": subdomain, "Endpoints": subdomain, "LimitRange": subdomain, "Namespace": label, "Node": subdomain,
			"PersistentVolume": subdomain, "PersistentVolumeClaim": subdomain, "Pod": subdomain, "PodTemplate": subdomain,
			"ReplicationController": long, "ResourceQuota": subdomain, "Secret": subdomain, "Service": label,
			"ServiceAccount": subdomain,
		},
		"admissionregistration.k8s.io": {
			"MutatingWebhookConfiguration":   {name: metavalidation.NameIsDNSSubdomain, plain: true},
			"ValidatingWebhookConfiguration": {name: metavalidation.NameIsDNSSubdomain, plain: true},
		},
		"apps": {
			"ControllerRevision": subdomain, "DaemonSet": subdomain, "Deployment": subdomain, "ReplicaSet": subdomain,
			"StatefulSet": label,
		},
		"autoscaling":         {"HorizontalPodAutoscaler": subdomain},
		"batch":               {"CronJob": {name: metavalidation.NameIsDNSSubdomain, limit: 52}, "Job": subdomain},
		"certificates.k8s.io": {"CertificateSigningRequest": free},
		"coordination.k8s.io": {"Lease": {name: metavalidation.NameIsDNSSubdomain, plain: true}},
		"discovery.k8s.io":    {"EndpointSlice": subdomain},
		"flowcontrol.apiserver.k8s.io": {
			"FlowSchema": subdomain, "PriorityLevelConfiguration": subdomain,
		},
		"networking.k8s.io": {
			"Ingress": subdomain, "IngressClass": subdomain, "NetworkPolicy": subdomain, "ServiceCIDR": subdomain,
		},
		"node.k8s.io": {"RuntimeClass": {name: metavalidation.NameIsDNSSubdomain, plain: true}},
		"policy":      {"PodDisruptionBudget": {plain: true}},
		"rbac.authorization.k8s.io": {
			"ClusterRole": segment, "ClusterRoleBinding": segment, "Role": segment, "RoleBinding": segment,
		},
		"resource.k8s.io": {
			"DeviceClass": long, "ResourceClaim": subdomain, "ResourceClaimTemplate": subdomain,
			"ResourceSlice": subdomain,
		},
		"scheduling.k8s.io": {"PriorityClass": subdomain},
		"storage.k8s.io": {
			"CSIDriver": subdomain, "CSINode": subdomain, "CSIStorageCapacity": subdomain, "StorageClass": subdomain,
			"VolumeAttachment": subdomain, "VolumeAttributesClass": subdomain,
		},
	} {
		for kind, rule := range kinds {
			metaRules[apischema.GroupKind{Group: group, Kind: kind}] = rule
		}
	}
}

// withoutManagedFields returns an object without what the server writes itself.
func withoutManagedFields(object map[string]any) map[string]any {
	o := tree.Object(object)
	if metadata := o.Metadata(); metadata["managedFields"] != nil {
		return o.WithMetadata(metadata.Without("managedFields"))
	}
	return object
}

// Create returns what the server finds wrong with the metadata of a new object of a built-in kind.
func Create(kind apischema.GroupKind, object map[string]any, namespaced bool) field.ErrorList {
	path := field.NewPath("metadata")
	metadata := tree.Object(object).Metadata()
	if isPlain(metadata) && (metadata["namespace"] != nil) == namespaced {
		return nil
	}
	rule, known := metaRules[kind]
	if !known {
		return nil
	}
	var errs field.ErrorList
	if rule.name != nil {
		meta, wrong := metaOf(object)
		if len(wrong) > 0 {
			return wrong
		}
		if rule.long {
			errs = metavalidation.ValidateObjectMetaWithOpts(meta, namespaced, longName, path)
		} else {
			errs = metavalidation.ValidateObjectMeta(meta, namespaced, rule.name, path)
		}
		if !rule.plain {
			errs = append(errs, finalizers(meta, path)...)
		}
		if rule.limit > 0 && len(meta.Name) > rule.limit {
			errs = append(errs, field.Invalid(path.Child("name"), meta.Name,
				fmt.Sprintf("must be no more than %d characters", rule.limit)))
		}
	}
	if len(errs) == 0 {
		errs = commonMetadata(object, namespaced)
	}
	return errs
}

// Update returns what the server finds wrong with the metadata of an object of a built-in kind that takes the place of
// another.
func Update(kind apischema.GroupKind, object, old map[string]any, namespaced bool) field.ErrorList {
	metadata := tree.Object(object).Metadata()
	before := tree.Object(old).Metadata()
	if isPlain(metadata) && isUnchanged(metadata, before) && (metadata["namespace"] != nil) == namespaced {
		return nil
	}
	rule, known := metaRules[kind]
	if !known {
		return nil
	}
	errs := commonMetadataUpdate(object, old, namespaced)
	if !rule.plain {
		meta, wrong := metaOf(object)
		if len(wrong) > 0 {
			return wrong
		}
		errs = append(errs, finalizers(meta, field.NewPath("metadata"))...)
	}
	return errs
}

func longName(path *field.Path, name string) field.ErrorList {
	return validate.LongName(context.Background(), operation.Operation{Type: operation.Create}, path, &name, nil)
}

// standardFinalizers need no domain.
var standardFinalizers = map[string]bool{
	metav1.FinalizerOrphanDependents: true, metav1.FinalizerDeleteDependents: true, "kubernetes": true,
}

func finalizers(meta *metav1.ObjectMeta, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, name := range meta.Finalizers {
		if !strings.Contains(name, "/") && !standardFinalizers[name] {
			errs = append(errs, field.Invalid(path.Child("finalizers").Index(i), name,
				"name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return errs
}

// commonMetadata is what is wrong with the metadata of a new object of any kind
// (apiserver pkg/registry/rest/create.go v0.37.2).
func commonMetadata(object map[string]any, namespaced bool) field.ErrorList {
	return metavalidation.ValidateObjectMetaAccessor(&unstructured.Unstructured{Object: withoutManagedFields(object)},
		namespaced, pathSegment, field.NewPath("metadata"))
}

// commonMetadataUpdate is what is wrong with the metadata of an object that takes the place of another
// (apiserver pkg/registry/rest/update.go v0.37.2).
func commonMetadataUpdate(object, old map[string]any, namespaced bool) field.ErrorList {
	return append(commonMetadata(object, namespaced), metavalidation.ValidateObjectMetaAccessorUpdate(
		&unstructured.Unstructured{Object: withoutManagedFields(object)},
		&unstructured.Unstructured{Object: withoutManagedFields(old)}, field.NewPath("metadata"))...)
}

func pathSegment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}
