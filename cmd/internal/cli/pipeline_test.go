package cli

import (
	"bytes"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestOrdered(t *testing.T) {
	const n = 500
	in := slices.Values(slices.Repeat([]int{3, 1, 2}, n/3))
	want := slices.Collect(in)
	got := slices.Collect(mapInOrder(in, 4, func(i int) int {
		for range i {
			runtime.Gosched()
		}
		return i
	}))
	if !slices.Equal(got, want) {
		t.Errorf("out of order: %v", got)
	}
}

func TestOrderedStops(t *testing.T) {
	stopped := false // without a race: ordered returns when everything that it began has ended
	endless := func(yield func(int) bool) {
		for i := 0; yield(i); i++ {
		}
		stopped = true
	}
	for i := range mapInOrder(endless, 3, func(i int) int { return i }) {
		if i == 100 {
			break
		}
	}
	if !stopped {
		t.Error("still reading")
	}
}

// TestLogProgress estimates the number of requests in a log from the part that was read.
func TestLogProgress(t *testing.T) {
	var r replaying
	if n := r.total(); n != 0 {
		t.Errorf("%d requests in nothing", n)
	}
	r.size.Store(1000)
	in := counted{strings.NewReader(strings.Repeat("x", 250)), &r.read}
	if _, err := io.ReadAll(in); err != nil {
		t.Fatal(err)
	}
	r.seen.Store(10)
	if n := r.total(); n != 40 {
		t.Errorf("%d requests, not 40", n)
	}
}

func TestProgress(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(0, 0)
	p := &progress{w: &out, total: 1000, now: func() time.Time { return now }, start: now}
	step := func(after time.Duration, done int) string {
		out.Reset()
		now = p.start.Add(after)
		p.step(done)
		return out.String()
	}
	if s := step(100*time.Millisecond, 1); s != "" {
		t.Errorf("drawn at once: %q", s)
	}
	if s := step(300*time.Millisecond, 900); s != "" {
		t.Errorf("drawn though little remains: %q", s)
	}
	if s := step(time.Second, 100); !strings.Contains(s, "100 of 1000 objects, 9s left") {
		t.Errorf("got %q", s)
	}
	if s := step(1010*time.Millisecond, 101); s != "" {
		t.Errorf("drawn twice in a tenth of a second: %q", s)
	}
	out.Reset()
	p.clear()
	p.clear()
	if out.String() != "\r\x1b[K" {
		t.Errorf("cleared with %q", out.String())
	}
	p = &progress{w: &out, now: func() time.Time { return now }, start: now}
	p.counts("requests")
	if s := step(500*time.Millisecond, 5); s != "" {
		t.Errorf("drawn at once: %q", s)
	}
	if s := step(1200*time.Millisecond, 12); s != "\r\x1b[K12 requests" {
		t.Errorf("got %q", s)
	}
	p.setTotal(10) // an estimate, and more than that is done
	if s := step(2*time.Second, 20); s != "\r\x1b[K20 of 20 requests, 0s left" {
		t.Errorf("got %q", s)
	}
	var none *progress
	none.counts("requests")
	none.step(1)
	none.clear()
}
