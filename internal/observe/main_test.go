package observe

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"kumodo.io/convoy/api/v1alpha1"
)

// config is of the one control plane of this package. It has no controllers: tests write the status.
var config *rest.Config

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	if fuzzing() {
		return m.Run()
	}
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Fprintln(os.Stderr, "KUBEBUILDER_ASSETS is not set: it names the folder with etcd and kube-apiserver")
		return 1
	}
	env := &envtest.Environment{}
	var err error
	if config, err = env.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "the control plane did not start:", err)
		return 1
	}
	config.QPS = -1
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

// traffic counts the requests for each path, and may answer them itself.
type traffic struct {
	next   http.RoundTripper
	mu     sync.Mutex
	paths  map[string]int
	answer func(*http.Request) (*http.Response, error)
}

func (tr *traffic) RoundTrip(r *http.Request) (*http.Response, error) {
	tr.mu.Lock()
	tr.paths[r.URL.Path]++
	answer := tr.answer
	tr.mu.Unlock()
	if answer != nil {
		if resp, err := answer(r); resp != nil || err != nil {
			return resp, err
		}
	}
	return tr.next.RoundTrip(r)
}

func (tr *traffic) count(path string) int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.paths[path]
}

type world struct {
	*testing.T
	ctx    context.Context
	ns     string
	target Target
	log    *traffic
	admin  dynamic.Interface
}

func newWorld(t *testing.T) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	w := &world{T: t, ctx: ctx, ns: "t-" + rand.String(8), log: &traffic{paths: map[string]int{}}}
	var err error
	w.admin, err = dynamic.NewForConfig(config)
	w.check(err)
	cfg := rest.CopyConfig(config)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		w.log.next = next
		return w.log
	})
	w.target.Dynamic, err = dynamic.NewForConfig(cfg)
	w.check(err)
	w.target.Metadata, err = metadata.NewForConfig(cfg)
	w.check(err)
	disco, err := discovery.NewDiscoveryClientForConfig(cfg)
	w.check(err)
	w.target.Mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco))
	namespace := fromYAML(t, `{apiVersion: v1, kind: Namespace, metadata: {name: `+w.ns+`}}`)
	_, err = w.admin.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Create(ctx, namespace, metav1.CreateOptions{})
	w.check(err)
	return w
}

func (w *world) check(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

var deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}

// deployment makes one that nobody rolls out, and its entry.
func (w *world) deployment(name string) v1alpha1.InventoryEntry {
	w.Helper()
	o := fromYAML(w, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: `+name+`}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: example.test/web:1}]}
`)
	_, err := w.admin.Resource(deployments).Namespace(w.ns).Create(w.ctx, o, metav1.CreateOptions{})
	w.check(err)
	return v1alpha1.InventoryEntry{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: w.ns, Name: name}
}

// status writes what a controller would.
func (w *world) status(name, status string) {
	w.Helper()
	_, err := w.admin.Resource(deployments).Namespace(w.ns).Patch(w.ctx, name, types.MergePatchType,
		[]byte(`{"status":`+status+`}`), metav1.PatchOptions{}, "status")
	w.check(err)
}

const (
	available = `{"observedGeneration":1,"replicas":1,"updatedReplicas":1,"readyReplicas":1,"availableReplicas":1,"conditions":[
		{"type":"Available","status":"True","reason":"MinimumReplicasAvailable","message":"ok"},
		{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable","message":"ok"}]}`
	givenUp = `{"observedGeneration":1,"replicas":1,"conditions":[
		{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded","message":"too long"}]}`
)

func fromYAML(tb testing.TB, text string) *unstructured.Unstructured {
	tb.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(data); err != nil { // keeps whole numbers whole, as a client does
		tb.Fatal(err)
	}
	return o
}
