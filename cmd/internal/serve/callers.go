package serve

import (
	"bytes"
	"container/list"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Callers restricts the clients that may send reviews.
type Callers struct {
	CA    string   // file with the authority of client certificates; empty: every client may send reviews
	Names []string // allowed: the common name of a certificate, or one of its DNS names; empty: all that CA signed
	Rate  float64  // sustained requests per second of each client; 0: unlimited
}

// burst is the number of seconds' worth of requests that a client may send at once.
const burst = 2

// most is the number of clients with a rate of their own. A client without a certificate may have many addresses: the
// one that has been silent longest is forgotten.
const most = 10_000

// A callerRate is the rate of one client.
type callerRate struct {
	caller  string
	limiter *rate.Limiter
}

// A gatekeeper admits the requests of allowed clients.
type gatekeeper struct {
	Callers
	log *slog.Logger

	mu     sync.Mutex
	text   []byte // content of the file
	pool   *x509.CertPool
	looked time.Time
	rates  map[string]*list.Element // elements of recent
	recent list.List                // rates, the most recently used first
}

func (k *gatekeeper) start() error {
	if k.CA == "" {
		if len(k.Names) > 0 {
			return errors.New("--allowed-client-names needs --client-ca")
		}
		return nil
	}
	return k.read()
}

func (k *gatekeeper) read() error {
	k.looked = time.Now()
	text, err := os.ReadFile(k.CA)
	if err != nil || bytes.Equal(text, k.text) {
		return err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return fmt.Errorf("%s: the file does not contain a certificate in PEM", k.CA)
	}
	k.text, k.pool = text, pool
	return nil
}

// authorities returns the authorities of client certificates, reread when the file changes; nil: clients need not have
// a certificate.
func (k *gatekeeper) authorities() *x509.CertPool {
	if k.CA == "" {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.looked) >= lookAgain {
		if err := k.read(); err != nil {
			k.log.Error("cannot reload the authority of clients", "error", err.Error())
		}
	}
	return k.pool
}

// configure makes handshakes ask for a client certificate. An untrusted certificate ends the handshake; clients without
// one get health and readiness, but not reviews.
func (k *gatekeeper) configure(c *tls.Config) *tls.Config {
	if k.CA != "" {
		c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
			asking := c.Clone()
			asking.GetConfigForClient = nil
			asking.ClientAuth, asking.ClientCAs = tls.VerifyClientCertIfGiven, k.authorities()
			return asking, nil
		}
	}
	return c
}

// guard passes on the requests of allowed clients.
func (k *gatekeeper) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, err := k.caller(r)
		if err != nil {
			k.log.Warn("caller refused", "address", r.RemoteAddr, "error", err.Error())
			w.Header().Set("Connection", "close")
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		if !k.mayAskNow(caller) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many requests of one client", http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// caller returns the name of a client, or an error if it may not send reviews.
func (k *gatekeeper) caller(r *http.Request) (string, error) {
	if k.CA == "" {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			return r.RemoteAddr, nil
		}
		return host, nil
	}
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return "", errors.New("a client certificate is required")
	}
	leaf := r.TLS.VerifiedChains[0][0]
	names := append([]string{leaf.Subject.CommonName}, leaf.DNSNames...)
	if len(k.Names) > 0 &&
		!slices.ContainsFunc(names, func(name string) bool { return name != "" && slices.Contains(k.Names, name) }) {
		return "", fmt.Errorf("the client %q is not allowed to send requests", leaf.Subject.CommonName)
	}
	return leaf.Subject.String(), nil
}

func (k *gatekeeper) mayAskNow(caller string) bool {
	if k.Rate <= 0 {
		return true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if known := k.rates[caller]; known != nil {
		k.recent.MoveToFront(known)
		return known.Value.(*callerRate).limiter.Allow()
	}
	if k.rates == nil {
		k.rates = map[string]*list.Element{}
	}
	if len(k.rates) >= most {
		oldest := k.recent.Back()
		delete(k.rates, k.recent.Remove(oldest).(*callerRate).caller)
	}
	limiter := rate.NewLimiter(rate.Limit(k.Rate), max(1, int(k.Rate*burst)))
	k.rates[caller] = k.recent.PushFront(&callerRate{caller, limiter})
	return limiter.Allow()
}
