package connect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"kumodo.io/convoy/api/v1alpha1"
)

// legacy is an API server without aggregated discovery, one of whose groups fails.
func legacy(w http.ResponseWriter, r *http.Request) {
	body, ok := map[string]string{
		"/version": `{"gitVersion":"v1.24.0"}`,
		"/api":     `{"kind":"APIVersions","versions":["v1"]}`,
		"/apis": `{"kind":"APIGroupList","groups":[
			{"name":"broken.example.test","versions":[{"groupVersion":"broken.example.test/v1","version":"v1"}]},
			{"name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"},{"groupVersion":"apps/v1beta1","version":"v1beta1"}]}]}`,
		"/api/v1":                                  `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","kind":"Pod","namespaced":true}]}`,
		"/apis/apps/v1":                            `{"kind":"APIResourceList","groupVersion":"apps/v1","resources":[{"name":"deployments","kind":"Deployment","namespaced":true}]}`,
		"/apis/apps/v1beta1":                       `{"kind":"APIResourceList","groupVersion":"apps/v1beta1","resources":[{"name":"deployments","kind":"Deployment","namespaced":true}]}`,
		"/api/v1/namespaces/kube-system":           `{"metadata":{"name":"kube-system","uid":"0b1c-2d"}}`,
		"/apis/apps/v1/namespaces/d/deployments/x": `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x"}}`,
	}[r.URL.Path]
	if !ok {
		always(http.StatusServiceUnavailable, "text/plain", sentinel, "Audit-Id", "x")(w, r)
		return
	}
	always(http.StatusOK, "application/json", body)(w, r)
}

func TestAServerWithoutAggregatedDiscoveryIsProbedToo(t *testing.T) {
	s, ca := stub(t, legacy)
	c := clientOf(t, kubeconfigFor(s.URL, ca, "{}"), Options{})
	got, err := c.Probe(t.Context(), &v1alpha1.Cluster{})
	if err != nil {
		t.Fatal(err)
	}
	want := ProbeResult{KubernetesVersion: "v1.24.0", ClusterID: "0b1c-2d", APIGroups: []v1alpha1.APIGroup{
		{Name: "apps", Versions: []string{"v1", "v1beta1"}},
		{Name: "broken.example.test", Failing: true},
		{Name: "core", Versions: []string{"v1"}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := c.Mapper.RESTMapping(schema.GroupKind{Group: "apps", Kind: "Deployment"}); err != nil {
		t.Error(err)
	}
	var partial *discovery.ErrGroupDiscoveryFailed
	if _, _, err := c.Discovery.ServerGroupsAndResources(); !errors.As(err, &partial) || len(partial.Groups) != 1 {
		t.Errorf("the failing group is not told: %v", err)
	}
}

func TestAServerThatIsNoneGivesTheMapperAnErrorAndNoPanic(t *testing.T) {
	for _, body := range []string{"{}", "[]", "null", `{"groups":null}`, `{"versions":[""]}`, `{"groups":[{"name":"a","versions":[{}]}]}`} {
		s, ca := stub(t, always(200, "application/json", body))
		c := clientOf(t, kubeconfigFor(s.URL, ca, "{}"), Options{})
		if _, err := c.Mapper.RESTMapping(schema.GroupKind{Kind: "Pod"}); err == nil {
			t.Errorf("%s: a mapping was found", body)
		}
		if _, err := c.Probe(t.Context(), &v1alpha1.Cluster{}); err == nil {
			t.Errorf("%s: the probe succeeded", body)
		}
	}
}

func TestTheListOfGroupsIsBoundedAndHoldsOnlyNamesOfGroups(t *testing.T) {
	list := &metav1.APIGroupList{}
	add := func(name string, versions ...string) {
		g := metav1.APIGroup{Name: name}
		for _, v := range versions {
			g.Versions = append(g.Versions, metav1.GroupVersionForDiscovery{Version: v})
		}
		list.Groups = append(list.Groups, g)
	}
	add("", "v1")
	add("")
	add("twice.test", "v1")
	add("twice.test", "v2", "v 3", strings.Repeat("v", 100))
	add("not a name", "v1")
	add(strings.Repeat("x", 10000), "v1")
	want := []v1alpha1.APIGroup{{Name: "core", Versions: []string{"v1"}}, {Name: "twice.test", Versions: []string{"v1", "v2"}}}
	if diff := cmp.Diff(want, apiGroups(list, nil)); diff != "" {
		t.Error(diff)
	}
	for i := range 300 {
		add(fmt.Sprintf("g%d.test", i), "v1")
	}
	if got := len(apiGroups(list, nil)); got != maxGroups {
		t.Errorf("%d groups", got)
	}
}

// connectProxy is an HTTP proxy that leads every connection to one address, and counts them.
func connectProxy(t *testing.T, to string) (string, *atomic.Int32) {
	t.Helper()
	var count atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		count.Add(1)
		target, err := net.Dial("tcp", to)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer func() { _ = target.Close() }()
		w.WriteHeader(http.StatusOK)
		conn, sent, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		go func() {
			_, _ = io.Copy(target, sent) // the server may have read the first bytes after the answer already
			_ = target.Close()
		}()
		_, _ = io.Copy(conn, target)
	}))
	t.Cleanup(s.Close)
	return s.URL, &count
}

