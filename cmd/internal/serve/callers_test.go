package serve

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// clients makes an authority of clients and certificates of some names.
func clients(t *testing.T, names ...string) (ca string, certificates map[string]tls.Certificate) {
	t.Helper()
	made, err := years([]string{"nobody"}).begin(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	authority, err := tls.X509KeyPair(made[caCertificate], made[caKey])
	if err != nil {
		t.Fatal(err)
	}
	certificates = map[string]tls.Certificate{}
	for _, name := range names {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		serial, err := serialNumber()
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
			SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
			NotAfter:    time.Now().Add(time.Hour),
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}, authority.Leaf, &key.PublicKey, authority.PrivateKey)
		if err != nil {
			t.Fatal(err)
		}
		certificates[name] = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	}
	return string(made[caCertificate]), certificates
}

// TestCallers sends requests with certificates of several clients and without one.
func TestCallers(t *testing.T) {
	t.Parallel()
	ca, good := clients(t, "kube-apiserver", "somebody")
	_, bad := clients(t, "kube-apiserver")
	file := filepath.Join(t.TempDir(), "ca.crt")
	write(t, file, ca)
	r := run(t, map[string]string{"one.yaml": one},
		func(o *Options) { o.Callers = Callers{CA: file, Names: []string{"kube-apiserver"}} })
	ask := func(path string, certificates ...tls.Certificate) int {
		client := &http.Client{
			Transport: &http.Transport{DisableKeepAlives: true, ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{
				InsecureSkipVerify: true, Certificates: certificates,
			}},
		}
		response, err := client.Post("https://"+r.log.await(t, `listening address=(\S+)`)+path, "application/json",
			strings.NewReader("{}"))
		if err != nil {
			return 0
		}
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, response.Body)
		return response.StatusCode
	}
	for name, test := range map[string]struct {
		path  string
		certs []tls.Certificate
		code  int
	}{
		// {} is not a review
		"the API server":     {"/validate", []tls.Certificate{good["kube-apiserver"]}, http.StatusBadRequest},
		"another name":       {"/validate", []tls.Certificate{good["somebody"]}, http.StatusForbidden},
		"nobody":             {"/validate", nil, http.StatusForbidden},
		"another authority":  {"/validate", []tls.Certificate{bad["kube-apiserver"]}, 0}, // no handshake
		"only as configured": {"/fail/validate", []tls.Certificate{good["kube-apiserver"]}, http.StatusNotFound},
	} {
		if code := ask(test.path, test.certs...); code != test.code {
			t.Errorf("%s: %d, not %d", name, code, test.code)
		}
	}
	ca, next := clients(t, "kube-apiserver")
	write(t, file, ca)
	time.Sleep(lookAgain)
	if code := ask("/validate", next["kube-apiserver"]); code != http.StatusBadRequest {
		t.Errorf("the authority was replaced: %d", code)
	}
}

// TestRate sends as many requests of one caller as the limit permits.
func TestRate(t *testing.T) {
	k := &gatekeeper{Callers: Callers{Rate: 5}}
	passed := 0
	for range 100 {
		if k.mayAskNow("a") {
			passed++
		}
	}
	if passed < 10 || passed > 12 {
		t.Errorf("%d of 100 at once", passed)
	}
	if !k.mayAskNow("b") {
		t.Error("another caller pays for it")
	}
	k = &gatekeeper{Callers: Callers{Rate: 0.001}} // each may send one request
	for i := range 3 * most {
		if greedy := k.mayAskNow("greedy"); greedy != (i == 0) {
			t.Fatalf("with %d others: %v", i, greedy)
		}
		k.mayAskNow(strconv.Itoa(i))
	}
	if len(k.rates) != most || k.recent.Len() != most {
		t.Errorf("%d and %d are known", len(k.rates), k.recent.Len())
	}
}

// TestTrouble tests the metrics of slow requests and policies.
func TestTrouble(t *testing.T) {
	t.Parallel()
	r := run(t, map[string]string{"one.yaml": one}, nil)
	body, writer := io.Pipe()
	go func() {
		request, _ := http.NewRequest(http.MethodPost, "https://"+r.log.await(t, `listening address=(\S+)`)+"/validate",
			body)
		request.Header.Set("Content-Type", "application/json")
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		if response, err := client.Do(request); err == nil {
			response.Body.Close()
		}
	}()
	r.await(t, "counted", func() bool {
		_, text := r.get(t, "/metrics")
		return strings.Contains(text, "\ncelgate_webhook_requests_in_flight 1\n") &&
			strings.Contains(text, "\ncelgate_webhook_bytes_in_flight 65536\n") &&
			strings.Contains(text, "\ncelgate_policy_loads_total{result=\"success\"} 1\n") &&
			strings.Contains(text, "\ncelgate_policy_load_attempt_timestamp_seconds 1")
	})
	_ = writer.Close() // of a pipe: never fails
	r.await(t, "answered", func() bool {
		_, text := r.get(t, "/metrics")
		return strings.Contains(text, "\ncelgate_webhook_requests_in_flight 0\n")
	})
}
