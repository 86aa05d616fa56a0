package celgate

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// defaultParams returns the default params of a policy as the server would hold them if they were stored, except for
// their name, or the errors with which it would refuse them.
func (e *Engine) defaultParams(p *policy.Policy, resource *schema.Resource) (map[string]any, field.ErrorList) {
	path := field.NewPath("spec", "defaultParams")
	req := &Request{Kind: resource.GroupVersionKind(), Resource: resource.GroupVersionResource, Operation: Create,
		Name: "default-params"}
	if resource.Namespaced {
		req.Namespace = "default"
	}
	metadata := maps.Clone(tree.Object(p.DefaultParams).Metadata())
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["name"] = req.Name
	req.Object = tree.Object(p.DefaultParams).WithMetadata(metadata)
	prepared, err := prepare.Object(e.input(req))
	if err != nil {
		return nil, field.ErrorList{field.Invalid(path, field.OmitValueType{}, decodingText(err))}
	}
	var errs field.ErrorList
	for _, text := range prepared.Unknown {
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, text))
	}
	stored := e.register(req, prepared.Object, prepared.SharesLabels)
	invalid, _, err := e.invalid(context.Background(), stored, resource)
	if err != nil {
		return nil, field.ErrorList{field.InternalError(path, err)}
	}
	for _, err := range invalid {
		if err.Field != "" {
			err.Field = path.String() + "." + err.Field
		} else {
			err.Field = path.String()
		}
		errs = append(errs, err)
	}
	held := tree.Object(prepared.Object)
	return held.WithMetadata(held.Metadata().Without("name", "namespace")), errs
}

// decodingText returns the part of a server's decoding error that concerns the object.
func decodingText(err error) string {
	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		return err.Error()
	}
	if _, text, ok := strings.Cut(status.ErrStatus.Message, " cannot be handled as a "); ok {
		if _, text, ok = strings.Cut(text, ": "); ok {
			return text
		}
	}
	return status.ErrStatus.Message
}

// defaultParamErrors returns the errors about the default params of a policy against the schema of their kind, if
// known. An UPDATE may keep those of the old policy.
func (e *Engine) defaultParamErrors(w compile.Written) field.ErrorList {
	p := w.Policy
	if p.DefaultParams == nil || w.OldPolicy != nil && reflect.DeepEqual(w.OldPolicy.ParamKind, p.ParamKind) &&
		reflect.DeepEqual(w.OldPolicy.DefaultParams, p.DefaultParams) {
		return nil
	}
	resource := e.types.ResourceFor(apischema.FromAPIVersionAndKind(p.ParamKind.APIVersion, p.ParamKind.Kind))
	if resource == nil {
		return nil // as on the server, which accepts an unknown paramKind
	}
	_, errs := e.defaultParams(p, resource)
	return errs
}
