package connect

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	certutil "k8s.io/client-go/util/cert"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/failure"
)

// maxToken bounds a token: it is sent with every request.
const maxToken = 64 << 10

// endpoint is all that a connection is built from: where, whom to trust, what to present.
type endpoint struct {
	// server is the URL exactly as it was given: https, with a host, perhaps with a path.
	server     string
	serverName string
	// roots is nil when no authority is named: then the system's roots decide.
	roots              *x509.CertPool
	insecure           bool
	proxy              *url.URL
	disableCompression bool
	token              string
	// certificate is nil when none is presented.
	certificate *tls.Certificate
	// certificateEnds is when the client certificate expires, zero without one.
	certificateEnds time.Time
}

// endpoint decides every byte of the material. Its errors are *failure.Error, and name what is wrong and where.
func (m material) endpoint(o Options) (*endpoint, error) {
	if m.auth == v1alpha1.AuthTypeKubeconfig {
		e, err := parseKubeconfig(m.kubeconfig.data, o)
		return e, located(err, m.kubeconfig.where)
	}
	e := &endpoint{server: m.server}
	if err := checkServer("spec.agentless.server", m.server); err != nil {
		return nil, err
	}
	if m.authority.where != "" {
		var err error
		if e.roots, err = certutil.NewPoolFromBytes(m.authority.data); err != nil {
			return nil, broken("%s holds no PEM certificate", m.authority.where)
		}
	}
	switch m.auth {
	case v1alpha1.AuthTypeToken:
		return e, e.setToken(m.token.where, strings.TrimRight(string(m.token.data), "\r\n"))
	case v1alpha1.AuthTypeClientCertificate:
		return e, e.setCertificate(m.certificate.where+" and key tls.key", m.certificate.data, m.privateKey.data)
	}
	return nil, unsupported("auth.type %s is not supported", shown(m.auth))
}

// setToken takes a bearer token. at names where it comes from.
func (e *endpoint) setToken(at, token string) error {
	switch {
	case token == "":
		return broken("%s holds no token", at)
	case len(token) > maxToken:
		return broken("%s is larger than %d KiB, which no token is", at, maxToken>>10)
	case strings.ContainsFunc(token, func(r rune) bool { return r < 0x21 || r > 0x7e }):
		return broken("%s holds a space or another character that a header cannot carry", at)
	}
	e.token = token
	return nil
}

// setCertificate takes a PEM certificate and its key.
func (e *endpoint) setCertificate(at string, certificate, key []byte) error {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return broken("%s are not a PEM certificate and its key", at)
	}
	e.certificate = &pair
	if pair.Leaf != nil {
		e.certificateEnds = pair.Leaf.NotAfter
	}
	return nil
}

// host is the name or address of the server, without its port.
func (e *endpoint) host() string {
	u, err := url.Parse(e.server)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// address is the host and port of the server.
func (e *endpoint) address() string {
	u, err := url.Parse(e.server)
	if err != nil {
		return ""
	}
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443"))
}

// checkServer accepts https URLs with a host. Every connection carries credentials, so plain http is refused.
func checkServer(at, server string) error {
	if server == "" {
		return broken("%s is not set", at)
	}
	u, err := url.Parse(server)
	if err == nil && u.Scheme == "http" {
		return unsupported("%s is plain http, which is not supported: use https", at)
	}
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.Opaque != "" || !validPort(u.Port()) {
		return broken("%s is not an https URL", at)
	}
	if u.User != nil {
		return unsupported("%s holds a user name, which is not supported: use a token or a client certificate", at)
	}
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return broken("%s holds a query or a fragment: remove it", at)
	}
	return nil
}

func validPort(port string) bool {
	if port == "" {
		return true
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

// located adds to a failure where its cause is kept.
func located(err error, where string) error {
	f, ok := failure.As(err)
	if !ok {
		return err
	}
	at := *f
	at.Message = fmt.Sprintf("%s: %s", where, f.Message)
	return &at
}
