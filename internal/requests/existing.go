package requests

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/schema"
	"github.com/google/uuid"
)

// Existing makes the request about an object that exists: the CREATE of a [Copy], the UPDATE that changes nothing, or the DELETE.
func (w *World) Existing(object map[string]any, to *schema.Resource, op celgate.Operation, a *Asked) (*celgate.Request, error) {
	kind := KindOf(object)
	r := &celgate.Request{
		Kind: kind, Resource: to.GroupVersionResource, Name: MetadataOf(object, "name"), Operation: op, DryRun: a.DryRun,
		UserInfo: a.user(), UserAssumed: a.User == "" && a.Self == nil,
	}
	if r.Name == "" {
		return nil, errors.New("metadata.name is missing: an object that exists has a name")
	}
	r.Namespace = w.NamespaceOf(object, Target{Resource: to}, a)
	object = InNamespace(object, r)
	switch op {
	case celgate.Create:
		r.Object = Copy(object)
	case celgate.Update:
		r.Object, r.OldObject = object, object
	case celgate.Delete:
		r.OldObject = object
	default:
		return nil, fmt.Errorf("no %s is about an object that exists", op)
	}
	r.Options = optionsOf(r)
	r.UID = uuid.NewSHA1(uuid.NameSpaceURL, []byte(strings.Join([]string{kind.String(), r.Namespace, r.Name, string(op)}, "\n"))).String()
	return r, nil
}

// Copy returns an object as somebody would create it who wants another one like it: without what the server gives each object itself.
// The name is the same.
func Copy(object map[string]any) map[string]any {
	created := maps.Clone(object)
	delete(created, "status")
	if old, ok := object["metadata"].(map[string]any); ok {
		metadata := maps.Clone(old)
		for _, member := range servers {
			delete(metadata, member)
		}
		created["metadata"] = metadata
	}
	spec, ok := object["spec"].(map[string]any)
	if ok && object["kind"] == "Service" && object["apiVersion"] == "v1" && spec["clusterIP"] != "None" {
		spec = maps.Clone(spec)
		for _, member := range []string{"clusterIP", "clusterIPs", "healthCheckNodePort"} {
			delete(spec, member)
		}
		created["spec"] = spec
	}
	return created
}

// servers are the members of metadata that the server gives to objects.
var servers = []string{
	"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink",
}
