// Package bound keeps evaluations within memory and time.
//
// CEL counts the cost of a call after it has returned, and a call can make a text of terabytes from two short ones. So
// before a call that can produce large values, or that can take much longer than its cost suggests, its size is
// predicted (predict.go) and charged to the [Meter] of the evaluation. A charge beyond a limit is an error of the
// expression like any other.
package bound

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

// A Size is the memory and time that a call takes.
type Size struct {
	Bytes int64 // of the resulting values
	Spare int64 // additional bytes while it runs
	Steps int64 // of about ten nanoseconds each
}

func (s Size) exceeds(l Limits) bool {
	return s.Bytes > l.Bytes || s.Spare > l.Bytes-s.Bytes || s.Steps > l.Steps
}

// String describes a size: the memory, the time, or both, as far as they matter.
func (s Size) String() string {
	memory, duration := add(s.Bytes, s.Spare), s.duration()
	switch {
	case duration < 100*time.Millisecond:
		return "about " + bytesText(memory) + " of memory"
	case memory < 1<<20:
		return "about " + durationText(duration)
	}
	return "about " + durationText(duration) + " and " + bytesText(memory) + " of memory"
}

const step = 10 * time.Nanosecond

func (s Size) duration() time.Duration { return Time(s.Steps) }

// Time returns the approximate duration of a number of steps.
func Time(steps int64) time.Duration { return time.Duration(mul(steps, int64(step))) }

// Steps returns the number of steps with about this duration.
func Steps(t time.Duration) int64 { return int64(t / step) }

func durationText(d time.Duration) string {
	switch {
	case d >= 365*24*time.Hour:
		return "a year or more"
	case d >= time.Minute:
		return d.Round(time.Second).String()
	}
	return d.Round(10 * time.Millisecond).String()
}

