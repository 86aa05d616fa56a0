// Package serve runs the webhook as a program: it loads policies, keeps the engine current, and listens.
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
	"time"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/prepare"
	"github.com/celgate/celgate/schema/builtin"
	"github.com/celgate/celgate/state"
	"github.com/celgate/celgate/webhook"
)

// Options say what to serve.
type Options struct {
	PolicyDir   string // a directory of policies, and of objects if there is no cluster
	KubeVersion string // empty: the cluster's, or the newest

	Listen    string // address of the webhook
	Cert, Key string // files

	Log *slog.Logger // not nil
}

const (
	headerTimeout = 10 * time.Second
	bodyTimeout   = 30 * time.Second // the longest that the server waits for a webhook
	idleTimeout   = 2 * time.Minute
	drainTimeout  = 35 * time.Second // requests that have begun are answered: bodyTimeout and some
	maxHeader     = 64 << 10
	pollInterval  = time.Second
)

// Run serves until the context ends, and then answers what has begun. The error says why it could not start or go on.
func Run(ctx context.Context, o Options) error {
	pair := &keyPair{cert: o.Cert, key: o.Key, log: o.Log}
	if err := pair.load(); err != nil {
		return err
	}
	l := &loader{Options: o}
	if err := l.start(ctx); err != nil {
		return err
	}
	go l.run(ctx)

	handler := &webhook.Handler{Engine: l.live.Engine, Log: o.Log}
	listener, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:           handler,
		TLSConfig:         &tls.Config{GetCertificate: pair.get, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       bodyTimeout,
		WriteTimeout:      2 * bodyTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug), // handshakes that fail
	}
	o.Log.Info("listening", "address", listener.Addr().String())
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(listener, "", "") }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	o.Log.Info("draining")
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// A loader keeps the engine current.
type loader struct {
	Options
	live      celgate.Live
	directory *directory
	folder    *folder // the last good one
}

// start loads everything for the first time, when a mistake in the directory is fatal.
func (l *loader) start(context.Context) error {
	l.directory = &directory{path: l.PolicyDir}
	folder, err := l.directory.read()
	if err != nil {
		return err
	}
	return l.build(folder)
}

// run reloads what changes.
func (l *loader) run(ctx context.Context) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if !l.directory.changed() {
				continue
			}
			folder, err := l.directory.read()
			if err == nil {
				err = l.build(folder)
			}
			if err != nil {
				l.Log.Error("policies not replaced", "error", err.Error())
			}
		}
	}
}

// build puts an engine with the policies of a folder in force. An error leaves the last one in force.
func (l *loader) build(f *folder) error {
	start := time.Now()
	minor := cmp.Or(l.KubeVersion, celgate.Newest)
	types, err := builtin.Registry(minor)
	if err != nil {
		return err
	}
	var crds, objects []map[string]any
	for _, object := range f.objects {
		if object["kind"] == "CustomResourceDefinition" {
			crds = append(crds, object)
		}
	}
	if types, err = types.WithCustomResources(crds...); err != nil {
		return err
	}
	for _, object := range f.objects {
		apiVersion, _ := object["apiVersion"].(string)
		kind, _ := object["kind"].(string)
		stored, _, err := prepare.Stored(object, types, apischema.FromAPIVersionAndKind(apiVersion, kind))
		if err != nil {
			return err
		}
		objects = append(objects, stored)
	}
	cluster, err := state.New(types, objects...)
	if err != nil {
		return err
	}
	engine, err := celgate.New(&f.set, celgate.Options{KubeVersion: minor, Types: types, Cluster: alone{cluster}, WithoutQuirks: true})
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range engine.Rejected() {
		errs = append(errs, fmt.Errorf("%s: %s", cmp.Or(r.Position.String(), r.Kind+" "+r.Name), r.Status.Message))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	l.folder = f
	l.live.Replace(engine)
	l.Log.Info("policies in force", "policies", len(f.set.Policies), "bindings", len(f.set.Bindings), "took", time.Since(start).String())
	return nil
}
