package serve

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// A tally counts the actions of a siege, by rows of a table.
type tally struct {
	mu    sync.Mutex
	order []string
	rows  map[string]*tallied
	late  []answered
}

type tallied struct {
	n      int64
	codes  map[int]int64
	latest time.Duration // answer, after the deadline
}

// An answered request came after its deadline.
type answered struct {
	row   string
	start time.Time
	by    time.Duration
}

func newTally() *tally { return &tally{rows: map[string]*tallied{}} }

func (y *tally) row(name string) *tallied {
	if y.rows[name] == nil {
		y.rows[name] = &tallied{codes: map[int]int64{}, latest: -time.Hour}
		y.order = append(y.order, name)
	}
	return y.rows[name]
}

// add counts an answer that came so long after its deadline, or before.
func (y *tally) add(name string, code int, start time.Time, by time.Duration) {
	y.mu.Lock()
	defer y.mu.Unlock()
	r := y.row(name)
	r.n++
	r.codes[code]++
	r.latest = max(r.latest, by)
	if by > lateness {
		y.late = append(y.late, answered{name, start, by})
	}
}

// note counts an action without an answer.
func (y *tally) note(name string, n int64) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.row(name).n = n
}

// countAnswers returns the number of answers.
func (y *tally) countAnswers() (n int64) {
	for _, r := range y.rows {
		for _, of := range r.codes {
			n += of
		}
	}
	return n
}

func (y *tally) table(timeout time.Duration) string {
	var b strings.Builder
	b.WriteString("| what | how often | answered 200 | 503 | 504 | longest answer |\n|---|---|---|---|---|---|\n")
	for _, name := range y.order {
		r := y.rows[name]
		if len(r.codes) == 0 {
			fmt.Fprintf(&b, "| %s | %d | | | | |\n", name, r.n)
			continue
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %s |\n", name, r.n, r.codes[200], r.codes[503], r.codes[504],
			(r.latest + timeout).Round(time.Millisecond))
	}
	return b.String()
}

// A control is a handler that only reads and answers, with the same requests as the besieged one: its times are those
// of the machine.
type control struct {
	server *httptest.Server
	mu     sync.Mutex
	asked  []asked
}

type asked struct {
	start time.Time
	took  time.Duration
}

func newControl(t *testing.T) *control {
	c := &control{server: httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the client is this process
		fmt.Fprintln(w, "ok")
	}))}
	t.Cleanup(c.server.Close)
	return c
}

func (c *control) ask(ctx context.Context) {
	body := strings.Repeat("a", 1_000_000)
	for ctx.Err() == nil {
		start := time.Now()
		if response, err := c.server.Client().Post(c.server.URL, "text/plain", strings.NewReader(body)); err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
		c.mu.Lock()
		c.asked = append(c.asked, asked{start, time.Since(start)})
		c.mu.Unlock()
		wait(ctx, 20*time.Millisecond)
	}
}

// slowest is the longest answer between two times.
func (c *control) slowest(from, to time.Time) (longest time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.asked {
		if a.start.Before(to) && a.start.Add(a.took).After(from) {
			longest = max(longest, a.took)
		}
	}
	return longest
}