func bytesText(n int64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e15, "PB"}, {1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}} {
		if f := float64(n); f >= unit.size {
			return fmt.Sprintf("%.3g %s", math.Round(f/unit.size*100)/100, unit.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

// Limits are the limits of one evaluation.
type Limits struct {
	Bytes int64
	Steps int64
}

var (
	// Served are the limits of a server, in which many evaluations share the memory.
	Served = Limits{Bytes: 32 << 20, Steps: 20_000_000}

	// Predicted are the limits for predictions of the API server's answers; the server itself does not have any.
	Predicted = Limits{Bytes: 1 << 30, Steps: 2_000_000_000}
)

// garbage is the number of bytes of garbage that cost one step to allocate and collect. A loop with garbage in every
// call makes gigabytes in a second; the collector, which shares the processors, cannot keep up with more.
const garbage = 10

// freeBytes is the memory of an evaluation that is not taken from the Pool.
const freeBytes = 256 << 10

// A Pool is the memory that evaluations share.
type Pool struct {
	Bytes int64 // in total
	taken atomic.Int64
}

// Usage returns the bytes in use.
func (p *Pool) Usage() int64 { return p.taken.Load() }

func (p *Pool) take(n int64) bool {
	if p.taken.Add(n) <= p.Bytes {
		return true
	}
	p.taken.Add(-n)
	return false
}

// A Meter adds up the charges of one evaluation: of all expressions of one invocation of a policy, and the memory of
// the object that the invocations before have changed. It is for one goroutine. The zero value has the limits Served
// for each single call.
type Meter struct {
	Limits Limits
	Pool   *Pool           // nil: none
	Done   <-chan struct{} // closed when the result is no longer needed; nil: never

	bytes, steps int64
	kept         int64 // of finished invocations
	pooled       int64 // bytes taken from the pool
	digits       int64 // of the longest quantity
	largest      Size  // the largest single charge beyond Served
	refused      bool
	stopped      error
}

// An Error is a charge beyond the limits.
type Error struct {
	Size   Size
	Limits Limits
	Shared bool // other evaluations use the shared memory
}

func (e *Error) Error() string {
	switch {
	case e.Shared:
		return "evaluation stopped: other evaluations use the memory that it needs"
	case e.Size.Steps > e.Limits.Steps:
		return fmt.Sprintf("evaluation stopped: it needs %s, more than the limit of %s",
			"about "+durationText(e.Size.duration()), durationText(Size{Steps: e.Limits.Steps}.duration()))
	}
	return fmt.Sprintf("evaluation stopped: it needs %s, more than the limit of %s",
		"about "+bytesText(add(e.Size.Bytes, e.Size.Spare))+" of memory", bytesText(e.Limits.Bytes))
}

func (m *Meter) limits() Limits {
	if m == nil || m.Limits == (Limits{}) {
		return Served
	}
	return m.Limits
}

// Charge adds a size in advance. On error it does not add anything.
func (m *Meter) Charge(s Size) error {
	if m == nil {
		m = &Meter{}
	}
	limits := m.limits()
	s.Steps = add(s.Steps, s.Spare/garbage)
	total := Size{Bytes: add(m.kept, add(m.bytes, s.Bytes)), Spare: s.Spare, Steps: add(m.steps, s.Steps)}
	if total.exceeds(Served) {
		m.largest.Bytes = max(m.largest.Bytes, add(total.Bytes, s.Spare))
		m.largest.Steps = max(m.largest.Steps, total.Steps)
	}
	if total.exceeds(limits) {
		m.refused = true
		m.stopped = &Error{Size: total, Limits: limits}
		return m.stopped
	}
	if m.Pool != nil && total.Bytes+total.Spare-freeBytes > m.pooled {
		more := total.Bytes + total.Spare - freeBytes - m.pooled
		if !m.Pool.take(more) {
			m.stopped = &Error{Size: total, Limits: limits, Shared: true}
			return m.stopped
		}
		m.pooled += more
	}
	m.bytes, m.steps = m.bytes+s.Bytes, m.steps+s.Steps
	return nil
}

// ChargeBytes charges memory alone.
func (m *Meter) ChargeBytes(n int) error { return m.Charge(Size{Bytes: int64(n)}) }

// Total returns the charges of this invocation.
func (m *Meter) Total() Size { return Size{Bytes: m.bytes, Steps: m.steps} }

// Start begins another expression.
func (m *Meter) Start() {
	if m != nil {
		m.stopped = nil
	}
}

// Err returns the reason why the expression, or a variable that it reads, was stopped; nil if it was not.
func (m *Meter) Err() error {
	if m == nil {
		return nil
	}
	return m.stopped
}

// A Mark is a state of a meter.
type Mark struct{ bytes, steps int64 }

// Mark returns the state, for Reset.
func (m *Meter) Mark() Mark {
	if m == nil {
		return Mark{}
	}
	return Mark{m.bytes, m.steps}
}

// Reset undoes the charges since the mark: the values are garbage, and are made again.
func (m *Meter) Reset(to Mark) {
	if m != nil {
		m.bytes, m.steps = to.bytes, to.steps
	}
}

// DoExempt calls do without counting its charges since from: its values are garbage.
func (m *Meter) DoExempt(from Mark, do func()) {
	if m == nil {
		do()
		return
	}
	saved := *m
	m.Reset(from)
	m.Start()
	do()
	saved.pooled = m.pooled
	*m = saved
}

// Begin starts another invocation: the values of the one before are garbage, and their memory returns to the pool.
func (m *Meter) Begin() {
	if m == nil {
		return
	}
	m.bytes, m.steps = 0, 0
	if over := m.pooled - max(0, m.kept-freeBytes); over > 0 {
		m.Pool.taken.Add(-over)
		m.pooled -= over
	}
}

// Keep keeps the charges of the invocation until the end, because the changed object holds its values.
func (m *Meter) Keep() {
	if m != nil {
		m.kept, m.bytes = add(m.kept, m.bytes), 0
	}
}

// End returns all memory to the pool.
func (m *Meter) End() {
	m.kept = 0
	m.Begin()
	*m = Meter{}
}

// Excess returns the size of the invocation, or of the refused charge, if it exceeds Served, and whether it was
// refused. It then forgets it.
func (m *Meter) Excess() (taken Size, refused bool) {
	taken, refused = m.largest, m.refused
	m.largest, m.refused = Size{}, false
	return taken, refused
}

func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func mul(a, b int64) int64 {
	if a > 0 && b > math.MaxInt64/a {
		return math.MaxInt64
	}
	return a * b
}