func TestAPermittedProxyServesEveryKindOfRequest(t *testing.T) {
	s, ca := stub(t, legacy)
	proxy, count := connectProxy(t, s.Listener.Addr().String())
	// Only the proxy knows this name; the certificate of the stub is for example.com.
	kubeconfig := kubeconfigFor("https://target.invalid:6443", ca, "{}", "tls-server-name: example.com", "proxy-url: '"+proxy+"'")
	c := clientOf(t, kubeconfig, Options{AllowProxyURL: true})
	if _, err := c.Probe(t.Context(), &v1alpha1.Cluster{}); err != nil {
		t.Errorf("probe: %v", err)
	}
	if _, err := c.Mapper.RESTMapping(schema.GroupKind{Group: "apps", Kind: "Deployment"}); err != nil {
		t.Errorf("mapper: %v", err)
	}
	deployments := c.Dynamic.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"})
	if _, err := deployments.Namespace("d").Get(t.Context(), "x", metav1.GetOptions{}); err != nil {
		t.Errorf("get: %v", err)
	}
	if count.Load() == 0 {
		t.Error("nothing went through the proxy")
	}
}

func TestTheEnvironmentNamesNoProxy(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	if c := clientOf(t, working, Options{}); c.link.base.Proxy != nil {
		t.Error("a proxy is asked for that the kubeconfig does not name")
	}
}

func TestARequestHasADeadlineAndItsAnswerABound(t *testing.T) {
	s, ca := stub(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api" {
			w.Header().Set("Content-Type", "application/json")
			chunk := []byte(strings.Repeat(" ", 1<<20))
			for range maxDiscovery>>20 + 1 {
				_, _ = w.Write(chunk)
			}
			return
		}
		<-r.Context().Done()
	})
	c := clientOf(t, kubeconfigFor(s.URL, ca, "{}"), Options{RequestTimeout: 300 * time.Millisecond})
	_, err := c.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).List(t.Context(), metav1.ListOptions{})
	if Classify(err) == nil || Classify(err).Message != "the API server did not answer in time" {
		t.Errorf("a list that hangs: %v", err)
	}
	patient := clientOf(t, kubeconfigFor(s.URL, ca, "{}"), Options{})
	if _, err := discover(t.Context(), patient.live); Classify(err).Message != "the answer of the server is too large" {
		t.Errorf("an endless answer: %v", err)
	}
}

func TestALongWaitThatTheServerAsksForIsAnErrorAtOnce(t *testing.T) {
	s, ca := stub(t, always(429, "text/plain", sentinel, "Retry-After", "3600"))
	c := clientOf(t, kubeconfigFor(s.URL, ca, "{}"), Options{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := c.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).List(ctx, metav1.ListOptions{})
	if f := Classify(err); f == nil || f.RetryAfter != time.Hour || Unreachable(err) {
		t.Errorf("got %v", err)
	}
}

func TestWhatAnotherProcessFoundToBeServedIsNotTakenFromAnOldCache(t *testing.T) {
	var more atomic.Bool
	s, ca := stub(t, func(w http.ResponseWriter, r *http.Request) {
		if body := `{"kind":"APIResourceList","groupVersion":"apps/v1","resources":[{"name":"deployments","kind":"Deployment"},{"name":"gadgets","kind":"Gadget"}]}`; more.Load() && r.URL.Path == "/apis/apps/v1" {
			always(http.StatusOK, "application/json", body)(w, r)
			return
		}
		if r.URL.Path == "/apis" { // without the group that fails
			always(http.StatusOK, "application/json", `{"kind":"APIGroupList","groups":[{"name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}]}]}`)(w, r)
			return
		}
		legacy(w, r)
	})
	ours := clientOf(t, kubeconfigFor(s.URL, ca, "{}"), Options{})
	theirs := clientOf(t, kubeconfigFor(s.URL, ca, "{}"), Options{})
	before, err := ours.APIs("v1.24.0", "")
	if err != nil || before.Digest == "" {
		t.Fatalf("%+v, %v", before, err)
	}
	more.Store(true) // a kind in a version that is known: its groups do not tell
	probed, err := theirs.Probe(t.Context(), &v1alpha1.Cluster{})
	if err != nil || probed.APIDigest == before.Digest {
		t.Fatalf("the probe found %q, before it was %q, %v", probed.APIDigest, before.Digest, err)
	}
	after, err := ours.APIs("v1.24.0", probed.APIDigest)
	if _, served := slices.BinarySearch(after.Versions, "apps/v1/Gadget"); err != nil || !served || after.Digest != probed.APIDigest {
		t.Errorf("%+v, %v", after, err)
	}
}
