// Package storable completes objects that are made for policies, so that an API server would store them, and knows
// facts about all stored objects.
package storable

import (
	"fmt"
	"slices"

	"github.com/celgate/celgate/internal/scope"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// needed are the members without which an API server stores no object of a kind.
var needed = map[string]map[string]any{
	"Service": {"spec": map[string]any{"ports": []any{map[string]any{"port": int64(80)}}}},
	"PersistentVolumeClaim": {"spec": map[string]any{"accessModes": []any{"ReadWriteOnce"},
		"resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}}}},
	"Ingress": {"spec": map[string]any{"defaultBackend": map[string]any{"service": map[string]any{"name": "a",
		"port": map[string]any{"number": int64(80)}}}}},
	"IngressClass": {"spec": map[string]any{"controller": "example.com/a"}},
	"HorizontalPodAutoscaler": {"spec": map[string]any{"maxReplicas": int64(3),
		"scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}}},
	"RoleBinding": {"roleRef": map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
		"name": "a"}},
	"ClusterRoleBinding": {"roleRef": map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
		"name": "a"}},
	"StorageClass": {"provisioner": "example.com/a"},
	"RuntimeClass": {"handler": "a"},
}

// Complete adds the fields that an API server requires of a stored object: containers with names and images, and a
// selector that selects the template of a workload. Fields that a policy reads do not change.
func Complete(object map[string]any, kind apischema.GroupVersionKind) {
	addMissing(object, needed[kind.Kind])
	if kind.Group == "" && kind.Kind == "Pod" {
		completePod(objectAt(object, "spec"))
		return
	}
	t, ok := scope.TemplateOf(kind.Group, kind.Kind)
	if !ok {
		return
	}
	members := t.Members()
	holder := object
	for _, member := range members[:len(members)-1] {
		holder = objectAt(holder, member)
	}
	template := objectAt(holder, members[len(members)-1])
	spec := objectAt(template, "spec")
	completePod(spec)
	labels := objectAt(objectAt(template, "metadata"), "labels")
	switch kind.Kind {
	case "Job", "CronJob":
		if spec["restartPolicy"] == nil {
			spec["restartPolicy"] = "Never"
		}
		if kind.Kind == "CronJob" && objectAt(object, "spec")["schedule"] == nil {
			objectAt(object, "spec")["schedule"] = "0 0 * * *"
		}
	case "PodTemplate":
	case "ReplicationController":
		labels["app"] = "a"
		holder["selector"] = map[string]any{"app": "a"}
	default:
		labels["app"] = "a"
		holder["selector"] = map[string]any{"matchLabels": map[string]any{"app": "a"}}
	}
}

// Satisfy adds the labels that a selector requires; nil selects everything.
func Satisfy(labels map[string]any, s *metav1.LabelSelector) {
	if s == nil {
		return
	}
	for key, value := range s.MatchLabels {
		labels[key] = value
	}
	for _, e := range s.MatchExpressions {
		switch {
		case e.Operator == metav1.LabelSelectorOpIn && len(e.Values) > 0:
			labels[e.Key] = e.Values[0]
		case e.Operator == metav1.LabelSelectorOpExists && labels[e.Key] == nil:
			labels[e.Key] = "a"
		}
	}
}

// addMissing adds members that an object does not have, at all depths.
func addMissing(object, members map[string]any) {
	for name, value := range members {
		inner, isObject := value.(map[string]any)
		if given, ok := object[name].(map[string]any); ok && isObject {
			addMissing(given, inner)
		} else if object[name] == nil {
			object[name] = runtime.DeepCopyJSONValue(value)
		}
	}
}

// objectAt returns a member that is an object, and makes it one.
func objectAt(object map[string]any, member string) map[string]any {
	inner, ok := object[member].(map[string]any)
	if !ok {
		inner = map[string]any{}
		object[member] = inner
	}
	return inner
}

// ofSidecars are members that an init container may have only if it goes on running.
var ofSidecars = []string{"livenessProbe", "readinessProbe", "startupProbe", "lifecycle"}

func hasAny(object map[string]any, members []string) bool {
	return slices.ContainsFunc(members, func(m string) bool { return object[m] != nil })
}

func completePod(spec map[string]any) {
	if list, _ := spec["containers"].([]any); len(list) == 0 {
		spec["containers"] = []any{map[string]any{}}
	}
	seen := map[string]bool{}
	for _, member := range []string{"containers", "initContainers", "ephemeralContainers"} {
		list, _ := spec[member].([]any)
		for i := range list {
			container, ok := list[i].(map[string]any)
			if !ok {
				container = map[string]any{}
				list[i] = container
			}
			name, _ := container["name"].(string)
			if seen[name] || len(validation.IsDNS1123Label(name)) > 0 {
				name = fmt.Sprintf("%c%d", member[0], i)
			}
			container["name"], seen[name] = name, true
			if member == "initContainers" && container["restartPolicy"] == nil && hasAny(container, ofSidecars) {
				container["restartPolicy"] = "Always"
			}
			if image, _ := container["image"].(string); image == "" {
				container["image"] = "a"
			}
		}
	}
}
