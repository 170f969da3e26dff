package watcher

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	hubclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// looks notes which workflows are to look.
type looks struct {
	mu   sync.Mutex
	ids  []string
	fail error
	// ended is a workflow that does not run.
	ended string
}

func (l *looks) SignalWorkflow(_ context.Context, id, _, name string, _ any) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id == l.ended {
		return serviceerror.NewNotFound("it does not run")
	}
	if name == delivery.SignalLook {
		l.ids = append(l.ids, id)
	}
	return l.fail
}

func (l *looks) SignalWithStartWorkflow(context.Context, string, string, any, client.StartWorkflowOptions, any, ...any) (client.WorkflowRun, error) {
	return nil, errors.New("a webhook starts nothing")
}

func (l *looks) ExecuteWorkflow(context.Context, client.StartWorkflowOptions, any, ...any) (client.WorkflowRun, error) {
	return nil, errors.New("a webhook starts nothing")
}

const (
	testKey  = "S3NT1NEL-key-of-the-webhook"
	otherKey = "S3NT1NEL-key-of-another-namespace"
)

func takes(namespace, name string, src v1alpha1.Source) *v1alpha1.Release {
	return &v1alpha1.Release{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.ReleaseSpec{Source: src}}
}

func git(url, branch string) v1alpha1.Source {
	return v1alpha1.Source{Git: &v1alpha1.GitSource{URL: url, Ref: v1alpha1.GitRef{Branch: branch}}}
}

// newTestReceiver knows Releases of two namespaces; reads counts the reads of Secrets.
func newTestReceiver(tb testing.TB, l *looks) (r *receiver, reads *int) {
	tb.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		tb.Fatal(err)
	}
	key := func(namespace string, data map[string][]byte) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: webhookSecret}, Data: data}
	}
	reads = new(int)
	hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		key("team", map[string][]byte{"key": []byte(testKey), "previous": []byte("S3NT1NEL-key-of-before")}), key("other", map[string][]byte{"key": []byte(otherKey)}),
		key("short", map[string][]byte{"key": []byte("short")}), key("file", map[string][]byte{"key": []byte(testKey + "\r\n")}),
		takes("team", "app", git("https://git.example.test/team/app.git", "main")), takes("team", "same", git("https://git.example.test/team/app.git", "main")),
		takes("team", "branch", git("git@git.example.test:Team/App", "next")), takes("team", "else", git("https://git.example.test/team/else", "main")),
		takes("team", "artifact", v1alpha1.Source{OCI: &v1alpha1.OCISource{URL: "oci://registry.example.test:5000/team/app"}}),
		takes("team", "chart", v1alpha1.Source{Helm: &v1alpha1.HelmSource{URL: "oci://registry.example.test:5000/charts", Chart: "app"}}),
		takes("team", "local", v1alpha1.Source{ConfigMap: &v1alpha1.ConfigMapSource{Name: "x"}}),
		takes("other", "app", git("https://git.example.test/team/app", "other")),
	).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c hubclient.WithWatch, k hubclient.ObjectKey, o hubclient.Object, opts ...hubclient.GetOption) error {
			*reads++
			return c.Get(ctx, k, o, opts...)
		},
	}).Build()
	return newReceiver("", hub, hub, l), reads
}

// post sends a body, signed as the kind wants it.
func post(r *receiver, path, body, key string, change ...func(http.Header)) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	mac := hmac.New(sha256.New, []byte(key))
	_, _ = mac.Write([]byte(body))
	sum := hex.EncodeToString(mac.Sum(nil))
	switch path[strings.LastIndex(path, "/")+1:] {
	case "github":
		req.Header.Set("X-Hub-Signature-256", "sha256="+sum)
	case "gitea":
		req.Header.Set("X-Gitea-Signature", sum)
	case "generic":
		req.Header.Set("X-Convoy-Signature", "sha256="+sum)
	case "gitlab":
		req.Header.Set("X-Gitlab-Token", key)
	case "oci":
		req.Header.Set("Authorization", "Bearer "+key)
	}
	for _, f := range change {
		f(req.Header)
	}
	w := httptest.NewRecorder()
	r.ServeHTTP(w, req)
	return w
}

