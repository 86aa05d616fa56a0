// Package webhook answers the admission webhooks of kube-apiserver with an engine.
//
// A [Handler] is a plain http.Handler for any mux: POST /mutate and POST /validate take an AdmissionReview of
// admission.k8s.io/v1 and answer it (review.go), with a minimal JSON Patch (patch.go) and audit annotations
// (annotate.go). [Configurations] computes the webhook configurations that make the server ask about what policies
// match, and no more (configurations.go).
//
// A denial is an answer. Anything else is an HTTP error, which the failurePolicy of the webhook handles: 503
// without an engine, 504 past the deadline, 500 after a panic, 400, 405, 408, 413 and 415 for what is not a review.
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

// The phases.
const (
	Mutating   Phase = "mutate"
	Validating Phase = "validate"
)

// A Handler answers AdmissionReviews at /mutate and /validate.
type Handler struct {
	// Engine returns the engine to ask, nil as long as there is none. It is called once for each request, so that
	// a request is answered by one set of policies.
	Engine func() *celgate.Engine

	// Shadow makes every answer "allowed", with no patch and nothing said. What the policies would have done is
	// observed and logged. Objects of celgate's own kinds are checked all the same.
	Shadow bool

	// Log gets a line for each denial and failure, and with its level Debug for each change; nil: none.
	Log *slog.Logger

	// InFlight bounds the memory of requests that are being answered; nil: no bound.
	InFlight *InFlight

	// Seal returns what marks policies and bindings of celgate's own kinds whose author may read their params; nil, or
	// nil returned: nothing is marked.
	Seal func() *Seal

	// Named returns the policies that the name in a binding of celgate's own kinds may stand for; nil: what the engine
	// knows.
	Named func(context.Context, *policy.Binding) ([]*policy.Policy, error)

	// Bindings returns the bindings in force, which count where a policy may have only some; nil: nobody counts.
	Bindings func() []*policy.Binding

	// AllowSecretParams lets policies of celgate's own kinds have Secrets as params.
	AllowSecretParams bool

	// Again remembers what was made of objects, so that no policy runs more often than on the server; nil: nothing.
	Again *Again

	// Evaluations bounds what runs at once; nil: no bound. With it or not, requests are answered by their deadline.
	Evaluations *Evaluations

	// Beside asks another webhook, too; nil: none.
	Beside *Beside

	// Observe is told every answer; nil: nobody. It is called before the answer is sent.
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

// A Disagreement is what a policy would have done beyond what the API server's own admission had done before it asked.
type Disagreement struct {
	Policy string
	Would  string // "deny", "change", or "fail" for an error that failurePolicy Fail makes a denial
}

// Disagreements are those of a decision in a shadow: each change and each violation that denies. If the server acts on
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

// maxBody is the longest body that is read. kube-apiserver takes request bodies of up to 3 MiB
// (MaxRequestBodyBytes in k8s.io/apiserver/pkg/server/config.go v0.37.2), and etcd holds objects of up to 1.5 MiB
// (DefaultMaxRequestBytes in server/embed/config.go v3.7.0). A review carries an object and an old one. Both may come
// as protobuf, which is smaller than the JSON in a review, seldom by more than half: 2 × 3 MiB + 1.5 MiB, and half
// a MiB for user and options.
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
}

