package connect

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// conn is a connection to the expected cluster, which many requests use.
type conn struct {
	*http.ClientConn
	idle *time.Timer
}

// end closes the connection; requests that run on it fail.
func (c *conn) end() {
	c.idle.Stop()
	_ = c.Close() // it is of no interest any more
}

// take gives a connection that has room for one more request, which is reserved; nil when there is none.
func (l *link) take() *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = slices.DeleteFunc(l.conns, func(c *conn) bool {
		broken := c.Err() != nil
		if broken {
			c.end()
		}
		return broken
	})
	for _, c := range l.conns {
		if c.Reserve() == nil {
			c.idle.Reset(idleTimeout)
			return c
		}
	}
	return nil
}

// adopt lets all requests use a connection that leads to the expected cluster.
func (l *link) adopt(cc *http.ClientConn) *conn {
	c := &conn{ClientConn: cc}
	c.idle = time.AfterFunc(idleTimeout, func() { l.retire(c) })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, c)
	return c
}

// retire closes a connection that began no request for long, unless one still runs on it.
func (l *link) retire(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.Err() == nil && c.InFlight() > 0 {
		c.idle.Reset(idleTimeout)
		return
	}
	c.end()
	l.conns = slices.DeleteFunc(l.conns, func(other *conn) bool { return other == c })
}

// visit is a connection of one's own, for whoever has to learn first which cluster answers.
type visit struct {
	mu   sync.Mutex
	cc   *http.ClientConn
	used bool
}

type visitKey struct{}

// visiting makes the requests of a context go over a connection of their own. leave closes it, unless it was kept.
func visiting(ctx context.Context) (_ context.Context, v *visit, leave func()) {
	v = &visit{}
	return context.WithValue(ctx, visitKey{}, v), v, func() {
		if cc := v.keep(); cc != nil {
			_ = cc.Close() // nobody uses it
		}
	}
}

// keep hands the connection over; nil when there is none.
func (v *visit) keep() *http.ClientConn {
	v.mu.Lock()
	defer v.mu.Unlock()
	cc := v.cc
	v.cc = nil
	return cc
}

// connection is the one of the visit, opened when there is none or when the server closed it. used tells one that had a
// request before.
func (v *visit) connection(ctx context.Context, l *link) (cc *http.ClientConn, used bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.cc != nil && v.cc.Err() == nil {
		used, v.used = v.used, true
		return v.cc, used, nil
	}
	if cc, err = l.base.NewClientConn(ctx, "https", l.address); err != nil {
		return nil, false, err
	}
	v.cc, v.used = cc, true
	return cc, false, nil
}

// brokeEarly reports whether a request got no answer because its connection was at its end, perhaps before it was sent. A
// server that hangs is none of these: another try would hang as well.
func brokeEarly(r *http.Request, cc *http.ClientConn, err error) bool {
	if err == nil || r.Context().Err() != nil || utilnet.IsHTTP2ConnectionLost(err) {
		return false
	}
	return cc.Err() != nil || unserved(err)
}

// unserved reports whether the server said that it did not begin with a request. API servers end connections that way
// when they stop, now and then to spread their clients, and after a request that they do not accept the credentials of.
func unserved(err error) bool {
	var stream http2.StreamError
	refused := errors.As(err, &stream) && stream.Code == http2.ErrCodeRefusedStream
	// The others have no exported types.
	return refused || strings.Contains(err.Error(), "GOAWAY") || strings.Contains(err.Error(), "client conn not usable")
}

// sender sends requests: those of a visit over its connection, all others over connections to the expected cluster.
type sender struct{ link *link }

// RoundTrip sends r. A connection that had requests before and broke before an answer came may have been at its end before
// r was sent: then r is sent again, since all that convoy asks of a target is safe to repeat.
func (s sender) RoundTrip(r *http.Request) (*http.Response, error) {
	for try := 1; ; try++ {
		cc, used, err := s.connection(r.Context())
		if err != nil {
			return nil, err
		}
		resp, err := cc.RoundTrip(r)
		if !used || try == maxTries || !brokeEarly(r, cc, err) {
			return resp, peerError(cc, err)
		}
		if r, err = again(r); err != nil {
			return nil, err
		}
	}
}

// connection is that of the visit that the context is on, or else one to the expected cluster, which was asked who it is.
func (s sender) connection(ctx context.Context) (cc *http.ClientConn, used bool, err error) {
	if v, ok := ctx.Value(visitKey{}).(*visit); ok {
		return v.connection(ctx, s.link)
	}
	c, err := s.link.connection(ctx)
	if err != nil {
		return nil, false, err
	}
	return c.ClientConn, true, nil
}

// maxTries of a request whose connections are at their end.
const maxTries = 3

// peerError tells what broke a connection in the same words, however net/http does: its errors about the other side
// have no types.
func peerError(cc *http.ClientConn, err error) error {
	switch {
	case err == nil, classOf(err) != unknown:
		return err
	case unserved(err):
		return &classified{class: closedEarly, cause: err}
	case cc.Err() == nil:
		return err
	}
	for _, about := range []string{"malformed", "response headers exceeded", "unexpected", "bad header", "protocol error"} {
		if strings.Contains(err.Error(), about) {
			return &classified{class: notKubernetes, cause: err}
		}
	}
	return &classified{class: closedEarly, cause: err}
}

// again is a request that got no answer.
func again(r *http.Request) (*http.Request, error) {
	out := r.Clone(r.Context())
	if r.GetBody == nil {
		return out, nil
	}
	var err error
	out.Body, err = r.GetBody()
	return out, err
}

// connection gives a connection to the expected cluster with room for one request, which is reserved. When there is
// none, whoever comes first opens one, and all others wait for it.
func (l *link) connection(ctx context.Context) (*conn, error) {
	for broken := 0; ; {
		if c := l.take(); c != nil {
			return c, nil
		}
		opened := l.opening.DoChan("", func() (any, error) { return l.open(context.WithoutCancel(ctx)) })
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case got := <-opened:
			if got.Err != nil {
				return nil, got.Err
			}
			if c, ok := got.Val.(*conn); ok && c.Err() != nil {
				broken++
			}
			if broken == maxTries { // a server that closes each connection after one answer
				return nil, &classified{class: closedEarly}
			}
		}
	}
}

// open opens a connection, asks which cluster answers, and lets all requests use it when that is the expected one.
func (l *link) open(ctx context.Context) (*conn, error) {
	l.begin()
	defer l.end()
	ctx, cancel := context.WithTimeout(ctx, l.openTimeout)
	defer cancel()
	ctx, v, leave := visiting(ctx)
	defer leave()
	if _, _, err := v.connection(ctx, l); err != nil {
		return nil, err
	}
	if err := l.identity.confirm(ctx); err != nil {
		return nil, err
	}
	return l.adopt(v.keep()), nil
}
