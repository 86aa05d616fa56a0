package celgate

import (
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/schema"
)

// FromReview takes the request of an AdmissionReview that an API server sent. Its objects are already prepared, and in
// the version that the webhook asked for; policies are matched with the resource of the original request. The error is
// about a request that an API server would not send.
func FromReview(in *admissionv1.AdmissionRequest) (*Prepared, error) {
	r := Request{
		UID: string(in.UID), Kind: schema.GroupVersionKind(in.Kind), Resource: schema.GroupVersionResource(in.Resource),
		SubResource: in.SubResource, Name: in.Name, Namespace: in.Namespace, Operation: in.Operation,
		UserInfo: in.UserInfo, DryRun: in.DryRun != nil && *in.DryRun,
	}
	switch r.Operation {
	case Create, Update, Delete, Connect:
	default:
		return nil, fmt.Errorf("unknown operation %q", r.Operation)
	}
	if in.RequestKind != nil && in.RequestResource != nil &&
		(*in.RequestKind != in.Kind || *in.RequestResource != in.Resource) {
		r.RequestKind = schema.GroupVersionKind(*in.RequestKind)
		r.RequestResource = schema.GroupVersionResource(*in.RequestResource)
		r.RequestSubResource = in.RequestSubResource
	}
	for _, part := range []struct {
		name string
		from *runtime.RawExtension
		to   *map[string]any
	}{{"object", &in.Object, &r.Object}, {"oldObject", &in.OldObject, &r.OldObject},
		{"options", &in.Options, &r.Options}} {
		var err error
		if *part.to, err = treeOfRaw(part.from); err != nil {
			return nil, fmt.Errorf("%s: %w", part.name, err)
		}
	}
	tree.DropNoTime(r.Object)
	tree.DropNoTime(r.OldObject)
	return &Prepared{request: r}, nil
}

// treeOfRaw returns the object of a RawExtension as a JSON tree; nil if there is none.
func treeOfRaw(from *runtime.RawExtension) (object map[string]any, err error) {
	switch {
	case len(from.Raw) > 0:
		err = kjson.UnmarshalCaseSensitivePreserveInts(from.Raw, &object)
	case from.Object != nil:
		object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(from.Object)
	}
	return object, err
}
