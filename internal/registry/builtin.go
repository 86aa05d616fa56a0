package registry

import (
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/shape"
)

// objectRules judge objects of built-in kinds except for their metadata; old is nil for a new object (the validation
// packages of v1.37.2 below pkg/apis). A rule that older minors have in a stricter form asks for a feature of the
// minor; package quirks removes the errors of rules that they do not have. A kind that is missing here is not
// validated: the server may refuse its objects.
var objectRules map[apischema.GroupKind]func(j *judge, object, old *place)

func init() {
	objectRules = map[apischema.GroupKind]func(j *judge, object, old *place){
		{Kind: "ConfigMap"}:                                     (*judge).configMap,
		{Kind: "LimitRange"}:                                    (*judge).limitRange,
		{Group: "node.k8s.io", Kind: "RuntimeClass"}:            (*judge).runtimeClass,
		{Kind: "Namespace"}:                                     (*judge).namespace,
		{Kind: "PersistentVolumeClaim"}:                         (*judge).volumeClaim,
		{Kind: "Pod"}:                                           (*judge).podObject,
		{Kind: "PodTemplate"}:                                   (*judge).podTemplateObject,
		{Kind: "ReplicationController"}:                         (*judge).replicationController,
		{Kind: "ResourceQuota"}:                                 (*judge).resourceQuota,
		{Kind: "Secret"}:                                        (*judge).secret,
		{Kind: "Service"}:                                       (*judge).service,
		{Kind: "ServiceAccount"}:                                (*judge).metadataOnly,
		{Group: "apps", Kind: "DaemonSet"}:                      (*judge).daemonSet,
		{Group: "apps", Kind: "Deployment"}:                     (*judge).deployment,
		{Group: "apps", Kind: "ReplicaSet"}:                     (*judge).replicaSet,
		{Group: "apps", Kind: "StatefulSet"}:                    (*judge).statefulSet,
		{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}: (*judge).autoscaler,
		{Group: "batch", Kind: "CronJob"}:                       (*judge).cronJob,
		{Group: "batch", Kind: "Job"}:                           (*judge).job,
		{Group: "networking.k8s.io", Kind: "Ingress"}:           (*judge).ingress,
		{Group: "networking.k8s.io", Kind: "IngressClass"}:      (*judge).ingressClass,
		{Group: "networking.k8s.io", Kind: "NetworkPolicy"}:     (*judge).networkPolicy,
		{Group: "policy", Kind: "PodDisruptionBudget"}:          (*judge).disruptionBudget,
		{Group: rbacGroup, Kind: "ClusterRole"}:                 (*judge).clusterRole,
		{Group: rbacGroup, Kind: "ClusterRoleBinding"}:          (*judge).clusterRoleBinding,
		{Group: rbacGroup, Kind: "Role"}:                        (*judge).role,
		{Group: rbacGroup, Kind: "RoleBinding"}:                 (*judge).roleBinding,
		{Group: "scheduling.k8s.io", Kind: "PriorityClass"}:     (*judge).priorityClass,
		{Group: "storage.k8s.io", Kind: "StorageClass"}:         (*judge).storageClass,
	}
}

// Judges reports whether the rules for what objects of a built-in kind hold beside their metadata are known.
func Judges(kind apischema.GroupKind) bool { return objectRules[kind] != nil }

// metadataOnly judges an object of which the server looks at nothing else.
func (j *judge) metadataOnly(_, _ *place) {}

func (j *judge) podTemplateObject(object, _ *place) {
	template := object.member("template")
	j.podTemplate(&template, podOf{})
}

// A Builtin judges the objects of a built-in kind. The zero value is not one.
type Builtin struct {
	Kind       apischema.GroupKind
	Namespaced bool
	Type       *shape.Type // of the objects
	Envs       *celenv.Set // of the rules in CustomResourceDefinitions; nil: they are not compiled
}

// Create returns the server's errors about a new object, in the server's order (the strategies below pkg/registry, and
// apiserver pkg/registry/rest/create.go v0.37.2).
func (b Builtin) Create(object map[string]any) field.ErrorList {
	errs, done := b.newMetadata(object)
	errs = append(errs, b.findErrors(object, nil)...)
	if len(errs) == 0 && !done {
		errs = commonMetadata(object, b.Namespaced)
	}
	return errs
}

// Update returns the server's errors about an object that replaces old.
func (b Builtin) Update(object, old map[string]any) field.ErrorList {
	return append(b.updatedMetadata(object, old), b.findErrors(object, old)...)
}

// findErrors returns the errors outside of the metadata; old is nil for a new object.
func (b Builtin) findErrors(object, old map[string]any) field.ErrorList {
	rule := objectRules[b.Kind]
	if rule == nil {
		return nil
	}
	j := &judge{lacks: b.Type.LacksFeature, envs: b.Envs}
	at := place{value: object}
	if old == nil {
		rule(j, &at, nil)
		return j.errs(nil)
	}
	was := place{value: old}
	rule(j, &at, &was)
	if len(j.found) == 0 {
		return nil
	}
	stored := &judge{lacks: b.Type.LacksFeature}
	rule(stored, &was, &was)
	return j.errs(stored)
}
