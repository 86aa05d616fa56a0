package bound

import "context"

// A Place is what an evaluation holds while it runs, where only some may run at once.
type Place interface {
	// Leave gives the place to others. It reports false if the evaluation is to keep it.
	Leave() bool
	// Return waits for a place again, after a Leave that was true.
	Return()
}

type placeKey struct{}

// WithPlace returns the context of an evaluation that holds a place.
func WithPlace(ctx context.Context, p Place) context.Context {
	return context.WithValue(ctx, placeKey{}, p)
}

// Wait does what waits for somebody else, outside the place of the evaluation.
func Wait(ctx context.Context, do func()) {
	if p, ok := ctx.Value(placeKey{}).(Place); ok && p.Leave() {
		defer p.Return()
	}
	do()
}
