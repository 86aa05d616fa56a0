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

// Members of the Secret: those of the type kubernetes.io/tls, and the authorities. All certificates in ca.crt are
// trusted; the first one signed the certificate and belongs to ca.key.
const (
	caCertificate   = "ca.crt"
	caKey           = "ca.key"
	nextCertificate = "next.crt" // of the next authority; also in ca.crt
	nextKey         = "next.key"
	certificate     = "tls.crt"
	certificateK    = "tls.key"
)

const (
	// AuthorityLife is the lifetime of an authority. The next one is made in its last third.
	AuthorityLife = 2 * 365 * 24 * time.Hour

	// CertificateLife is the lifetime of a certificate. A new one is made in its last third.
	CertificateLife = 90 * 24 * time.Hour

	// trustTime is the least time for which a new authority is trusted before it signs: every API server knows it by
	// then.
	trustTime = 24 * time.Hour

	// skew is the largest difference between two clocks: the leader's an hour off, and an API server's an hour off the
	// other way.
	skew = 2 * time.Hour
)

// A rotation replaces a certificate for hosts, and its authority.
type rotation struct {
	hosts                  []string
	authority, certificate time.Duration // lifetimes
}

// begin makes an authority of our own and a first certificate.
func (r rotation) begin(now time.Time) (map[string][]byte, error) {
	ca, key, err := makeAuthority(now, r.authority)
	if err != nil {
		return nil, err
	}
	return r.sign(now, map[string][]byte{caCertificate: ca, caKey: key})
}

func makeAuthority(now time.Time, life time.Duration) (certificate, privateKey []byte, err error) {
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
		NotBefore: now.Add(-skew), NotAfter: now.Add(life),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, nil, err
	}
	privateKey, err = keyBlock(key)
	return block("CERTIFICATE", der), privateKey, err
}

// advance returns the next content of the Secret, and whether it differs from the present one. known: every replica has
// the present content, and the webhook configurations trust its authorities. An authority is replaced in steps. The
// next one is trusted beside it. After at least a day in which that is known, the next one signs a certificate. The old
// one is trusted until it expires, because its certificates expire before it and a replica that cannot read the Secret
// may still serve one. So the authority of every certificate in use is trusted; a late step only delays the next one.
func (r rotation) advance(now time.Time, held map[string][]byte, known bool) (map[string][]byte, bool, error) {
	authorities, err := certificates(held[caCertificate])
	if err != nil {
		return nil, false, err
	}
	pair, err := tls.X509KeyPair(held[certificate], held[certificateK])
	if err != nil {
		return nil, false, err
	}
	signing, last := authorities[0], authorities[len(authorities)-1]
	next := maps.Clone(held)
	switch {
	case held[nextCertificate] != nil &&
		(known && now.After(issueTime(last).Add(r.trust())) || now.After(signing.NotAfter)):
		// The next authority is known everywhere, or the old one has expired.
		next[caCertificate] = append(bytes.Clone(held[nextCertificate]), block("CERTIFICATE", signing.Raw)...)
		next[caKey] = held[nextKey]
		delete(next, nextCertificate)
		delete(next, nextKey)
		next, err = r.sign(now, next)
		return next, true, err
	case held[nextCertificate] == nil && len(authorities) == 1 && isLate(now, signing):
		next[nextCertificate], next[nextKey], err = makeAuthority(now, r.authority)
		next[caCertificate] = append(bytes.Clone(held[caCertificate]), next[nextCertificate]...)
		return next, true, err
	case held[nextCertificate] == nil && len(authorities) > 1 &&
		now.After(last.NotAfter.Add(min(skew, r.authority/24))):
		next[caCertificate] = block("CERTIFICATE", signing.Raw)
		return next, true, nil
	case r.isDue(now, pair.Leaf):
		next, err = r.sign(now, next)
		return next, true, err
	}
	return held, false, nil
}

// trust is the time for which a new authority is trusted before it signs.
func (r rotation) trust() time.Duration { return min(trustTime, r.authority/24) }

// waits reports whether the next authority has been trusted long enough to sign, were it known everywhere.
func (r rotation) waits(now time.Time, held map[string][]byte) bool {
	next, err := certificates(held[nextCertificate])
	return err == nil && now.After(issueTime(next[0]).Add(2*r.trust()))
}

// sign returns the members with a new certificate, signed by their authority. It does not outlive the authority.
func (r rotation) sign(now time.Time, members map[string][]byte) (map[string][]byte, error) {
	authority, err := tls.X509KeyPair(members[caCertificate], members[caKey])
	if err != nil {
		return nil, err
	}
	signer, ok := authority.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, errors.New("the private key of the authority is not a signing key")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := serialNumber()
	if err != nil {
		return nil, err
	}
	end := now.Add(r.certificate)
	if end.After(authority.Leaf.NotAfter) {
		end = authority.Leaf.NotAfter
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: r.hosts[0]}, DNSNames: r.hosts,
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

// isDue reports whether a certificate is in the last third of its life or does not cover the hosts.
func (r rotation) isDue(now time.Time, c *x509.Certificate) bool {
	for _, host := range r.hosts {
		if c.VerifyHostname(host) != nil {
			return true
		}
	}
	return isLate(now, c)
}

// isLate reports whether a certificate is in the last third of its life, or was not issued by celgate, so that its
// lifetime is unknown.
func isLate(now time.Time, c *x509.Certificate) bool {
	life := c.NotAfter.Sub(issueTime(c))
	return life <= 0 || c.NotAfter.Sub(now) < life/3
}

// issueTime returns the time at which celgate issued a certificate.
func issueTime(c *x509.Certificate) time.Time { return c.NotBefore.Add(skew) }

// certificates parses a bundle, which must hold at least one certificate.
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
		return nil, errors.New("the Secret does not contain a certificate of an authority")
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
