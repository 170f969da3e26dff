package watcher

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

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
}

func (l *looks) SignalWorkflow(_ context.Context, id, _, name string, _ any) error {
	l.mu.Lock()
	defer l.mu.Unlock()
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
		key("short", map[string][]byte{"key": []byte("short")}),
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
	r.routes().ServeHTTP(w, req)
	return w
}

func workflowOf(src v1alpha1.Source) string {
	poll, _ := delivery.PollOf("team", src)
	return delivery.SourceWorkflowID(poll.ID())
}

const githubPush = `{"ref":"refs/heads/main","repository":{"clone_url":"https://git.example.test/team/app.git","ssh_url":"git@git.example.test:team/app.git","html_url":"https://git.example.test/team/app"}}`

func TestAPushMakesTheSourcesLookThatAreTakenFromItsRepository(t *testing.T) {
	app := workflowOf(git("https://git.example.test/team/app.git", "main"))
	next := workflowOf(git("git@git.example.test:Team/App", "next"))
	artifact := workflowOf(v1alpha1.Source{OCI: &v1alpha1.OCISource{URL: "oci://registry.example.test:5000/team/app"}})
	chart := workflowOf(v1alpha1.Source{Helm: &v1alpha1.HelmSource{URL: "oci://registry.example.test:5000/charts", Chart: "app"}})
	cases := map[string]struct {
		path, body string
		want       []string
	}{
		"GitHub":  {"/webhooks/team/github", githubPush, []string{app, next}},
		"Gitea":   {"/webhooks/team/gitea", `{"repository":{"clone_url":"https://git.example.test/team/app.git"}}`, []string{app, next}},
		"GitLab":  {"/webhooks/team/gitlab", `{"object_kind":"push","project":{"git_http_url":"https://git.example.test/team/app.git","git_ssh_url":"git@git.example.test:team/app.git"}}`, []string{app, next}},
		"generic": {"/webhooks/team/generic", `{"url":"ssh://git@git.example.test:2222/team/app"}`, []string{app, next}},
		"a registry": {"/webhooks/team/oci", `{"events":[{"action":"push","target":{"repository":"team/app","url":"https://registry.example.test:5000/v2/team/app/manifests/sha256:0"},"request":{"host":"registry.example.test:5000"}},` +
			`{"action":"push","target":{"repository":"charts/app"},"request":{"host":"registry.example.test:5000"}}]}`, []string{artifact, chart}},
		"a pull":             {"/webhooks/team/oci", `{"events":[{"action":"pull","target":{"repository":"team/app"},"request":{"host":"registry.example.test:5000"}}]}`, nil},
		"another repository": {"/webhooks/team/generic", `{"url":"https://git.example.test/team/unknown"}`, nil},
		"another host":       {"/webhooks/team/generic", `{"url":"https://elsewhere.example.test/team/app"}`, nil},
		"no repository":      {"/webhooks/team/github", `{"zen":"Keep it logically awesome."}`, nil},
		"no JSON":            {"/webhooks/team/github", `hello`, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := &looks{}
			r, _ := newTestReceiver(t, l)
			w := post(r, tc.path, tc.body, testKey)
			if w.Code != http.StatusAccepted || w.Body.String() != fmt.Sprintf("%d sources are looked at\n", len(tc.want)) {
				t.Errorf("answer %d %q", w.Code, w.Body)
			}
			slices.Sort(l.ids)
			slices.Sort(tc.want)
			if !slices.Equal(l.ids, tc.want) {
				t.Errorf("looks %v, want %v", l.ids, tc.want)
			}
		})
	}
	l := &looks{}
	r, _ := newTestReceiver(t, l)
	if w := post(r, "/webhooks/team/github", githubPush, "S3NT1NEL-key-of-before"); w.Code != http.StatusAccepted {
		t.Errorf("the previous key: %d", w.Code)
	}
	l.fail = errors.New("S3NT1NEL")
	if w := post(r, "/webhooks/team/github", githubPush, testKey); w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), "S3NT1NEL") {
		t.Errorf("without Temporal: %d %q", w.Code, w.Body)
	}
}

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
	r.routes().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/webhooks/team/github", nil))
	if w.Code != http.StatusMethodNotAllowed {
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

func FuzzPush(f *testing.F) {
	f.Add("github", []byte(githubPush))
	f.Add("oci", []byte(`{"events":[{"target":{"repository":"a","url":"://"}}]}`))
	f.Add("generic", []byte(`{"url":"git@[::1]:a"}`))
	r, _ := newTestReceiver(f, &looks{})
	f.Fuzz(func(t *testing.T, kind string, body []byte) {
		k, known := pushKinds[kind]
		if !known {
			return
		}
		if _, err := r.look(t.Context(), "team", k.names(body)); err != nil {
			t.Error(err)
		}
	})
}
