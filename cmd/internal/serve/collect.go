package serve

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
)

// garbage is the least amount of garbage worth a collection. By default, Go collects when garbage has grown to the size
// of the live heap; with a few policies that is many times a second, and a sixth of the processor time of a request.
// The heap of 1,000 policies is larger than this, so nothing changes for it.
const garbage = 32 << 20

// collectLater raises GOGC accordingly until the context ends, unless the environment sets it.
func collectLater(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	const least, most, step = 100, 800, 50 // percent, as GOGC
	percent := least
	live := []runtimemetrics.Sample{{Name: "/gc/heap/live:bytes"}}
	type cycle struct{ _ *int }
	var collected func(struct{})
	collected = func(struct{}) {
		runtimemetrics.Read(live)
		next := min(max(least, garbage*100/max(int(live[0].Value.Uint64()), 1)/step*step), most)
		if ctx.Err() != nil {
			next = least
		}
		if next != percent { // each change stops the world for a moment
			debug.SetGCPercent(next)
			percent = next
		}
		if ctx.Err() == nil {
			runtime.AddCleanup(&cycle{}, collected, struct{}{}) // after the next collection
		}
	}
	collected(struct{}{})
}
