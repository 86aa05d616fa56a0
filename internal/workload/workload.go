// Package workload says which objects the controllers of a cluster make of a workload, down to its Pods.
//
// A Deployment becomes a ReplicaSet, a CronJob a Job, and all workloads become Pods; a StatefulSet also makes the
// claims of its first Pod. The children are those that kube-controller-manager v1.37.2 sends to the API server when the
// workload is new: their labels, names, owners and annotations are its, and so is the user who sends them. They are not
// defaulted: whoever asks a policy about one prepares it like any other request.
//
// What a controller takes from the cluster is stood in for: a hash of the template is another one of the same
// form, and the Pod of a DaemonSet is for a node called "node". Of several equal children there is one, the first.
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

	// Controller is the name of the controller, which is that of its service account in kube-system; empty for a kind
	// that is not built in.
	Controller string

	// Template is the path in the parent of what the child was made of, whose metadata and spec became the child's. It
	// is empty for a ReplicaSet, whose spec has the paths of its Deployment's.
	Template string

	// Path is what was said about where objects of the parent's kind hold templates; empty for a kind that is built in.
	Path Path

	// Waiting says why the controller does not create the child now, such as "replicas is 0"; empty: it does.
	Waiting string
}

// ParentPath returns the path in the parent that a path in the child comes from.
func (c Child) ParentPath(path string) string {
	if c.Template == "" {
		return path
	}
	return c.Template + "." + path
}

// children are the functions that make the children of a kind.
var children = map[apischema.GroupKind]func(w tree.Object) []Child{
	{Group: "apps", Kind: "Deployment"}:        deploymentChildren,
	{Group: "apps", Kind: "ReplicaSet"}:        replicaSetChildren,
	{Group: "", Kind: "ReplicationController"}: replicationControllerChildren,
	{Group: "apps", Kind: "StatefulSet"}:       statefulSetChildren,
	{Group: "apps", Kind: "DaemonSet"}:         daemonSetChildren,
	{Group: "batch", Kind: "Job"}:              jobChildren,
	{Group: "batch", Kind: "CronJob"}:          cronJobChildren,
}

// IsWorkload reports whether controllers of the cluster make objects of a kind's objects.
func IsWorkload(kind apischema.GroupKind) bool { return children[kind] != nil }

// Children returns what the controller of a workload creates first. The workload is one as the API server stores it,
// with its defaults; an object of another kind has no children. Objects share what did not change.
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

// withGeneratedName returns a workload with the name that it has once it is created.
func withGeneratedName(w tree.Object) tree.Object {
	base := w.Metadata().Text("generateName")
	if w.Name() != "" || base == "" {
		return w
	}
	return w.WithMetadata(w.Metadata().With(map[string]any{"name": base + "xxxxx"}))
}

// ownerReference is the reference of a child to its controller (as NewControllerRef in apimachinery's meta/v1). The uid
// of an object that comes without one, as from a repository, is made up.
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

// metadataFrom is the metadata of a child that is made of a template: its labels, annotations and finalizers and no
// others.
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

// podFrom is the Pod of a template (as GetPodFromTemplate in pkg/controller/controller_utils.go v1.37.2).
func podFrom(template, owner tree.Object, prefix string) map[string]any {
	metadata := metadataFrom(template, owner)
	metadata["generateName"] = podPrefix(prefix)
	return map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
		"spec": map[string]any(template.At("spec"))}
}
