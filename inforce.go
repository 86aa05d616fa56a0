package celgate

import (
	"context"

	"github.com/celgate/celgate/internal/plugins"
)

// toPlugins converts a request for admission plugins.
func toPlugins(req *Request, object map[string]any) plugins.Request {
	named := *req
	named.Object = object
	return plugins.Request{Operation: string(req.Operation), Kind: req.Kind, Resource: req.Resource,
		SubResource: req.SubResource, Namespace: req.Namespace, Name: req.Name, DisplayName: named.displayName(),
		User:   userOf(req),
		Object: object, Old: req.OldObject}
}

// quotas lists the quotas that count the object of a request.
func (e *Engine) quotas(ctx context.Context, req *Request) []string {
	chain := e.plugins
	if chain == nil {
		chain = e.aside
	}
	if chain == nil {
		return nil
	}
	return chain.Quotas(ctx, toPlugins(req, req.Object))
}

// fill runs the mutating plugins on a request. The error is the server's response to a refused request.
func (e *Engine) fill(ctx context.Context, req *Request) (plugins.Answer, error) {
	if e.plugins == nil {
		return plugins.Answer{Object: req.Object}, nil
	}
	return e.plugins.Admit(ctx, toPlugins(req, req.Object))
}

// checkPlugins runs the validating plugins. The error is the server's response to a refused request.
func (e *Engine) checkPlugins(ctx context.Context, req *Request, d *Decision) error {
	if e.aside != nil {
		d.leave(e.aside.ForeseeValidate(ctx, toPlugins(req, req.Object))...)
	}
	if e.plugins == nil {
		return nil
	}
	answer, err := e.plugins.Validate(ctx, toPlugins(req, req.Object))
	for _, text := range answer.Warnings {
		d.warn(Warning{Text: text})
	}
	for key, value := range answer.Annotations {
		d.annotate(key, value)
	}
	d.leave(answer.Unchecked...)
	return err
}
