package e2e

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"

	"kumodo.io/convoy/dev/env"
)

// link is a network path to a target that can be cut and mended while the target itself stays up, so that a test can
// look at the target meanwhile. It passes bytes through: TLS and certificates are the target's.
type link struct {
	target   *env.ControlPlane
	address  string
	upstream string

	mu       sync.Mutex
	thawed   *sync.Cond   // of frozen
	listener net.Listener // nil while cut
	frozen   bool
	conns    map[net.Conn]bool
}

// newLink opens a path to a target.
func newLink(t *testing.T, target *env.ControlPlane) *link {
	t.Helper()
	address, err := freeAddress()
	if err != nil {
		t.Fatal(err)
	}
	l := &link{target: target, address: address, upstream: target.Server[len("https://"):], conns: map[net.Conn]bool{}}
	l.thawed = sync.NewCond(&l.mu)
	l.mend(t)
	t.Cleanup(func() { l.close() })
	return l
}

// kubeconfig reaches the target through the link. Its user is an administrator of that name.
func (l *link) kubeconfig(t *testing.T, user string) []byte {
	t.Helper()
	return l.through(kubeconfigFor(t, l.target, user))
}

// through is a kubeconfig of the target that leads through the link instead.
func (l *link) through(kubeconfig []byte) []byte {
	return bytes.ReplaceAll(kubeconfig, []byte(l.target.Server), []byte("https://"+l.address))
}

// cut ends all connections and refuses new ones.
func (l *link) cut() { l.close() }

// freeze keeps connections open, also new ones, and lets nothing through.
func (l *link) freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frozen = true
}

// gate is where bytes wait while the link is frozen.
type gate struct {
	net.Conn
	link *link
}

// Write passes bytes on once the link is not frozen.
func (g gate) Write(b []byte) (int, error) {
	g.link.mu.Lock()
	for g.link.frozen && g.link.listener != nil {
		g.link.thawed.Wait()
	}
	g.link.mu.Unlock()
	return g.Conn.Write(b)
}

// mend accepts connections again.
func (l *link) mend(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener != nil {
		return
	}
	listener, err := net.Listen("tcp", l.address)
	if err != nil {
		t.Fatal(err)
	}
	l.listener = listener
	go l.accept(listener)
}

func (l *link) accept(listener net.Listener) {
	for {
		near, err := listener.Accept()
		if err != nil {
			return
		}
		go l.pass(near)
	}
}

func (l *link) pass(near net.Conn) {
	far, err := net.Dial("tcp", l.upstream)
	if err != nil {
		_ = near.Close()
		return
	}
	if !l.hold(near, far) {
		return
	}
	go func() {
		_, _ = io.Copy(gate{far, l}, near)
		l.drop(near, far)
	}()
	_, _ = io.Copy(gate{near, l}, far)
	l.drop(near, far)
}

// hold remembers connections, or closes them when the link was cut meanwhile.
func (l *link) hold(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		if l.listener == nil {
			_ = c.Close()
			continue
		}
		l.conns[c] = true
	}
	return l.listener != nil
}

func (l *link) drop(conns ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(l.conns, c)
	}
}

func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener == nil {
		return
	}
	_ = l.listener.Close()
	l.listener, l.frozen = nil, false
	l.thawed.Broadcast()
	for c := range l.conns {
		_ = c.Close()
		delete(l.conns, c)
	}
}
