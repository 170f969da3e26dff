package render

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

var (
	apiServer = &envtest.Environment{}
	started   atomic.Bool
	// startAPIServer starts the one API server of this package at its first use: most tests, and the processes of a
	// fuzz run, need none.
	startAPIServer = sync.OnceValues(func() (*rest.Config, error) {
		started.Store(true)
		return apiServer.Start()
	})
)

// builds has each build in a process, as the product does.
var builds = NewBuilds(DefaultBuildLimits())

// buildsHere has them in this process, one at a time, with all that is said between the two processes otherwise. It is for
// tests of what a build gives: with the race detector the start of a process takes long, and nothing that goes wrong in one
// is seen, as a program that is run.
var buildsHere = &Builds{
	limits: DefaultBuildLimits(), places: make(chan struct{}, 1),
	run: func(_ context.Context, request func(io.Writer) error, answer func(io.Reader) error) error {
		var asked, answered bytes.Buffer
		if err := request(&asked); err != nil {
			return err
		}
		work, err := receiveBuild(&asked)
		if err == nil {
			err = work(&answered)
		}
		if err != nil {
			return err
		}
		return answer(&answered)
	},
}

func TestMain(m *testing.M) {
	ServeBuilds()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Fprintln(os.Stderr, "these tests need the folder of etcd and kube-apiserver in KUBEBUILDER_ASSETS")
		os.Exit(1)
	}
	code := m.Run()
	if started.Load() {
		if err := apiServer.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the API server:", err)
		}
	}
	os.Exit(code)
}

// countingHub is a client of the API server that counts what it asks.
type countingHub struct {
	client.Client
	reads, writes atomic.Int32
}

func (h *countingHub) took() (reads, writes int) { return int(h.reads.Swap(0)), int(h.writes.Swap(0)) }

// newHub returns a client, and a new namespace.
func newHub(t *testing.T) (*countingHub, string) {
	t.Helper()
	config, err := startAPIServer()
	if err != nil {
		t.Fatalf("start the API server: %v", err)
	}
	direct, err := client.NewWithWatch(config, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	h := &countingHub{}
	h.Client = interceptor.NewClient(direct, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			h.reads.Add(1)
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			h.reads.Add(1)
			return c.List(ctx, list, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			h.writes.Add(1)
			return c.Create(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			h.writes.Add(1)
			return c.Delete(ctx, o, opts...)
		},
	})
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "render-"}}
	if err := direct.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	return h, ns.Name
}
