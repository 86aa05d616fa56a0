package celgate

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/tree"
)

// input is a request for package prepare.
func (e *Engine) input(req *Request) prepare.Input {
	return prepare.Input{
		Types: e.types, Resource: e.types.Resource(req.Resource), SubResource: req.SubResource,
		Operation: string(req.Operation),
		Namespace: req.Namespace, Object: req.Object, Old: req.OldObject, Options: req.Options,
		Name: req.Name, DryRun: req.DryRun,
		User: prepare.User{Name: req.UserInfo.Username, UID: req.UserInfo.UID, Groups: req.UserInfo.Groups,
			Extra: req.UserInfo.Extra},
	}
}

// register is what the registry does between the two phases: a name for generateName, uid and timestamps, the
// status of a new object.
func (e *Engine) register(req *Request, object map[string]any, sharesLabels bool) *Request {
	next := *req
	in := e.input(req)
	in.Object, in.SharesLabels = object, sharesLabels
	next.Object = prepare.ForValidation(in)
	if next.Name == "" && req.Operation == Create {
		next.Name = tree.Object(next.Object).Name()
	}
	return &next
}

// refusal is the registry's error about an object whose namespace or, if it is a custom object, kind a mutation has
// changed. What else the registry would refuse is not looked at.
func (e *Engine) refusal(req *Request) error {
	if given := tree.Object(req.Object).Namespace(); given != "" && req.Namespace != "" && given != req.Namespace &&
		req.Kind != namespaceKind {
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	kind, _ := req.Object["kind"].(string)
	if resource := e.types.Resource(req.Resource); kind == req.Kind.Kind || req.Object == nil || resource == nil ||
		resource.Definition == nil {
		return nil
	}
	// As pkg/registry/customresource/validator.go of apiextensions-apiserver v0.37.2.
	wrong := field.Invalid(field.NewPath("kind"), kind, "must be "+req.Kind.Kind)
	return apierrors.NewInvalid(apischema.GroupKind{Group: req.Kind.Group, Kind: kind}, req.Name,
		field.ErrorList{wrong})
}

// advice is what the registry warns about, before validating policies do. It had made the object of the request of
// before.
func (e *Engine) advice(req *Request, before map[string]any) []string {
	in := e.input(req)
	in.Before = before
	return prepare.Warnings(in)
}

// serialise makes the object of a decision what the server writes: an empty list set by a mutation becomes null when a
// custom object is serialised.
func (e *Engine) serialise(req *Request, d *Decision) {
	if !d.Mutated || d.Object == nil {
		return
	}
	if r := e.types.Resource(req.Resource); r != nil && r.Definition != nil {
		d.Object = prepare.Reread(d.Object)
	}
}
