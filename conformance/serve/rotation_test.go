package serve

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/celgate/celgate/conformance/server"
)

// TestRotation runs replicas with a certificate that lives for a minute and an authority that lives for two, until the
// authority was replaced twice, under load and while leaders end. Every call succeeds, and at each moment the
// configurations trust the certificate of every replica.
func TestRotation(t *testing.T) {
	t.Cleanup(func() { // the next test starts with its own
		remove(t, "/api/v1/namespaces/celgate-system/secrets/celgate")
	})
	if a := do(t, server.Call{Method: http.MethodDelete,
		Path: "/api/v1/namespaces/celgate-system/secrets/celgate"}); a.Code != http.StatusOK &&
		a.Code != http.StatusNotFound {
		good(t, a)
	}
	r := service(t, api.Kubeconfig, 2, "--certificate-life=1m", "--authority-life=2m")
	inForce(t, policies)
	awaitDenial(t, "passwords belong into Secrets",
		func() *server.Answer { return configMap(t, map[string]any{"password": "x"}) })

	authorities, leaves, both := map[[32]byte]bool{}, map[[32]byte]bool{}, false
	var handshakes, ended int
	l := &load{namespace: "default", dryRun: true}
	l.runDuring(t, faultWorkers, faultRate, func() {
		for end := time.Now().Add(6 * time.Minute); len(authorities) < 3 ||
			len(leaves) < 5; time.Sleep(100 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d authorities and %d certificates", len(authorities), len(leaves))
			}
			trusted := bundles(t)
			for i, bundle := range trusted {
				for _, g := range r.gates {
					leaf, err := shake(g, bundle)
					if err != nil {
						t.Errorf("bundle %d: %v", i, err)
						continue
					}
					handshakes++
					leaves[sha256.Sum256(leaf.Raw)] = true
					for _, c := range bundle {
						if leaf.CheckSignatureFrom(c) == nil {
							authorities[sha256.Sum256(c.Raw)] = true
						}
					}
				}
				both = both || len(bundle) == 2
			}
			if len(authorities) == 2+ended && ended < 1 { // after the first replacement
				ended++
				r.end(t, r.leader(t), false)
				r.startReady(t)
			}
		}
	})
	if l.counts.refused+l.counts.server+l.counts.wrong > 0 || l.counts.right == 0 {
		t.Errorf("%+v", l.counts)
		for what, n := range l.failed {
			t.Logf("%d times: %.400s", n, what)
		}
	}
	if !both {
		t.Error("never were two authorities trusted")
	}
	t.Logf("%d authorities, %d certificates, %d handshakes, the longest answer %s", len(authorities), len(leaves),
		handshakes, l.slow)
}

// bundles are whom the webhooks of the configurations trust.
func bundles(t *testing.T) (all [][]*x509.Certificate) {
	t.Helper()
	seen := map[string]bool{}
	for _, kind := range []string{"mutating", "validating"} {
		tree, err := do(t, server.Call{Method: http.MethodGet,
			Path: webhookPath + kind + "webhookconfigurations/celgate"}).Object()
		if err != nil {
			t.Fatal(err)
		}
		webhooks, _ := tree["webhooks"].([]any)
		for _, webhook := range webhooks {
			client, _ := webhook.(map[string]any)["clientConfig"].(map[string]any)
			text, _ := client["caBundle"].(string)
			if seen[text] {
				continue
			}
			seen[text] = true
			rest, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				t.Fatal(err)
			}
			var bundle []*x509.Certificate
			for block, rest := pem.Decode(rest); block != nil; block, rest = pem.Decode(rest) {
				c, err := x509.ParseCertificate(block.Bytes)
				if err != nil {
					t.Fatal(err)
				}
				bundle = append(bundle, c)
			}
			all = append(all, bundle)
		}
	}
	if len(all) == 0 {
		t.Error("no webhook trusts anybody")
	}
	return all
}

// shake returns the certificate of a replica, if it is one that a bundle trusts.
func shake(g *gate, bundle []*x509.Certificate) (*x509.Certificate, error) {
	pool := x509.NewCertPool()
	for _, c := range bundle {
		pool.AddCert(c)
	}
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, "tcp", strings.TrimPrefix(g.URL, "https://"),
		&tls.Config{RootCAs: pool, ServerName: "celgate.celgate-system.svc"})
	if err != nil {
		return nil, fmt.Errorf("handshake with %s: %w", g.URL, err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0], nil
}
