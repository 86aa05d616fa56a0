package serve

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"time"
)

// Members of the Secret: those of type kubernetes.io/tls, and the authority that signed.
const (
	caCertificate = "ca.crt"
	caKey         = "ca.key"
	certificate   = "tls.crt"
	certificateK  = "tls.key"
)

const (
	authorityLife   = 10 * 365 * 24 * time.Hour
	certificateLife = 90 * 24 * time.Hour // a new one is made in its last third
)

// newAuthority makes an authority of our own and a first certificate for the hosts.
func newAuthority(now time.Time, hosts []string) (map[string][]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := serialNumber()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "celgate"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(authorityLife),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	pair := map[string][]byte{caCertificate: block("CERTIFICATE", der)}
	if pair[caKey], err = keyBlock(key); err != nil {
		return nil, err
	}
	return renew(now, pair, hosts)
}

// renew returns the pair with a new certificate for the hosts, signed by its authority.
func renew(now time.Time, pair map[string][]byte, hosts []string) (map[string][]byte, error) {
	authority, err := tls.X509KeyPair(pair[caCertificate], pair[caKey])
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
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: hosts[0]}, DNSNames: hosts,
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certificateLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority.Leaf, &key.PublicKey, signer)
	if err != nil {
		return nil, err
	}
	next := map[string][]byte{caCertificate: pair[caCertificate], caKey: pair[caKey], certificate: block("CERTIFICATE", der)}
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
	return c.NotAfter.Sub(now) < c.NotAfter.Sub(c.NotBefore)/3
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
