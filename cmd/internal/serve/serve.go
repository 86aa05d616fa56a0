// Package serve runs the webhook as a program: it keeps an engine current with a directory of policies, a cluster, or
// both (loader.go), serves requests, health and readiness (this file), and writes celgate's own objects in the cluster
// (lead.go).
package serve

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/kube"
	"github.com/celgate/celgate/internal/webhook"
	"github.com/celgate/celgate/policy"
)

// Options configure a server.
type Options struct {
	PolicyDir   string       // a directory of policies; empty: those of the cluster alone
	StaticDir   string       // in place of PolicyDir: a directory of static policies, as an API server reads them
	Cluster     *kube.Client // nil: the state is the objects beside the policies
	AllowEmpty  bool         // the directory may be empty, or lose policies in a way that looks like a mistake
	KubeVersion string       // empty: the cluster's, or the newest

	Listen    string // address of the webhook
	Cert, Key string // files; empty: celgate keeps a certificate of its own in the Secret "celgate" of Target.Namespace
	CA        string // file with the authority that signed Cert; empty: the API server trusts it anyway
	// Lifetimes of the certificate that celgate keeps itself, and of its authority; 0: CertificateLife and
	// AuthorityLife.
	CertificateLife, AuthorityLife time.Duration

	Ops     string // address of metrics, health and readiness, without TLS; empty: not served
	Profile bool   // also pprof there

	// RuleMetrics adds metrics of single validations, mutations, match conditions and variables, with costs.
	RuleMetrics bool

	// Callers restricts the clients that may send reviews.
	Callers Callers

	// Manage makes celgate write the webhook configurations, which direct the API server to Target.
	Manage   bool
	Target   webhook.Target
	Identity string // of this replica

	// Elect calls lead while this replica is the leader; nil: it is the only replica.
	Elect func(ctx context.Context, r Replica, lead func(context.Context)) error

	// Sizes limit newly written policies, and RequestCost is the most that the policies of one call of the webhook may
	// cost together, in CEL cost units; 0: unlimited.
	Sizes       policy.Limits
	RequestCost int64

	// AllowSecretParams lets policies have Secrets as params.
	AllowSecretParams bool

	// Shadow makes celgate evaluate and never act; see webhook.Handler.
	Shadow bool

	// Beside is another webhook whose answers are compared; nil: none. Only without Manage.
	Beside *webhook.Beside

	// DrainDelay is the time between the end of readiness and the end of service, in which the Service stops sending
	// requests.
	DrainDelay time.Duration

	Log *slog.Logger // not nil
}

// A Replica is one of several candidates for the leader.
type Replica struct {
	Cluster   *kube.Client
	Namespace string // of celgate
	Identity  string
	Log       *slog.Logger
}

const (
	headerTimeout = 5 * time.Second
	bodyTimeout   = 30 * time.Second // the longest that the API server waits for a webhook
	drainTimeout  = 35 * time.Second // started requests are answered: a little more than bodyTimeout

	// idleTimeout is longer than the 90 s after which the API server itself closes a connection. Otherwise the API
	// server could send a request over a connection just as this side closes it, and the request would be lost.
	idleTimeout = 2 * time.Minute

	maxConnections = 512 // of API servers and other clients: some tens of kB each
	maxReaders     = 64  // connections for metrics and health
	maxHeader      = 8 << 10
	maxInFlight    = 8 << 20 // of bodies; evaluating one takes up to twenty times its size

	// maxEvaluated is the memory for the results of expressions, beyond the small share that each evaluation has.
	maxEvaluated = 64 << 20
)

// Run serves until the context ends, and then finishes the requests in progress. The error says why it could not start
// or continue.
func Run(ctx context.Context, o Options) error {
	return newLoader(o).serve(ctx)
}

func newLoader(o Options) *loader {
	limits := celgate.ServedLimits()
	limits.Cost = o.RequestCost
	limits.Share(maxEvaluated)
	return &loader{Options: o, evaluations: webhook.NewEvaluations(), limits: limits}
}

