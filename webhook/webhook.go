// Package webhook answers the admission webhooks of kube-apiserver with an engine.
//
// A [Handler] is an http.Handler for any mux: POST /mutate and POST /validate take an AdmissionReview of
// admission.k8s.io/v1 and answer it. Configurations computes the webhook configurations, so that the server calls the
// webhook for exactly the requests that policies match.
//
// celgate-webhook is the program for clusters: it adds certificates, leader election, status, and permissions for
// params.
package webhook

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/webhook"
	"github.com/celgate/celgate/policy"
)

// A Handler answers AdmissionReviews at /mutate and /validate. It must not be copied or changed after its first
// request.
//
// A denial is an answer. Anything else is an HTTP error, which the failurePolicy of the webhook handles: 503 without an
// engine or under too much load, 504 past the deadline, 500 after a panic, 4xx for a body that is not a review. The
// number of concurrent bodies and evaluations is bounded.
type Handler struct {
	// Engine returns the current engine, nil as long as there is none: the method Load of an atomic.Pointer, for
	// example. It is called once for each request, so that a request is answered by one set of policies.
	Engine func() *celgate.Engine

	// Shadow makes every answer "allowed", without a patch. Decisions are only observed and logged.
	Shadow bool

	// Log receives a line for each denial and failure, and at level Debug for each change; nil: no log.
	Log *slog.Logger

	// Observe receives every answer before it is sent; nil: no observations.
	Observe func(Observation)

	once    sync.Once
	handler webhook.Handler
}

// An Observation is one answer.
type Observation struct {
	Phase    policy.Phase
	Code     int // of HTTP
	Elapsed  time.Duration
	Request  *celgate.Request  // nil if the body is not a review
	Decision *celgate.Decision // nil if there is none
	Shadow   bool              // the decision was not used as the answer
}

// maxInFlight bounds the bytes of all bodies that are being read.
const maxInFlight = 8 << 20

// ServeHTTP answers one review.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.once.Do(h.start)
	h.handler.ServeHTTP(w, r)
}

// start makes the handler on first use.
func (h *Handler) start() {
	h.handler = webhook.Handler{Engine: h.Engine, Shadow: h.Shadow, Log: h.Log, Again: &webhook.Again{},
		InFlight: webhook.NewInFlight(maxInFlight), Evaluations: webhook.NewEvaluations()}
	if h.Observe == nil {
		return
	}
	h.handler.Observe = func(o webhook.Observation) {
		phase := policy.PhaseValidation
		if o.Phase == webhook.Mutating {
			phase = policy.PhaseMutation
		}
		h.Observe(Observation{phase, o.Code, o.Elapsed, o.Request, o.Decision, o.Shadow})
	}
}

// A Target defines how the API server reaches a handler: by a URL or a Service.
type Target struct {
	Name      string // of both configurations; empty is "celgate"
	URL       string // https://host:port, or
	Service   string // a Service, with its namespace and port
	Namespace string // of the server, exempt from policies; empty: none
	Port      int64  // of the Service; 0 is 443
	CABundle  []byte // PEM; empty: the API server's own trust
}

// Configurations returns the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration that make the API
// server call the webhook for the requests that the policies of a set match: the rules of the policies that have
// bindings. Policies of failurePolicy Fail are served below /fail, the others below /ignore, so that each webhook has
// the failurePolicy of its policies, and each policy runs once: a handler below each has the engine of one part of
// [Split].
//
// The rules cover all bindings, with matchPolicy Equivalent if any policy has it. Selectors of policies are included if
// all policies of a webhook share them. Both configurations also cover celgate's own kinds.
func Configurations(set *policy.Set, t Target) (mutating, validating map[string]any) {
	return webhook.Configurations(set, webhook.Target{Name: t.Name, URL: t.URL, Service: t.Service,
		Namespace: t.Namespace, Port: t.Port, CABundle: t.CABundle})
}

// Split returns the policies of failurePolicy Fail and those of Ignore, each with the bindings of the set.
func Split(set *policy.Set) (fail, ignore *policy.Set) {
	return webhook.Split(set, policy.Fail), webhook.Split(set, policy.Ignore)
}