func workflowOf(src v1alpha1.Source) string {
	poll, _ := delivery.PollOf("team", src)
	return delivery.SourceWorkflowID(poll.ID())
}

const githubPush = `{"ref":"refs/heads/main","repository":{"clone_url":"https://git.example.test/team/app.git","ssh_url":"git@git.example.test:team/app.git","html_url":"https://git.example.test/team/app"}}`

func TestWhoHasNotTheKeyOfTheNamespaceMakesNothingLookAndLearnsNothing(t *testing.T) {
	header := func(name, value string) func(http.Header) {
		return func(h http.Header) { h.Set(name, value) }
	}
	cases := map[string]struct {
		path, body, key string
		change          func(http.Header)
		want            int
	}{
		"the key of another namespace": {"/webhooks/team/github", githubPush, otherKey, nil, http.StatusUnauthorized},
		"a namespace without a key":    {"/webhooks/nobody/github", githubPush, testKey, nil, http.StatusUnauthorized},
		"an empty key":                 {"/webhooks/nobody/github", githubPush, "", nil, http.StatusUnauthorized},
		"an empty token":               {"/webhooks/nobody/gitlab", githubPush, "", nil, http.StatusUnauthorized},
		"a key that is too short":      {"/webhooks/short/github", githubPush, "short", nil, http.StatusUnauthorized},
		"no signature":                 {"/webhooks/team/github", githubPush, testKey, func(h http.Header) { h.Del("X-Hub-Signature-256") }, http.StatusUnauthorized},
		"no digits":                    {"/webhooks/team/github", githubPush, testKey, header("X-Hub-Signature-256", "sha256=zz"), http.StatusUnauthorized},
		"the older signature":          {"/webhooks/team/github", githubPush, "x", header("X-Hub-Signature", "sha1=0"), http.StatusUnauthorized},
		"a token without Bearer":       {"/webhooks/team/oci", "{}", testKey, header("Authorization", testKey), http.StatusUnauthorized},
		"another kind":                 {"/webhooks/team/bitbucket", githubPush, testKey, nil, http.StatusNotFound},
		"no namespace":                 {"/webhooks/Te_am/github", githubPush, testKey, nil, http.StatusNotFound},
		"another path":                 {"/webhooks/team", githubPush, testKey, nil, http.StatusNotFound},
		"a path that climbs":           {"/webhooks/x/../team/github", githubPush, testKey, nil, http.StatusNotFound},
		"a huge body":                  {"/webhooks/team/github", strings.Repeat("x", maxPushBytes+1), testKey, nil, http.StatusRequestEntityTooLarge},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := &looks{}
			r, _ := newTestReceiver(t, l)
			var change []func(http.Header)
			if tc.change != nil {
				change = append(change, tc.change)
			}
			w := post(r, tc.path, tc.body, tc.key, change...)
			if w.Code != tc.want || len(l.ids) > 0 || strings.Contains(w.Body.String(), "S3NT1NEL") {
				t.Errorf("answer %d %q, looks %v, want %d", w.Code, w.Body, l.ids, tc.want)
			}
			if w.Code == http.StatusUnauthorized && w.Body.String() != "the signature is missing or wrong\n" {
				t.Errorf("it tells one refusal from another: %q", w.Body)
			}
		})
	}
	r, _ := newTestReceiver(t, &looks{})
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/webhooks/team/github", nil))
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != http.MethodPost {
		t.Errorf("GET: %d", w.Code)
	}
}

func TestAStormOfRequestsCostsTheHubLittleAndOtherNamespacesNothing(t *testing.T) {
	r, reads := newTestReceiver(t, &looks{})
	refused := 0
	for range 200 {
		if w := post(r, "/webhooks/nobody/github", githubPush, "wrong"); w.Code == http.StatusTooManyRequests {
			if w.Header().Get("Retry-After") == "" {
				t.Fatal("it does not say when to try again")
			}
			refused++
		}
	}
	if refused < 150 || *reads > 50 {
		t.Errorf("%d of 200 were refused, %d Secrets were read", refused, *reads)
	}
	if w := post(r, "/webhooks/team/github", githubPush, testKey); w.Code != http.StatusAccepted {
		t.Errorf("another namespace: %d", w.Code)
	}
	for i := range 3 * maxNamespaces {
		post(r, fmt.Sprintf("/webhooks/n%d/github", i), "{}", "wrong")
	}
	if n := r.limiters.Len(); n > maxNamespaces {
		t.Errorf("%d limiters are kept", n)
	}
}

