package bound

import "context"

// A Place is held by an evaluation while it runs, if the number of running evaluations is limited.
type Place interface {
	// Leave lends the place to others. It returns false if the evaluation must keep it.
	Leave() bool
	// Return waits for a place again, after a Leave that returned true.
	Return()
}

type placeKey struct{}

// WithPlace returns a context with the place of an evaluation.
func WithPlace(ctx context.Context, p Place) context.Context {
	return context.WithValue(ctx, placeKey{}, p)
}

// Wait calls do, which waits for something else, without the place of the evaluation.
func Wait(ctx context.Context, do func()) {
	if p, ok := ctx.Value(placeKey{}).(Place); ok && p.Leave() {
		defer p.Return()
	}
	do()
}
