package hook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/dial"
	"kumodo.io/convoy/internal/expr"
	"kumodo.io/convoy/internal/failure"
)

const (
	// SignatureHeader holds sha256= and the HMAC of the body in hexadecimal digits.
	SignatureHeader = "X-Convoy-Signature"
	// IdempotencyHeader holds the ID of the run.
	IdempotencyHeader = "Idempotency-Key"

	answerTime = 30 * time.Second
	// longestAfter bounds what a server may ask for with Retry-After.
	longestAfter = 10 * time.Minute
)

// Sender sends the facts of runs to servers of users.
type Sender struct{ dialer *dial.Dialer }

// NewSender sends over the connections of dialer.
func NewSender(dialer *dial.Dialer) *Sender { return &Sender{dialer} }

// URL executes the template of an address, and refuses one that convoy does not send to.
func URL(h *v1alpha1.HookHTTP, c delivery.Context) (*url.URL, error) {
	text, err := expr.Template("http.url", h.URL, c.Values())
	if err != nil {
		return nil, verdict(err)
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || u.Opaque != "":
		return nil, failed("http.url: it is no address such as https://example.com/path")
	case u.User != nil:
		return nil, failed("http.url: it holds a login; the server knows convoy by the signature")
	case u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())):
		return nil, failed("http.url: it must begin with https://; plain http is only for addresses of convoy's own machine")
	}
	u.Fragment = ""
	return u, nil
}

// isLoopback: the dialer refuses such a host unless the operator allows it.
func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

// Keys are what the Secret of a namespace holds for its hooks.
type Keys struct {
	Signature []byte
	// Authority is PEM; empty are the authorities of the system.
	Authority []byte
}

// KeysOf reads the Secret; data is nil when it does not exist.
func KeysOf(data map[string][]byte, namespace string) (Keys, error) {
	k := Keys{Signature: data[v1alpha1.HookSecretKey], Authority: data[v1alpha1.HookSecretAuthority]}
	if len(k.Signature) == 0 {
		return k, failed("http: there is no key to sign with: kubectl -n %s create secret generic %s --from-literal=%s=<text that the server knows too>",
			namespace, v1alpha1.HookSecretName, v1alpha1.HookSecretKey)
	}
	if len(k.Authority) > 0 && !x509.NewCertPool().AppendCertsFromPEM(k.Authority) {
		return k, failed("http: entry %s of Secret %s holds no PEM certificate", v1alpha1.HookSecretAuthority, v1alpha1.HookSecretName)
	}
	return k, nil
}

// Send makes one attempt. Nothing of the answer is read but its status: 2xx is success, 408, 429 and 5xx may pass, and
// everything else, redirects included, is a verdict.
func (s *Sender) Send(ctx context.Context, to *url.URL, k Keys, f Facts) error {
	body, err := json.Marshal(f)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	var answered atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotFirstResponseByte: func() { answered.Store(true) }})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(body))
	if err != nil {
		return failed("http.url: it is no address that can be sent to")
	}
	mac := hmac.New(sha256.New, k.Signature)
	_, _ = mac.Write(body) // a hash takes everything
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "convoy")
	req.Header.Set(SignatureHeader, "sha256="+hex.EncodeToString(mac.Sum(nil)))
	req.Header.Set(IdempotencyHeader, f.ID)
	client := http.Client{
		Transport:     s.transport(k.Authority),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer client.CloseIdleConnections()
	res, err := client.Do(req)
	if err != nil {
		return classify(err, answered.Load())
	}
	_ = res.Body.Close() // what it holds is nobody's business
	return judge(res)
}

func (s *Sender) transport(authority []byte) *http.Transport {
	var roots *x509.CertPool
	if len(authority) > 0 {
		roots = x509.NewCertPool()
		roots.AppendCertsFromPEM(authority)
	}
	return &http.Transport{
		Proxy:                  nil, // never the environment's: the guard judges where a connection goes
		DialContext:            s.dialer.DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    10 * time.Second,
		ResponseHeaderTimeout:  answerTime,
		MaxResponseHeaderBytes: 64 << 10,
		DisableKeepAlives:      true,
	}
}

func judge(res *http.Response) error {
	code := res.StatusCode
	switch {
	case code >= 200 && code < 300:
		return nil
	case code >= 300 && code < 400:
		return failed("http: the server answers with a redirect (HTTP status %d), which is not followed: write its destination into http.url", code)
	case code == http.StatusRequestTimeout, code == http.StatusTooManyRequests, code >= http.StatusInternalServerError:
		again := failure.Transient(v1alpha1.ReasonHookFailed, nil, "http: the server answers with HTTP status %d", code)
		if seconds, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && seconds > 0 {
			again.RetryAfter = min(time.Duration(min(seconds, 1<<20))*time.Second, longestAfter)
		}
		return again
	}
	return failed("http: the server answers with HTTP status %d", code)
}

// classify names what kept the server from answering, in words that do not change. answered: something came, if no answer.
func classify(err error, answered bool) error {
	var (
		record  tls.RecordHeaderError
		refused *dial.RefusedError
		dns     *net.DNSError
		network net.Error
		cert    *tls.CertificateVerificationError
	)
	switch {
	case errors.As(err, &refused):
		return failed("http: %s", refused.Error())
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &cert):
		return pending("http: the server has a certificate that is not trusted")
	case errors.As(err, &dns):
		return pending("http: the name of the server does not resolve")
	case errors.Is(err, syscall.ECONNREFUSED):
		return pending("http: the server refuses the connection")
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return pending("http: the server did not answer in time")
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return pending("http: the server does not speak TLS")
	case answered:
		return pending("http: the server answers with something that is not HTTP, or with too large a header")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return pending("http: the server closes the connection without an answer")
	}
	return pending("http: the server cannot be reached")
}
