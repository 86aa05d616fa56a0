package celgate

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/registry"
	"github.com/celgate/celgate/internal/tree"
)

// A Prepared is a request in the form in which the API server passes it to policies. Engines accept only prepared
// requests. [Engine.Prepare] makes one from a request as its author wrote it, [FromReview] from one that an API server
// has prepared. It is immutable.
type Prepared struct {
	request  Request
	warnings []string
	refusal  *metav1.Status
	unasked  string   // the reason why the server allows the request without evaluating policies
	left     []string // the parts of the server that could not be simulated
	filling  Change   // by the others; the zero value: none

	normal       prepare.Normal // of the object, if Prepare made it
	sharesLabels bool           // see prepare.Result
}

// Request returns the request as policies see it. It must not be changed.
func (p *Prepared) Request() *Request { return &p.request }

// Warnings returns warnings about deprecated versions and dropped fields of the object. The server sends them before
// those of policies, and so does the [Decision] about the request.
func (p *Prepared) Warnings() []string { return p.warnings }

// Refusal returns the server's answer to a request that it refuses without evaluating policies: because of the life
// cycle of a namespace (a new object in a namespace that does not exist or is being terminated, or the deletion of a
// protected namespace), or by a mutating admission plugin of [Server]. It is nil for all other requests.
func (p *Prepared) Refusal() *metav1.Status { return p.refusal }

// WithObject returns the request with another prepared object, for example the object of a [Decision].
func (p *Prepared) WithObject(object map[string]any) *Prepared {
	next := *p
	next.request.Object, next.normal = object, prepare.Normal{}
	return &next
}

// AssumePrepared accepts a request whose objects an API server has prepared, as webhooks receive them.
func AssumePrepared(req *Request) *Prepared { return &Prepared{request: *req} }

// Prepare converts a request as its author wrote it to the server's form: the object decoded, defaulted and canonical,
// changed by the mutating admission plugins of [Server], the old object with the fields of every stored object, the
// options of a DELETE complete. Go values in the objects are converted as by [NewRequest]. The error is the server's
// answer to an object that cannot be decoded, a *apierrors.StatusError, or that of a Go value without a JSON form.
func (e *Engine) Prepare(ctx context.Context, req *Request) (*Prepared, error) {
	req, err := req.withTrees()
	if err != nil {
		return nil, err
	}
	options, err := checkOptions(req)
	if err != nil {
		return nil, err
	}
	p := &Prepared{request: *req, refusal: e.lifecycleRefusal(ctx, req)}
	if text := prepare.DeprecationWarning(e.types.Resource(req.Resource), e.minor); text != "" {
		p.warnings = append(p.warnings, text)
	}
	if req.Object == nil && req.OldObject == nil {
		return p, nil
	}
	result, err := prepare.Object(e.input(req))
	if err != nil {
		return nil, err
	}
	switch req.Options["fieldValidation"] {
	case "Strict":
		if len(result.Unknown) > 0 {
			return nil, apierrors.NewBadRequest(
				fmt.Sprintf("%s in version %q cannot be handled as a %s: strict decoding error: %s",
					req.Kind.Kind, req.Kind.Version, req.Kind.Kind, strings.Join(result.Unknown, ", ")),
			)
		}
	case "Ignore":
		result.Unknown = nil
	}
	p.request.Object, p.sharesLabels = result.Object, result.SharesLabels
	if req.OldObject != nil {
		old, _, err := prepare.ReadStored(req.OldObject, e.types, req.Kind)
		if err != nil {
			return nil, err
		}
		p.request.OldObject = old
	}
	if req.Operation == Delete && req.Name != "" && req.SubResource == "" { // not of a collection
		if err := p.prepareDeletion(e, &deletion{Request: req, options: options}); err != nil {
			return nil, err
		}
	}
	if filled := p.fill(ctx, e); !filled && len(e.index.entry(req).mutating.hooks) > 0 {
		p.normal = prepare.Settle(result.Object, req.Object, e.types, req.Kind)
	}
	if e.server != nil && req.SubResource == "" {
		for _, path := range registry.EmptyLists(req.Kind.GroupKind(), req.Object) {
			p.left = append(p.left, "validation of the empty "+path)
		}
	}
	p.warnings = append(append(p.warnings, result.Unknown...), result.Warnings...)
	return p, nil
}

// fill runs the mutating plugins on a request that is not refused yet, and reports whether they changed the object.
func (p *Prepared) fill(ctx context.Context, e *Engine) (changed bool) {
	if p.refusal != nil || p.unasked != "" {
		return false
	}
	if e.aside != nil {
		p.left = e.aside.ForeseeAdmit(ctx, toPlugins(&p.request, p.request.Object))
		return false
	}
	answer, err := e.fill(ctx, &p.request)
	p.left = answer.Unchecked
	if err != nil {
		p.refusal = statusOf(err)
		return false
	}
	if changed = !tree.IsSame(answer.Object, p.request.Object); changed {
		p.filling = Change{Before: p.request.Object, After: answer.Object}
		p.request.Object = answer.Object
	}
	return changed
}

// prepareDeletion does the registry's work before policies are evaluated for the deletion of one object.
func (p *Prepared) prepareDeletion(e *Engine, d *deletion) error {
	if err := d.refusal(d.OldObject); err != nil {
		return err
	}
	if d.isPending(p.request.OldObject) {
		p.refusal = nil
		p.unasked = "the object is being deleted already: the server allows this without asking a policy"
	}
	if resource := e.types.Resource(d.Resource); resource != nil {
		p.request.Options = prepare.DeleteOptions(d.Options, p.request.OldObject, resource)
	}
	return nil
}

// refusalOf returns the decision about a request that the server refuses before any policy is evaluated.
func refusalOf(p *Prepared) *Decision { return &Decision{Status: p.refusal, Object: p.request.Object} }

// send puts the warnings of preparing the request before the others.
func (d *Decision) send(p *Prepared) *Decision {
	own := d.Warnings
	if len(p.warnings) > 0 {
		d.Warnings = make([]Warning, 0, len(p.warnings)+len(own))
		for _, text := range p.warnings {
			d.warn(Warning{Text: text})
		}
		for _, w := range own {
			d.warn(w)
		}
	}
	d.Warnings = sendableWarnings(d.Warnings)
	d.noteDialect()
	return d
}
