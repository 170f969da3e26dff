package apply

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// config is of the one control plane of this package, which is hub and target at once.
var config *rest.Config

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	log.SetLogger(logr.Discard())
	if fuzzing() {
		return m.Run()
	}
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Fprintln(os.Stderr, "KUBEBUILDER_ASSETS is not set: it names the folder with etcd and kube-apiserver")
		return 1
	}
	env := &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join("..", "..", "deploy", "crd")},
		ErrorIfCRDPathMissing: true,
	}
	var err error
	if config, err = env.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "the control plane did not start:", err)
		return 1
	}
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	code := m.Run()
	if err := env.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "the control plane did not stop:", err)
	}
	return code
}

// fuzzing: each process of the fuzzer comes through here, and none needs a control plane.
func fuzzing() bool {
	flag.Parse()
	return flag.Lookup("test.fuzz").Value.String() != ""
}

// traffic records the requests of one client, and may answer them itself.
type traffic struct {
	next http.RoundTripper

	mu     sync.Mutex
	lines  []string
	bodies []string
	answer func(*http.Request) (*http.Response, error) // nil, nil passes the request on
}

func (tr *traffic) RoundTrip(r *http.Request) (*http.Response, error) {
	body := ""
	if r.Body != nil {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		body, r.Body = string(b), io.NopCloser(bytes.NewReader(b))
	}
	tr.mu.Lock()
	tr.lines = append(tr.lines, r.Method+" "+r.URL.Path)
	tr.bodies = append(tr.bodies, body)
	answer := tr.answer
	tr.mu.Unlock()
	if answer != nil {
		if resp, err := answer(r); resp != nil || err != nil {
			return resp, err
		}
	}
	return tr.next.RoundTrip(r)
}

// take returns the requests since the last call.
func (tr *traffic) take() []string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	out := tr.lines
	tr.lines, tr.bodies = nil, nil
	return out
}

func (tr *traffic) intercept(answer func(*http.Request) (*http.Response, error)) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.answer = answer
}

func count(lines []string, prefix string) int {
	n := 0
	for _, l := range lines {
		if strings.HasPrefix(l, prefix) {
			n++
		}
	}
	return n
}

func writes(lines []string) int {
	return len(lines) - count(lines, "GET ")
}

// world is a namespace of its own, with a Release and the connections of a worker.
type world struct {
	*testing.T
	ctx       context.Context
	ns        string
	release   *v1alpha1.Release
	cluster   *v1alpha1.Cluster
	owner     delivery.Owner
	hub       client.Client
	ledger    *Ledger
	target    Target
	hubLog    *traffic
	targetLog *traffic
	admin     dynamic.Interface // not recorded
}

func newWorld(t *testing.T) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	w := &world{T: t, ctx: ctx, ns: "t-" + rand.String(8)}
	var err error
	w.admin, err = dynamic.NewForConfig(config)
	w.check(err)
	w.create(object("v1", "Namespace", "", w.ns))
	w.release = &v1alpha1.Release{ObjectMeta: metav1.ObjectMeta{Name: "app", Namespace: w.ns, UID: types.UID(rand.String(12))}}
	w.cluster = &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "east", Namespace: w.ns, UID: types.UID(rand.String(12))}}
	w.owner = delivery.Owner{HubID: "hub-1", Namespace: w.ns, Name: "app"}
	w.connect()
	return w
}

// connect makes the connections of a worker that has just started.
func (w *world) connect() {
	w.Helper()
	w.hubLog, w.targetLog = &traffic{}, &traffic{}
	scheme := runtime.NewScheme()
	w.check(v1alpha1.AddToScheme(scheme))
	var err error
	w.hub, err = client.New(recorded(w.hubLog), client.Options{Scheme: scheme})
	w.check(err)
	w.ledger = NewLedger(w.hub)
	cfg := recorded(w.targetLog)
	w.target.Dynamic, err = dynamic.NewForConfig(cfg)
	w.check(err)
	w.target.Metadata, err = metadata.NewForConfig(cfg)
	w.check(err)
	w.target.Own = w.target.Metadata
	disco, err := discovery.NewDiscoveryClientForConfig(cfg)
	w.check(err)
	w.target.Discovery = memory.NewMemCacheClient(disco)
	w.target.Mapper = restmapper.NewDeferredDiscoveryRESTMapper(w.target.Discovery)
	// Warm, as they are in a worker that has probed the Cluster.
	_, err = w.target.Mapper.RESTMapping(schema.GroupKind{Kind: "ConfigMap"}, "v1")
	w.check(err)
	_, err = w.hub.RESTMapper().RESTMapping(v1alpha1.GroupVersion.WithKind("Inventory").GroupKind(), "v1alpha1")
	w.check(err)
	w.hubLog.take()
	w.targetLog.take()
}

