package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
)

// admitPolicy applies kube-apiserver's write-time rules for policies and bindings to an object of celgate's own kinds,
// with the server's messages, and checks whether its author may read its params. In the mutating phase the object gets
// its seal.
func (a *answer) admitPolicy(ctx context.Context, engine *celgate.Engine) (*celgate.Decision, error) {
	r := a.Request
	allowed := &celgate.Decision{Allowed: true, Object: r.Object}
	if r.Object == nil || r.SubResource != "" {
		return allowed, nil
	}
	if tree.Object(r.Object).Metadata()["deletionTimestamp"] != nil {
		return allowed, nil // like the server, which lets finalizers be removed from invalid objects
	}
	var written policy.Set
	err := written.Add(policy.Native(r.Object), nil)
	var p *policy.Policy
	var b *policy.Binding
	switch {
	case len(written.Policies) > 0:
		p = written.Policies[0]
	case len(written.Bindings) > 0:
		b = written.Bindings[0]
	}
	if a.Phase == Mutating {
		if p == nil && b == nil { // the validating phase reports it
			return allowed, nil
		}
		return a.sealPolicy(ctx, engine, p, b)
	}
	var undecodable *policy.DecodeError
	switch {
	case errors.As(err, &undecodable):
		return &celgate.Decision{Status: undecodable.Status()}, nil
	case err != nil:
		return nil, refuseBody("the object is not a policy or binding that can be read", err)
	}
	if len(written.Libraries) > 0 {
		l := written.Libraries[0]
		return decideImports(allowed, l.Ref(), engine.LibraryErrors(l)), nil
	}
	errs := engine.WriteErrors(a.resolveWritten(p, b))
	if p != nil && len(p.Imports) > 0 {
		if d := decideImports(allowed, p.Ref(), errs); d.Allowed {
			allowed, errs = d, nil
		}
	}
	if len(errs) == 0 && b != nil {
		errs = engine.BindErrors(ctx, a.resolveWritten(nil, b))
	}
	if len(errs) == 0 {
		if forbidden := a.paramsForbidden(ctx, engine, p, b); forbidden != nil {
			errs = field.ErrorList{forbidden}
		}
	}
	switch {
	case len(errs) == 0:
		return allowed, nil
	case b != nil:
		return &celgate.Decision{Status: b.Ref().Invalid(errs)}, nil
	}
	return &celgate.Decision{Status: p.Ref().Invalid(errs)}, nil
}

// decideImports returns the decision about an object with errs. A policy whose imports are missing or invalid is stored
// with a warning: the objects of a release may come in any order, and the policy fails by its failurePolicy until all
// of them exist.
func decideImports(allowed *celgate.Decision, ref policy.Ref, errs field.ErrorList) *celgate.Decision {
	d := *allowed
	for _, err := range errs {
		if !policy.MissesImport(err) {
			return &celgate.Decision{Status: ref.Invalid(errs)}
		}
		d.Warnings = append(d.Warnings, celgate.Warning{Text: err.Error() +
			": until this is fixed, requests that the importing policies match are errors, about which failurePolicy decides"})
	}
	return &d
}

// notJudgedStatus denies an object of celgate's own kinds that could not be checked.
func notJudgedStatus(r *celgate.Request) *metav1.Status {
	return &metav1.Status{
		Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden,
		Message: fmt.Sprintf("%s %q cannot be checked in time, and is not stored unchecked: the check takes too long, "+
			"or waits for others", shorten(r.Resource.Resource), shorten(r.Name)),
	}
}

// sealPolicy allows an object, and adds its seal if its author may read its params. The validating phase refuses the
// other authors.
func (a *answer) sealPolicy(ctx context.Context, engine *celgate.Engine, p *policy.Policy,
	b *policy.Binding) (*celgate.Decision, error) {
	d := &celgate.Decision{Allowed: true, Object: a.Request.Object}
	seal := a.seal()
	if seal == nil && a.Handler.Seal != nil && !seal.Holds(d.Object, p, b) {
		return nil, refuse(http.StatusServiceUnavailable,
			"the key of the seal is not known yet, and without it a policy or binding with params cannot be put in force")
	}
	if seal == nil || seal.Holds(d.Object, p, b) || a.paramsForbidden(ctx, engine, p, b) != nil {
		return d, nil
	}
	d.Object, d.Mutated = seal.Put(d.Object, p, b), true
	return d, nil
}

func (a *answer) seal() *Seal {
	if a.Handler.Seal == nil {
		return nil
	}
	return a.Handler.Seal()
}

// paramsForbidden returns the reason why the author of a policy or binding may not use its params; nil if they may. As
// on the server, an unchanged paramKind is not checked again, if it is known that its author was checked.
func (a *answer) paramsForbidden(ctx context.Context, engine *celgate.Engine, p *policy.Policy,
	b *policy.Binding) *field.Error {
	if !a.AllowSecretParams && p != nil && SecretParams(p.ParamKind) {
		return field.Forbidden(field.NewPath("spec", "paramKind"), SecretsRefused)
	}
	return engine.ParamsForbidden(ctx, a.Request, a.resolveWritten(p, b))
}

// resolveWritten returns a policy or binding with the object that it replaces. An object that cannot be decoded counts
// as absent.
func (a *answer) resolveWritten(p *policy.Policy, b *policy.Binding) compile.Written {
	w := compile.Written{Policy: p, Binding: b, Named: a.Named}
	if old := a.Request.OldObject; old != nil && a.Request.Operation == celgate.Update {
		if before, bound, err := policy.FromObject(policy.Native(old), nil); err == nil {
			w.OldPolicy, w.OldBinding = before, bound
			w.Unasked = before != nil && !a.seal().Holds(old, before, nil)
		}
	}
	if a.Bindings != nil && b != nil {
		w.Others = func(ref policy.Ref) (n int) {
			for _, other := range a.Bindings() {
				if other.Names(ref) && other.Ref() != b.Ref() {
					n++
				}
			}
			return n
		}
	}
	return w
}

// SecretsRefused is the reason why a policy with Secrets as params is neither stored nor in force.
const SecretsRefused = "every author of a policy can read the Secrets that are its params; " +
	"celgate serve --allow-secret-params permits them"

// SecretParams reports whether the params of a policy are Secrets.
func SecretParams(kind *policy.ParamKind) bool {
	return kind != nil && *kind == policy.ParamKind{APIVersion: "v1", Kind: "Secret"}
}
