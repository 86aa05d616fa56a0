package webhook

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// An InFlight bounds the memory of requests that are being answered, by the bytes of their bodies: the trees that are
// made of a body are several times as large. Handlers that share one share the bound. Requests beyond it wait, until
// their deadline.
//
// Bodies of up to 64 KiB, which most are, and longer ones do not wait for each other. Nor does anybody wait for
// a sender: a short body counts from when it is there, and a long one, which counts from when it is announced, must
// come within five seconds.
type InFlight struct {
	short, long *semaphore.Weighted
	bytes       atomic.Int64
}

// Bytes returns how many there are.
func (f *InFlight) Bytes() int64 {
	if f == nil {
		return 0
	}
	return f.bytes.Load()
}

const (
	shortBody    = 64 << 10
	longBodyTime = 5 * time.Second
	longestWait  = 10 * time.Second // without a deadline of the server
)

// NewInFlight returns a bound of some bytes for short bodies, and as many for longer ones: at least the longest body
// that is taken.
func NewInFlight(limit int64) *InFlight {
	limit = max(limit, maxBody)
	return &InFlight{short: semaphore.NewWeighted(limit), long: semaphore.NewWeighted(limit)}
}

// read reads a body, whose length is -1 if it is not announced, and counts it until done is called. A nil InFlight does
// not count.
func (f *InFlight) read(ctx context.Context, w http.ResponseWriter, body io.Reader, length int64) (text string,
	done func(), err error) {
	if length < 0 || length > maxBody {
		length = maxBody // a longer one is an error, once that much has come
	}
	var b strings.Builder
	b.Grow(int(min(length, shortBody)))
	if err := fill(&b, io.LimitReader(body, shortBody+1)); err != nil {
		return "", nil, err
	}
	if b.Len() <= shortBody {
		done, err = f.acquire(ctx, int64(b.Len()))
		return b.String(), done, err
	}
	if done, err = f.acquire(ctx, length); err != nil {
		return "", nil, err
	}
	if f != nil { // a writer that can set no deadline, as in tests, has none
		conn := http.NewResponseController(w)
		_ = conn.SetReadDeadline(time.Now().Add(longBodyTime))
		defer func() { _ = conn.SetReadDeadline(time.Time{}) }() // otherwise it would end the request, too
	}
	if err := fill(&b, body); err != nil {
		done()
		return "", nil, err
	}
	return b.String(), done, nil
}

var chunks = sync.Pool{New: func() any { return new([8 << 10]byte) }}

// fill reads to the end.
func fill(b *strings.Builder, from io.Reader) error {
	chunk := chunks.Get().(*[8 << 10]byte)
	defer chunks.Put(chunk)
	_, err := io.CopyBuffer(b, from, chunk[:])
	return err
}

// acquire blocks until n bytes fit, and returns a function that releases them.
func (f *InFlight) acquire(ctx context.Context, n int64) (func(), error) {
	if f == nil {
		return func() {}, nil
	}
	lane := f.short
	if n > shortBody {
		lane = f.long
	}
	if !lane.TryAcquire(n) {
		ctx, cancel := context.WithTimeout(ctx, longestWait)
		defer cancel()
		if err := lane.Acquire(ctx, n); err != nil {
			return nil, refuse(http.StatusServiceUnavailable, "too many bytes in flight")
		}
	}
	f.bytes.Add(n)
	return func() {
		f.bytes.Add(-n)
		lane.Release(n)
	}, nil
}
