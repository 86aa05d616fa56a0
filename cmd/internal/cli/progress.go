package cli

import (
	"cmp"
	"fmt"
	"io"
	"time"
)

// A progress is a line on a terminal that shows the progress of a long run. A nil progress does nothing.
type progress struct {
	w      io.Writer
	things string // the counted things; empty: objects
	total  int    // 0: unknown
	now    func() time.Time

	start, drawn time.Time
	shown        bool
}

// newProgress returns the progress of a run over total objects, or nil without a terminal.
func newProgress(c *console, total int) *progress {
	if !isTerminal(c.stderr) {
		return nil
	}
	return &progress{w: c.stderr, total: total, now: time.Now, start: time.Now()}
}

// setTotal sets the expected number; 0: unknown.
func (p *progress) setTotal(total int) {
	if p != nil {
		p.total = total
	}
}

// counts sets the name of the counted things.
func (p *progress) counts(things string) {
	if p != nil {
		p.things = things
	}
}

// step redraws the line if more than a second of work remains, at most ten times a second.
func (p *progress) step(done int) {
	if p == nil {
		return
	}
	now := p.now()
	elapsed := now.Sub(p.start)
	if elapsed < 200*time.Millisecond || now.Sub(p.drawn) < 100*time.Millisecond {
		return
	}
	total := max(p.total, done)
	remaining := time.Duration(float64(elapsed) / float64(max(done, 1)) * float64(total-done))
	if !p.shown && remaining < time.Second && (p.total > 0 || elapsed < time.Second) {
		return
	}
	p.drawn, p.shown = now, true
	things := cmp.Or(p.things, "objects")
	if p.total == 0 {
		fmt.Fprintf(p.w, "\r\x1b[K%d %s", done, things)
		return
	}
	fmt.Fprintf(p.w, "\r\x1b[K%d of %d %s, %s left", done, total, things, remaining.Round(time.Second))
}

// clear removes the line before other output.
func (p *progress) clear() {
	if p == nil || !p.shown {
		return
	}
	p.shown = false
	fmt.Fprint(p.w, "\r\x1b[K")
}
