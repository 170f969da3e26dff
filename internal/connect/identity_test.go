package connect

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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

func readConfigMap(ctx context.Context, c *Client) error {
	_, err := c.Dynamic.Resource(configMaps).Namespace("d").Get(ctx, "x", metav1.GetOptions{})
	return err
}

func patchConfigMap(ctx context.Context, c *Client) error {
	_, err := c.Dynamic.Resource(configMaps).Namespace("d").Patch(ctx, "x", "application/merge-patch+json", []byte("{}"), metav1.PatchOptions{})
	return err
}

// door leads to one server and then to another, as a load balancer does: connections that are open stay where they are.
type door struct {
	address string
	to      atomic.Pointer[string]
}

func newDoor(t *testing.T, to string) *door {
	t.Helper()
	d := &door{}
	d.to.Store(&to)
	d.address = listen(t, func(in net.Conn) {
		out, err := net.Dial("tcp", *d.to.Load())
		if err != nil {
			return
		}
		var both sync.WaitGroup
		for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
			both.Go(func() {
				_, _ = io.Copy(pair[0], pair[1])
				_ = in.Close()
				_ = out.Close()
			})
		}
		both.Wait()
	})
	return d
}

// twoClusters are two servers with the same certificate behind one door that leads to the first.
func twoClusters(t *testing.T) (first, second *impostor, servers [2]*httptest.Server, d *door, ca []byte) {
	t.Helper()
	first, second = &impostor{}, &impostor{}
	first.become("first")
	second.become("second")
	servers[0], ca = stub(t, first.ServeHTTP)
	servers[1], _ = stub(t, second.ServeHTTP) // httptest has one certificate for all
	return first, second, servers, newDoor(t, servers[0].Listener.Addr().String()), ca
}

