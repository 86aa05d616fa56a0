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

// An InFlight bounds the memory of requests that are being answered, by the bytes of their bodies, and of what is
// made of the longer ones, which is several times as large. Handlers that share one share the bound. Requests beyond
// it wait, until their deadline.
//
// A body counts from before any of it is read, with the length that is announced, or as 64 KiB as long as that is not
// known. Bodies of up to 64 KiB, which most are, and longer ones do not wait for each other. A sender has two seconds
// for a short one and five for a long one, but only a quarter of a second, or a whole one, if they had to wait: where
// senders queue, slow ones must not keep the others from being answered.
type InFlight struct {
	short, long *semaphore.Weighted // of bodies; who has a share of one waits for the next
	made        *semaphore.Weighted // of what is made of them
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
	shortBody     = 64 << 10
	shortBodyTime = 2 * time.Second
	longBodyTime  = 5 * time.Second
	crowdedShort  = 250 * time.Millisecond // of those that had to wait
	crowdedLong   = time.Second
	longestWait   = 10 * time.Second // without a deadline of the server
)

// NewInFlight returns a bound of some bytes for short bodies, as many for longer ones, and as many for what is made of
// these: at least the longest body that is taken.
func NewInFlight(limit int64) *InFlight {
	limit = max(limit, maxBody)
	return &InFlight{short: semaphore.NewWeighted(limit), long: semaphore.NewWeighted(limit),
		made: semaphore.NewWeighted(limit)}
}

// read reads a body, whose length is -1 if it is not announced, and counts it until its share is given back. A nil
// InFlight does not count.
func (f *InFlight) read(ctx context.Context, w http.ResponseWriter, body io.Reader,
	length int64) (text string, part *share, err error) {
	announced := length >= 0
	length = min(length, maxBody) // a longer one is an error, once that much has come
	if !announced {
		length = shortBody
	}
	conn := http.NewResponseController(w)
	if part, err = f.share(ctx, conn, length); err != nil {
		return "", nil, err
	}
	defer func() {
		switch {
		case err != nil: // the deadline stays for the rest of the body, which the server reads
			part.keep(0)
		case f != nil:
			_ = conn.SetReadDeadline(time.Time{}) // otherwise it would end the request, too
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

// A share is what a request has of the bound.
type share struct {
	of   *InFlight
	lane *semaphore.Weighted
	n    int64
}

// keep gives back all but some bytes.
func (s *share) keep(n int64) {
	if s.of == nil {
		return
	}
	s.of.bytes.Add(n - s.n)
	s.lane.Release(s.n - n)
	s.n = n
}

// share waits until so many bytes may be in flight, and gives the sender the time that it has for them, which ends with
// the deadline of the request.
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
	_ = conn.SetReadDeadline(until) // where it can be set
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
