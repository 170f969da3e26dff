package connect

import (
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/dial"
	"kumodo.io/convoy/internal/failure"
)

const working = current + contexts + clusters + users

func TestASecretThatHoldsNoKubeconfigIsNamed(t *testing.T) {
	for _, tc := range []struct {
		name, entry, key, content, want string
	}{
		{"explicit key that is missing", "value", "kubeconfig", working, "Secret target in namespace team has no key kubeconfig: set secretRef.key"},
		{"no default key", "kubeconfig", "", working, "Secret target in namespace team has neither key value nor key value.yaml: set secretRef.key"},
		{"empty key", "value", "", "", "Secret target in namespace team has nothing in key value"},
		{"broken content", "k", "k", contexts, "Secret target in namespace team, key k: current-context is not set"},
		{"no Secret", "", "", "", "Secret target does not exist in namespace team: create it"},
	} {
		h := &hub{}
		if tc.entry != "" {
			h.put("s", "1", tc.entry, tc.content)
		}
		p := newPool(t, h, Options{})
		_, err := p.Client(t.Context(), cluster("u", tc.key))
		f, ok := failure.As(err)
		if !ok || f.Message != tc.want || f.Reason != v1alpha1.ReasonProbeFailed || f.Terminal || !Unreachable(err) {
			t.Errorf("%s: %v (unreachable %v), want %s", tc.name, err, Unreachable(err), tc.want)
		}
		if Classify(err) != f {
			t.Errorf("%s: is classified as something else", tc.name)
		}
		// It heals by itself when the Secret is mended.
		h.put("s", "2", "value", working)
		if _, err := p.Client(t.Context(), cluster("u", "")); err != nil {
			t.Errorf("%s: after the Secret was mended: %v", tc.name, err)
		}
	}
}

func TestTheDefaultKeyIsValueAndThenValueYAML(t *testing.T) {
	for _, entry := range []string{"value", "value.yaml"} {
		h := &hub{}
		h.put("s", "1", entry, working)
		if _, err := newPool(t, h, Options{}).Client(t.Context(), cluster("u", "")); err != nil {
			t.Errorf("%s: %v", entry, err)
		}
	}
}

