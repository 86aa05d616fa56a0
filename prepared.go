package celgate

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celgate/celgate/internal/prepare"
)

// A Prepared is a request as the API server hands it to policies: only about such a one can an engine decide.
// [Engine.Prepare] makes it of a request as its author wrote it, [FromReview] of one that an API server has prepared.
// It is immutable.
type Prepared struct {
	request  Request
	warnings []string
	refusal  *metav1.Status
	unasked  string // why the server asks no policy and allows the request

	normal       prepare.Normal // the object, if Prepare has made it
	sharesLabels bool           // see prepare.Result
}

// Request returns the request as policies see it. It must not be changed.
func (p *Prepared) Request() *Request { return &p.request }

// Warnings are about a deprecated version and what was dropped of the object. The server sends them before those of
// policies, and so does the [Decision] about the request.
func (p *Prepared) Warnings() []string { return p.warnings }

// Refusal returns the server's answer to a request about which it asks no policy, because of the life of a namespace:
// one that does not exist or is being terminated takes no new object, and some cannot be deleted. It is nil for all
// other requests.
func (p *Prepared) Refusal() *metav1.Status { return p.refusal }

// WithObject returns the request with another object, which is one as the server hands it to policies: the object of a
// [Decision], for example.
func (p *Prepared) WithObject(object map[string]any) *Prepared {
	next := *p
	next.request.Object, next.normal = object, prepare.Normal{}
	return &next
}

// AssumePrepared takes a request whose objects an API server has made, as webhooks get them.
func AssumePrepared(req *Request) *Prepared { return &Prepared{request: *req} }

// Prepare makes of a request as its author wrote it the request that the server hands to policies: the object
// decoded, defaulted and canonical, the old object with what every stored object has, the options of a DELETE complete.
// The error is the server's answer to an object that it cannot decode, a *apierrors.StatusError.
func (e *Engine) Prepare(ctx context.Context, req *Request) (*Prepared, error) {
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
	if len(e.index.entry(req).mutating.hooks) > 0 {
		p.normal = prepare.Settle(result.Object, req.Object, e.types, req.Kind)
	}
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
	p.warnings = append(append(p.warnings, result.Unknown...), result.Warnings...)
	return p, nil
}

// prepareDeletion does what the registry does before a policy is asked about the deletion of one object.
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

// send makes the warnings those that the client gets: before them what preparing the request gave.
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
