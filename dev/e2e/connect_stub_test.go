package e2e

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"

	"kumodo.io/convoy/dev/env"
)

// stubSentinel stands in what a stub answers. Nothing of an answer may be seen anywhere: checkLeaks looks for it.
const stubSentinel = "sentinel-7f3a"

// stub is a TLS server on loopback whose conduct a test chooses, also while it runs.
type stub struct {
	url    string
	ca     []byte // of the certificate that it has unless its conduct names another
	server *httptest.Server
	ended  chan struct{}

	mu       sync.Mutex
	conduct  conduct
	held     []net.Conn      // taken before TLS
	requests []*http.Request // that came through, without their bodies
}

// conduct is how a stub treats connections and requests.
type conduct struct {
	// take, when it is set, gets each connection before TLS and is all that happens to it.
	take func(*stub, net.Conn)
	// certificate is presented instead of the right one.
	certificate *tls.Certificate
	// answer gets each request.
	answer func(*stub, http.ResponseWriter, *http.Request)
}

// newStub starts a stub on an IP address of loopback.
func newStub(t *testing.T, ip string, c conduct) *stub {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		t.Fatalf("listen on %s: %v", ip, err)
	}
	s := &stub{ca: authority(t).pem, conduct: c, ended: make(chan struct{})}
	right := authority(t).sign(t, func(*x509.Certificate) {})
	s.server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	_ = s.server.Listener.Close()
	s.server.Listener = &stubListener{Listener: listener, stub: s}
	s.server.EnableHTTP2 = true
	s.server.TLS = &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			chosen := right
			if other := s.now().certificate; other != nil {
				chosen = other
			}
			return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, Certificates: []tls.Certificate{*chosen}}, nil
		},
	}
	s.server.Config.ErrorLog = log.New(io.Discard, "", 0) // failed handshakes are what it is for
	s.server.StartTLS()
	s.url = "https://" + listener.Addr().String()
	t.Cleanup(func() {
		close(s.ended)
		s.release()
		s.server.CloseClientConnections()
		s.server.Close()
	})
	return s
}

// kubeconfig leads to the stub, with a token.
func (s *stub) kubeconfig(t *testing.T, token string) []byte {
	t.Helper()
	return tokenKubeconfig(t, s.url, s.ca, token)
}

// tokenKubeconfig is a kubeconfig of a server and a token.
func tokenKubeconfig(t *testing.T, server string, ca []byte, token string) []byte {
	t.Helper()
	c := clientcmdapi.NewConfig()
	c.Clusters["stub"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	c.AuthInfos["stub"] = &clientcmdapi.AuthInfo{Token: token}
	c.Contexts["stub"] = &clientcmdapi.Context{Cluster: "stub", AuthInfo: "stub"}
	c.CurrentContext = "stub"
	content, err := clientcmd.Write(*c)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func (s *stub) now() conduct {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conduct
}

// become changes the conduct for connections and requests to come, and ends the connections that are there.
func (s *stub) become(c conduct) {
	s.mu.Lock()
	s.conduct = c
	s.mu.Unlock()
	s.release()
	s.server.CloseClientConnections()
}

// hold keeps a connection open that nobody serves.
func (s *stub) hold(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = append(s.held, c)
}

func (s *stub) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.held {
		_ = c.Close()
	}
	s.held = nil
}

// taken is how many connections are held, and came is how many requests came.
func (s *stub) taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held)
}

func (s *stub) came() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*http.Request(nil), s.requests...)
}

func (s *stub) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r)
	answer := s.conduct.answer
	s.mu.Unlock()
	answer(s, w, r)
}

// stubListener lets the conduct take connections before TLS.
type stubListener struct {
	net.Listener
	stub *stub
}

// Accept returns the next connection that is served.
func (l *stubListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		take := l.stub.now().take
		if take == nil {
			return c, nil
		}
		take(l.stub, c)
	}
}

// hangs never answers a request.
func hangs(s *stub, _ http.ResponseWriter, r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-s.ended:
	}
}

// trickles begins an answer and sends one byte of it a second.
func trickles(s *stub, w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusOK)
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		if _, err := w.Write([]byte(" ")); err != nil {
			return
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			return
		}
		select {
		case <-ticker.C:
		case <-r.Context().Done():
			return
		case <-s.ended:
			return
		}
	}
}

// breaksOff ends the connection in the middle of an answer.
func breaksOff(_ *stub, w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "1000")
	_, _ = w.Write([]byte(`{"gitVersion": "`))
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// resets answers a connection with a reset.
func resets(_ *stub, c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// says always gives the same answer. Headers are "Name: value".
func says(code int, body string, headers ...string) func(*stub, http.ResponseWriter, *http.Request) {
	return func(_ *stub, w http.ResponseWriter, _ *http.Request) {
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			w.Header().Set(name, value)
		}
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}
}

// stubAuthority signs the certificates of all stubs.
type stubAuthority struct {
	pem  []byte
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

var stubAuthorities = sync.OnceValues(newStubAuthority)

func newStubAuthority() (*stubAuthority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	ca, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "stub-ca"}, key)
	if err != nil {
		return nil, err
	}
	content, err := cert.EncodeCertificates(ca)
	return &stubAuthority{pem: content, cert: ca, key: key}, err
}

func authority(t *testing.T) *stubAuthority {
	t.Helper()
	a, err := stubAuthorities()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// sign makes a certificate for loopback, with a difference.
func (a *stubAuthority) sign(t *testing.T, change func(*x509.Certificate)) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "stub"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	change(template)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// secretToken is a token that no other test uses.
func secretToken(name string) string { return fmt.Sprintf("t0k-%s-%016x", name, mathrand.Uint64()) }

// credentialed reports whether a request carries a token.
func credentialed(r *http.Request, token string) bool {
	var headers bytes.Buffer
	_ = r.Header.Write(&headers)
	return strings.Contains(headers.String()+r.URL.String(), token)
}

// forwards passes requests below a path on to a target, as its administrator. What is elsewhere does not exist.
func forwards(t *testing.T, target *env.ControlPlane, prefix string) func(*stub, http.ResponseWriter, *http.Request) {
	t.Helper()
	transport, err := rest.TransportFor(target.Config())
	if err != nil {
		t.Fatal(err)
	}
	far, err := url.Parse(target.Server)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(far)
			r.Out.Header.Del("Authorization") // it is meant for the stub
		},
	}
	handler := http.StripPrefix(prefix, proxy)
	return func(_ *stub, w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }
}
