package serve

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"maps"
	"math/big"
	"time"
)

// Members of the Secret: those of type kubernetes.io/tls, and the authorities. All of ca.crt are trusted; the first of them has
// signed the certificate and ca.key is its key.
const (
	caCertificate   = "ca.crt"
	caKey           = "ca.key"
	nextCertificate = "next.crt" // of the authority that will sign; also in ca.crt
	nextKey         = "next.key"
	certificate     = "tls.crt"
	certificateK    = "tls.key"
)

const (
	authorityLife   = 2 * 365 * 24 * time.Hour // the next one is made in its last third
	certificateLife = 90 * 24 * time.Hour      // a new one is made in its last third

	// trustTime is how long a new authority is trusted before it signs: until every replica and every API server knows it.
	trustTime = 24 * time.Hour

	// skew is by how much clocks may be late.
	skew = time.Hour
)

// newAuthority makes an authority of our own and a first certificate for the hosts.
func newAuthority(now time.Time, hosts []string) (map[string][]byte, error) {
	ca, key, err := makeAuthority(now)
	if err != nil {
		return nil, err
	}
	return signed(now, map[string][]byte{caCertificate: ca, caKey: key}, hosts)
}

func makeAuthority(now time.Time) (certificate, privateKey []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := serialNumber()
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "celgate"},
		NotBefore: now.Add(-skew), NotAfter: now.Add(authorityLife),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, nil, err
	}
	privateKey, err = keyBlock(key)
	return block("CERTIFICATE", der), privateKey, err
}

// advance returns what the Secret is to hold, and whether that is something else than it holds. An authority is replaced in steps
// between which everybody has time to follow: the next one is trusted beside it; a day later it signs a certificate; when nobody
// has a certificate of the old one any more, that is no longer trusted. So no certificate in use is ever one of an
// authority that is not trusted, and a step that comes late only makes the next one late.
func advance(now time.Time, held map[string][]byte, hosts []string) (map[string][]byte, bool, error) {
	authorities, err := certificates(held[caCertificate])
	if err != nil {
		return nil, false, err
	}
	pair, err := tls.X509KeyPair(held[certificate], held[certificateK])
	if err != nil {
		return nil, false, err
	}
	signing, leaf := authorities[0], pair.Leaf
	next := maps.Clone(held)
	switch {
	case held[nextCertificate] != nil && (now.After(made(authorities[len(authorities)-1]).Add(trustTime)) || now.After(signing.NotAfter)):
		// The next authority is known everywhere, or the old one is of no use any more: it signs. The old one stays trusted for
		// the certificates that it has signed.
		next[caCertificate] = append(bytes.Clone(held[nextCertificate]), block("CERTIFICATE", signing.Raw)...)
		next[caKey] = held[nextKey]
		delete(next, nextCertificate)
		delete(next, nextKey)
		next, err = signed(now, next, hosts)
		return next, true, err
	case held[nextCertificate] == nil && len(authorities) == 1 && late(now, signing):
		next[nextCertificate], next[nextKey], err = makeAuthority(now)
		next[caCertificate] = append(bytes.Clone(held[caCertificate]), next[nextCertificate]...)
		return next, true, err
	case held[nextCertificate] == nil && len(authorities) > 1 && now.After(made(leaf).Add(trustTime)):
		next[caCertificate] = block("CERTIFICATE", signing.Raw)
		return next, true, nil
	case due(now, leaf, hosts):
		next, err = signed(now, next, hosts)
		return next, true, err
	}
	return held, false, nil
}

// signed returns the members with a new certificate for the hosts, signed by their authority. It does not outlive that.
func signed(now time.Time, members map[string][]byte, hosts []string) (map[string][]byte, error) {
	authority, err := tls.X509KeyPair(members[caCertificate], members[caKey])
	if err != nil {
		return nil, err
	}
	signer, ok := authority.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, errors.New("the key of the authority cannot sign")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := serialNumber()
	if err != nil {
		return nil, err
	}
	end := now.Add(certificateLife)
	if end.After(authority.Leaf.NotAfter) {
		end = authority.Leaf.NotAfter
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: hosts[0]}, DNSNames: hosts,
		NotBefore: now.Add(-skew), NotAfter: end,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority.Leaf, &key.PublicKey, signer)
	if err != nil {
		return nil, err
	}
	next := maps.Clone(members)
	next[certificate] = block("CERTIFICATE", der)
	next[certificateK], err = keyBlock(key)
	return next, err
}

// due reports that a certificate is in the last third of its life, or is not for the hosts.
func due(now time.Time, c *x509.Certificate, hosts []string) bool {
	for _, host := range hosts {
		if c.VerifyHostname(host) != nil {
			return true
		}
	}
	return late(now, c)
}

func late(now time.Time, c *x509.Certificate) bool {
	return c.NotAfter.Sub(now) < c.NotAfter.Sub(c.NotBefore)/3
}

// made is when a certificate of ours was made.
func made(c *x509.Certificate) time.Time { return c.NotBefore.Add(skew) }

// certificates are those of a bundle, at least one.
func certificates(bundle []byte) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	for rest := bundle; ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			break
		}
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, errors.New("no certificate of an authority")
	}
	return all, nil
}

func serialNumber() (*big.Int, error) {
	return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func keyBlock(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return block("PRIVATE KEY", der), err
}
