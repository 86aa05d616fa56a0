// Package webhook answers the admission webhooks of kube-apiserver with an engine.
//
// A [Handler] is a plain http.Handler for any mux: POST /mutate and POST /validate take an AdmissionReview of
// admission.k8s.io/v1 and answer it (review.go), with a minimal JSON Patch (patch.go) and audit annotations
// (annotate.go). [Configurations] computes the webhook configurations that make the server call it for exactly the
// requests that policies match (configurations.go).
//
// A denial is an answer. Anything else is an HTTP error, which the failurePolicy of the webhook handles: 503 without an
// engine, 504 past the deadline, 500 after a panic, 400, 405, 408, 413 and 415 for a malformed request.
package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/policy"
)

// A Phase is one of the two phases of admission.
type Phase string

// Phases.
const (
	Mutating   Phase = "mutate"
	Validating Phase = "validate"
)

// A Handler answers AdmissionReviews at /mutate and /validate.
type Handler struct {
	// Engine returns the current engine; nil while there is none. It is called once for each request, so that one set
	// of policies answers a request.
	Engine func() *celgate.Engine

	// Shadow makes every answer "allowed", without a patch and warnings. Decisions are only observed and logged.
	// Objects of celgate's own kinds are still checked.
	Shadow bool

	// Log receives a line for each denial and failure, and at level Debug for each change; nil: no log.
	Log *slog.Logger

	// InFlight bounds the memory of requests in progress; nil: unbounded.
	InFlight *InFlight

	// Seal returns the seal for policies and bindings of celgate's own kinds whose author may read their params; nil,
	// or nil returned: objects are not sealed.
	Seal func() *Seal

	// Named returns the policies that the name in a binding of celgate's own kinds may refer to; nil: those of the
	// engine.
	Named func(context.Context, *policy.Binding) ([]*policy.Policy, error)

	// Bindings returns the bindings in force, for limits on the bindings of a policy; nil: not limited.
	Bindings func() []*policy.Binding

	// AllowSecretParams lets policies of celgate's own kinds have Secrets as params.
	AllowSecretParams bool

	// Again limits the runs of a policy to the number on the server; nil: not limited.
	Again *Again

	// Evaluations bounds concurrent evaluations; nil: unbounded. Requests are answered by their deadline either way.
	Evaluations *Evaluations

	// Beside sends reviews to another webhook, too; may be nil.
	Beside *Beside

	// Observe receives every answer before it is sent; may be nil.
	Observe func(Observation)
}

// An Observation is one answer.
type Observation struct {
	Phase    Phase
	Code     int // of HTTP
	Elapsed  time.Duration
	Request  *celgate.Request  // nil if the body is not a review
	Decision *celgate.Decision // nil if there is none
	Shadow   bool              // the decision was not the answer
}

// A Disagreement is an effect that a policy would have had beyond those of the API server's own admission.
type Disagreement struct {
	Policy string
	Would  string // "deny", "change", or "fail" for an error that failurePolicy Fail turns into a denial
}

// Disagreements returns those of a decision in a shadow: each change and each denying violation. If the server enforces
// the same policies, it has denied and changed already, and there are none.
func (o *Observation) Disagreements() []Disagreement {
	if !o.Shadow || o.Decision == nil {
		return nil
	}
	var all []Disagreement
	for _, c := range o.Decision.Changes {
		all = append(all, Disagreement{c.Policy, "change"})
	}
	for _, v := range o.Decision.Violations {
		switch {
		case !slices.Contains(v.Actions, policy.Deny):
		case v.IsError:
			all = append(all, Disagreement{v.Policy, "fail"})
		default:
			all = append(all, Disagreement{v.Policy, "deny"})
		}
	}
	return all
}

// maxBody is the longest accepted body. kube-apiserver accepts request bodies of up to 3 MiB (MaxRequestBodyBytes in
// k8s.io/apiserver/pkg/server/config.go v0.37.2), and etcd holds objects of up to 1.5 MiB (DefaultMaxRequestBytes in
// server/embed/config.go v3.7.0). A review carries an object and an old one. Both may arrive at the server as protobuf,
// which is smaller than the JSON in a review, seldom by more than half: 2 × 3 MiB + 1.5 MiB, and half a MiB for user
// and options.
const maxBody = 8 << 20

const jsonType = "application/json"

