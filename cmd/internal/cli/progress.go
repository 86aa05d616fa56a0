package cli

import (
	"fmt"
	"io"
	"time"
)

// A progress is a line on a terminal that says how far a long run is. A nil progress does nothing.
type progress struct {
	w     io.Writer
	total int
	now   func() time.Time

	start, drawn time.Time
	shown        bool
}

// newProgress returns the progress of a run over total objects, or nil if there is no terminal to show it on.
func newProgress(c *console, total int) *progress {
	if !isTerminal(c.stderr) {
		return nil
	}
	return &progress{w: c.stderr, total: total, now: time.Now, start: time.Now()}
}

// of sets how many objects there are.
func (p *progress) of(total int) {
	if p != nil {
		p.total = total
	}
}

// step draws the line when more than a second of work remains, ten times a second at most.
func (p *progress) step(done int) {
	if p == nil {
		return
	}
	now := p.now()
	elapsed := now.Sub(p.start)
	if elapsed < 200*time.Millisecond || now.Sub(p.drawn) < 100*time.Millisecond {
		return
	}
	remaining := time.Duration(float64(elapsed) / float64(max(done, 1)) * float64(p.total-done))
	if remaining < time.Second && !p.shown {
		return
	}
	p.drawn, p.shown = now, true
	fmt.Fprintf(p.w, "\r\x1b[K%d of %d objects, %s left", done, p.total, remaining.Round(time.Second))
}

// clear removes the line, so that something else can be written.
func (p *progress) clear() {
	if p == nil || !p.shown {
		return
	}
	p.shown = false
	fmt.Fprint(p.w, "\r\x1b[K")
}
