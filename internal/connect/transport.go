package connect

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/client-go/transport"

	"kumodo.io/convoy/internal/dial"
	"kumodo.io/convoy/internal/failure"
	"kumodo.io/convoy/internal/room"
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

// link is the one way of a Client to its target: every request goes through it. It gives each request a deadline and
// a bound, adds the credentials, and sends it on a connection to the expected cluster. When it is closed it lets
// running requests end and then closes their connections.
type link struct {
	next        http.RoundTripper
	base        *http.Transport // opens connections, and keeps none
	address     string
	timeout     time.Duration
	openTimeout time.Duration
	room        *room.Room
	// onUnauthorized is called when the server does not accept the credentials.
	onUnauthorized func()
	identity       identity
	opening        singleflight.Group

	mu       sync.Mutex
	conns    []*conn
	inFlight int
	closed   bool
	done     chan struct{}
}

// newLink builds the way to an endpoint. Nothing is dialled yet.
func newLink(e *endpoint, d *dial.Dialer, r *room.Room, o Options) (*link, error) {
	l := &link{
		address: e.address(), timeout: o.RequestTimeout, openTimeout: o.ProbeTimeout, room: r,
		onUnauthorized: func() {}, done: make(chan struct{}),
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
		DialContext:            d.DialContext,
		TLSClientConfig:        tlsConfig,
		TLSHandshakeTimeout:    handshakeTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		DisableCompression:     e.disableCompression,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}
	// Without a proxy in the kubeconfig there is none: the process's environment must not redirect credentials.
	if e.proxy != nil {
		throughProxy(l.base, e, d)
	}
	var err error
	l.next, err = transport.HTTPWrappersForConfig(&transport.Config{BearerToken: e.token, UserAgent: userAgent}, sender{l})
	return l, err
}

// throughProxy lets the transport connect through the proxy of the endpoint, which judges no address: this does.
func throughProxy(t *http.Transport, e *endpoint, d *dial.Dialer) {
	t.Proxy = http.ProxyURL(e.proxy)
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if err := d.CheckHost(ctx, e.host()); err != nil {
			return nil, err
		}
		return d.DialContext(ctx, network, address)
	}
	t.OnProxyConnectResponse = func(_ context.Context, _ *url.URL, _ *http.Request, r *http.Response) error {
		if r.StatusCode != http.StatusOK {
			return errProxyRefused
		}
		return nil
	}
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
	ctx := r.Context()
	if !watching(r) {
		limited, cancel := context.WithTimeout(ctx, l.timeout)
		ctx, bound = limited, maxAnswer
		r = r.WithContext(ctx)
		end = func() { cancel(); l.end() }
	} else if r.Header.Get("Accept-Encoding") == "" {
		// What unpacks an answer takes 44 KiB for as long as that lasts, and there may be thousands of watches.
		r = r.Clone(ctx)
		r.Header.Set("Accept-Encoding", "identity")
	}
	resp, err := l.next.RoundTrip(r)
	l.note(ctx, err, err == nil && bound < 0)
	if err == nil && resp.StatusCode == http.StatusUnauthorized {
		l.onUnauthorized()
	}
	if err == nil && resp.StatusCode >= http.StatusMultipleChoices {
		resp, err = asStatus(r, resp)
	}
	if err != nil {
		end()
		return nil, l.told(r, err)
	}
	// The request ends when its answer has been read.
	resp.Body = &answer{ReadCloser: resp.Body, left: bound, read: func(err error) { l.note(ctx, err, err == nil) }, end: end}
	return resp, nil
}

// told is what whoever asked is told of a failure. client-go takes a watch that cannot begin, because of a timeout or of a connection that
// breaks, for one that brings nothing: it tries ten times, and then says that all is well. So it is told the class alone.
func (l *link) told(r *http.Request, err error) error {
	if _, verdict := failure.As(err); verdict || !watching(r) || r.Context().Err() != nil {
		return err
	}
	return &classified{class: classOf(err)}
}

// note takes down whether the target answers: an error says that it does not, unless whoever asked gave up or it is about
// something else.
func (l *link) note(ctx context.Context, err error, answered bool) {
	_, verdict := failure.As(err)
	switch {
	case answered:
		l.room.SetTroubled(false)
	case err != nil && !verdict && !errors.Is(ctx.Err(), context.Canceled) && !errors.Is(err, errTooLarge):
		l.room.SetTroubled(true)
	}
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
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		close(l.done)
	}
	l.reapLocked()
}

// reapLocked closes what is left once the link is closed and idle.
func (l *link) reapLocked() {
	if !l.closed || l.inFlight > 0 {
		return
	}
	for _, c := range l.conns {
		c.end()
	}
	l.conns = nil
}