// ServeHTTP answers one review.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	phase := Phase(strings.TrimPrefix(r.URL.Path, "/"))
	if phase != Mutating && phase != Validating {
		http.NotFound(w, r)
		return
	}
	a := &answer{Handler: h, Observation: Observation{Phase: phase, Code: http.StatusOK}, start: time.Now(), w: w}
	body, err := a.respond(w, r)
	if !a.answered {
		a.send(r.Context(), w, body, err)
	}
	if a.buffer != nil && a.buffer.Cap() <= longestKept {
		a.buffer.Reset()
		buffers.Put(a.buffer)
	}
}

// buffers are of answers.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

const longestKept = 64 << 10

// send sends the body of a review, or the error in its place.
func (a *answer) send(ctx context.Context, w http.ResponseWriter, body []byte, err error) {
	a.Elapsed = time.Since(a.start)
	if err != nil {
		a.Code = http.StatusInternalServerError
		var failure *httpError
		if errors.As(err, &failure) {
			a.Code = failure.code
		}
		a.log(ctx, slog.LevelError, "request not answered", "code", a.Code, "error", a.logText(ctx, err))
	}
	if a.Observe != nil {
		a.Observe(a.Observation)
	}
	if err != nil {
		if a.Code == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "1")
		}
		http.Error(w, shorten(err.Error()), a.Code)
		return
	}
	w.Header().Set("Content-Type", jsonType)
	_, _ = w.Write(body) // the client may be gone
}

// An httpError is the response to a request that is not answered by a review.
type httpError struct {
	code int
	err  error

	// the text for logs, if the error quotes the body
	without string
}

func (e *httpError) Error() string { return e.err.Error() }
func (e *httpError) Unwrap() error { return e.err }

func refuse(code int, format string, args ...any) error {
	return &httpError{code: code, err: fmt.Errorf(format, args...)}
}

// refuseBody is for errors that quote a body.
func refuseBody(without string, err error) error {
	return &httpError{code: http.StatusBadRequest, err: err, without: without}
}

// logText returns the text of an error for the log; errors that quote the body only at level Debug.
func (a *answer) logText(ctx context.Context, err error) string {
	var failure *httpError
	if errors.As(err, &failure) && failure.without != "" && a.Log != nil && !a.Log.Enabled(ctx, slog.LevelDebug) {
		return failure.without
	}
	return shorten(err.Error())
}

// longestQuote is the longest part of a client's text that is logged or answered.
const longestQuote = 200

// shorten returns a text, or its beginning.
func shorten(text string) string {
	if len(text) <= longestQuote {
		return text
	}
	return strings.ToValidUTF8(text[:longestQuote], "") + "…"
}

// An answer is the state of one request.
type answer struct {
	*Handler
	Observation

	start time.Time
	w     http.ResponseWriter
	text  string // of the body

	buffer *bytes.Buffer // of the answer; nil: none yet

	// Shares of the bounds, for release.
	part   *share
	unload func()

	late     sync.Mutex // held while answering at the deadline (late.go)
	answered bool       // at the deadline
}

// release returns the shares of the bounds.
func (a *answer) release() {
	if a.unload != nil {
		a.unload()
		a.unload = nil
	}
	if a.part != nil {
		a.part.keep(0)
		a.part = nil
	}
}

// logPanic logs a panic and returns the error for the client.
func (a *answer) logPanic(ctx context.Context, v any) error {
	a.log(ctx, slog.LevelError, "panic", "value", shorten(fmt.Sprint(v)), "stack", string(debug.Stack()))
	return errors.New("internal error")
}

func (a *answer) respond(w http.ResponseWriter, r *http.Request) (body []byte, err error) {
	defer a.release()
	defer func() {
		if v := recover(); v != nil {
			if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(v)
			}
			body, err = nil, a.logPanic(r.Context(), v)
		}
	}()
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, refuse(http.StatusMethodNotAllowed, "method %s is not allowed", shorten(r.Method))
	}
	if given := r.Header.Get("Content-Type"); given != jsonType {
		if media, _, err := mime.ParseMediaType(given); err != nil || media != jsonType {
			return nil, refuse(http.StatusUnsupportedMediaType, "content type %q is not %s", shorten(given), jsonType)
		}
	}
	engine := a.Engine()
	if engine == nil {
		return nil, refuse(http.StatusServiceUnavailable, "policies are not loaded yet")
	}
	ctx, cancel, err := withDeadline(r)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "%w", err)
	}
	defer cancel()
	a.text, a.part, err = a.InFlight.read(ctx, w, http.MaxBytesReader(w, r.Body, maxBody), r.ContentLength)
	var tooLong *http.MaxBytesError
	var refused *httpError
	switch {
	case errors.As(err, &refused):
		return nil, err
	case errors.As(err, &tooLong):
		return nil, refuse(http.StatusRequestEntityTooLarge, "the body is longer than %d bytes", tooLong.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded) && isOver(ctx):
		return nil, refuse(http.StatusGatewayTimeout, "not answered in time: the body was not received before")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, refuse(http.StatusRequestTimeout, "the body was not received in time")
	case err != nil:
		return nil, refuse(http.StatusBadRequest, "read the body: %w", err)
	}
	weight, unload, err := a.InFlight.weigh(ctx, a.text)
	if err != nil {
		return nil, err
	}
	a.unload = unload
	err = a.decide(ctx, engine, weight)
	if a.answered {
		return nil, nil
	}
	return a.settle(ctx, err)
}

