package source

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"

	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"kumodo.io/convoy/internal/dial"
)

var (
	errPlain    = errors.New("it leads to plain http, which convoy speaks with a registry only when its operator lists it in --plain-http-registries")
	errDown     = errors.New("it leads from https to plain http")
	errPlainKey = errors.New("it would send credentials over plain http, which convoy does only when its operator permits it with --allow-plain-http-credentials")
)

// statusError is an answer that is none.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("HTTP status %d", int(e)) }

// web is how registries and chart repositories are asked: connections of the guarded dialer, no step down from https, no
// login in the open, and no answer without a bound.
type web struct {
	next   http.RoundTripper
	limits Limits
	login  bool // there is something to keep secret
	plain  func(host string) bool
}

// httpClient asks servers, with a credential, of which one is plain when plain says so of its host and port.
func (s *Sources) httpClient(cred credential, plain func(host string) bool) *http.Client {
	return &http.Client{
		Transport: web{s.web.trusting(cred.authority), s.limits, cred.isLogin(), plain},
		Timeout:   s.limits.FetchTimeout,
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			first := via[0].URL
			switch {
			case len(via) >= 5:
				return errors.New("too many redirects")
			case first.Scheme == schemeHTTPS && req.URL.Scheme == schemeHTTP:
				return errDown
			case first.Host != req.URL.Host || first.Scheme != req.URL.Scheme: // net/http keeps a login for other ports and subdomains
				req.Header.Del("Authorization")
			}
			return nil
		},
	}
}

// RoundTrip implements http.RoundTripper.
func (w web) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != schemeHTTPS {
		switch {
		case !w.plain(req.URL.Host):
			return nil, errPlain
		case w.login && tells(req) && !w.limits.AllowPlainHTTPCredentials:
			return nil, errPlainKey
		}
	}
	res, err := w.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	limit := w.limits.MaxRepositoryBytes
	if res.StatusCode != http.StatusOK {
		limit = maxErrorBytes
	}
	res.Body = &boundedBody{ReadCloser: res.Body, left: limit}
	return res, nil
}

// tells reports whether a request holds a login, or what a login was exchanged for. Nothing but a login is ever sent in a
// body: that is how a refresh token is shown to a server of tokens.
func tells(req *http.Request) bool {
	return req.Header.Get("Authorization") != "" || req.Body != nil && req.Body != http.NoBody
}

// statusOf is the HTTP status in an error.
func statusOf(err error) (code int, ok bool) {
	if answer, is := errors.AsType[*errcode.ErrorResponse](err); is {
		return answer.StatusCode, true
	}
	if answer, is := errors.AsType[statusError](err); is {
		return int(answer), true
	}
	if answer, is := errors.AsType[*githttp.Err](err); is {
		return answer.StatusCode(), true
	}
	return 0, false
}

// isMissing reports whether a server says that there is no such thing.
func isMissing(err error) bool {
	code, _ := statusOf(err)
	return code == http.StatusNotFound || errors.Is(err, errdef.ErrNotFound)
}

// webClass names what went wrong between here and a server of artifacts or charts, without a word of the server's own.
// field is what names the Secret.
func (s *Sources) webClass(err error, cred credential, field string) string {
	code, answered := statusOf(err)
	denied := code == http.StatusUnauthorized || code == http.StatusForbidden || errors.Is(err, auth.ErrBasicCredentialNotFound)
	switch {
	case denied && !cred.isLogin():
		return "does not exist, or asks for credentials; name their Secret in " + field
	case code == http.StatusForbidden:
		return "may not be read with the credentials of Secret " + cred.secret
	case denied:
		return "refuses the credentials of Secret " + cred.secret
	case answered:
		return fmt.Sprintf("answers with HTTP status %d", code)
	}
	for _, refusal := range []error{errPlain, errDown, errPlainKey} {
		if errors.Is(err, refusal) {
			return "cannot be fetched: " + refusal.Error()
		}
	}
	if text, ok := s.networkClass(err, cred); ok {
		return text
	}
	if _, network := errors.AsType[*net.OpError](err); network {
		return "cannot be reached"
	}
	return "does not answer as it should"
}

// networkClass names what kept a connection from being made or used.
func (s *Sources) networkClass(err error, cred credential) (text string, ok bool) {
	var (
		refused *dial.RefusedError
		dns     *net.DNSError
		network net.Error
		cert    *tls.CertificateVerificationError
	)
	switch {
	case errors.As(err, &refused):
		return "cannot be fetched: " + refused.Error(), true
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return fmt.Sprintf("did not answer within %s (--source-fetch-timeout)", s.limits.FetchTimeout), true
	case errors.As(err, &dns):
		return "is on a host whose name does not resolve", true
	case errors.Is(err, syscall.ECONNREFUSED):
		return "is on a host that refuses the connection", true
	case errors.As(err, &cert) && len(cred.authority) > 0:
		return fmt.Sprintf("has a certificate that is not trusted by key %s of Secret %s", keyAuthority, cred.secret), true
	case errors.As(err, &cert):
		return "has a certificate that is not trusted", true
	}
	return "", false
}
