package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/celgate/celgate"
)

// Evaluations bounds what runs at once. A request is answered at its deadline even if its evaluation has not ended.
// Such an abandoned evaluation looks at the deadline every hundred steps of a loop and before it asks a cluster, so
// that it ends soon, but not at once. As long as too many go on, or too large ones, further requests are refused at
// once with status 503, and the failurePolicy of the webhook decides about them as about a server that does not answer
// in time: what it would become.
//
// Handlers that share one share the bound. Objects of celgate's own kinds are always checked, so that the policy that
// is to blame can be taken back.
type Evaluations struct {
	slots *semaphore.Weighted

	running, abandoned, abandonedBytes atomic.Int64
	abandonedTotal, refusedTotal       atomic.Int64
}

const (
	maxRunning        = 256
	maxAbandoned      = 16
	maxAbandonedBytes = 4 << 20 // of the bodies of their requests
)

// NewEvaluations returns a bound for a server of the memory that a Pod of celgate has: 256 that run, of which 16 may be
// abandoned, with 4 MiB of bodies.
func NewEvaluations() *Evaluations {
	return &Evaluations{slots: semaphore.NewWeighted(maxRunning)}
}

// Counts say what goes on.
type Counts struct {
	Running, Abandoned           int64 // now; running ones may be abandoned
	AbandonedTotal, RefusedTotal int64 // ever
}

// Counts returns the counts.
func (e *Evaluations) Counts() Counts {
	return Counts{e.running.Load(), e.abandoned.Load(), e.abandonedTotal.Load(), e.refusedTotal.Load()}
}

// begin waits for a slot, not for one that abandoned evaluations hold.
func (e *Evaluations) begin(ctx context.Context) error {
	if e.abandoned.Load() >= maxAbandoned || e.abandonedBytes.Load() >= maxAbandonedBytes {
		e.refusedTotal.Add(1)
		return refuse(http.StatusServiceUnavailable, "too many evaluations go on past their deadline")
	}
	if !e.slots.TryAcquire(1) {
		waiting, cancel := context.WithTimeout(ctx, longestWait)
		defer cancel()
		if err := e.slots.Acquire(waiting, 1); err != nil {
			e.refusedTotal.Add(1)
			return refuse(http.StatusServiceUnavailable, "too many evaluations at once")
		}
	}
	e.running.Add(1)
	return nil
}

func (e *Evaluations) end() {
	e.running.Add(-1)
	e.slots.Release(1)
}

// abandon counts one of some bytes more, or with -1 less.
func (e *Evaluations) abandon(change, bytes int64) {
	e.abandoned.Add(change)
	e.abandonedBytes.Add(change * bytes)
	if change > 0 {
		e.abandonedTotal.Add(1)
	}
}

// An evaluated is how an evaluation ended.
type evaluated struct {
	decision *celgate.Decision
	err      error
}

// evaluate asks the engine and waits for its decision until the deadline. The body of the request has size bytes.
func (a *answer) evaluate(ctx context.Context, engine *celgate.Engine, size int64) (*celgate.Decision, error) {
	bound := a.Evaluations
	if bound == nil {
		bound = NewEvaluations()
	}
	if err := bound.begin(ctx); err != nil {
		return nil, err
	}
	ask := engine.Validate
	if a.Phase == Mutating {
		ask = func(ctx context.Context, p *celgate.Prepared) (*celgate.Decision, error) {
			return a.Again.mutate(ctx, engine, p)
		}
	}
	request := celgate.AssumePrepared(a.Request)
	var left atomic.Bool // by one of the two sides
	result := make(chan evaluated, 1)
	go func() {
		defer func() {
			if v := recover(); v != nil {
				a.log(ctx, slog.LevelError, "panic", "value", fmt.Sprint(v), "stack", string(debug.Stack()))
				result <- evaluated{nil, errors.New("internal error")}
			}
			if !left.CompareAndSwap(false, true) {
				bound.abandon(-1, size)
			}
			bound.end()
		}()
		decision, err := ask(ctx, request)
		result <- evaluated{decision, err}
	}()
	select {
	case r := <-result:
		return r.decision, r.err
	case <-ctx.Done():
	}
	bound.abandon(1, size) // counted before the other side may take it back
	if !left.CompareAndSwap(false, true) {
		bound.abandon(-1, size)
		bound.abandonedTotal.Add(-1)
	}
	return nil, ctx.Err()
}
