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
	most, mostAway int64

	mu                        sync.Mutex
	free                      int64           // places
	waiting                   []chan struct{} // requests that want one; closed when they have it
	returning                 []chan struct{} // evaluations that want one again, which get the next
	running                   int64
	away, awayBytes           int64 // of those, the ones that have given their place to others
	abandoned, abandonedBytes int64 // of those that run, in a place or away
	stuck                     int64 // abandoned ones that are in a place
}

const (
	perProcessor      = 2
	leastRunning      = 4
	mostRunning       = 32      // each with what is made of its body
	ownRunning        = 2       // what is checked of celgate's own kinds
	maxAbandonedBytes = 4 << 20 // of the bodies of their requests
	maxAwayBytes      = 4 << 20 // likewise
	reviewsAway       = 64
	ownAway           = 8
)

// NewEvaluations returns a bound for a server of the memory that a Pod of celgate has: two that run for each
// processor, at least four and at most 32. All may be abandoned, but not with more than 4 MiB of bodies. Two more check
// objects of celgate's own kinds.
func NewEvaluations() *Evaluations {
	return &Evaluations{
		reviews: newLane(min(max(leastRunning, perProcessor*int64(runtime.GOMAXPROCS(0))), mostRunning), reviewsAway),
		own:     newLane(ownRunning, ownAway),
	}
}

func newLane(most, mostAway int64) *lane {
	return &lane{most: most, mostAway: mostAway, free: most}
}

// Counts say what goes on.
type Counts struct {
	Running, Away, Abandoned     int64 // now; running ones may be away, abandoned, or both
	AbandonedTotal, RefusedTotal int64 // ever
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

// A place is where a request is read and decided about. The body of the request counts as some bytes.
type place struct {
	of    *Evaluations
	lane  *lane
	bytes int64

	// Guarded by the lane.
	away, abandoned, ended bool
}

// begin waits for a place, not for one that abandoned evaluations hold.
func (e *Evaluations) begin(ctx context.Context, l *lane, bytes int64) (*place, error) {
	if l.isBlocked() {
		e.refusedTotal.Add(1)
		return nil, refuse(http.StatusServiceUnavailable, "%w go on past their deadline", errTooMany)
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

// isBlocked reports that abandoned evaluations hold all places, or too many bytes.
func (l *lane) isBlocked() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stuck >= l.most || l.abandonedBytes >= maxAbandonedBytes
}

// acquire waits for a place of a request, no longer than longestWait. It reports false if there was none in time.
func (l *lane) acquire(ctx context.Context) bool {
	l.mu.Lock()
	if l.free > 0 { // then nobody waits
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
	} else { // it came at the same moment
		l.release()
	}
	return false
}

// release makes a place another's. The caller holds mu.
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

// end gives the place back for good. It reports false if the request was answered before.
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

// abandon notes that the request is answered without the evaluation. It reports false if that has ended.
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

// Leave gives the place to others, unless too many have done so.
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

// Return waits for a place again, also past the deadline: what the evaluation does then takes a processor, too.
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