func recorded(tr *traffic) *rest.Config {
	cfg := rest.CopyConfig(config)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		tr.next = next
		return tr
	})
	return cfg
}

func (w *world) check(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// another is a second Release of the same namespace and cluster.
func (w *world) another(name string) *world {
	out := *w
	out.release = &v1alpha1.Release{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.ns, UID: types.UID(rand.String(12))}}
	out.owner.Name = name
	return &out
}

// record is what the hub has for the Release on the Cluster.
func (w *world) record() *Record {
	w.Helper()
	records, err := w.ledger.Load(w.ctx, w.release)
	w.check(err)
	for _, r := range records {
		if r.ClusterUID() == string(w.cluster.UID) {
			return r
		}
	}
	return NewRecord(w.release, w.cluster)
}

func (w *world) request(objects ...*unstructured.Unstructured) Request {
	w.Helper()
	return Request{Owner: w.owner, Objects: objects, TargetNamespace: w.ns, Record: w.record()}
}

func (w *world) apply(objects ...*unstructured.Unstructured) ChangeSet {
	w.Helper()
	set, err := Apply(w.ctx, w.target, w.ledger, w.request(objects...))
	w.check(err)
	return set
}

// applied is apply of objects that nothing is wrong with.
func (w *world) applied(objects ...*unstructured.Unstructured) ChangeSet {
	w.Helper()
	set := w.apply(objects...)
	if len(set.Failed) > 0 {
		w.Fatalf("objects failed: %v", set.Failed)
	}
	return set
}

func (w *world) prune(objects ...*unstructured.Unstructured) Removal {
	w.Helper()
	out, err := Prune(w.ctx, w.target, w.ledger, PruneRequest{
		Owner: w.owner, Objects: objects, TargetNamespace: w.ns, Record: w.record(), AllowEmpty: true,
	})
	w.check(err)
	return out
}

func (w *world) delete() Removal {
	w.Helper()
	out, err := Delete(w.ctx, w.target, w.ledger, DeleteRequest{Owner: w.owner, Record: w.record()})
	w.check(err)
	return out
}

// only asserts which objects failed, with a part of each message.
func only(tb testing.TB, errs []ObjectError, name, message string, terminal bool) {
	tb.Helper()
	if len(errs) != 1 {
		tb.Fatalf("want one error, of %s, got %v", name, errs)
	}
	e := errs[0]
	if e.Ref.Name != name || !strings.Contains(e.Message, message) || e.Terminal != terminal {
		tb.Fatalf("got %+v, want %s, %q, terminal %v", e, name, message, terminal)
	}
}

func (w *world) client(o *unstructured.Unstructured) dynamic.ResourceInterface {
	if o.GetNamespace() == "" {
		return w.admin.Resource(resource(o))
	}
	return w.admin.Resource(resource(o)).Namespace(o.GetNamespace())
}

func (w *world) create(o *unstructured.Unstructured) *unstructured.Unstructured {
	w.Helper()
	out, err := w.client(o).Create(w.ctx, o, metav1.CreateOptions{})
	w.check(err)
	return out
}

// live is the object on the target, nil when it is not there.
func (w *world) live(o *unstructured.Unstructured) *unstructured.Unstructured {
	w.Helper()
	out, err := w.client(o).Get(w.ctx, o.GetName(), metav1.GetOptions{})
	if client.IgnoreNotFound(err) != nil {
		w.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return out
}

func (w *world) patch(o *unstructured.Unstructured, merge string) {
	w.Helper()
	_, err := w.client(o).Patch(w.ctx, o.GetName(), types.MergePatchType, []byte(merge), metav1.PatchOptions{FieldManager: "somebody"})
	w.check(err)
}

func (w *world) remove(o *unstructured.Unstructured) {
	w.Helper()
	w.check(client.IgnoreNotFound(w.client(o).Delete(w.ctx, o.GetName(), metav1.DeleteOptions{})))
}

// eventually waits for a condition.
func (w *world) eventually(what string, condition func() bool) {
	w.Helper()
	err := wait.PollUntilContextTimeout(w.ctx, 20*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		return condition(), nil
	})
	if err != nil {
		w.Fatalf("never: %s", what)
	}
}
