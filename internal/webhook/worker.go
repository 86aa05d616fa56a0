package webhook

import (
	"runtime"
	"sync"
)

// A worker is a goroutine that does one job after the other. A new one would have a small stack, which is copied each
// time it is too small: an evaluation of policies would take an eighth longer.
type worker struct{ jobs chan job }

// A job gives its worker back: were it known to its goroutine while that waits, nothing would end it.
type job struct {
	do func()
	by *worker
}

// workers are those with nothing to do. The collector takes away what is in a Pool when nobody has needed it for a
// while, and then they end.
var workers sync.Pool

func newWorker() *worker {
	w := &worker{make(chan job, 1)}
	go func(jobs <-chan job) {
		for j := range jobs {
			j.do()
			workers.Put(j.by)
		}
	}(w.jobs)
	runtime.AddCleanup(w, func(jobs chan job) { close(jobs) }, w.jobs)
	return w
}

// work does something on another goroutine.
func work(do func()) {
	w, ok := workers.Get().(*worker)
	if !ok {
		w = newWorker()
	}
	w.jobs <- job{do, w}
}
