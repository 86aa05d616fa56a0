package serve

import (
	"bufio"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/celgate/celgate"
)

// running are the requests in progress.
type running struct {
	mu    sync.Mutex
	since map[*http.Request]time.Time
}

// count tracks a request until it is answered.
func (r *running) count(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		r.mu.Lock()
		if r.since == nil {
			r.since = map[*http.Request]time.Time{}
		}
		r.since[request] = time.Now()
		r.mu.Unlock()
		defer r.forget(request)
		next.ServeHTTP(&trackedResponse{w, r, request}, request)
	})
}

func (r *running) forget(request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.since, request)
}

// A trackedResponse belongs to a tracked request until the connection is taken over from the handler. From then on the
// request counts as answered, and the rest of the handler's work is an abandoned evaluation.
type trackedResponse struct {
	http.ResponseWriter
	by      *running
	request *http.Request
}

// Hijack implements http.Hijacker.
func (c *trackedResponse) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c.by.forget(c.request)
	return http.NewResponseController(c.ResponseWriter).Hijack()
}

// Unwrap is for http.ResponseController.
func (c *trackedResponse) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// summarize returns the number of requests and the age of the oldest.
func (r *running) summarize() (n int, longest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, since := range r.since {
		longest = max(longest, time.Since(since))
	}
	return len(r.since), longest
}

// peakTime is the least time for which a peak is remembered; the most is twice as long.
const peakTime = 5 * time.Minute

// A peak remembers the recent invocation with the highest value of something.
type peak struct {
	of func(*celgate.Timing) int64

	mu       sync.Mutex
	from     time.Time // start of the present period
	now, was celgate.Timing
}

func (p *peak) add(all []celgate.Timing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn()
	for i := range all {
		if p.of(&all[i]) > p.of(&p.now) {
			p.now = all[i]
		}
	}
}

func (p *peak) turn() {
	switch since := time.Since(p.from); {
	case since > 2*peakTime:
		p.now, p.was, p.from = celgate.Timing{}, celgate.Timing{}, time.Now()
	case since > peakTime:
		p.now, p.was, p.from = celgate.Timing{}, p.now, time.Now()
	}
}

// get returns the invocation; zero: none.
func (p *peak) get() celgate.Timing {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn()
	if p.of(&p.was) > p.of(&p.now) {
		return p.was
	}
	return p.now
}
