package serve

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"path/filepath"
	"testing"
	"time"
)

// A client with a certificate of an authority that is no longer trusted cannot resume an earlier session.
func TestResumedSessions(t *testing.T) {
	folder := t.TempDir()
	trusted := pair(t, folder, time.Now())
	sign := func(name string) ([]byte, tls.Certificate) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
			IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
		der, err := x509.CreateCertificate(crand.Reader, template, template, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
			tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	}
	oldCA, old := sign("old")
	newCA, _ := sign("new")
	ca := filepath.Join(folder, "clients.crt")
	write(t, ca, string(oldCA))
	k := &gatekeeper{Callers: Callers{CA: ca}, log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	if err := k.start(); err != nil {
		t.Fatal(err)
	}
	own, err := tls.LoadX509KeyPair(filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0",
		k.configure(&tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12}))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func(c net.Conn) {
				defer c.Close()
				conn := c.(*tls.Conn)
				if conn.Handshake() != nil {
					return
				}
				said := "refused"
				if len(conn.ConnectionState().VerifiedChains) > 0 {
					said = "trusted"
				}
				_, _ = io.WriteString(conn, said)
			}(c)
		}
	}()
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		write(t, ca, string(oldCA))
		k.mu.Lock()
		k.looked = time.Time{}
		k.mu.Unlock()
		client := &tls.Config{RootCAs: trusted, ServerName: "celgate.test", Certificates: []tls.Certificate{old},
			ClientSessionCache: tls.NewLRUClientSessionCache(1), MaxVersion: version}
		ask := func() string {
			c, err := tls.Dial("tcp", listener.Addr().String(), client)
			if err != nil {
				return err.Error()
			}
			defer c.Close()
			said, err := io.ReadAll(c)
			if err != nil {
				return err.Error()
			}
			return string(said)
		}
		for range 2 {
			if got := ask(); got != "trusted" {
				t.Errorf("%x, before: %s", version, got)
			}
		}
		write(t, ca, string(newCA))
		k.mu.Lock()
		k.looked = time.Time{}
		k.mu.Unlock()
		if got := ask(); got == "trusted" {
			t.Errorf("%x: a session of before goes on", version)
		}
	}
}