func TestAKeyMayEndAsAFileDoes(t *testing.T) {
	r, _ := newTestReceiver(t, &looks{})
	if w := post(r, "/webhooks/file/github", githubPush, testKey); w.Code != http.StatusAccepted {
		t.Errorf("answer %d %q", w.Code, w.Body)
	}
}

func TestWhatIsNotSignedIsRefusedBeforeAnythingIsRead(t *testing.T) {
	r, reads := newTestReceiver(t, &looks{})
	for i := range 1000 {
		path := fmt.Sprintf("/webhooks/n%d/github", i)
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, unread{t}))
		if w.Code != http.StatusUnauthorized {
			t.Fatalf("answer %d %q", w.Code, w.Body)
		}
	}
	if *reads > 0 || r.limiters.Len() > 0 {
		t.Errorf("%d Secrets were read, %d limiters are kept", *reads, r.limiters.Len())
	}
	if n := testutil.ToFloat64(r.count.WithLabelValues("github", "401")); n != 1000 || testutil.CollectAndCount(r.count) != 1 {
		t.Errorf("%v requests are counted in %d series", n, testutil.CollectAndCount(r.count))
	}
}

// unread is a body that nobody may read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

func TestBodiesThatAreHeldAreBounded(t *testing.T) {
	l := &looks{}
	r, reads := newTestReceiver(t, l)
	for range maxPushes {
		r.bodies <- struct{}{}
	}
	if w := post(r, "/webhooks/team/github", githubPush, testKey); w.Code != http.StatusTooManyRequests || *reads > 0 {
		t.Errorf("answer %d, %d Secrets were read", w.Code, *reads)
	}
	<-r.bodies
	if w := post(r, "/webhooks/team/github", githubPush, testKey); w.Code != http.StatusAccepted {
		t.Errorf("answer %d", w.Code)
	}
	if len(r.bodies) != maxPushes-1 {
		t.Errorf("%d bodies are held", len(r.bodies))
	}
}

func TestABodyThatDoesNotEndIsCutOffAndMakesNothingLook(t *testing.T) {
	l := &looks{}
	r, reads := newTestReceiver(t, l)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := r.server(t.Context())
	server.ReadTimeout = time.Second
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, err = fmt.Fprintf(conn, "POST /webhooks/team/gitlab HTTP/1.1\r\nHost: x\r\nX-Gitlab-Token: %s\r\nContent-Length: 100\r\n\r\n{", testKey)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn) // until the server closes the connection
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(got), "HTTP/1.1 400 ") || len(l.ids) > 0 || *reads > 0 {
		t.Errorf("answer %q, looks %v, %d Secrets were read", got, l.ids, *reads)
	}
	if len(r.bodies) > 0 {
		t.Errorf("%d bodies are held", len(r.bodies))
	}
}

func TestThePushThatIsBeingReadIsAnsweredWhenTheProcessStops(t *testing.T) {
	l := &looks{}
	r, _ := newTestReceiver(t, l)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.address = free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- r.Start(ctx) }()
	body, feed := io.Pipe()
	req, err := http.NewRequest(http.MethodPost, "http://"+r.address+"/webhooks/team/gitlab", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Gitlab-Token", testKey)
	answered := make(chan int, 1)
	go func() {
		res, err := (&http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, address string) (conn net.Conn, err error) {
				for conn == nil && ctx.Err() == nil { // it may not listen yet
					conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
				}
				return conn, err
			},
		}}).Do(req)
		if err != nil {
			answered <- 0
			return
		}
		_ = res.Body.Close()
		answered <- res.StatusCode
	}()
	if _, err := io.WriteString(feed, githubPush[:10]); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); len(r.bodies) == 0 && time.Now().Before(deadline); {
		goruntime.Gosched()
	}
	stop()
	if _, err := io.WriteString(feed, githubPush[10:]); err != nil {
		t.Fatal(err)
	}
	_ = feed.Close()
	if status := <-answered; status != http.StatusAccepted {
		t.Errorf("answer %d", status)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
