package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/celgate/celgate"
)

// Evaluations bounds what runs at once: some evaluations for each processor, because more would only make each other
// late. Further requests wait, until their deadline, and nothing is made of their bodies before.
//
// A request is answered at its deadline even if its evaluation has not ended. Such an abandoned evaluation looks at the
// deadline every hundred steps of a loop and before it asks a cluster, so that it ends soon, but not at once. As long
// as all that may run are abandoned, or too large ones, further requests are refused at once with status 503, and the
// failurePolicy of the webhook decides about them as about a server that does not answer in time: what it would become.
//
// Handlers that share one share the bound. Objects of celgate's own kinds have a bound of their own, so that the policy
// that is to blame can be taken back.
type Evaluations struct {
	reviews, own *lane

	abandonedTotal, refusedTotal atomic.Int64
}

// A lane is what runs at once of one sort.
type lane struct {
	most  int64
	slots *semaphore.Weighted

	running, abandoned, abandonedBytes atomic.Int64
}

const (
	perProcessor      = 2
	leastRunning      = 4
	mostRunning       = 32      // each with what is made of its body
	ownRunning        = 2       // what is checked of celgate's own kinds
	maxAbandonedBytes = 4 << 20 // of the bodies of their requests
)

// NewEvaluations returns a bound for a server of the memory that a Pod of celgate has: two that run for each
// processor, at least four and at most 32. All may be abandoned, but not with more than 4 MiB of bodies. Two more check
// objects of celgate's own kinds.
func NewEvaluations() *Evaluations {
	return &Evaluations{
		reviews: newLane(min(max(leastRunning, perProcessor*int64(runtime.GOMAXPROCS(0))), mostRunning)),
		own:     newLane(ownRunning),
	}
}

func newLane(most int64) *lane { return &lane{most: most, slots: semaphore.NewWeighted(most)} }

// Counts say what goes on.
type Counts struct {
	Running, Abandoned           int64 // now; running ones may be abandoned
	AbandonedTotal, RefusedTotal int64 // ever
}

// Counts returns the counts.
func (e *Evaluations) Counts() Counts {
	return Counts{
		e.reviews.running.Load() + e.own.running.Load(), e.reviews.abandoned.Load() + e.own.abandoned.Load(),
		e.abandonedTotal.Load(), e.refusedTotal.Load(),
	}
}

var errTooMany = errors.New("too many evaluations")

// A place is where a request is read and decided about.
type place struct {
	of   *Evaluations
	lane *lane
}

// begin waits for a place, not for one that abandoned evaluations hold.
func (e *Evaluations) begin(ctx context.Context, l *lane) (place, error) {
	if l.abandoned.Load() >= l.most || l.abandonedBytes.Load() >= maxAbandonedBytes {
		e.refusedTotal.Add(1)
		return place{}, refuse(http.StatusServiceUnavailable, "%w go on past their deadline", errTooMany)
	}
	if !l.slots.TryAcquire(1) {
		waiting, cancel := context.WithTimeout(ctx, longestWait)
		defer cancel()
		if err := l.slots.Acquire(waiting, 1); err != nil {
			e.refusedTotal.Add(1)
			return place{}, refuse(http.StatusServiceUnavailable, "%w at once", errTooMany)
		}
	}
	if err := ctx.Err(); err != nil {
		l.slots.Release(1)
		return place{}, err
	}
	l.running.Add(1)
	return place{e, l}, nil
}

func (p place) end() {
	p.lane.running.Add(-1)
	p.lane.slots.Release(1)
}

// abandon counts one of some bytes more, or with -1 less.
func (l *lane) abandon(change, bytes int64) {
	l.abandoned.Add(change)
	l.abandonedBytes.Add(change * bytes)
}

// An evaluated is how an evaluation ended.
type evaluated struct {
	decision *celgate.Decision
	err      error
}

func (a *answer) bound() *Evaluations {
	if a.Evaluations == nil {
		return NewEvaluations()
	}
	return a.Evaluations
}

// within decides, which ends the place, and waits for that until the deadline. The body of the request counts as size
// bytes.
func (a *answer) within(ctx context.Context, p place, size int64,
	decide func() (*celgate.Decision, error)) (*celgate.Decision, error) {
	var left atomic.Bool // by one of the two sides
	result := make(chan evaluated, 1)
	go func() {
		defer func() {
			if v := recover(); v != nil {
				a.log(ctx, slog.LevelError, "panic", "value", short(fmt.Sprint(v)), "stack", string(debug.Stack()))
				result <- evaluated{nil, errors.New("internal error")}
			}
			if !left.CompareAndSwap(false, true) {
				p.lane.abandon(-1, size)
			}
			p.end()
		}()
		decision, err := decide()
		result <- evaluated{decision, err}
	}()
	select {
	case r := <-result:
		return r.decision, r.err
	case <-ctx.Done():
	}
	p.lane.abandon(1, size) // counted before the other side may take it back
	if left.CompareAndSwap(false, true) {
		p.of.abandonedTotal.Add(1)
	} else {
		p.lane.abandon(-1, size)
	}
	return nil, ctx.Err()
}