func (l *loader) serve(ctx context.Context) error {
	o := l.Options
	l.metrics = newMetrics(l)
	background, stop := context.WithCancel(context.WithoutCancel(ctx)) // requests need it while draining
	defer stop()
	collectLater(background)
	certificate, err := l.certificates(background)
	if err != nil {
		return err
	}
	if err := l.start(); err != nil {
		return err
	}
	l.inFlight = webhook.NewInFlight(maxInFlight)
	l.metrics.watch(l.evaluations, l.limits.SharedUsage)
	if o.Beside != nil {
		l.metrics.compare(o.Beside)
	}
	callers := &gatekeeper{Callers: o.Callers, log: o.Log}
	if err := callers.start(); err != nil {
		return err
	}

	var draining atomic.Bool
	ended := make(chan error, 2)
	if o.Ops != "" {
		ops, err := l.serveOps(&draining, ended)
		if err != nil {
			return err
		}
		defer ops.Close()
	}
	listener, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return err
	}
	reviews := l.reviews(callers)
	l.tellHealth(reviews, &draining)
	server := o.server(closeConnections(reviews, &draining))
	server.TLSConfig = callers.configure(&tls.Config{GetCertificate: certificate, MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"}})
	o.Log.Info("listening", "address", listener.Addr().String())
	go func() { ended <- server.ServeTLS(limit(listener, maxConnections), "", "") }()
	loaded := make(chan struct{})
	go func() {
		defer close(loaded)
		l.run(background)
	}()

	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	o.Log.Info("draining")
	draining.Store(true)
	time.Sleep(o.DrainDelay)
	drain, cancel := context.WithTimeout(background, drainTimeout)
	defer cancel()
	err = server.Shutdown(drain)
	stop()
	<-loaded
	if err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	return nil
}

// reviews answers AdmissionReviews of allowed clients.
func (l *loader) reviews(callers *gatekeeper) *http.ServeMux {
	mux := http.NewServeMux()
	answer := func(prefix string, e *engines) {
		handler := &webhook.Handler{Engine: e.Load, Shadow: l.Shadow, Log: l.Log, InFlight: l.inFlight,
			Evaluations: l.evaluations, Observe: l.observe,
			Again: &webhook.Again{}, Beside: l.Beside, Seal: l.seal.Load, Named: l.findPolicies,
			Bindings:          func() []*policy.Binding { return l.currentSet().Bindings },
			AllowSecretParams: l.AllowSecretParams}
		mux.Handle(prefix+"/", l.running.count(callers.guard(http.StripPrefix(prefix, handler))))
	}
	if l.Manage { // as the configurations direct: policies by failurePolicy
		answer("/fail", &l.fail)
		answer("/ignore", &l.ignore)
	} else {
		answer("", &l.all)
	}
	return mux
}

// observe counts an answer and records fights.
func (l *loader) observe(o webhook.Observation) {
	l.metrics.observe(o)
	if o.Decision != nil {
		l.fights.note(o.Decision.Fights(), l.currentSet())
	}
}

// tellHealth answers probes.
func (l *loader) tellHealth(mux *http.ServeMux, draining *atomic.Bool) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeHealth(w, l.checkTurning(stuckLong)) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		err := l.checkReady()
		if err == nil && !slices.Contains(r.URL.Query()["exclude"], "directory") {
			err = l.directoryError()
		}
		if draining.Load() {
			err = errors.New("draining")
		}
		writeHealth(w, err)
	})
}

// serveOps serves probes, metrics and profiles to operators. The caller closes the server.
func (l *loader) serveOps(draining *atomic.Bool, ended chan<- error) (*http.Server, error) {
	ops := http.NewServeMux()
	l.tellHealth(ops, draining)
	ops.Handle("GET /metrics", promhttp.HandlerFor(l.metrics.registry, promhttp.HandlerOpts{}))
	if l.Profile {
		ops.HandleFunc("/debug/pprof/", pprof.Index)
		ops.HandleFunc("/debug/pprof/profile", pprof.Profile)
		ops.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		ops.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	listener, err := net.Listen("tcp", l.Ops)
	if err != nil {
		return nil, err
	}
	server := l.server(ops)
	l.Log.Info("metrics", "address", listener.Addr().String())
	go func() { ended <- server.Serve(limit(listener, maxReaders)) }()
	return server, nil
}

// writeHealth answers a probe.
func writeHealth(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// closeConnections closes connections with their next answer while the server drains. Otherwise the API server, which
// uses HTTP/1.1, could send a request over a connection just as the server closes it, and the request would be lost.
// Other clients, such as probes, never keep a connection.
func closeConnections(next http.Handler, draining *atomic.Bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if draining.Load() || r.Method != http.MethodPost {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

func (o Options) server(handler http.Handler) *http.Server {
	// The API server calls webhooks over HTTP/1.1 (NextProtos in pkg/util/webhook/client.go of k8s.io/apiserver
	// v0.37.2), and other clients can. Without HTTP/2 a connection cannot cost resets of streams, settings and pings.
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       bodyTimeout,
		WriteTimeout:      2 * bodyTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		Protocols:         protocols,
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug), // failed handshakes
	}
}

// certificates returns the source of certificates for handshakes, and sets the source of the authorities for the
// configurations.
func (l *loader) certificates(ctx context.Context) (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error) {
	if l.Cert == "" {
		host := l.Target.Service + "." + l.Target.Namespace + ".svc"
		l.secret = &secret{
			store: &kube.Secret{Client: l.Cluster, Namespace: l.Target.Namespace, Name: "celgate",
				Type: "kubernetes.io/tls"},
			rotation: rotation{
				hosts: []string{host}, authority: cmp.Or(l.AuthorityLife, AuthorityLife),
				certificate: cmp.Or(l.CertificateLife, CertificateLife),
			},
			log: l.Log,
		}
		return l.secret.get, l.secret.start(ctx)
	}
	pair := &keyPair{cert: l.Cert, key: l.Key, log: l.Log}
	return pair.get, pair.load()
}
