package env

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// authority is the certificate authority of one control plane. It signs the server's certificate and its clients'.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func newAuthority(name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key of %s: %w", name, err)
	}
	ca, err := cert.NewSelfSignedCACert(cert.Config{CommonName: name + "-ca"}, key)
	if err != nil {
		return nil, fmt.Errorf("make the authority of %s: %w", name, err)
	}
	return &authority{cert: ca, key: key}, nil
}

// pem is the authority's certificate.
func (a *authority) pem() ([]byte, error) { return cert.EncodeCertificates(a.cert) }

// issueServer signs a certificate for a server on loopback.
func (a *authority) issueServer() (certPEM, keyPEM []byte, err error) {
	return a.issue(&x509.Certificate{
		NotAfter:    time.Now().AddDate(1, 0, 0),
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback, net.IPv4(10, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

// issueClient signs a certificate for a user in groups, as Kubernetes reads them from a certificate.
func (a *authority) issueClient(expiry time.Time, user string, groups []string) (certPEM, keyPEM []byte, err error) {
	return a.issue(&x509.Certificate{
		NotAfter:    expiry,
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func (a *authority) issue(template *x509.Certificate) (certPEM, keyPEM []byte, err error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, fmt.Errorf("make a serial number: %w", err)
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Minute)
	if template.NotAfter.Before(template.NotBefore) {
		template.NotBefore = template.NotAfter.Add(-time.Minute)
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("sign a certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, fmt.Errorf("sign a certificate: %w", err)
	}
	certPEM, err = cert.EncodeCertificates(leaf)
	return certPEM, keyPEM, err
}

// newKey makes a private key and its PEM form.
func newKey() (crypto.Signer, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	return key, keyPEM, nil
}
