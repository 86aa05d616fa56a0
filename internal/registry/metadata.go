package registry

import (
	"context"
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

// A metaRule is a kind's rule for metadata, in addition to the common ones.
type metaRule struct {
	name  metavalidation.ValidateNameFunc                             // nil: the common rule
	of    func(object map[string]any) metavalidation.ValidateNameFunc // in place of name
	plain bool                                                        // finalizers may be any qualified names

	gate  string                          // of name
	early metavalidation.ValidateNameFunc // in place of name where gate is off

	// A declarative rule judges the name, with other messages, not generateName.
	long bool
}

var (
	subdomain = metaRule{name: metavalidation.NameIsDNSSubdomain}
	long      = metaRule{name: metavalidation.NameIsDNSSubdomain, long: true}
	label     = metaRule{name: metavalidation.NameIsDNSLabel}
	segment   = metaRule{name: func(name string, _ bool) []string { return content.IsPathSegmentName(name) }}
	free      = metaRule{name: func(string, bool) []string { return nil }}
	service   = metaRule{name: metavalidation.NameIsDNSLabel, gate: "RelaxedServiceNameValidation",
		early: metavalidation.NameIsDNS1035Label}
)

var definitionKind = apischema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}

// metaRules are the rules of built-in kinds (pkg/apis/*/validation/validation.go of v1.37.2). The metadata of a kind
// that is missing here is not validated: the server may refuse it.
var metaRules = map[apischema.GroupKind]metaRule{}

func init() {
	for group, kinds := range map[string]map[string]metaRule{
		"": {
			"ConfigMap": subdomain, "Endpoints": subdomain, "LimitRange": subdomain, "Namespace": label, "Node": subdomain,
			"PersistentVolume": subdomain, "PersistentVolumeClaim": subdomain, "Pod": subdomain, "PodTemplate": subdomain,
			"ReplicationController": long, "ResourceQuota": subdomain, "Secret": subdomain, "Service": service,
			"ServiceAccount": subdomain,
		},
		"admissionregistration.k8s.io": {
			"MutatingWebhookConfiguration":   {name: metavalidation.NameIsDNSSubdomain, plain: true},
			"ValidatingWebhookConfiguration": {name: metavalidation.NameIsDNSSubdomain, plain: true},
		},
		definitionKind.Group: {definitionKind.Kind: {of: definitionName, plain: true}},
		"apps": {
			"ControllerRevision": subdomain, "DaemonSet": subdomain, "Deployment": subdomain, "ReplicaSet": subdomain,
			"StatefulSet": label,
		},
		"autoscaling":         {"HorizontalPodAutoscaler": subdomain},
		"batch":               {"CronJob": subdomain, "Job": subdomain},
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

// definitionName returns the rule for the name of a CustomResourceDefinition.
func definitionName(object map[string]any) metavalidation.ValidateNameFunc {
	at := place{value: object}
	spec := at.member("spec")
	names, group := spec.member("names"), spec.member("group")
	plural := names.member("plural")
	return func(name string, prefix bool) []string {
		messages := metavalidation.NameIsDNSSubdomain(name, prefix)
		if name != plural.text()+"."+group.text() {
			messages = append(messages, `must be spec.names.plural+"."+spec.group`)
		}
		return messages
	}
}

// withoutManagedFields returns an object without managedFields, which the server writes itself.
func withoutManagedFields(object map[string]any) map[string]any {
	o := tree.Object(object)
	if metadata := o.Metadata(); metadata["managedFields"] != nil {
		return o.WithMetadata(metadata.Without("managedFields"))
	}
	return object
}

// newMetadata returns the errors of the kind's rules about the metadata of a new object, and whether the common rules
// cannot add any.
func (b Builtin) newMetadata(object map[string]any) (errs field.ErrorList, done bool) {
	path := field.NewPath("metadata")
	metadata := tree.Object(object).Metadata()
	rule, known := metaRules[b.Kind]
	switch {
	case rule.of != nil:
		rule.name = rule.of(object)
	case rule.gate != "" && b.Type.LacksFeature(rule.gate):
		rule.name = rule.early
	case isPlain(metadata) && (metadata["namespace"] != nil) == b.Namespaced:
		return nil, true
	}
	if !known || rule.name == nil {
		return nil, !known
	}
	meta, errs := metaOf(object)
	if len(errs) > 0 {
		return errs, true
	}
	if rule.long {
		errs = metavalidation.ValidateObjectMetaWithOpts(meta, b.Namespaced, longName, path)
	} else {
		errs = metavalidation.ValidateObjectMeta(meta, b.Namespaced, rule.name, path)
	}
	if !rule.plain {
		errs = append(errs, finalizers(meta, path)...)
	}
	return errs, false
}

// updatedMetadata returns the errors about the metadata of an object that replaces old.
func (b Builtin) updatedMetadata(object, old map[string]any) field.ErrorList {
	metadata := tree.Object(object).Metadata()
	before := tree.Object(old).Metadata()
	if isPlain(metadata) && isUnchanged(metadata, before) && (metadata["namespace"] != nil) == b.Namespaced {
		return nil
	}
	rule, known := metaRules[b.Kind]
	if !known {
		return nil
	}
	errs := commonMetadataUpdate(object, old, b.Namespaced)
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

// standardFinalizers do not need a domain.
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

// commonMetadata returns the common errors about the metadata of a new object (apiserver pkg/registry/rest/create.go
// v0.37.2).
func commonMetadata(object map[string]any, namespaced bool) field.ErrorList {
	return metavalidation.ValidateObjectMetaAccessor(&unstructured.Unstructured{Object: withoutManagedFields(object)},
		namespaced, pathSegment, field.NewPath("metadata"))
}

// commonMetadataUpdate returns the common errors about the metadata of an object that replaces old (apiserver
// pkg/registry/rest/update.go v0.37.2).
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
