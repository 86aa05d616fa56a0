package cli

import (
	"iter"
	"sync"
)

// mapInOrder calls work for each value of in, on several goroutines, and yields the results in the order of in. It
// holds only a few results for each worker at a time. When the caller stops early, so do the workers.
func mapInOrder[A, B any](in iter.Seq[A], workers int, work func(A) B) iter.Seq[B] {
	type job struct {
		in  A
		out chan B // takes one result without blocking
	}
	return func(yield func(B) bool) {
		jobs := make(chan job)
		results := make(chan chan B, 8*workers) // in the order of in
		stop := make(chan struct{})
		var running sync.WaitGroup
		defer running.Wait()
		defer close(stop)

		running.Go(func() {
			defer close(jobs)
			defer close(results)
			for a := range in {
				j := job{a, make(chan B, 1)}
				select {
				case results <- j.out:
				case <-stop:
					return
				}
				select {
				case jobs <- j:
				case <-stop:
					return
				}
			}
		})
		for range workers {
			running.Go(func() {
				for j := range jobs {
					j.out <- work(j.in)
				}
			})
		}
		for out := range results {
			if !yield(<-out) {
				return
			}
		}
	}
}
