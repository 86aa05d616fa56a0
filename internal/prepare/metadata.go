package prepare

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/celgate/celgate/internal/shape"
)

// These rules for metadata hold for every kind: k8s.io/apiserver v0.37.2 pkg/registry/rest and pkg/endpoints/handlers.

// keepsSystemMembers reports whether a subresource keeps the metadata of a new object unchanged
// (rest.SubresourceObjectMetaPreserver).
func keepsSystemMembers(in Input) bool {
	return in.Resource.Group == "" &&
		(in.Resource.Resource == "pods" && in.SubResource == "binding" || in.Resource.Resource == "serviceaccounts" &&
			in.SubResource == "token")
}

// wipeSystemMembers drops the members that a client cannot set (rest.WipeObjectMetaSystemFields).
func wipeSystemMembers(o *members, t *shape.Type) {
	o.edit("metadata", func(meta *members) {
		for _, name := range [...]string{"creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds",
			"selfLink"} {
			meta.drop(name)
		}
		if !custom(t) && writesUnsetTimes(t) {
			meta.set("creationTimestamp", nil)
		}
	})
}

// writesUnsetTimes reports whether the Go types of a kind write an unset creation time as null, as those of the minors
// before 1.34 do.
func writesUnsetTimes(t *shape.Type) bool {
	created := fieldOf(t, "metadata", "creationTimestamp")
	return created != nil && !created.OmitZero
}

// fillSystemMembers completes the metadata of a new object (rest.FillObjectMetaSystemFields).
func fillSystemMembers(o *members, in Input) {
	o.fill("metadata", map[string]any{})
	o.edit("metadata", func(meta *members) {
		meta.set("creationTimestamp", in.timestamp())
		meta.set("uid", uid(in))
		if base := meta.text("generateName"); base != "" && meta.text("name") == "" {
			meta.set("name", generateName(base, in))
		}
	})
}

// keepSystemMembers completes the metadata of an updated object (rest.BeforeUpdate, and for an update without a
// resourceVersion Store.Update in pkg/registry/generic/registry/store.go).
func keepSystemMembers(o *members, old map[string]any) {
	o.edit("metadata", func(meta *members) {
		if meta.text("uid") == "" {
			meta.take("uid", old)
		}
		for _, name := range [...]string{"creationTimestamp", "deletionTimestamp"} {
			if old[name] != nil {
				meta.set(name, old[name])
			}
		}
		for _, name := range [...]string{"deletionGracePeriodSeconds", "resourceVersion"} {
			if v := old[name]; v != nil {
				meta.fill(name, v)
			}
		}
	})
}

// keepManagers gives an updated object the managedFields of the stored one. The server computes them anew before the
// mutating phase (handlers/update.go); they stay the same if the update changes nothing, so that object == oldObject
// holds.
func keepManagers(o *members, in Input) {
	if managers := mapAt(in.Old, "metadata")["managedFields"]; managers != nil && in.Operation == update {
		o.edit("metadata", func(meta *members) { meta.fill("managedFields", managers) })
	}
}

// matchNamespace sets the namespace of an object to that of the request
// (rest.EnsureObjectNamespaceMatchesRequestNamespace).
func matchNamespace(o *members, in Input) error {
	want := in.Namespace
	if !in.Resource.Namespaced {
		want = ""
	}
	given, _ := mapAt(o.m, "metadata")["namespace"].(string)
	switch {
	case given == want:
	case given == "":
		if _, ok := o.m["metadata"].(map[string]any); !ok && in.typ().Field("metadata") == nil {
			return nil // an object without metadata
		}
		o.fill("metadata", map[string]any{})
		o.edit("metadata", func(meta *members) { meta.set("namespace", want) })
	case want == "":
		o.edit("metadata", func(meta *members) { meta.drop("namespace") })
	default:
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}

// dedupOwners drops repeated owner references and returns their uids.
func dedupOwners(o *members) []string {
	refs, _ := mapAt(o.m, "metadata")["ownerReferences"].([]any)
	if len(refs) < 2 {
		return nil
	}
	var repeated []string
	var kept []any
next:
	for _, ref := range refs {
		for _, other := range kept {
			if equal(ref, other) {
				owner, _ := ref.(map[string]any)
				id, _ := owner["uid"].(string)
				repeated = append(repeated, id)
				continue next
			}
		}
		kept = append(kept, ref)
	}
	if len(repeated) > 0 {
		o.edit("metadata", func(meta *members) { meta.set("ownerReferences", kept) })
	}
	return repeated
}

// fieldOf returns a member of a member of a type, or nil.
func fieldOf(t *shape.Type, outer, inner string) *shape.Field {
	if f := t.Field(outer); f != nil && f.Type != nil {
		return f.Type.Field(inner)
	}
	return nil
}
