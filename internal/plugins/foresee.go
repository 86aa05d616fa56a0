package plugins

import (
	"context"

	"github.com/celgate/celgate/internal/tree"
)

// ForeseeAdmit lists the mutating plugins that would change or refuse a request, and those that could not be simulated.
func (c *Chain) ForeseeAdmit(ctx context.Context, r Request) []string {
	_, parts := c.foresee(ctx, r, (*Chain).Admit)
	return parts
}

// ForeseeValidate lists the validating plugins that would refuse a request or warn about it once the mutating plugins
// have changed it, and those that could not be simulated.
func (c *Chain) ForeseeValidate(ctx context.Context, r Request) []string {
	if c == nil {
		return nil
	}
	r.Object, _ = c.foresee(ctx, r, (*Chain).Admit)
	_, parts := c.foresee(ctx, r, (*Chain).Validate)
	return parts
}

// foresee runs the plugins of a phase one by one. It returns the object that they make, and what they would do.
func (c *Chain) foresee(ctx context.Context, r Request,
	phase func(*Chain, context.Context, Request) (Answer, error)) (made map[string]any, parts []string) {
	if c == nil {
		return r.Object, nil
	}
	for i, p := range c.plugins {
		if p.concerns == nil || !p.concerns(&r) {
			continue
		}
		one := *c
		one.plugins = c.plugins[i : i+1]
		answer, err := phase(&one, ctx, r)
		parts = append(parts, answer.Unchecked...)
		switch {
		case err != nil:
			return r.Object, append(parts, p.name+" (would refuse: "+err.Error()+")")
		case !tree.Equal(answer.Object, r.Object):
			parts = append(parts, p.name+" (would change the object)")
		case len(answer.Warnings) > 0:
			parts = append(parts, p.name+" (would warn)")
		}
		r.Object = answer.Object
	}
	return r.Object, parts
}
