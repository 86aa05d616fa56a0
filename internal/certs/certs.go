//go:build !nocerts

// Package certs reads certificates and keys. Programs built with the tag nocerts are smaller, and say that they have
// not read them.
package certs

import (
	"crypto/tls"
	"crypto/x509"
)

// Known reports whether this program reads certificates. Without it, the functions of this package must not be called.
const Known = true

// CheckPair returns what is wrong with a certificate and its private key, both as PEM.
func CheckPair(certificate, key []byte) error {
	_, err := tls.X509KeyPair(certificate, key)
	return err
}

// Organizations returns the organizations that a certificate request, as DER, asks for.
func Organizations(request []byte) ([]string, error) {
	r, err := x509.ParseCertificateRequest(request)
	if err != nil {
		return nil, err
	}
	return r.Subject.Organization, nil
}
