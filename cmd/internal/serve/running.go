package serve

import (
	"bufio"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/policy"
)

// running are the requests that are being answered.
type running struct {
	mu    sync.Mutex
	since map[*http.Request]time.Time
}

// count keeps a request in mind as long as it is being answered.
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

// A trackedResponse is that of a request which is kept in mind until its connection is taken from its handler: then it
// is being answered, and what the handler goes on with is an abandoned evaluation.
type trackedResponse struct {
	http.ResponseWriter
	by      *running
	request *http.Request
}

// Hijack is that of http.Hijacker.
func (c *trackedResponse) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c.by.forget(c.request)
	return http.NewResponseController(c.ResponseWriter).Hijack()
}

// Unwrap is for http.ResponseController.
func (c *trackedResponse) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// summarize returns how many there are, and how long the longest has taken until now.
func (r *running) summarize() (n int, longest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, since := range r.since {
		longest = max(longest, time.Since(since))
	}
	return len(r.since), longest
}

// slowTime is how long the slowest evaluation is remembered, and up to as long again.
const slowTime = 5 * time.Minute

// slowest remembers the evaluation that took longest of late.
type slowest struct {
	mu       sync.Mutex
	from     time.Time // of the present time
	now, was celgate.Timing
}

func (s *slowest) add(all []celgate.Timing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn()
	for _, t := range all {
		if t.Elapsed > s.now.Elapsed {
			s.now = t
		}
	}
}

func (s *slowest) turn() {
	switch since := time.Since(s.from); {
	case since > 2*slowTime:
		s.now, s.was, s.from = celgate.Timing{}, celgate.Timing{}, time.Now()
	case since > slowTime:
		s.now, s.was, s.from = celgate.Timing{}, s.now, time.Now()
	}
}

func (s *slowest) get() (kind policy.Kind, name string, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn()
	t := s.now
	if s.was.Elapsed > t.Elapsed {
		t = s.was
	}
	return t.Kind, t.Policy, t.Elapsed
}
