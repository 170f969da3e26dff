package source

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"sync"
	"time"

	"github.com/golang/groupcache/lru"

	"kumodo.io/convoy/internal/dial"
)

// maxTransports is how many sets of connections are kept for authorities of users.
const maxTransports = 64

// transports are connections to HTTP servers, all of them the guarded dialer's. Connections that trust one set of
// authorities are never used for another.
type transports struct {
	dialer  *dial.Dialer
	timeout time.Duration // of an answer's head
	public  *http.Transport

	mu  sync.Mutex
	own *lru.Cache // of *http.Transport, by the authorities that each trusts instead of the system's
}

func newTransports(dialer *dial.Dialer, timeout time.Duration) *transports {
	t := &transports{dialer: dialer, timeout: timeout, own: lru.New(maxTransports)}
	t.public = t.transport(nil)
	t.own.OnEvicted = func(_ lru.Key, v any) {
		if kept, ok := v.(*http.Transport); ok {
			kept.CloseIdleConnections()
		}
	}
	return t
}

func (t *transports) transport(roots *x509.CertPool) *http.Transport {
	return &http.Transport{
		Proxy:                 nil, // never the environment's: what is fetched does not depend on where convoy runs
		DialContext:           t.dialer.DialContext,
		TLSClientConfig:       &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: t.timeout,
		IdleConnTimeout:       60 * time.Second,
		MaxIdleConnsPerHost:   4,
		ForceAttemptHTTP2:     true,
	}
}

// trusting gives the connections that trust the PEM authorities, or the system's when there are none.
func (t *transports) trusting(authorities []byte) *http.Transport {
	if len(authorities) == 0 {
		return t.public
	}
	key := fingerprint(authorities)
	t.mu.Lock()
	defer t.mu.Unlock()
	if v, ok := t.own.Get(key); ok {
		if kept, ok := v.(*http.Transport); ok {
			return kept
		}
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authorities)
	kept := t.transport(roots)
	t.own.Add(key, kept)
	return kept
}
