package webhook

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// Evaluations bounds concurrent evaluations: a few for each processor, because more would only delay each other.
// Further requests wait until their deadline, and their bodies are not decoded before.
//
// A request is answered at its deadline even if its evaluation has not ended. Such an abandoned evaluation checks the
// deadline every hundred steps of a loop and before it calls a cluster, so that it ends soon, but not at once. While
// abandoned evaluations hold all places, or too many bytes, further requests are refused at once with status 503; the
// failurePolicy of the webhook then decides, as it would after a timeout.
//
// Handlers that share an Evaluations share the bound. Objects of celgate's own kinds have a bound of their own, so that
// a policy that blocks the others can be removed.
type Evaluations struct {
	reviews, own *lane

	abandonedTotal, refusedTotal atomic.Int64
}

// A lane is the evaluations under one bound.
type lane struct {
	most, mostAway int64

	mu                        sync.Mutex
	free                      int64           // places
	waiting                   []chan struct{} // requests that wait for a place; closed when they have it
	returning                 []chan struct{} // evaluations that wait to continue, which come first
	running                   int64
	away, awayBytes           int64 // of the running ones, those that have given up their place for a while
	abandoned, abandonedBytes int64 // of the running ones, with or without a place
	stuck                     int64 // abandoned ones with a place
}

const (
	perProcessor      = 2
	leastRunning      = 4
	mostRunning       = 32      // each with its decoded body
	ownRunning        = 2       // checks of objects of celgate's own kinds
	maxAbandonedBytes = 4 << 20 // of the bodies of their requests
	maxAwayBytes      = 4 << 20 // likewise
	reviewsAway       = 64
	ownAway           = 8
)

// NewEvaluations returns a bound for a server with the memory of celgate's Pods: two running evaluations for each
// processor, at least four and at most 32. All of them may be abandoned, with at most 4 MiB of bodies in total. Two
// more check objects of celgate's own kinds.
func NewEvaluations() *Evaluations {
	return &Evaluations{
		reviews: newLane(min(max(leastRunning, perProcessor*int64(runtime.GOMAXPROCS(0))), mostRunning), reviewsAway),
		own:     newLane(ownRunning, ownAway),
	}
}

func newLane(most, mostAway int64) *lane {
	return &lane{most: most, mostAway: mostAway, free: most}
}

// Counts are the numbers of evaluations.
type Counts struct {
	Running, Away, Abandoned     int64 // now; running ones may also be away or abandoned
	AbandonedTotal, RefusedTotal int64 // since the start
}

// Counts returns the counts.
func (e *Evaluations) Counts() Counts {
	c := Counts{AbandonedTotal: e.abandonedTotal.Load(), RefusedTotal: e.refusedTotal.Load()}
	for _, l := range []*lane{e.reviews, e.own} {
		l.mu.Lock()
		c.Running, c.Away, c.Abandoned = c.Running+l.running, c.Away+l.away, c.Abandoned+l.abandoned
		l.mu.Unlock()
	}
	return c
}

var errTooMany = errors.New("too many evaluations")

// A place is a slot in which a request is decoded and decided. The body of the request counts as a number of bytes.
type place struct {
	of    *Evaluations
	lane  *lane
	bytes int64

	// mu of the lane guards these.
	away, abandoned, ended bool
}

// begin waits for a place. It fails at once if abandoned evaluations block the lane.
func (e *Evaluations) begin(ctx context.Context, l *lane, bytes int64) (*place, error) {
	if l.isBlocked() {
		e.refusedTotal.Add(1)
		return nil, refuse(http.StatusServiceUnavailable, "%w run past their deadline", errTooMany)
	}
	if !l.acquire(ctx) {
		e.refusedTotal.Add(1)
		return nil, refuse(http.StatusServiceUnavailable, "%w at once", errTooMany)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := ctx.Err(); err != nil {
		l.release()
		return nil, err
	}
	l.running++
	return &place{of: e, lane: l, bytes: bytes}, nil
}

// isBlocked reports whether abandoned evaluations hold all places, or too many bytes.
func (l *lane) isBlocked() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stuck >= l.most || l.abandonedBytes >= maxAbandonedBytes
}

// acquire waits for a place, at most for longestWait. It returns false if it did not get one.
func (l *lane) acquire(ctx context.Context) bool {
	l.mu.Lock()
	if l.free > 0 { // otherwise others wait
		l.free--
		l.mu.Unlock()
		return true
	}
	mine := make(chan struct{})
	l.waiting = append(l.waiting, mine)
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, longestWait)
	defer cancel()
	select {
	case <-mine:
		return true
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.waiting, mine); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	} else { // the place came at the same moment
		l.release()
	}
	return false
}

// release passes a place on. The caller holds mu.
func (l *lane) release() {
	for _, queue := range []*[]chan struct{}{&l.returning, &l.waiting} {
		if len(*queue) > 0 {
			close((*queue)[0])
			*queue = slices.Delete(*queue, 0, 1)
			return
		}
	}
	l.free++
}

// end releases the place. It returns false if the request was answered before.
func (p *place) end() bool {
	l := p.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	p.ended = true
	l.running--
	if p.abandoned {
		l.abandoned, l.abandonedBytes, l.stuck = l.abandoned-1, l.abandonedBytes-p.bytes, l.stuck-1
	}
	l.release()
	return !p.abandoned
}

// abandon records that the request was answered without the evaluation. It returns false if the evaluation has ended.
func (p *place) abandon() bool {
	l := p.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.ended {
		return false
	}
	p.abandoned = true
	l.abandoned, l.abandonedBytes = l.abandoned+1, l.abandonedBytes+p.bytes
	if !p.away {
		l.stuck++
	}
	p.of.abandonedTotal.Add(1)
	return true
}

// Leave lends the place to others, unless too many evaluations have done so.
func (p *place) Leave() bool {
	l := p.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away >= l.mostAway || l.awayBytes+p.bytes > maxAwayBytes {
		return false
	}
	p.away = true
	l.away, l.awayBytes = l.away+1, l.awayBytes+p.bytes
	if p.abandoned {
		l.stuck--
	}
	l.release()
	return true
}

// Return waits for a place again, even past the deadline: the rest of the evaluation needs a processor, too.
func (p *place) Return() {
	l := p.lane
	l.mu.Lock()
	if l.free > 0 {
		l.free--
	} else {
		mine := make(chan struct{})
		l.returning = append(l.returning, mine)
		l.mu.Unlock()
		<-mine
		l.mu.Lock()
	}
	defer l.mu.Unlock()
	p.away = false
	l.away, l.awayBytes = l.away-1, l.awayBytes-p.bytes
	if p.abandoned {
		l.stuck++
	}
}

func (a *answer) bound() *Evaluations {
	if a.Evaluations == nil {
		return NewEvaluations()
	}
	return a.Evaluations
}