func TestNoRequestButTheProbesReachesAClusterThatTookThePlaceOfAnother(t *testing.T) {
	first, second, servers, d, ca := twoClusters(t)
	h := &hub{}
	h.put("s", "1", "value", kubeconfigFor("https://"+d.address, ca, "{token: t0k}"))
	p := newPool(t, h, Options{})
	c := cluster("u", "")
	use := func() (*Client, error) {
		t.Helper()
		conn, err := p.Client(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return conn, patchConfigMap(t.Context(), conn)
	}
	conn, err := p.Client(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	found, err := conn.Probe(t.Context(), c)
	if err != nil || found.ClusterID != "first" {
		t.Fatalf("probe: %q, %v", found.ClusterID, err)
	}
	c.Status.ClusterID = found.ClusterID
	if again, err := use(); err != nil || again != conn {
		t.Fatalf("the right cluster: %v; the client was replaced: %v", err, again != conn)
	}
	// The door turns. What is connected to the first cluster goes on there, while every probe sees the second.
	d.to.Store(new(servers[1].Listener.Addr().String()))
	_, err = conn.Probe(t.Context(), c)
	f, ok := failure.As(err)
	want := "another cluster answers: its ID is second, and was first; if this is meant, set the annotation convoy.kumodo.io/accept-cluster-id to the new ID"
	if !ok || f.Reason != v1alpha1.ReasonClusterIdentityChanged || f.Terminal || f.Message != want {
		t.Errorf("probe of another cluster: %v", err)
	}
	before := first.served.Load()
	if _, err := use(); err != nil || first.served.Load() == before {
		t.Errorf("the open connection to the right cluster is not used: %v", err)
	}
	// The first cluster goes away, in the middle of what convoy does there.
	servers[0].CloseClientConnections()
	visited := second.served.Load()
	for range 3 {
		_, err = use()
		if f, ok := failure.As(err); !ok || f.Reason != v1alpha1.ReasonClusterIdentityChanged || !Unreachable(err) || Classify(err) != f {
			t.Fatalf("a write to another cluster: %v", err)
		}
	}
	conn.Mapper.Reset()
	if _, err := conn.Mapper.RESTMapping(schema.GroupKind{Group: "apps", Kind: "Deployment"}); err == nil {
		t.Error("the other cluster's types were taken for the expected one's")
	}
	// The acceptance is for the probe to see; what is recorded decides for all others.
	c.Annotations = map[string]string{v1alpha1.AnnotationAcceptClusterID: "third"}
	if _, err := conn.Probe(t.Context(), c); err == nil {
		t.Error("the acceptance of a third cluster let the second one in")
	}
	c.Annotations[v1alpha1.AnnotationAcceptClusterID] = "second"
	if _, err := use(); err == nil {
		t.Error("a write got through before the accepted cluster was recorded")
	}
	if got := second.served.Load() - visited; got > 8 { // what the probe of the third asks for
		t.Errorf("%d requests reached the other cluster", got)
	}
	found, err = conn.Probe(t.Context(), c)
	if err != nil || found.ClusterID != "second" {
		t.Fatalf("probe of the accepted cluster: %q, %v", found.ClusterID, err)
	}
	c.Status.ClusterID = "second"
	if again, err := use(); err != nil || again == conn {
		t.Errorf("the accepted cluster: %v; the client is still the former one: %v", err, again == conn)
	}
	if err := patchConfigMap(t.Context(), conn); err == nil {
		t.Error("a step that began before the acceptance got through to the accepted cluster")
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
	if found, err := conn.Probe(t.Context(), c); err != nil || found.ClusterID != "" {
		t.Errorf("probe: %q, %v", found.ClusterID, err)
	}
	if err := readConfigMap(t.Context(), conn); err != nil {
		t.Error(err)
	}
}

func TestAnIdentityThatIsNoneIsNoAnswerOfAnAPIServer(t *testing.T) {
	for _, body := range []string{"<html>", "{}", `{"metadata":{"uid":"a b"}}`} {
		s, ca := stub(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/api/v1/namespaces/kube-system" {
				always(http.StatusOK, "application/json", body)(w, r)
				return
			}
			legacy(w, r)
		})
		conn := clientOf(t, kubeconfigFor(s.URL, ca, "{}"), Options{})
		if _, err := conn.Probe(t.Context(), &v1alpha1.Cluster{}); classOf(err) != notKubernetes {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// expecting is a client of the cluster first behind a server.
func expecting(t *testing.T, server string, ca []byte, o Options) (*Pool, *Client, *hub) {
	t.Helper()
	h := &hub{}
	h.put("s", "1", "value", kubeconfigFor(server, ca, "{token: old}"))
	c := cluster("u", "")
	c.Status.ClusterID = "first"
	p := newPool(t, h, o)
	conn, err := p.Client(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return p, conn, h
}

func TestTheIdentityIsAskedOncePerConnectionByAllTogether(t *testing.T) {
	server := &impostor{}
	server.become("first")
	s, ca := stub(t, server.ServeHTTP)
	_, conn, _ := expecting(t, s.URL, ca, Options{})
	for range 3 {
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if err := readConfigMap(t.Context(), conn); err != nil {
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

func TestRequestsThatWaitForAHangingServerFailTogether(t *testing.T) {
	_, conn, _ := expecting(t, "https://"+silent(t), nil, Options{RequestTimeout: 500 * time.Millisecond, ProbeTimeout: time.Second})
	began := time.Now()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := readConfigMap(t.Context(), conn); classOf(err) != timedOut {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if took := time.Since(began); took > 3*time.Second { // one after the other would be 4
		t.Errorf("they took %s", took)
	}
}

func TestAStepGoesOnAfterItsSecretWasRotatedAndThenNothingIsLeft(t *testing.T) {
	server := &impostor{}
	server.become("first")
	for _, http2 := range []bool{false, true} {
		s, ca := counted(t, http2, server.ServeHTTP)
		server.asked.Store(0)
		p, conn, h := expecting(t, s.URL, ca, Options{})
		if err := readConfigMap(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
		h.put("s", "2", "value", kubeconfigFor(s.URL, ca, "{token: new}"))
		c := cluster("u", "")
		c.Status.ClusterID = "first"
		if again, err := p.Client(t.Context(), c); err != nil || again == conn {
			t.Fatalf("the new Secret is not used: %v", err)
		}
		for range 3 {
			if err := readConfigMap(t.Context(), conn); err != nil {
				t.Errorf("http2=%v: a request of a step that had begun: %v", http2, err)
			}
		}
		if got := server.asked.Load(); got > 4 {
			t.Errorf("http2=%v: the identity was asked %d times for 4 requests", http2, got)
		}
		p.Close()
		eventually(t, "all sockets are closed", func() bool { return s.open() == 0 })
	}
}

func TestAServerThatClosesEachConnectionIsToldAndNotAskedForEver(t *testing.T) {
	server := &impostor{}
	server.become("first")
	s, ca := counted(t, false, server.ServeHTTP)
	s.Config.SetKeepAlivesEnabled(false)
	_, conn, _ := expecting(t, s.URL, ca, Options{})
	if err := readConfigMap(t.Context(), conn); classOf(err) != closedEarly {
		t.Errorf("a request: %v", err)
	}
	if got := server.asked.Load(); got > 2*maxTries*maxTries { // the client library may read twice
		t.Errorf("the identity was asked %d times", got)
	}
	if _, err := conn.Probe(t.Context(), &v1alpha1.Cluster{}); err != nil {
		t.Errorf("probe: %v", err)
	}
}

func TestParallelRequestsOverHTTP1EachGetAConnectionThatWasAsked(t *testing.T) {
	server := &impostor{}
	server.become("first")
	s, ca := counted(t, false, server.ServeHTTP)
	_, conn, _ := expecting(t, s.URL, ca, Options{})
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			for range 5 {
				if err := readConfigMap(t.Context(), conn); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if asked, open := server.asked.Load(), s.open(); int(asked) < open || asked > 50 {
		t.Errorf("the identity was asked %d times over %d connections", asked, open)
	}
}

func TestAServerThatEndsItsConnectionsNowAndThenIsNotNoticed(t *testing.T) {
	server := &impostor{}
	server.become("first")
	var n atomic.Int32
	s, ca := counted(t, true, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/d/") && n.Add(1)%25 == 0 {
			w.Header().Set("Connection", "close") // over HTTP/2: GOAWAY
		}
		server.ServeHTTP(w, r)
	})
	_, conn, _ := expecting(t, s.URL, ca, Options{})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				if err := patchConfigMap(t.Context(), conn); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if asked := server.asked.Load(); asked < 2 {
		t.Errorf("%d connections were opened: none was ended", asked)
	}
}

func TestCredentialsThatAreRefusedInTheMiddleAreToldAsThat(t *testing.T) {
	server := &impostor{}
	server.become("first")
	var n atomic.Int32
	s, ca := counted(t, true, func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) > 40 {
			w.Header().Set("Connection", "close") // as API servers do
			always(http.StatusUnauthorized, "text/plain", "no")(w, r)
			return
		}
		server.ServeHTTP(w, r)
	})
	_, conn, _ := expecting(t, s.URL, ca, Options{})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				if err := patchConfigMap(t.Context(), conn); err != nil && classOf(err) != unauthorized {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
