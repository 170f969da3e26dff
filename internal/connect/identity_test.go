package connect

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/failure"
)

func selfSubjectReview() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}}
}

func userOf(review *unstructured.Unstructured) string {
	name, _, _ := unstructured.NestedString(review.Object, "status", "userInfo", "username")
	return name
}

// impostor is an API server that may become another cluster; it counts what is asked of it besides its identity.
type impostor struct {
	id     atomic.Pointer[string]
	asked  atomic.Int32
	served atomic.Int32
}

func (i *impostor) become(id string) { i.id.Store(&id) }

func (i *impostor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/api/v1/namespaces/kube-system":
		i.asked.Add(1)
		id := *i.id.Load()
		if id == "" {
			always(http.StatusForbidden, "text/plain", "no")(w, r)
			return
		}
		always(http.StatusOK, "application/json", `{"metadata":{"name":"kube-system","uid":"`+id+`"}}`)(w, r)
	case strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/d/"):
		i.served.Add(1)
		always(http.StatusOK, "application/json", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}`)(w, r)
	default:
		if r.URL.Path != "/version" {
			i.served.Add(1)
		}
		legacy(w, r)
	}
}

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

func TestNothingButTheProbeReachesAClusterThatTookThePlaceOfAnother(t *testing.T) {
	server := &impostor{}
	server.become("first")
	s, ca := stub(t, server.ServeHTTP)
	h := &hub{}
	h.put("s", "1", "value", kubeconfigFor(s.URL, ca, "{token: t0k}"))
	p := newPool(t, h, Options{})
	c := cluster("u", "")
	conn, err := p.Client(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	found, err := conn.Probe(t.Context())
	if err != nil || found.ClusterID != "first" {
		t.Fatalf("probe: %v, %v", found.ClusterID, err)
	}
	c.Status.ClusterID = found.ClusterID
	use := func() error {
		t.Helper()
		again, err := p.Client(t.Context(), c)
		if err != nil || again != conn {
			t.Fatalf("the expected identity replaced the client: %v", err)
		}
		_, err = conn.Dynamic.Resource(configMaps).Namespace("d").Patch(t.Context(), "x", "application/merge-patch+json", []byte("{}"), metav1.PatchOptions{})
		return err
	}
	if err := use(); err != nil {
		t.Fatalf("the right cluster: %v", err)
	}
	// Another cluster comes behind the same address: every connection is a new one.
	server.become("second")
	s.CloseClientConnections()
	before := server.served.Load()
	eventually(t, "the client opens a new connection", func() bool {
		err = use()
		return classOf(err) != closedEarly // the old connection's end
	})
	f, ok := failure.As(err)
	if !ok || f.Reason != v1alpha1.ReasonClusterIdentityChanged || f.Terminal || !Unreachable(err) || Classify(err) != f {
		t.Fatalf("a write to another cluster: %v", err)
	}
	conn.Mapper.Reset()
	if _, err := conn.Mapper.RESTMapping(schema.GroupKind{Group: "apps", Kind: "Deployment"}); err == nil {
		t.Error("the other cluster's types were taken for the expected one's")
	}
	if got := server.served.Load(); got != before {
		t.Errorf("%d requests reached the other cluster", got-before)
	}
	_, err = conn.Probe(t.Context())
	f, ok = failure.As(err)
	want := "another cluster answers: its ID is second, and was first; if this is meant, set the annotation convoy.kumodo.io/accept-cluster-id to the new ID"
	if !ok || f.Reason != v1alpha1.ReasonClusterIdentityChanged || f.Message != want {
		t.Errorf("probe of another cluster: %v", err)
	}
	c.Annotations = map[string]string{v1alpha1.AnnotationAcceptClusterID: "third"}
	if err := use(); err == nil {
		t.Error("the acceptance of a third cluster let the second one in")
	}
	c.Annotations[v1alpha1.AnnotationAcceptClusterID] = "second"
	if err := use(); err != nil {
		t.Errorf("the accepted cluster: %v", err)
	}
	if _, err := conn.Probe(t.Context()); err != nil {
		t.Errorf("probe of the accepted cluster: %v", err)
	}
}

func TestAClusterThatDoesNotTellItsIdentityIsNotHeld(t *testing.T) {
	server := &impostor{}
	server.become("")
	s, ca := stub(t, server.ServeHTTP)
	h := &hub{}
	h.put("s", "1", "value", kubeconfigFor(s.URL, ca, "{}"))
	c := cluster("u", "")
	c.Status.ClusterID = "first"
	conn, err := newPool(t, h, Options{}).Client(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if found, err := conn.Probe(t.Context()); err != nil || found.ClusterID != "" {
		t.Errorf("probe: %q, %v", found.ClusterID, err)
	}
	if _, err := conn.Dynamic.Resource(configMaps).Namespace("d").Get(t.Context(), "x", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func TestTheIdentityIsAskedOncePerConnectionByAllTogether(t *testing.T) {
	server := &impostor{}
	server.become("first")
	s, ca := stub(t, server.ServeHTTP)
	h := &hub{}
	h.put("s", "1", "value", kubeconfigFor(s.URL, ca, "{}"))
	c := cluster("u", "")
	c.Status.ClusterID = "first"
	conn, err := newPool(t, h, Options{}).Client(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				_, err := conn.Dynamic.Resource(configMaps).Namespace("d").Get(t.Context(), "x", metav1.GetOptions{})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	if got := server.asked.Load(); got != 1 {
		t.Errorf("the identity was asked %d times", got)
	}
}

func TestSlotsOfATargetAreTakenWithoutWaitingAndFewWhenItIsInTrouble(t *testing.T) {
	var mode atomic.Int32
	s, ca := stub(t, func(w http.ResponseWriter, r *http.Request) {
		if mode.Load() == 1 {
			panic(http.ErrAbortHandler) // cuts the connection without an answer
		}
		always(http.StatusOK, "application/json", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}`)(w, r)
	})
	conn := clientOf(t, kubeconfigFor(s.URL, ca, "{}"), Options{Concurrency: 3})
	get := func() error {
		_, err := conn.Dynamic.Resource(configMaps).Namespace("d").Get(t.Context(), "x", metav1.GetOptions{})
		return err
	}
	taken := func() (n int, release func()) {
		t.Helper()
		ctx, cancel := contextOf(t)
		for n < 10 {
			switch err := conn.Work(ctx); {
			case errors.Is(err, ErrBusy):
				return n, cancel
			case err != nil:
				t.Fatal(err)
			}
			n++
		}
		return n, cancel
	}
	free := func() {
		eventually(t, "all slots are free", func() bool {
			conn.slots.mu.Lock()
			defer conn.slots.mu.Unlock()
			return conn.slots.busy == 0
		})
	}
	if err := get(); err != nil {
		t.Fatal(err)
	}
	n, release := taken()
	release()
	free()
	if n != 3 {
		t.Errorf("%d slots of a good target, want 3", n)
	}
	mode.Store(1)
	if err := get(); !Unreachable(err) {
		t.Fatalf("the target is to be in trouble: %v", err)
	}
	n, release = taken()
	release()
	free()
	if n != troubledConcurrency {
		t.Errorf("%d slots of a target in trouble, want %d", n, troubledConcurrency)
	}
	if Unreachable(ErrBusy) {
		t.Error("a busy target counts as unreachable")
	}
	mode.Store(0)
	if err := get(); err != nil {
		t.Fatal(err)
	}
	if n, release = taken(); n != 3 {
		t.Errorf("%d slots of a target that answers again, want 3", n)
	}
	release()
}