// settle turns the decision into the body of an answer; for an error past the deadline it returns that of the deadline.
func (a *answer) settle(ctx context.Context, err error) ([]byte, error) {
	var refused *httpError
	switch {
	case err == nil:
	case ctx.Err() != nil && !errors.As(err, &refused):
		return nil, refuse(http.StatusGatewayTimeout, "not answered in time: %w", err)
	default:
		return nil, err
	}
	a.Observation.Shadow = a.Handler.Shadow && a.Request.Resource.Group != policy.OwnGroup
	a.say(ctx)
	if a.Request.Resource.Group != policy.OwnGroup {
		a.Beside.ask(a.Phase, a.text, a.Request, a.Decision)
	}
	if a.Observation.Shadow {
		return a.marshal(review{APIVersion: reviewVersion, Kind: reviewKind,
			Response: &response{UID: a.Request.UID, Allowed: true}})
	}
	return a.review()
}

// isOver reports whether the deadline of a context has passed, even if the context has not noticed yet.
func isOver(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ok && !time.Now().Before(end)
}

// longestTimeout is the longest timeout that the API server allows for a webhook.
const longestTimeout = 30 * time.Second

// longestReturn is the time reserved for sending the answer.
const longestReturn = 500 * time.Millisecond

// withDeadline ends the context shortly before the server's timeout, so that an answer at the deadline still arrives.
// The server sends its timeout in the parameter timeout.
func withDeadline(r *http.Request) (context.Context, context.CancelFunc, error) {
	timeout := longestTimeout
	if text := r.URL.Query().Get("timeout"); text != "" {
		var err error
		if timeout, err = time.ParseDuration(text); err != nil || timeout <= 0 {
			return nil, nil, fmt.Errorf("timeout %q is not a duration", shorten(text))
		}
		timeout = min(timeout, longestTimeout)
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout-min(timeout/10, longestReturn))
	return ctx, cancel, nil
}

// decide decodes the request and evaluates it, both in a place of its lane, because a decoded body takes several times
// its size. Policies are not evaluated for celgate's own kinds, so that a policy cannot prevent its own removal.
//
// Once the evaluation has begun, the request is answered at its deadline in any case.
func (a *answer) decide(ctx context.Context, engine *celgate.Engine, weight int64) (err error) {
	bound := a.bound()
	lane := bound.reviews
	own := readHeading(a.text)
	if own != nil {
		a.Request, lane = own, bound.own
		if own.Operation == celgate.Delete { // independent of other checks
			a.Decision = &celgate.Decision{Allowed: true}
			return nil
		}
	}
	defer func() { err = a.judgeOwn(err) }()
	p, err := bound.begin(ctx, lane, weight)
	if err != nil {
		return err
	}
	begun := false
	defer func() {
		if !begun {
			p.end()
		}
	}()
	if a.Request, err = decode(a.text); err != nil {
		return refuseBody("the body is not an AdmissionReview that can be answered", err)
	}
	ask := a.evaluate
	switch {
	case a.Request.Resource.Group == policy.OwnGroup:
		ask = a.admitPolicy
	case own != nil:
		return refuse(http.StatusBadRequest, "the request has more than one resource")
	}
	begun = true
	return a.decideInTime(ctx, p, func(ctx context.Context) (*celgate.Decision, error) { return ask(ctx, engine) })
}

// judgeOwn denies objects of celgate's own kinds that cannot be checked in time. An error would not do: most of them
// are checked by a webhook with failurePolicy Ignore, and the object would be stored unchecked.
func (a *answer) judgeOwn(err error) error {
	if a.Request != nil && a.Request.Resource.Group == policy.OwnGroup &&
		(errors.Is(err, errTooMany) || errors.Is(err, context.DeadlineExceeded)) {
		a.Decision, err = &celgate.Decision{Status: notJudgedStatus(a.Request)}, nil
	}
	return err
}

