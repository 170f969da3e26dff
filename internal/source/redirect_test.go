package source

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/dial"
)

// redirector answers each request with a redirect to the same path below base, and with what else a server could try.
func redirector(t *testing.T, base func() string) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "S3NT1NEL", Path: "/"})
		http.Redirect(w, r, base()+r.URL.RequestURI(), http.StatusFound)
	}))
	t.Cleanup(server.Close)
	return server
}

func TestARedirectIsGuardedLikeTheFirstAddress(t *testing.T) {
	for target, message := range map[string]string{
		"http://169.254.169.254":                 "convoy does not connect to link-local addresses",
		"http://[::ffff:169.254.169.254]":        "convoy does not connect to link-local addresses",
		"http://[64:ff9b::a9fe:a9fe]":            "convoy does not connect to link-local addresses",
		"http://metadata@100.100.100.200":        "convoy does not connect to metadata services of clouds",
		"https://[fd00:ec2::254]":                "convoy does not connect to metadata services of clouds",
		"http://0.0.0.0":                         "convoy does not connect to unspecified addresses",
		"http://127.0.0.2:1":                     "convoy does not connect to addresses that its operator excludes with --deny-addresses",
		"http://[::ffff:127.0.0.2]:1/elsewhere/": "convoy does not connect to addresses that its operator excludes with --deny-addresses",
	} {
		first := redirector(t, func() string { return target })
		twice := redirector(t, func() string { return first.URL })
		guard := dial.New(dial.Policy{AllowLoopback: true, Deny: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}})
		for _, server := range []*httptest.Server{first, twice} {
			repo := server.URL + "/app"
			_, err := New(nil, guard, Limits{}).Fetch(t.Context(), "team", gitSource(repo, "main", ""))
			wantFailure(t, err, repo, false, v1alpha1.ReasonSourceFailed, "repository URL cannot be fetched: "+message)
		}
	}
}

func TestARefusedHostOfASourceIsNamedByItsKind(t *testing.T) {
	s := newGitServer(t)
	s.push(map[string]string{"f": "one"})
	_, port, _ := strings.Cut(strings.TrimPrefix(s.url, "http://"), ":")
	for repo, message := range map[string]string{
		s.url:                        "convoy does not connect to loopback addresses unless its operator permits it with --allow-loopback",
		"http://localhost:" + port:   "convoy does not connect to loopback addresses unless its operator permits it with --allow-loopback",
		"http://0.0.0.0:" + port:     "convoy does not connect to unspecified addresses",
		"http://169.254.169.254/app": "convoy does not connect to link-local addresses",
	} {
		_, err := New(nil, dial.New(dial.Policy{}), Limits{}).Fetch(t.Context(), "team", gitSource(repo, "main", ""))
		wantFailure(t, err, repo, false, v1alpha1.ReasonSourceFailed, "repository URL cannot be fetched: "+message)
	}
	if n := s.lists.Load(); n != 0 {
		t.Errorf("%d requests reached the server", n)
	}
}

// headers are what a server was sent, by method.
type headers struct {
	mu   sync.Mutex
	seen map[string]http.Header
}

func (h *headers) add(r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen[r.Method] = r.Header.Clone()
}

func TestARedirectToAnotherHostCarriesNoCredentials(t *testing.T) {
	s := newGitServer(t)
	commit := s.push(map[string]string{"f": "one"})
	backend, err := url.Parse(strings.TrimSuffix(s.url, "/app.git"))
	if err != nil {
		t.Fatal(err)
	}
	got := headers{seen: map[string]http.Header{}}
	proxy := httputil.NewSingleHostReverseProxy(backend)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got.add(r)
		proxy.ServeHTTP(w, r)
	}))
	defer other.Close()

	// The first server names itself with credentials, then the other one with some more.
	var first *httptest.Server
	hops := 0
	first = redirector(t, func() string {
		if hops++; hops == 1 {
			return strings.Replace(first.URL, "http://", "http://user:S3NT1NEL@", 1)
		}
		return strings.Replace(other.URL, "http://", "http://user:S3NT1NEL@", 1)
	})
	b, err := New(nil, anywhere, Limits{}).Fetch(t.Context(), "team", gitSource(first.URL+"/app.git", "main", ""))
	if err != nil {
		t.Fatal(err)
	}
	if want := "main@sha1:" + commit; b.Revision != want {
		t.Errorf("revision %q, want %q", b.Revision, want)
	}
	got.mu.Lock()
	defer got.mu.Unlock()
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		h, ok := got.seen[method]
		if !ok {
			t.Fatalf("the other server got no %s", method)
		}
		var names []string
		for _, name := range []string{"Authorization", "Cookie", "Proxy-Authorization", "Referer", "X-Forwarded-For"} {
			if h.Get(name) != "" {
				names = append(names, name)
			}
		}
		if diff := cmp.Diff([]string(nil), names); diff != "" {
			t.Errorf("%s to the other server carries (-want +got):\n%s", method, diff)
		}
	}
}

func TestARedirectOfTheFetchItselfIsNotFollowed(t *testing.T) {
	s := newGitServer(t)
	s.push(map[string]string{"f": "one"})
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the redirect was followed")
	}))
	defer elsewhere.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			http.Redirect(w, r, elsewhere.URL+r.URL.RequestURI(), http.StatusTemporaryRedirect)
			return
		}
		relay(w, strings.TrimSuffix(s.url, "/app.git")+r.URL.String())
	}))
	defer server.Close()
	repo := server.URL + "/app.git"
	_, err := New(nil, anywhere, Limits{}).Fetch(t.Context(), "team", gitSource(repo, "main", ""))
	wantFailure(t, err, repo, false, v1alpha1.ReasonSourceFailed, "repository URL cannot be reached")
}
