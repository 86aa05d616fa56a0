// Package workload derives the objects that controllers create for a workload, down to its Pods.
//
// A Deployment becomes a ReplicaSet, a CronJob a Job, and all workloads become Pods; a StatefulSet also creates the
// claims of its first Pod. The children are those that kube-controller-manager v1.37.2 sends to the API server for a
// new workload, with the same labels, names, owners, annotations and user. They do not have defaults: a caller prepares
// them like any other request.
//
// Values from the cluster have placeholders: a hash of the template is another hash of the same form, and the Pod of a
// DaemonSet is for a node called "node". Of several equal children only the first is returned.
package workload

import (
	"cmp"

	"github.com/google/uuid"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celgate/celgate/internal/tree"
)

// A Child is an object that a controller creates.
type Child struct {
	Object map[string]any // without defaults, as the controller sends it

	// Controller is the name of the controller and of its service account in kube-system; empty for a custom kind.
	Controller string

	// Template is the path of the child's template in the parent; its metadata and spec became the child's. It is empty
	// for a ReplicaSet, whose spec has the same paths as its Deployment's.
	Template string

	// Path is the configured path of templates in objects of the parent's kind; empty for a built-in kind.
	Path Path

	// Waiting is the reason why the controller does not create the child now, such as "replicas is 0"; otherwise empty.
	Waiting string
}

// ParentPath returns the path in the parent that corresponds to a path in the child.
func (c Child) ParentPath(path string) string {
	if c.Template == "" {
		return path
	}
	return c.Template + "." + path
}

// children holds the functions that create the children of each kind.
var children = map[apischema.GroupKind]func(w tree.Object) []Child{
	{Group: "apps", Kind: "Deployment"}:        deploymentChildren,
	{Group: "apps", Kind: "ReplicaSet"}:        replicaSetChildren,
	{Group: "", Kind: "ReplicationController"}: replicationControllerChildren,
	{Group: "apps", Kind: "StatefulSet"}:       statefulSetChildren,
	{Group: "apps", Kind: "DaemonSet"}:         daemonSetChildren,
	{Group: "batch", Kind: "Job"}:              jobChildren,
	{Group: "batch", Kind: "CronJob"}:          cronJobChildren,
}

// IsWorkload reports whether controllers of the cluster create objects for the objects of a kind.
func IsWorkload(kind apischema.GroupKind) bool { return children[kind] != nil }

// Children returns the objects that the controller of a workload creates first. The workload must have the form that
// the API server stores, with its defaults; an object of another kind does not have children. Objects share unchanged
// parts.
func Children(stored map[string]any) []Child {
	w := withGeneratedName(stored)
	of := children[w.Kind().GroupKind()]
	if of == nil || w.Metadata().Text("deletionTimestamp") != "" {
		return nil
	}
	all := of(w)
	if why := refusalOf(w); why != "" {
		for i := range all {
			all[i].Waiting = why
		}
	}
	return all
}

// withGeneratedName returns a workload with the name that it gets when it is created.
func withGeneratedName(w tree.Object) tree.Object {
	base := w.Metadata().Text("generateName")
	if w.Name() != "" || base == "" {
		return w
	}
	return w.WithMetadata(w.Metadata().With(map[string]any{"name": base + "xxxxx"}))
}

// ownerReference returns the reference of a child to its controller (as NewControllerRef in apimachinery's meta/v1). An
// object without a uid, such as one from a repository, gets a made-up uid.
func ownerReference(o tree.Object) map[string]any {
	return map[string]any{
		"apiVersion": o.Text("apiVersion"), "kind": o.Text("kind"), "name": o.Name(),
		"uid":        cmp.Or(o.Metadata().Text("uid"), madeUpUID(o)),
		"controller": true, "blockOwnerDeletion": true,
	}
}

func madeUpUID(o tree.Object) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte(o.Kind().String()+" "+o.Path())).String()
}

// metadataFrom returns the metadata of a child from a template: only its labels, annotations and finalizers.
func metadataFrom(template, owner tree.Object) map[string]any {
	metadata := map[string]any{"ownerReferences": []any{ownerReference(owner)}}
	if namespace := owner.Namespace(); namespace != "" {
		metadata["namespace"] = namespace
	}
	own := template.At("metadata")
	for _, member := range []string{"labels", "annotations"} {
		if values := own.At(member); len(values) > 0 {
			metadata[member] = map[string]any(values)
		}
	}
	if finalizers := own.List("finalizers"); len(finalizers) > 0 {
		metadata["finalizers"] = finalizers
	}
	return metadata
}

// podFrom returns the Pod of a template (as GetPodFromTemplate in pkg/controller/controller_utils.go v1.37.2).
func podFrom(template, owner tree.Object, prefix string) map[string]any {
	metadata := metadataFrom(template, owner)
	metadata["generateName"] = podPrefix(prefix)
	return map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
		"spec": map[string]any(template.At("spec"))}
}
