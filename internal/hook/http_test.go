package hook_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/dial"
	"kumodo.io/convoy/internal/failure"
	"kumodo.io/convoy/internal/hook"
)

func TestAnAddressIsHTTPSAndHoldsNoLogin(t *testing.T) {
	for text, want := range map[string]string{
		"https://{{ .cluster.region }}.example.com/a?b=c": "https://eu.example.com/a?b=c",
		"http://127.0.0.1:8080/a":                         "http://127.0.0.1:8080/a",
	} {
		u, err := hook.URL(&v1alpha1.HookHTTP{URL: text}, facts())
		if err != nil || u.String() != want {
			t.Errorf("%s: %v, %v", text, u, err)
		}
	}
	for text, want := range map[string]string{
		"http://example.com":            "https://",
		"http://localhost:8080":         "https://",
		"ftp://example.com":             "https://",
		"example.com/a":                 "no address",
		"https:":                        "no address",
		"https://me:S3CR3T@example.com": "holds a login",
		"https://{{ .cluster.zone }}":   `"zone"`,
	} {
		_, err := hook.URL(&v1alpha1.HookHTTP{URL: text}, facts())
		if got := verdictOf(t, err); !strings.Contains(got, want) || strings.Contains(got, "S3CR3T") {
			t.Errorf("%s: %s", text, got)
		}
	}
}

func TestWithoutAKeyTheHookSaysHowToMakeOne(t *testing.T) {
	_, err := hook.KeysOf(nil, "team")
	if got := verdictOf(t, err); !strings.Contains(got, "kubectl -n team create secret generic convoy-hooks --from-literal=key=") {
		t.Error(got)
	}
	if _, err := hook.KeysOf(map[string][]byte{"key": []byte("k"), "ca.crt": []byte("none")}, "team"); !strings.Contains(verdictOf(t, err), "ca.crt") {
		t.Error(err)
	}
}

// TestWhatIsNoAnswerIsToldApart: a server that is there, and does not answer, is not one that cannot be reached.
func TestWhatIsNoAnswerIsToldApart(t *testing.T) {
	sender := hook.NewSender(dial.New(dial.Policy{AllowLoopback: true}))
	for name, tc := range map[string]struct{ scheme, says, want string }{
		"garbage":            {"http", "220 mail.example.test S3CR3T ready\r\n", "not HTTP"},
		"garbage, cut short": {"http", "S3CR3T", "not HTTP"},
		"endless headers":    {"http", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("S3CR3T", 1<<17), "too large a header"},
		"nothing":            {"http", "", "closes the connection without an answer"},
		"no TLS":             {"https", "220 mail.example.test S3CR3T ready\r\n", "does not speak TLS"},
		"HTTP and no TLS":    {"https", "HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			err := sender.Send(t.Context(), &url.URL{Scheme: tc.scheme, Host: speaking(t, tc.says)}, hook.Keys{Signature: []byte("k")}, hook.Facts{})
			f, ok := failure.As(err)
			if !ok || f.Terminal || !strings.Contains(f.Message, tc.want) || strings.Contains(f.Message, "S3CR3T") {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

// speaking is the address of a server that says one thing to whoever has said something, and hangs up.
func speaking(t *testing.T, text string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 4096))
			_, _ = io.WriteString(c, text)
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}

// TestSend: each answer of a server has its class, and nothing of it but its status is told.
func TestSend(t *testing.T) {
	var wrong, requests atomic.Int32
	var status atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		requests.Add(1)
		body, _ := io.ReadAll(req.Body)
		mac := hmac.New(sha256.New, []byte("k3y"))
		mac.Write(body)
		var f hook.Facts
		if req.Header.Get("X-Convoy-Signature") != "sha256="+hex.EncodeToString(mac.Sum(nil)) || json.Unmarshal(body, &f) != nil ||
			f.Hook != "notify" || req.Header.Get("Idempotency-Key") != f.ID || req.Method != http.MethodPost || req.URL.Path != "/hook" {
			wrong.Add(1)
		}
		w.Header().Set("Location", "/elsewhere")
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(int(status.Load()))
		_, _ = io.WriteString(w, "S3CR3T")
	}))
	defer server.Close()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	to, _ := url.Parse(server.URL + "/hook")
	sender := hook.NewSender(dial.New(dial.Policy{AllowLoopback: true}))
	run := &v1alpha1.HookStatus{Name: "notify", Phase: v1alpha1.HookPostApply, Rollout: 1}
	for code, want := range map[int]string{
		200: "", 204: "", 302: "redirect", 307: "redirect", 400: "status 400", 401: "status 401", 404: "status 404",
		408: "again", 429: "again", 500: "again", 503: "again",
	} {
		status.Store(int32(code))
		err := sender.Send(t.Context(), to, hook.Keys{Signature: []byte("k3y"), Authority: authority}, hook.FactsOf(release(), run))
		switch f, _ := failure.As(err); {
		case want == "" && err == nil:
		case want == "again" && f != nil && !f.Terminal && f.RetryAfter == 7*time.Second:
		case want != "" && want != "again" && strings.Contains(verdictOf(t, err), want):
		default:
			t.Errorf("HTTP status %d: %v, want %q", code, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "S3CR3T") {
			t.Errorf("the error holds what the server said: %v", err)
		}
	}
	if n := requests.Load(); n != 11 || wrong.Load() > 0 {
		t.Errorf("%d requests for 11 runs, %d of them wrong", n, wrong.Load())
	}
	guarded := hook.NewSender(dial.New(dial.Policy{}))
	if err := guarded.Send(t.Context(), to, hook.Keys{Signature: []byte("k")}, hook.Facts{}); !strings.Contains(verdictOf(t, err), "loopback") {
		t.Errorf("the guard lets through: %v", err)
	}
	err := sender.Send(t.Context(), to, hook.Keys{Signature: []byte("k")}, hook.Facts{})
	if f, ok := failure.As(err); !ok || f.Terminal || !strings.Contains(f.Message, "not trusted") {
		t.Errorf("a certificate of nobody: %v", err)
	}
	server.Close()
	err = sender.Send(t.Context(), to, hook.Keys{Signature: []byte("k")}, hook.Facts{})
	if f, ok := failure.As(err); !ok || f.Terminal || !strings.Contains(f.Message, "refuses the connection") {
		t.Errorf("a server that is gone: %v", err)
	}
}
