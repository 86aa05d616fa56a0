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

// admitPolicy applies to an object of celgate's own kinds the write-time rules that kube-apiserver applies to the kind
// that it stands for, with the server's message, and asks whether its author may read its params. In the mutating phase
// the object gets its seal.
func (a *answer) admitPolicy(ctx context.Context, engine *celgate.Engine) (*celgate.Decision, error) {
	r := a.Request
	allowed := &celgate.Decision{Allowed: true, Object: r.Object}
	if r.Object == nil || r.SubResource != "" {
		return allowed, nil
	}
	if tree.Object(r.Object).Metadata()["deletionTimestamp"] != nil {
		return allowed, nil // as the server, which lets finalizers go from what has become invalid
	}
	o, err := policy.Read(policy.Native(r.Object), nil)
	p, b := o.Policy, o.Binding
	if a.Phase == Mutating {
		if err != nil || o.Library != nil { // the validating phase says so
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
	if o.Library != nil {
		return decideImports(allowed, o.Ref(), engine.LibraryErrors(o.Library)), nil
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

// decideImports is the decision about an object with errs. One that imports what is not there, or is not valid, is
// stored with a warning: the objects of a release come in any order, and until all are there policies fail as they say.
func decideImports(allowed *celgate.Decision, ref policy.Ref, errs field.ErrorList) *celgate.Decision {
	d := *allowed
	for _, err := range errs {
		if !celgate.MissesImport(err) {
			return &celgate.Decision{Status: ref.Invalid(errs)}
		}
		d.Warnings = append(d.Warnings, celgate.Warning{Text: err.Error() + ": until that is mended, policies that need it fail as their failurePolicy says"})
	}
	return &d
}

// notJudgedStatus is the denial of an object of celgate's own kinds.
func notJudgedStatus(r *celgate.Request) *metav1.Status {
	return &metav1.Status{
		Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden,
		Message: fmt.Sprintf("%s %q cannot be judged in time: it takes too long to check, or others do that are being "+
			"checked; it is not stored unjudged", shorten(r.Resource.Resource), shorten(r.Name)),
	}
}

// sealPolicy allows an object, with its seal if its author may read its params. The validating phase refuses an author
// without the right.
func (a *answer) sealPolicy(ctx context.Context, engine *celgate.Engine, p *policy.Policy,
	b *policy.Binding) (*celgate.Decision, error) {
	d := &celgate.Decision{Allowed: true, Object: a.Request.Object}
	seal := a.seal()
	if seal == nil && a.Handler.Seal != nil && !seal.Holds(d.Object, p, b) {
		return nil, refuse(http.StatusServiceUnavailable,
			"the key of the seal is not known yet, without which nothing with params would come into force")
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

// paramsForbidden is why the author of a policy or binding may not use its params; nil if he may. A policy whose
// paramKind stays is not asked about again, as on the server, if it is known that its author was.
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

// SecretsRefused is why a policy with Secrets as params is not stored and not in force.
const SecretsRefused = "Secrets as params are shown to whoever may write a policy with them: celgate serve --allow-secret-params takes them"

// SecretParams reports that the params of a policy are Secrets.
func SecretParams(kind *policy.ParamKind) bool {
	return kind != nil && *kind == policy.ParamKind{APIVersion: "v1", Kind: "Secret"}
}
