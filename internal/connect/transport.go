package connect

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/transport"

	"kumodo.io/convoy/internal/dial"
)

const (
	userAgent = "convoy"
	// A request that never ends is cut by its own deadline; these only find a dead peer sooner.
	handshakeTimeout = 10 * time.Second
	pingAfter        = 15 * time.Second
	pingTimeout      = 5 * time.Second
	idleTimeout      = 90 * time.Second
	maxHeaderBytes   = 1 << 20
)

// link is the one transport of a Client: every request to the target goes through it. It gives each request
// a deadline and a bound, adds the credentials, and when it is closed it lets running requests end and
// then closes their connections.
type link struct {
	next    http.RoundTripper
	base    *http.Transport
	timeout time.Duration
	dialer  *dial.Dialer
	// proxied is the host that a proxy connects to, empty without a proxy.
	proxied string
	// onUnauthorized is called when the server does not accept the credentials.
	onUnauthorized func()
	// opened counts the connections that were opened.
	opened atomic.Int64
	// troubled is whether the last request that ended got no answer.
	troubled atomic.Bool

	mu       sync.Mutex
	conns    map[*trackedConn]struct{}
	inFlight int
	closed   bool
	done     chan struct{}
}

// newLink builds the transport of an endpoint. Nothing is dialled yet.
func newLink(e *endpoint, d *dial.Dialer, o Options) (*link, error) {
	l := &link{
		timeout: o.RequestTimeout, dialer: d, onUnauthorized: func() {},
		conns: map[*trackedConn]struct{}{}, done: make(chan struct{}),
	}
	tlsConfig := &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: e.roots, ServerName: e.serverName,
		InsecureSkipVerify: e.insecure, //nolint:gosec // set only when the operator permits the kubeconfig field
	}
	if e.certificate != nil {
		// Present it always: which authorities a server accepts is often not what it announces.
		tlsConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return e.certificate, nil
		}
	}
	l.base = &http.Transport{
		DialContext:            l.dial,
		TLSClientConfig:        tlsConfig,
		TLSHandshakeTimeout:    handshakeTimeout,
		IdleConnTimeout:        idleTimeout,
		MaxIdleConnsPerHost:    25,
		MaxResponseHeaderBytes: maxHeaderBytes,
		DisableCompression:     e.disableCompression,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}
	// Without a proxy in the kubeconfig there is none: the process's environment must not redirect credentials.
	if e.proxy != nil {
		l.proxied = e.host()
		l.base.Proxy = http.ProxyURL(e.proxy)
		l.base.OnProxyConnectResponse = func(_ context.Context, _ *url.URL, _ *http.Request, r *http.Response) error {
			if r.StatusCode != http.StatusOK {
				return errProxyRefused
			}
			return nil
		}
	}
	next, err := transport.HTTPWrappersForConfig(&transport.Config{BearerToken: e.token, UserAgent: userAgent}, l.base)
	if err != nil {
		return nil, err
	}
	l.next = next
	return l, nil
}

// httpClient is an http.Client over the link that follows no redirect: credentials go to the server of the
// kubeconfig only.
func httpClient(rt http.RoundTripper) *http.Client {
	return &http.Client{Transport: rt, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

// RoundTrip serves one request. A watch has no deadline and no bound of its own: whoever watches ends it.
func (l *link) RoundTrip(r *http.Request) (*http.Response, error) {
	l.begin()
	end, bound := l.end, int64(-1)
	if !watching(r) {
		ctx, cancel := context.WithTimeout(r.Context(), l.timeout)
		r, bound = r.WithContext(ctx), maxAnswer
		end = func() { cancel(); l.end() }
	}
	resp, err := l.next.RoundTrip(r)
	if !errors.Is(err, context.Canceled) && !errors.Is(err, errNoConnection) { // these say nothing about the server
		l.troubled.Store(err != nil)
	}
	if err == nil && resp.StatusCode == http.StatusUnauthorized {
		l.onUnauthorized()
	}
	if err == nil && resp.StatusCode >= http.StatusMultipleChoices {
		resp, err = asStatus(r, resp)
	}
	if err != nil {
		end()
		return nil, err
	}
	// The request ends when its answer has been read.
	resp.Body = &answer{ReadCloser: resp.Body, left: bound, end: end}
	return resp, nil
}

func watching(r *http.Request) bool {
	watch := r.URL.Query().Get("watch")
	return watch == "true" || watch == "1"
}

// busy reports whether a request is running.
func (l *link) busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inFlight > 0
}

func (l *link) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight++
}

func (l *link) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight--
	l.reapLocked()
}

// close lets no connection outlive the requests that run on it now.
func (l *link) close() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.done)
	}
	l.reapLocked()
	l.mu.Unlock()
	// Outside the lock: the transport closes connections, and they take it.
	l.base.CloseIdleConnections()
}

// reapLocked closes what is left once the link is closed and idle. Closing idle connections is not enough:
// the transport may be dialling one that nobody waits for any more.
func (l *link) reapLocked() {
	if !l.closed || l.inFlight > 0 {
		return
	}
	for c := range l.conns {
		_ = c.Conn.Close()
	}
	clear(l.conns)
}

// dial is the only place that opens a socket to a target, or to the proxy before it.
func (l *link) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if ctx.Value(mayOpen{}) == nil {
		return nil, errNoConnection
	}
	if l.proxied != "" {
		if err := l.dialer.CheckHost(ctx, l.proxied); err != nil {
			return nil, err
		}
	}
	conn, err := l.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.opened.Add(1)
	tracked := &trackedConn{Conn: conn, link: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[tracked] = struct{}{}
	l.reapLocked()
	return tracked, nil
}

// trackedConn is a connection that the link can still find.
type trackedConn struct {
	net.Conn
	link *link
}

// Close closes the connection and forgets it.
func (c *trackedConn) Close() error {
	c.link.mu.Lock()
	delete(c.link.conns, c)
	c.link.mu.Unlock()
	return c.Conn.Close()
}
