package celgate

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/certs"
	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/internal/registry"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/schema"
)

// input converts a request for package prepare.
func (e *Engine) input(req *Request) prepare.Input {
	return prepare.Input{
		Types: e.types, Resource: e.types.Resource(req.Resource), SubResource: req.SubResource,
		Operation: string(req.Operation),
		Namespace: req.Namespace, Object: req.Object, Old: req.OldObject, Options: req.Options,
		Name: req.Name, DryRun: req.DryRun,
		User: req.UserInfo,
	}
}

// register does the registry's work between the two phases: a name for generateName, uid and timestamps, the status of
// a new object.
func (e *Engine) register(req *Request, object map[string]any, sharesLabels bool) *Request {
	next := *req
	in := e.input(req)
	in.Object, in.SharesLabels = object, sharesLabels
	next.Object = prepare.ObjectToValidate(in)
	if next.Name == "" && req.Operation == Create {
		next.Name = tree.Object(next.Object).Name()
	}
	return &next
}

// refusal returns the registry's error about an object whose namespace a mutation has changed, or that is not valid.
// Warnings about parts that were not valid before go to the decision.
func (e *Engine) refusal(ctx context.Context, req *Request, d *Decision) error {
	if given := tree.Object(req.Object).Namespace(); given != "" && req.Namespace != "" && given != req.Namespace &&
		req.Kind != namespaceKind {
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	resource := e.types.Resource(req.Resource)
	if req.Object == nil || resource == nil || policyResource(req.Resource.GroupResource()) {
		return nil
	}
	errs, warnings, err := e.invalid(ctx, req, resource)
	for _, text := range warnings {
		d.warn(Warning{Text: text})
	}
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	kind, _ := req.Object["kind"].(string)
	if errs = quirks.Refusals(e.minor, kind, errs); len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(apischema.GroupKind{Group: req.Kind.Group, Kind: kind},
		tree.Object(req.Object).Name(), errs)
}

// invalid returns the registry's errors about the object of a request, and its warnings about parts that were invalid
// before.
func (e *Engine) invalid(ctx context.Context, req *Request, resource *schema.Resource) (errs field.ErrorList,
	warnings []string, err error) {
	creates := req.SubResource == "" && req.Operation == Create
	updates := req.SubResource == "" && req.Operation == Update && req.OldObject != nil
	if resource.Definition == nil {
		builtin := registry.Builtin{
			Kind: req.Kind.GroupKind(), Namespaced: resource.Namespaced, Type: e.types.Type(req.Kind),
			Envs: e.envs}
		switch {
		case creates:
			errs = builtin.Create(req.Object)
		case updates:
			errs = builtin.Update(req.Object, req.OldObject)
		}
		return errs, nil, nil
	}
	custom, err := e.customs.CustomOf(resource)
	switch {
	case err != nil:
		return nil, nil, err
	case creates:
		errs = custom.Create(ctx, req.Object)
	case updates:
		errs, warnings = custom.Update(ctx, req.Object, req.OldObject)
	case req.SubResource == "status" && req.OldObject != nil:
		errs, warnings = custom.UpdateStatus(ctx, req.Object, req.OldObject)
	}
	return errs, warnings, nil
}

// leaveValidation records the registry's validation of an accepted request that this engine does not simulate. The
// object of the decision is the one before the registry's own changes.
func (e *Engine) leaveValidation(req *Request, d *Decision) {
	resource := e.types.Resource(req.Resource)
	switch {
	case e.server == nil || req.Object == nil || req.Operation != Create && req.Operation != Update:
	case resource == nil || resource.Definition != nil || policyResource(req.Resource.GroupResource()):
	case req.SubResource != "":
		d.leave("validation of " + req.SubResource)
	case !certs.Known && req.Kind.GroupKind() == secretKind && prepare.HasKeyPair(req.Object):
		d.leave("warnings about the key pair, which this program does not read")
	case !registry.Judges(req.Kind.GroupKind()):
		d.leave(registry.Unvalidated)
	case req.Kind.GroupKind() == serviceKind && registry.Allocates(d.Object, req.OldObject):
		d.leave("allocation of the given addresses and ports")
	}
}

var (
	secretKind  = schema.GroupKind{Kind: "Secret"}
	serviceKind = schema.GroupKind{Kind: "Service"}
)

// advice returns the registry's warnings, which it adds before validating policies. before is the object after the
// mutating phase.
func (e *Engine) advice(req *Request, before map[string]any) []string {
	in := e.input(req)
	in.Before = before
	return prepare.Warnings(in, e.minor)
}

// serialise converts the object of a decision to its written form: an empty list set by a mutation becomes null when a
// custom object is serialised.
func (e *Engine) serialise(req *Request, d *Decision) {
	if !d.Mutated || d.Object == nil {
		return
	}
	if r := e.types.Resource(req.Resource); r != nil && r.Definition != nil {
		d.Object = prepare.Reread(d.Object)
	}
}
