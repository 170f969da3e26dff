package connect

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/dial"
)

// environment is the API server that all tests of the package share.
var environment *envtest.Environment

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	flag.Parse()
	if worker := flag.Lookup("test.fuzzworker"); worker != nil && worker.Value.String() == "true" {
		return m.Run() // a process beside the one that has the API server; it only parses
	}
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Fprintln(os.Stderr, "KUBEBUILDER_ASSETS is not set: it names the folder with etcd and kube-apiserver")
		return 1
	}
	environment = &envtest.Environment{}
	if _, err := environment.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "start the API server:", err)
		return 1
	}
	defer func() {
		if err := environment.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the API server:", err)
		}
	}()
	return m.Run()
}

// hub is an in-memory reader of Secrets.
type hub struct {
	mu      sync.Mutex
	secrets map[string]*corev1.Secret
	maps    map[string]*corev1.ConfigMap
	err     error
}

func (h *hub) Get(_ context.Context, k client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return h.err
	}
	switch into := obj.(type) {
	case *corev1.Secret:
		if s, ok := h.secrets[k.String()]; ok {
			s.DeepCopyInto(into)
			return nil
		}
	case *corev1.ConfigMap:
		if m, ok := h.maps[k.String()]; ok {
			m.DeepCopyInto(into)
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, k.Name)
}

func (h *hub) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return fmt.Errorf("secrets are never listed")
}

// put stores the Secret team/target with one entry.
func (h *hub) put(uid, resourceVersion, entry, content string) {
	h.putSecret("target", uid, resourceVersion, map[string][]byte{entry: []byte(content)})
}

// putSecret stores a Secret in the namespace team; without data it removes it.
func (h *hub) putSecret(name, uid, resourceVersion string, data map[string][]byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.secrets == nil {
		h.secrets = map[string]*corev1.Secret{}
	}
	delete(h.secrets, "team/"+name)
	if data != nil {
		h.secrets["team/"+name] = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: name, UID: types.UID(uid), ResourceVersion: resourceVersion,
		}, Data: data}
		if name == KeptName("u") {
			h.secrets["team/"+name].Type = v1alpha1.SecretTypeCredentials
		}
	}
}

// putCA stores the ConfigMap team/ca.
func (h *hub) putCA(resourceVersion string, data map[string]string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.maps == nil {
		h.maps = map[string]*corev1.ConfigMap{}
	}
	h.maps["team/ca"] = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: "ca", UID: "ca", ResourceVersion: resourceVersion,
	}, Data: data}
}

// cluster is a Cluster whose kubeconfig is in the Secret team/target.
func cluster(uid, entry string) *v1alpha1.Cluster {
	return &v1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "c-" + uid, UID: types.UID(uid)},
		Spec: v1alpha1.ClusterSpec{
			ConnectionMode: v1alpha1.ConnectionModeAgentless,
			Agentless: &v1alpha1.AgentlessConnection{
				// Never used with a kubeconfig.
				Server: "https://127.0.0.1:1",
				Auth: v1alpha1.ClusterAuth{Type: v1alpha1.AuthTypeKubeconfig, Kubeconfig: &v1alpha1.KubeconfigAuth{
					SecretRef: v1alpha1.KubeconfigSecretRef{Name: "target", Key: entry},
				}},
			},
		},
	}
}

// newPool is a pool whose clients are closed when the test ends.
func newPool(t *testing.T, h client.Reader, o Options) *Pool {
	t.Helper()
	p := NewPool(h, dial.New(dial.Policy{AllowLoopback: true}), o)
	t.Cleanup(p.Close)
	return p
}

// clientOf is a client for a kubeconfig.
func clientOf(t *testing.T, kubeconfig string, o Options) *Client {
	t.Helper()
	h := &hub{}
	h.put("s1", "1", "value", kubeconfig)
	c, err := newPool(t, h, o).Client(t.Context(), cluster("u1", ""))
	if err != nil {
		t.Fatalf("client: %v", err)
	}
	return c
}

// kubeconfigFor names a server and its authority; user is the YAML of the user, cluster of further fields.
func kubeconfigFor(server string, ca []byte, user string, cluster ...string) string {
	if ca != nil {
		cluster = append(cluster, "certificate-authority-data: "+base64.StdEncoding.EncodeToString(ca))
	}
	cluster = append(cluster, "server: '"+server+"'")
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: east
contexts: [{name: east, context: {cluster: t, user: ops}}]
users: [{name: ops, user: %s}]
clusters: [{name: t, cluster: {%s}}]
`, user, strings.Join(cluster, ", "))
}

// stub starts a TLS server and returns it with its authority.
func stub(t *testing.T, handler http.HandlerFunc) (*httptest.Server, []byte) {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// always answers every request alike.
func always(code int, contentType, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within 30 seconds: %s", what)
		}
	}
}
