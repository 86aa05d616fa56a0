package serve

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
)

// garbage is how much may lie around before it is collected. Go alone collects when there is as much of it as of what
// is in use; a few policies are so little that this would be many times a second, and a sixth of the processor time of
// a request. What 1,000 policies hold is more than this, and changes nothing.
const garbage = 32 << 20

// collectLater keeps the collector to that until the context ends, unless the environment says how it works.
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
		if next != percent { // which stops the world for a moment
			debug.SetGCPercent(next)
			percent = next
		}
		if ctx.Err() == nil {
			runtime.AddCleanup(&cycle{}, collected, struct{}{}) // after the next collection
		}
	}
	collected(struct{}{})
}
