package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"kumodo.io/convoy/api/v1alpha1"
)

// hangingServer accepts connections and never answers. accepted counts them.
func hangingServer(t *testing.T) (url string, accepted chan net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted = make(chan net.Conn, 10)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	return "http://" + l.Addr().String() + "/app.git", accepted
}

func TestAServerThatNeverAnswersEndsAtTheTimeout(t *testing.T) {
	url, _ := hangingServer(t)
	started := time.Now()
	_, err := New(nil, anywhere, Limits{FetchTimeout: 200 * time.Millisecond}).Fetch(t.Context(), "team", gitSource(url, "main", ""))
	wantFailure(t, err, url, false, v1alpha1.ReasonSourceFailed, "repository URL did not answer within 200ms (--source-fetch-timeout)")
	if took := time.Since(started); took > 10*time.Second {
		t.Errorf("took %s", took)
	}
}

func TestAServerThatStopsInTheMiddleEndsAtTheTimeout(t *testing.T) {
	s := newGitServer(t)
	s.push(map[string]string{"f": "one"})
	stop := make(chan struct{})
	defer close(stop)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			_, _ = fmt.Fprint(w, "0008")
			w.(http.Flusher).Flush()
			<-stop
			return
		}
		relay(w, strings.TrimSuffix(s.url, "/app.git")+r.URL.String())
	}))
	defer proxy.CloseClientConnections()
	url := proxy.URL + "/app.git"
	_, err := New(nil, anywhere, Limits{FetchTimeout: time.Second}).Fetch(t.Context(), "team", gitSource(url, "main", ""))
	wantFailure(t, err, url, false, v1alpha1.ReasonSourceFailed, "repository URL did not answer within 1s (--source-fetch-timeout)")
}

// relay answers with what a GET of the URL gives.
func relay(w http.ResponseWriter, url string) {
	res, err := http.Get(url)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = res.Body.Close() }()
	w.Header().Set("Content-Type", res.Header.Get("Content-Type"))
	_, _ = io.Copy(w, res.Body)
}

func TestACancelledFetchEndsAtOnce(t *testing.T) {
	url, accepted := hangingServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-accepted
		cancel()
	}()
	started := time.Now()
	_, err := New(nil, anywhere, Limits{}).Fetch(ctx, "team", gitSource(url, "main", ""))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if took := time.Since(started); took > 10*time.Second {
		t.Errorf("took %s", took)
	}
}

func TestTheDeadlineOfTheCallerIsNotBlamedOnTheServer(t *testing.T) {
	url, _ := hangingServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := New(nil, anywhere, Limits{}).Fetch(ctx, "team", gitSource(url, "main", ""))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

func TestFetchClassifiesServersThatAreNoGitServers(t *testing.T) {
	const text = "S3NT1NEL of the far side"
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, text, code) }
	}
	for name, tc := range map[string]struct {
		handler         http.HandlerFunc
		reason, message string
	}{
		"credentials asked for": {status(401), v1alpha1.ReasonSourceFailed, "does not exist, or asks for credentials; name their Secret in spec.source.git.secretRef"},
		"forbidden":             {status(403), v1alpha1.ReasonSourceFailed, "does not exist, or asks for credentials; name their Secret in spec.source.git.secretRef"},
		"not found":             {status(404), v1alpha1.ReasonSourceNotFound, "does not exist"},
		"down":                  {status(503), v1alpha1.ReasonSourceFailed, "answers with HTTP status 503"},
		"too many requests":     {status(429), v1alpha1.ReasonSourceFailed, "answers with HTTP status 429"},
		"a web page":            {status(200), v1alpha1.ReasonSourceFailed, "does not answer like a git server"},
		"nothing":               {func(http.ResponseWriter, *http.Request) {}, v1alpha1.ReasonSourceFailed, "does not answer like a git server"},
		"a long error": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			for range 1000 {
				_, _ = w.Write(make([]byte, 64<<10))
			}
		}, v1alpha1.ReasonSourceFailed, "answers with HTTP status 500"},
		"a broken connection": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, v1alpha1.ReasonSourceFailed, "cannot be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(tc.handler)
			defer server.Close()
			url := server.URL + "/app"
			_, err := New(nil, anywhere, Limits{}).Fetch(t.Context(), "team", gitSource(url, "main", ""))
			wantFailure(t, err, url, false, tc.reason, "repository URL "+tc.message)
		})
	}
}

func TestFetchClassifiesHostsThatCannotBeReached(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := "http://" + l.Addr().String() + "/app"
	_ = l.Close()
	tls := httptest.NewUnstartedServer(http.NotFoundHandler())
	tls.Config.ErrorLog = log.New(io.Discard, "", 0)
	tls.StartTLS()
	defer tls.Close()
	for url, message := range map[string]string{
		closed:                         "repository URL is on a host that refuses the connection",
		tls.URL + "/app":               "repository URL has a certificate that is not trusted",
		"http://no.such.invalid/app":   "repository URL is on a host whose name does not resolve",
		"http://127.0.0.1:999999/app":  "repository URL cannot be reached",
		"http://[::1%25none]:1/app/x/": "repository URL cannot be reached",
	} {
		_, err := New(nil, anywhere, Limits{}).Fetch(t.Context(), "team", gitSource(url, "main", ""))
		wantFailure(t, err, strings.TrimSuffix(url, "/"), false, v1alpha1.ReasonSourceFailed, message)
	}
}

func TestLimitsAreNamedInTheError(t *testing.T) {
	s := newGitServer(t)
	s.push(map[string]string{"a/b/c/d.yaml": strings.Repeat("x", 2000), "e.yaml": "e", "zeros": strings.Repeat("\x00", 8<<20)})
	for name, tc := range map[string]struct {
		limits  Limits
		path    string
		message string
	}{
		"bytes":      {Limits{MaxBytes: 1000}, "a", "the source holds more than 1000 bytes; choose a smaller path or raise --source-max-bytes"},
		"files":      {Limits{MaxFiles: 3}, "", "the source holds more than 3 files and folders; choose a smaller path or raise --source-max-files"},
		"depth":      {Limits{MaxDepth: 2}, "", "the source has folders more than 2 deep; choose a smaller path or raise --source-max-depth"},
		"repository": {Limits{MaxRepositoryBytes: 1 << 20}, "a", "repository URL holds more than 1048576 bytes in one commit; raise --source-max-repository-bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(nil, anywhere, tc.limits).Fetch(t.Context(), "team", s.source(tc.path))
			wantFailure(t, err, s.url, false, v1alpha1.ReasonSourceFailed, tc.message)
		})
	}
	if _, err := New(nil, anywhere, Limits{MaxBytes: 1000}).Fetch(t.Context(), "team", s.source("a/b/c")); err == nil {
		t.Error("a bundle of 2000 bytes fits into 1000")
	}
	if _, err := New(nil, anywhere, Limits{MaxBytes: 2000, MaxFiles: 3, MaxDepth: 2}).Fetch(t.Context(), "team", s.source("a")); err != nil {
		t.Errorf("a bundle within its limits: %v", err)
	}
}
