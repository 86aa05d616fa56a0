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

// An InFlight bounds the memory of requests in progress, by the bytes of their bodies; for longer bodies also the
// memory of their decoded form, which is several times as large. Handlers that share an InFlight share the bound.
// Further requests wait until their deadline.
//
// A body counts before it is read, with its announced length, or as 64 KiB while the length is unknown. Short bodies,
// of up to 64 KiB, and longer ones have separate bounds. A client has two seconds to send a short body and five for a
// long one, but only a quarter of a second, or a second, if it had to wait: in a queue, slow clients must not delay the
// others.
type InFlight struct {
	short, long *semaphore.Weighted // of bodies; a request holds its share of one while it waits for the next
	made        *semaphore.Weighted // of their decoded forms
	bytes       atomic.Int64
}

// Bytes returns the bytes in flight.
func (f *InFlight) Bytes() int64 {
	if f == nil {
		return 0
	}
	return f.bytes.Load()
}

const (
	shortBody     = 64 << 10
	shortBodyTime = 2 * time.Second
	longBodyTime  = 5 * time.Second
	crowdedShort  = 250 * time.Millisecond // for those that had to wait
	crowdedLong   = time.Second
	longestWait   = 10 * time.Second // without a deadline of the server
)

// NewInFlight returns a bound of limit bytes each for short bodies, longer ones, and their decoded forms, but at least
// the longest accepted body.
func NewInFlight(limit int64) *InFlight {
	limit = max(limit, maxBody)
	return &InFlight{short: semaphore.NewWeighted(limit), long: semaphore.NewWeighted(limit),
		made: semaphore.NewWeighted(limit)}
}

// read reads a body, whose length is -1 if it is not announced, and counts it until its share is released. A nil
// InFlight does not count.
func (f *InFlight) read(ctx context.Context, w http.ResponseWriter, body io.Reader,
	length int64) (text string, part *share, err error) {
	announced := length >= 0
	length = min(length, maxBody) // a longer body is an error once that much was read
	if !announced {
		length = shortBody
	}
	conn := http.NewResponseController(w)
	if part, err = f.share(ctx, conn, length); err != nil {
		return "", nil, err
	}
	defer func() {
		switch {
		case err != nil: // the deadline stays, for the rest of the body that the server reads
			part.keep(0)
		case f != nil:
			_ = conn.SetReadDeadline(time.Time{}) // otherwise the deadline would end the request, too
		}
	}()
	var b strings.Builder
	b.Grow(int(length))
	if announced {
		err = fill(&b, body)
		return b.String(), part, err
	}
	if err = fill(&b, io.LimitReader(body, shortBody+1)); err != nil {
		return "", part, err
	}
	if b.Len() > shortBody {
		var long *share
		if long, err = f.share(ctx, conn, maxBody); err != nil {
			return "", part, err
		}
		part.keep(0)
		part = long
		if err = fill(&b, body); err != nil {
			return "", part, err
		}
	}
	part.keep(int64(b.Len()))
	return b.String(), part, nil
}

var chunks = sync.Pool{New: func() any { return new([8 << 10]byte) }}

// fill reads to the end.
func fill(b *strings.Builder, from io.Reader) error {
	chunk := chunks.Get().(*[8 << 10]byte)
	defer chunks.Put(chunk)
	_, err := io.CopyBuffer(b, from, chunk[:])
	return err
}

// A share is the part of the bound that a request holds.
type share struct {
	of   *InFlight
	lane *semaphore.Weighted
	n    int64
}

// keep releases all but n bytes.
func (s *share) keep(n int64) {
	if s.of == nil {
		return
	}
	s.of.bytes.Add(n - s.n)
	s.lane.Release(s.n - n)
	s.n = n
}

// share waits until n bytes are free, and sets the client's deadline for sending them, at most that of the request.
func (f *InFlight) share(ctx context.Context, conn *http.ResponseController, n int64) (*share, error) {
	if f == nil {
		return &share{}, nil
	}
	lane, patience, crowded := f.short, shortBodyTime, crowdedShort
	if n > shortBody {
		lane, patience, crowded = f.long, longBodyTime, crowdedLong
	}
	if !lane.TryAcquire(n) {
		if err := acquire(ctx, lane, n); err != nil {
			return nil, err
		}
		patience = crowded
	}
	f.bytes.Add(n)
	until := time.Now().Add(patience)
	if end, ok := ctx.Deadline(); ok && end.Before(until) {
		until = end
	}
	_ = conn.SetReadDeadline(until) // if the connection supports it
	return &share{f, lane, n}, nil
}

// acquire waits for bytes until the deadline.
func acquire(ctx context.Context, of *semaphore.Weighted, n int64) error {
	ctx, cancel := context.WithTimeout(ctx, longestWait)
	defer cancel()
	if err := of.Acquire(ctx, n); err != nil {
		return refuse(http.StatusServiceUnavailable, "too many bytes in flight")
	}
	return nil
}