// send sends the body of a review, or the error in its place.
func (a *answer) send(ctx context.Context, w http.ResponseWriter, body []byte, err error) {
	a.Elapsed = time.Since(a.start)
	if err != nil {
		a.Code = http.StatusInternalServerError
		var failure *httpError
		if errors.As(err, &failure) {
			a.Code = failure.code
		}
		a.log(ctx, slog.LevelError, "no answer", "code", a.Code, "error", a.logText(ctx, err))
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
	_, _ = w.Write(body) // the other side may have gone
}

// An httpError is a request that gets no review back.
type httpError struct {
	code int
	err  error

	// without is what logs say instead, if the error quotes the body.
	without string
}

func (e *httpError) Error() string { return e.err.Error() }
func (e *httpError) Unwrap() error { return e.err }

func refuse(code int, format string, args ...any) error {
	return &httpError{code: code, err: fmt.Errorf(format, args...)}
}

// refuseBody is about a body that an error quotes.
func refuseBody(without string, err error) error {
	return &httpError{code: http.StatusBadRequest, err: err, without: without}
}

// logText is the text of an error for the log: what quotes a body only where all is logged.
func (a *answer) logText(ctx context.Context, err error) string {
	var failure *httpError
	if errors.As(err, &failure) && failure.without != "" && a.Log != nil && !a.Log.Enabled(ctx, slog.LevelDebug) {
		return failure.without
	}
	return shorten(err.Error())
}

// longestQuote is how much of a text that somebody has sent is logged or answered.
const longestQuote = 200

// shorten is a text, or its beginning.
func shorten(text string) string {
	if len(text) <= longestQuote {
		return text
	}
	return strings.ToValidUTF8(text[:longestQuote], "") + "…"
}

// An answer is one request on its way.
type answer struct {
	*Handler
	Observation

	start time.Time
	w     http.ResponseWriter
	text  string // of the body

	// What release gives back.
	part   *share
	unload func()

	late     sync.Mutex // held by what answers at the deadline (late.go)
	answered bool       // there
}

// release gives back what the body takes of the bounds.
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

// logPanic logs a panic and returns what the other side is told.
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
		return nil, refuse(http.StatusGatewayTimeout, "no answer in time: the body did not come before")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, refuse(http.StatusRequestTimeout, "the body did not come in time")
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

// settle makes the decision the body of an answer; of an error, that of the deadline if this has come.
func (a *answer) settle(ctx context.Context, err error) ([]byte, error) {
	var refused *httpError
	switch {
	case err == nil:
	case ctx.Err() != nil && !errors.As(err, &refused):
		return nil, refuse(http.StatusGatewayTimeout, "no answer in time: %w", err)
	default:
		return nil, err
	}
	a.Observation.Shadow = a.Handler.Shadow && a.Request.Resource.Group != policy.OwnGroup
	a.say(ctx)
	if a.Request.Resource.Group != policy.OwnGroup {
		a.Beside.ask(a.Phase, a.text, a.Request, a.Decision)
	}
	if a.Observation.Shadow {
		return marshal(review{APIVersion: reviewVersion, Kind: reviewKind,
			Response: &response{UID: a.Request.UID, Allowed: true}})
	}
	return a.review()
}

// isOver reports that the deadline of a context has come, also if the context has not noticed yet.
func isOver(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ok && !time.Now().Before(end)
}

// longestTimeout is the longest that the API server waits for a webhook.
const longestTimeout = 30 * time.Second

// longestReturn is how long an answer may be on its way.
const longestReturn = 500 * time.Millisecond

// withDeadline ends the context shortly before the server waits no longer, so that what is answered then still arrives.
// The server says how long it waits in the parameter timeout.
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

// decide reads the request and asks the engine, both in a place of its lane: what is made of a body takes several times
// as much memory. About celgate's own kinds no policy is asked, so that none can keep its author from changing it.
//
// Once the evaluation has begun, the request is answered at its deadline in any case.
func (a *answer) decide(ctx context.Context, engine *celgate.Engine, weight int64) (err error) {
	bound := a.bound()
	lane := bound.reviews
	own := readHeading(a.text)
	if own != nil {
		a.Request, lane = own, bound.own
		if own.Operation == celgate.Delete { // whatever else is being judged
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
		return refuseBody("the body is no AdmissionReview that can be answered", err)
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

// judgeOwn denies objects of celgate's own kinds that cannot be judged in time. An error would not do: of most of them
// the webhook that asks has the failurePolicy Ignore, and the object would be stored though nobody knows what it takes.
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
			if out.Patch, err = marshal(operations); err != nil {
				return nil, err
			}
			out.PatchType = "JSONPatch"
		}
	}
	return marshal(review{APIVersion: reviewVersion, Kind: reviewKind, Response: out})
}

// say logs what changed, denied or failed. A denial has the level Info: it is the job of policies. Changes, of which
// there may be some with every request, have the level Debug; they are in the audit log of the server.
func (a *answer) say(ctx context.Context) {
	if a.Log == nil {
		return
	}
	changed := slog.LevelDebug
	if a.Observation.Shadow { // no audit log has them
		changed = slog.LevelInfo
	}
	for _, c := range a.Decision.Changes {
		if !a.Log.Enabled(ctx, changed) {
			break // without a word, with every request
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

// secret adds the text of a message, which may hold values of params and objects, only where all is logged: who reads
// logs need not have the right to read those.
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

// marshal writes JSON as it is, without the escapes of HTML.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// logAttributes are the attributes of log lines by which a request is known.
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
