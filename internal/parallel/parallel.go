// Package parallel does independent work on all processors.
package parallel

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Map calls do for every item and returns the results in the order of the items.
func Map[A, B any](items []A, do func(A) B) []B {
	results := make([]B, len(items))
	Each(len(items), func() func(int) { return func(i int) { results[i] = do(items[i]) } })
	return results
}

// Each does the work for 0 to n-1 and returns when all is done. There are as many workers as processors; worker is
// called once for each, before any of them works, and returns what it does for one number.
func Each(n int, worker func() func(i int)) {
	var next atomic.Int64
	var running sync.WaitGroup
	workers := make([]func(int), min(runtime.GOMAXPROCS(0), n))
	for i := range workers {
		workers[i] = worker()
	}
	for _, do := range workers {
		running.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				do(int(i))
			}
		})
	}
	running.Wait()
}