func TestAConnectionThatIsNotBuiltIsUnsupported(t *testing.T) {
	agent, oidc, bare, hollow := cluster("u", ""), cluster("u", ""), cluster("u", ""), cluster("u", "")
	token, certificate := cluster("u", ""), cluster("u", "")
	agent.Spec.ConnectionMode = "agent"
	oidc.Spec.Agentless.Auth = v1alpha1.ClusterAuth{Type: "oidc"}
	token.Spec.Agentless.Auth = v1alpha1.ClusterAuth{Type: "token"}
	certificate.Spec.Agentless.Auth = v1alpha1.ClusterAuth{Type: "clientCertificate"}
	bare.Spec.Agentless = nil
	hollow.Spec.Agentless.Auth.Kubeconfig = nil
	for want, c := range map[string]*v1alpha1.Cluster{
		"connectionMode agent is not supported: use agentless":                        agent,
		"auth.type oidc is not supported: use kubeconfig, token or clientCertificate": oidc,
		"auth.type token needs auth.token.secretRef":                                  token,
		"auth.type clientCertificate needs auth.clientCertificate.secretRef":          certificate,
		"connectionMode agentless needs spec.agentless":                               bare,
		"auth.type kubeconfig needs auth.kubeconfig.secretRef":                        hollow,
	} {
		_, err := newPool(t, &hub{}, Options{}).Client(t.Context(), c)
		f, ok := failure.As(err)
		if !ok || !f.Terminal || f.Reason != v1alpha1.ReasonUnsupported || f.Message != want || !Unreachable(err) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestAFailureOfTheHubIsNoVerdictAboutTheTarget(t *testing.T) {
	h := &hub{}
	h.put("s", "1", "value", working)
	p := newPool(t, h, Options{})
	before, err := p.Client(t.Context(), cluster("u", ""))
	if err != nil {
		t.Fatal(err)
	}
	h.err = apierrors.NewInternalError(errors.New("etcd is gone"))
	_, err = p.Client(t.Context(), cluster("u", ""))
	if _, ok := failure.As(err); err == nil || ok || Unreachable(err) {
		t.Errorf("a hub that fails gave %v (unreachable %v)", err, Unreachable(err))
	}
	if got := Classify(err).Message; got != "the hub did not give what the Cluster names" {
		t.Errorf("message %q", got)
	}
	h.err = nil
	if after, err := p.Client(t.Context(), cluster("u", "")); err != nil || after != before {
		t.Errorf("the client did not survive: %v", err)
	}
	h.err = apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "target", errors.New("no"))
	_, err = p.Client(t.Context(), cluster("u", ""))
	want := "convoy may not read Secret target in namespace team: let it get Secrets there"
	if f, ok := failure.As(err); !ok || f.Message != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestAClientLivesAsLongAsWhatItWasBuiltFrom(t *testing.T) {
	h := &hub{}
	h.put("s1", "1", "value", working)
	p := newPool(t, h, Options{})
	get := func(c *v1alpha1.Cluster) *Client {
		t.Helper()
		got, err := p.Client(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := get(cluster("u", ""))
	relabelled := cluster("u", "")
	relabelled.Generation, relabelled.Spec.Metadata = 7, map[string]v1alpha1.MetadataValue{"tier": "gold"}
	if get(relabelled) != first {
		t.Error("new metadata of the Cluster replaced the client")
	}
	if get(cluster("other", "")) == first {
		t.Error("two Clusters share a client")
	}
	h.put("s1", "2", "value", working)
	second := get(cluster("u", ""))
	h.put("s2", "2", "value", working)
	third := get(cluster("u", ""))
	if second == first || third == second {
		t.Error("a changed or recreated Secret did not replace the client")
	}
	for name, c := range map[string]*Client{"first": first, "second": second} {
		select {
		case <-c.Done():
		default:
			t.Errorf("the %s client does not know that it was replaced", name)
		}
	}
	select {
	case <-third.Done():
		t.Error("the current client is closed")
	default:
	}
	p.Close()
	if _, err := p.Client(t.Context(), cluster("u", "")); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed pool gave %v", err)
	}
}

func TestARotatedTokenIsUsedAtOnce(t *testing.T) {
	var mu sync.Mutex
	var tokens []string
	s, ca := stub(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		tokens = append(tokens, r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusInternalServerError)
	})
	h := &hub{}
	p := newPool(t, h, Options{})
	for i, token := range []string{"a", "a", "b"} {
		h.put("s", fmt.Sprint(len(token), token), "value", kubeconfigFor(s.URL, ca, "{token: "+token+"}"))
		c, err := p.Client(t.Context(), cluster("u", ""))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Probe(t.Context(), &v1alpha1.Cluster{}); err == nil {
			t.Fatalf("probe %d succeeded", i)
		}
	}
	if got := strings.Join(tokens, " "); got != "Bearer a Bearer a Bearer b" {
		t.Errorf("tokens presented: %s", got)
	}
}

func TestConcurrentCallersShareOneClient(t *testing.T) {
	h := &hub{}
	h.put("s", "1", "value", working)
	p := newPool(t, h, Options{})
	got := make([]*Client, 32)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() {
			got[i], _ = p.Client(t.Context(), cluster("u", ""))
		})
	}
	wg.Wait()
	for _, c := range got {
		if c == nil || c != got[0] {
			t.Fatal("callers got different clients")
		}
	}
}

func TestNoSocketAndNoGoroutineIsLeftAfterAnEviction(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("http2=%v", http2), func(t *testing.T) {
			release := make(chan struct{})
			s, ca := counted(t, http2, func(w http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.URL.Path, "/api/v1/pods") {
					w.WriteHeader(http.StatusOK)
					w.(http.Flusher).Flush()
					select {
					case <-release:
					case <-r.Context().Done():
					}
					return
				}
				w.WriteHeader(http.StatusNotFound)
			})
			baseline := runtime.NumGoroutine()
			h := &hub{}
			h.put("s", "1", "value", kubeconfigFor(s.URL, ca, "{}"))
			p := NewPool(h, dial.New(dial.Policy{AllowLoopback: true}), Options{})
			c, err := p.Client(t.Context(), cluster("u", ""))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Probe(t.Context(), &v1alpha1.Cluster{}); err == nil {
				t.Fatal("the stub passed for an API server")
			}
			pods := c.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"})
			watch, err := pods.Watch(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			p.Evict("u")
			<-c.Done()
			if s.open() == 0 {
				t.Error("the eviction cut a request that was running")
			}
			close(release)
			for range watch.ResultChan() {
				t.Error("an event came from an empty watch")
			}
			watch.Stop()
			// Late users of the client leave nothing behind either.
			if _, err := c.Probe(t.Context(), &v1alpha1.Cluster{}); err == nil {
				t.Fatal("the stub passed for an API server")
			}
			eventually(t, "all sockets are closed", func() bool { return s.open() == 0 })
			eventually(t, "all goroutines have ended", func() bool { return runtime.NumGoroutine() <= baseline })
		})
	}
}
