//go:build !nocerts

// Package certs reads certificates and keys. Programs built with the tag nocerts are smaller, and say that they have
// not read them.
package certs

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// Known reports whether this program reads certificates. Without it, the functions of this package must not be called.
const Known = true

// CheckPair returns what is wrong with a certificate and its private key, both as PEM.
func CheckPair(certificate, key []byte) error {
	_, err := tls.X509KeyPair(certificate, key)
	return err
}

// CheckAuthorities returns what is wrong with certificates of authorities, as PEM (client-go transport/transport.go
// v0.37.2).
func CheckAuthorities(text []byte) error {
	if x509.NewCertPool().AppendCertsFromPEM(text) {
		return nil
	}
	const prefix = "unable to load root certificates: "
	for len(text) > 0 {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return errors.New(prefix + "unable to parse bytes as PEM block")
		}
		if block.Type != "CERTIFICATE" || len(block.Headers) != 0 {
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return fmt.Errorf(prefix+"failed to parse certificate: %w", err)
		}
	}
	return errors.New(prefix + "no valid certificate authority data seen")
}

// Organizations returns the organizations that a certificate request, as DER, asks for.
func Organizations(request []byte) ([]string, error) {
	r, err := x509.ParseCertificateRequest(request)
	if err != nil {
		return nil, err
	}
	return r.Subject.Organization, nil
}
