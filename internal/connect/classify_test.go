package connect

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/failure"
)

// sentinel stands for text of the far side that must never be shown.
const sentinel = "sentinel-7f3a"

func TestEachAnswerThatIsNoSuccessHasItsOwnMessage(t *testing.T) {
	statusBody := func(code int) string {
		return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"message":"%s","reason":"X"}`, code, sentinel)
	}
	for _, tc := range []struct {
		name        string
		handler     http.HandlerFunc
		want        string
		unreachable bool
		retryAfter  time.Duration
	}{
		{"401", always(401, "text/plain", sentinel), "the API server does not accept the credentials (HTTP 401)", true, 0},
		{"403", always(403, "application/json", statusBody(403)), "the credentials are not allowed to do this (HTTP 403)", false, 0},
		{"429", always(429, "text/plain", sentinel, "Retry-After", "7"), "the API server asks to wait (HTTP 429)", false, 7 * time.Second},
		{"429 as a Status", always(429, "application/json", statusBody(429), "Retry-After", "77"), "the API server asks to wait (HTTP 429)", false, 77 * time.Second},
		{"429 for ever", always(429, "text/plain", sentinel, "Retry-After", "99999999"), "the API server asks to wait (HTTP 429)", false, time.Hour},
		{"500", always(500, "text/html", sentinel), "the server failed, and not with an answer of Kubernetes (HTTP 500)", true, 0},
		{"503", always(503, "text/plain", sentinel, "Retry-After", "1"), "the server failed, and not with an answer of Kubernetes (HTTP 503)", true, time.Second},
		{"500 with a Status", always(500, "application/json", statusBody(500)), "the API server failed (HTTP 500)", false, 0},
		{"503 of the API server's proxy", always(503, "text/plain", sentinel, "Audit-Id", "x"), "the API server failed (HTTP 503)", false, 0},
		{"404", always(404, "text/plain", sentinel), "the server does not answer like a Kubernetes API server", true, 0},
		{"HTML", always(200, "text/html", "<html>"+sentinel), "the server does not answer like a Kubernetes API server", true, 0},
		{"{}", always(200, "application/json", "{}"), "the server does not answer like a Kubernetes API server", true, 0},
		{"a list", always(200, "application/json", "[]"), "the server does not answer like a Kubernetes API server", true, 0},
		{"a version that is none", always(200, "application/json", `{"gitVersion":"`+sentinel+`"}`), "the server does not answer like a Kubernetes API server", true, 0},
		{"nothing but a version", always(200, "application/json", `{"gitVersion":"v1.2.3"}`), "the server does not answer like a Kubernetes API server", true, 0},
	} {
		s, ca := stub(t, tc.handler)
		expectProbe(t, tc.name, kubeconfigFor(s.URL, ca, "{token: t0k}"), tc.want, tc.unreachable, tc.retryAfter)
	}
}

// expectProbe probes twice: the message must not change.
func expectProbe(t *testing.T, name, kubeconfig, want string, unreachable bool, retryAfter time.Duration) {
	t.Helper()
	c := clientOf(t, kubeconfig, Options{AllowProxyURL: true})
	for range 2 {
		_, err := c.Probe(t.Context(), &v1alpha1.Cluster{})
		f, ok := failure.As(err)
		if !ok {
			t.Errorf("%s: %v", name, err)
			return
		}
		if f.Message != want || f.Reason != v1alpha1.ReasonProbeFailed || f.Terminal || f.RetryAfter != retryAfter || Unreachable(err) != unreachable {
			t.Errorf("%s: got %q, retry after %s, unreachable %v, want %q", name, f.Message, f.RetryAfter, Unreachable(err), want)
		}
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	other, _ := stub(t, func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") })
	s, ca := stub(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) })
	kubeconfig := kubeconfigFor(s.URL, ca, "{token: t0k}")
	expectProbe(t, "probe", kubeconfig, "the server redirects to another address, which convoy does not follow (HTTP 302)", true, 0)
	_, err := clientOf(t, kubeconfig, Options{}).Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).
		List(t.Context(), metav1.ListOptions{})
	if !Unreachable(err) {
		t.Errorf("a list: %v", err)
	}
}

func TestTheTextOfAForeignAnswerIsInNoError(t *testing.T) {
	for _, code := range []int{400, 401, 403, 404, 409, 422, 500, 502, 503} {
		s, ca := stub(t, always(code, "text/plain", sentinel))
		c := clientOf(t, kubeconfigFor(s.URL, ca, "{}"), Options{})
		_, err := c.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Get(t.Context(), "x", metav1.GetOptions{})
		if err == nil || strings.Contains(err.Error(), sentinel) {
			t.Errorf("%d: %v", code, err)
		}
		var status apierrors.APIStatus
		if !errors.As(err, &status) || int(status.Status().Code) != code {
			t.Errorf("%d: is no Status of that code: %v", code, err)
		}
	}
}

func TestEachWayNotToConnectHasItsOwnMessage(t *testing.T) {
	ca := newAuthority(t)
	good := ca.issue(t, "127.0.0.1", time.Hour)
	free := freeAddress(t)
	plain := httptest.NewServer(always(200, "text/plain", sentinel))
	t.Cleanup(plain.Close)
	deny := httptest.NewServer(always(407, "text/plain", sentinel))
	t.Cleanup(deny.Close)
	expired := serve(t, &tls.Config{Certificates: []tls.Certificate{ca.issue(t, "127.0.0.1", -time.Hour)}})
	named := serve(t, &tls.Config{Certificates: []tls.Certificate{ca.issue(t, "kube.example.test", time.Hour)}})
	strict := serve(t, &tls.Config{Certificates: []tls.Certificate{good}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool(), MaxVersion: tls.VersionTLS12})
	old := serve(t, &tls.Config{Certificates: []tls.Certificate{good}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11})
	fine := serve(t, &tls.Config{Certificates: []tls.Certificate{good}})
	client := newAuthority(t).issue(t, "client", time.Hour)
	for name, tc := range map[string]struct{ kubeconfig, want string }{
		"refused":            {kubeconfigFor("https://"+free, ca.pem, "{}"), "connection refused: nothing listens at the address of the server"},
		"unknown authority":  {kubeconfigFor(fine, newAuthority(t).pem, "{}"), "the server's certificate is signed by an unknown authority: give its CA"},
		"system's roots":     {kubeconfigFor(fine, nil, "{}"), "the server's certificate is signed by an unknown authority: give its CA"},
		"other name":         {kubeconfigFor(named, ca.pem, "{}"), "the server's certificate is for another name: correct the server, or set tls-server-name in a kubeconfig"},
		"expired":            {kubeconfigFor(expired, ca.pem, "{}"), "the server's certificate has expired or is not valid yet"},
		"client refused":     {kubeconfigFor(strict, ca.pem, userWith(t, client)), "the server refused the client certificate"},
		"old TLS":            {kubeconfigFor(old, ca.pem, "{}"), "the TLS handshake with the server failed"},
		"no TLS":             {kubeconfigFor("https://"+plain.Listener.Addr().String(), ca.pem, "{}"), "the server does not speak TLS"},
		"TLS, but no HTTP":   {kubeconfigFor("https://"+speaking(t, good, "220 mail.example.test ready\r\n"), ca.pem, "{}"), "the server does not answer like a Kubernetes API server"},
		"endless headers":    {kubeconfigFor("https://"+speaking(t, good, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 2<<20)), ca.pem, "{}"), "the server does not answer like a Kubernetes API server"},
		"reset":              {kubeconfigFor("https://"+resetting(t), ca.pem, "{}"), "the connection was closed before the API server answered"},
		"proxy":              {kubeconfigFor(fine, ca.pem, "{}", "proxy-url: 'http://"+free+"'"), "the proxy of the kubeconfig's proxy-url does not connect to the server"},
		"proxy that refuses": {kubeconfigFor(fine, ca.pem, "{}", "proxy-url: '"+deny.URL+"'"), "the proxy of the kubeconfig's proxy-url does not connect to the server"},
		"tls-server-name":    {kubeconfigFor(named, ca.pem, "{}", "tls-server-name: kube.example.test"), "the server does not answer like a Kubernetes API server"},
	} {
		expectProbe(t, name, tc.kubeconfig, tc.want, true, 0)
	}
}

func TestAnExpiredClientCertificateIsTold(t *testing.T) {
	s, ca := stub(t, always(401, "text/plain", sentinel))
	client := newAuthority(t).issue(t, "client", -time.Hour)
	expectProbe(t, "expired", kubeconfigFor(s.URL, ca, userWith(t, client)), "the client certificate has expired (HTTP 401)", true, 0)
}

func TestErrorsWithoutAServerAreClassified(t *testing.T) {
	get := func(err error) error {
		return &url.Error{Op: "Get", URL: "https://10.0.0.1:6443/" + sentinel, Err: err}
	}
	dialling := func(err error) error { return get(&net.OpError{Op: "dial", Net: "tcp", Err: err}) }
	for _, tc := range []struct {
		err         error
		want        string
		unreachable bool
	}{
		{dialling(&net.DNSError{Err: "no such host", Name: sentinel, IsNotFound: true}), "the name of the server does not resolve", true},
		{dialling(&net.DNSError{Err: "i/o timeout", Name: sentinel, IsTimeout: true}), "the name of the server does not resolve", true},
		{dialling(syscall.EHOSTUNREACH), "there is no route to the server", true},
		{dialling(syscall.EADDRNOTAVAIL), "cannot connect to the server", true},
		{dialling(syscall.ETIMEDOUT), "the API server did not answer in time", true},
		{get(io.EOF), "the connection was closed before the API server answered", true},
		{get(errors.New("http2: client connection lost")), "the connection was closed before the API server answered", true},
		{get(errTooLarge), "the answer of the server is too large", false},
		{fmt.Errorf("apply: %w", context.DeadlineExceeded), "the API server did not answer in time", true},
		{fmt.Errorf("apply: %w", context.Canceled), "the request was cancelled", false},
		{errors.New(sentinel), "the request to the API server failed", false},
		{apierrors.NewConflict(schema.GroupResource{}, sentinel, errors.New(sentinel)), "the API server rejected the request (HTTP 409)", false},
		{failure.Terminal(v1alpha1.ReasonApplyFailed, get(syscall.ECONNREFUSED), "x"), "connection refused: nothing listens at the address of the server", true},
	} {
		f := Classify(tc.err)
		if f.Message != tc.want || Unreachable(tc.err) != tc.unreachable || Unreachable(f) != tc.unreachable {
			t.Errorf("%v: got %q, unreachable %v, want %q", tc.err, f.Message, Unreachable(tc.err), tc.want)
		}
	}
	if Classify(nil) != nil || Unreachable(nil) {
		t.Error("no error is a failure")
	}
}

func TestEveryClassHasARow(t *testing.T) {
	for c := unknown; c <= rejected; c++ {
		if _, ok := classes[c]; !ok {
			t.Errorf("class %d has no row", c)
		}
	}
}

// authority issues certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(48 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert: cert, key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// issue makes a certificate for an address or a name that ends in the given time.
func (a *authority) issue(t *testing.T, name string, ends time.Duration) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(ends),
	}
	if ip := net.ParseIP(name); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// userWith is the YAML of a user with a client certificate.
func userWith(t *testing.T, c tls.Certificate) string {
	t.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(kind string, der []byte) string {
		return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return fmt.Sprintf("{client-certificate-data: %s, client-key-data: %s}",
		encode("CERTIFICATE", c.Certificate[0]), encode("PRIVATE KEY", key))
}

// serve starts a server that answers {} to everything, and returns its URL.
func serve(t *testing.T, config *tls.Config) string {
	t.Helper()
	s := httptest.NewUnstartedServer(always(200, "application/json", "{}"))
	s.TLS = config
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

// freeAddress is one where nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// listen accepts connections and hands each to serve.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer func() { _ = conn.Close() }()
				serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	return l.Addr().String()
}

// resetting reads the first bytes and resets the connection.
func resetting(t *testing.T) string {
	t.Helper()
	return listen(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 1))
		_ = c.(*net.TCPConn).SetLinger(0)
	})
}

// speaking answers each request with the same text over TLS.
func speaking(t *testing.T, certificate tls.Certificate, text string) string {
	t.Helper()
	return listen(t, func(c net.Conn) {
		secured := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{certificate}})
		if _, err := secured.Read(make([]byte, 1)); err != nil {
			return
		}
		_, _ = io.WriteString(secured, text)
		_ = secured.Close()
	})
}

// silent reads and never answers.
func silent(t *testing.T) string {
	t.Helper()
	return listen(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
}

// countedServer knows how many of its connections are open.
type countedServer struct {
	*httptest.Server
	mu    sync.Mutex
	conns map[net.Conn]bool
}

func (s *countedServer) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

func counted(t *testing.T, http2 bool, handler http.HandlerFunc) (*countedServer, []byte) {
	t.Helper()
	s := &countedServer{Server: httptest.NewUnstartedServer(handler), conns: map[net.Conn]bool{}}
	s.EnableHTTP2 = http2
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.ConnState = func(c net.Conn, state http.ConnState) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if state == http.StateClosed {
			delete(s.conns, c)
			return
		}
		s.conns[c] = true
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}
