package corpus

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"sync"
	"time"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/celgate/celgate/internal/conformance"
)

// webhooks is a mutating and a validating webhook that allow everything and keep the reviews. The mutating webhook is
// called after the policies of its phase, and again if their second pass changed the object; the validating one after
// the validating policies, unless they denied the request.
type webhooks struct {
	url         string
	certificate []byte // PEM
	server      *http.Server

	mu    sync.Mutex
	views map[*view]bool
}

// A view holds the last reviews of both webhooks for one request: the request members of the reviews, nil without a
// review.
type view struct {
	request              *conformance.Request
	mutating, validating map[string]any
}

// shows reports whether a review is about the request of the view. The name of an object may be made between both
// webhooks.
func (v *view) shows(review map[string]any) bool {
	name := text(review, "name")
	return text(review, "userInfo", "username") == v.request.User &&
		(name == v.request.Name || name == "" || v.request.Name == "")
}

func startWebhooks() (*webhooks, error) {
	certificate, err := newSelfSigned()
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &webhooks{
		url:         "https://" + listener.Addr().String(),
		certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}),
		views:       map[*view]bool{},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/mutating", w.handler(func(v *view) *map[string]any { return &v.mutating }))
	mux.HandleFunc("/validating", w.handler(func(v *view) *map[string]any { return &v.validating }))
	w.server = &http.Server{
		Handler:   mux,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}},
		ErrorLog:  log.New(io.Discard, "", 0),
	}
	go func() { _ = w.server.ServeTLS(listener, "", "") }() // until it is closed
	return w, nil
}

func (w *webhooks) stop() { w.server.Close() }

func (w *webhooks) handler(seen func(*view) *map[string]any) http.HandlerFunc {
	return func(writer http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var review map[string]any
		if err == nil {
			err = utiljson.Unmarshal(body, &review)
		}
		if err != nil {
			http.Error(writer, err.Error(), http.StatusBadRequest)
			return
		}
		request, _ := review["request"].(map[string]any)
		w.note(request, seen)
		writer.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(writer).Encode(map[string]any{
			"apiVersion": "admission.k8s.io/v1",
			"kind":       "AdmissionReview",
			"response":   map[string]any{"uid": request["uid"], "allowed": true},
		})
	}
}

func (w *webhooks) note(review map[string]any, seen func(*view) *map[string]any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for v := range w.views {
		if v.shows(review) {
			*seen(v) = review
		}
	}
}

// watch begins a view of a request, which unwatch ends.
func (w *webhooks) watch(request *conformance.Request) *view {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := &view{request: request}
	w.views[v] = true
	return v
}

func (w *webhooks) unwatch(v *view) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.views, v)
}

// configurations are the objects that make the server call the webhooks about everything.
func (w *webhooks) configurations() []map[string]any {
	configuration := func(kind, path string, further map[string]any) map[string]any {
		webhook := map[string]any{
			"name":                    "recorder.celgate.dev",
			"admissionReviewVersions": []any{"v1"},
			"clientConfig":            map[string]any{"url": w.url + path, "caBundle": w.certificate},
			"failurePolicy":           "Fail",
			"matchPolicy":             "Exact",
			"sideEffects":             "None",
			"rules": []any{map[string]any{
				"operations": []any{"*"}, "apiGroups": []any{"*"}, "apiVersions": []any{"*"}, "resources": []any{"*/*"},
			}},
		}
		for name, value := range further {
			webhook[name] = value
		}
		return map[string]any{
			"apiVersion": "admissionregistration.k8s.io/v1",
			"kind":       kind,
			"metadata":   map[string]any{"name": "celgate-recorder"},
			"webhooks":   []any{webhook},
		}
	}
	return []map[string]any{
		configuration("MutatingWebhookConfiguration", "/mutating", map[string]any{"reinvocationPolicy": "IfNeeded"}),
		configuration("ValidatingWebhookConfiguration", "/validating", nil),
	}
}

// newSelfSigned returns a certificate for 127.0.0.1 that signs itself.
func newSelfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "celgate recorder"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// poll calls done every 20 ms until it returns true, an error, or the time is over, which is the error late.
func poll(ctx context.Context, limit time.Duration, late error, done func() (bool, error)) error {
	deadline := time.Now().Add(limit)
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return late
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}
