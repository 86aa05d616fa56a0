package webhook

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/bound"
)

// A decider decides a request.
type decider func(context.Context) (*celgate.Decision, error)

// decideInTime decides and releases the place. If the deadline comes first, the request is answered without a decision.
//
// The evaluation runs on the goroutine of the request, and the deadline takes over the connection: switching to another
// goroutine would add a twentieth to the time of each request. A connection that cannot be taken over, as with HTTP/2,
// is answered by this goroutine, and the evaluation runs on another one.
func (a *answer) decideInTime(ctx context.Context, p *place, decide decider) error {
	connection := findHijacker(a.w)
	if connection == nil {
		return a.decideElsewhere(ctx, p, decide)
	}
	stop := context.AfterFunc(ctx, func() { a.answerLate(ctx, p, connection) })
	defer stop()
	d, err, first := a.evaluateIn(ctx, p, decide)
	if !first {
		a.late.Lock() // until a late answer was sent
		defer a.late.Unlock()
	}
	a.Decision = d
	return err
}

// decideElsewhere decides on another goroutine, and waits for it until the deadline.
func (a *answer) decideElsewhere(ctx context.Context, p *place, decide decider) error {
	type evaluated struct {
		decision *celgate.Decision
		err      error
	}
	result := make(chan evaluated, 1)
	go func() {
		d, err, _ := a.evaluateIn(ctx, p, decide)
		result <- evaluated{d, err}
	}()
	select {
	case r := <-result:
		a.Decision = r.decision
		return r.err
	case <-ctx.Done():
		p.abandon()
		return ctx.Err()
	}
}

// evaluateIn decides and releases the place. It returns false if the request was abandoned before.
func (a *answer) evaluateIn(ctx context.Context, p *place, decide decider) (d *celgate.Decision, err error,
	first bool) {
	defer func() {
		if v := recover(); v != nil {
			d, err = nil, a.logPanic(ctx, v)
		}
		first = p.end()
	}()
	d, err = decide(bound.WithPlace(ctx, p))
	return d, err, false
}

// findHijacker returns the writer that can hand over the connection of a response; nil: none.
func findHijacker(w http.ResponseWriter) http.Hijacker {
	for {
		switch of := w.(type) {
		case http.Hijacker:
			return of
		case interface{ Unwrap() http.ResponseWriter }:
			w = of.Unwrap()
		default:
			return nil
		}
	}
}

// answerLate answers a request whose evaluation continues, over its connection, which it closes.
func (a *answer) answerLate(ctx context.Context, p *place, connection http.Hijacker) {
	a.late.Lock()
	defer a.late.Unlock()
	if !p.abandon() {
		return // the evaluation has just ended
	}
	conn, _, err := connection.Hijack()
	if err != nil {
		return // the answer will be that of the evaluation
	}
	defer conn.Close()
	a.answered = true
	a.release()
	// The evaluation still uses the answer a.
	other := &answer{Handler: a.Handler, Observation: a.Observation, start: a.start, text: a.text}
	last := &lastResponse{code: http.StatusOK, header: http.Header{}}
	other.sendLate(ctx, last)
	_ = conn.SetWriteDeadline(time.Now().Add(longestReturn))
	_ = last.form().Write(conn) // the client may be gone
}

// sendLate sends an answer without a decision.
func (a *answer) sendLate(ctx context.Context, w http.ResponseWriter) {
	defer func() {
		if v := recover(); v != nil {
			http.Error(w, a.logPanic(ctx, v).Error(), http.StatusInternalServerError)
		}
	}()
	body, err := a.settle(ctx, a.judgeOwn(ctx.Err()))
	a.send(ctx, w, body, err)
}

// A lastResponse is the last response over its connection.
type lastResponse struct {
	code   int
	header http.Header
	body   bytes.Buffer
}

func (l *lastResponse) Header() http.Header            { return l.header }
func (l *lastResponse) WriteHeader(code int)           { l.code = code }
func (l *lastResponse) Write(body []byte) (int, error) { return l.body.Write(body) }

// form returns the response in the form in which it is written to the connection.
func (l *lastResponse) form() *http.Response {
	return &http.Response{
		StatusCode: l.code, ProtoMajor: 1, ProtoMinor: 1, Header: l.header, Close: true,
		ContentLength: int64(l.body.Len()), Body: io.NopCloser(&l.body),
	}
}