// evaluate asks the engine.
func (a *answer) evaluate(ctx context.Context, engine *celgate.Engine) (*celgate.Decision, error) {
	request := celgate.AssumePrepared(a.Request)
	if a.Phase == Mutating {
		return a.Again.mutate(ctx, engine, request)
	}
	return engine.Validate(ctx, request)
}

// review writes the decision as an AdmissionReview.
func (a *answer) review() ([]byte, error) {
	d := a.Decision
	out := &response{
		UID: a.Request.UID, Allowed: d.Allowed, Status: d.Status, Warnings: d.WarningTexts(),
		AuditAnnotations: annotations(d),
	}
	if a.Phase == Mutating && d.Allowed && d.Mutated {
		if operations := diff(a.Request.Object, d.Object); len(operations) > 0 {
			var err error
			if out.Patch, err = a.marshal(operations); err != nil {
				return nil, err
			}
			out.PatchType = "JSONPatch"
		}
	}
	return a.marshal(review{APIVersion: reviewVersion, Kind: reviewKind, Response: out})
}

// marshal writes JSON into the buffer of the answer. The result is valid until the answer was sent.
func (a *answer) marshal(v any) ([]byte, error) {
	if a.buffer == nil {
		a.buffer = buffers.Get().(*bytes.Buffer)
	}
	return marshalTo(a.buffer, v)
}

// say logs changes, denials and failures. A denial has the level Info, because it is the purpose of policies. Changes,
// which may come with every request, have the level Debug; the server's audit log has them.
func (a *answer) say(ctx context.Context) {
	if a.Log == nil {
		return
	}
	changed := slog.LevelDebug
	if a.Observation.Shadow { // it is not in an audit log
		changed = slog.LevelInfo
	}
	for _, c := range a.Decision.Changes {
		if !a.Log.Enabled(ctx, changed) {
			break // not logged: too frequent
		}
		a.log(ctx, changed, "changed", "policy", c.Policy, "binding", c.Binding, "param", c.Param)
	}
	for _, v := range a.Decision.Violations {
		level := slog.LevelInfo
		if v.IsError {
			level = slog.LevelWarn
		}
		args := []any{"policy", v.Policy, "binding", v.Binding, "param", v.Param, "expression", v.Expr.Field, "actions",
			v.Actions, "error", v.IsError}
		a.log(ctx, level, "violation", a.secret(ctx, args, v.Message)...)
	}
	if !a.Decision.Allowed && len(a.Decision.Violations) == 0 { // an object of celgate's own kinds
		a.log(ctx, slog.LevelInfo, "denied", a.secret(ctx, nil, a.Decision.Status.Message)...)
	}
}

// secret adds the text of a message only at level Debug: it may hold values of params and objects, and readers of logs
// may not be permitted to read these.
func (a *answer) secret(ctx context.Context, args []any, message string) []any {
	if !a.Log.Enabled(ctx, slog.LevelDebug) {
		return args
	}
	return append(args, "message", message)
}

func (a *answer) log(ctx context.Context, level slog.Level, message string, args ...any) {
	if a.Log == nil || !a.Log.Enabled(ctx, level) {
		return
	}
	args = append(args, "phase", a.Phase)
	if a.Observation.Shadow {
		args = append(args, "shadow", true)
	}
	args = append(args, logAttributes(a.Request)...)
	a.Log.Log(ctx, level, message, args...)
}

// marshal writes JSON without the escapes for HTML.
func marshal(v any) ([]byte, error) { return marshalTo(new(bytes.Buffer), v) }

// marshalTo appends it to a buffer and returns it, a part of the buffer.
func marshalTo(b *bytes.Buffer, v any) ([]byte, error) {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	start := b.Len()
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes()[start:], []byte("\n")), nil
}

// logAttributes are the attributes of log lines that identify a request.
func logAttributes(r *celgate.Request) []any {
	if r == nil {
		return nil
	}
	return []any{
		"uid", shorten(r.UID), "operation", r.Operation, "resource", shorten(r.Resource.GroupResource().String()),
		"subresource", shorten(r.SubResource), "namespace", shorten(r.Namespace), "name", shorten(r.Name),
		"user", shorten(r.UserInfo.Username), "dryRun", r.DryRun,
	}
}
