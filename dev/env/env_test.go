package env

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
)

// local is the environment that the tests of this package share. Each test leaves everything running.
var local *Env

func TestMain(m *testing.M) {
	if os.Getenv(childDir) != "" {
		runChild()
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Fprintln(os.Stderr, "KUBEBUILDER_ASSETS is not set: run `make test`, or `make tools` and set it to the checkout's bin folder")
		return 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var err error
	local, err = Start(ctx, Options{
		Temporal: TemporalOptions{Persistent: true},
		Hub:      ControlPlaneOptions{Audit: true},
		Targets:  []ControlPlaneOptions{{Workloads: true}},
		Log:      os.Stderr,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot start the environment:", err)
		return 1
	}
	defer func() {
		if err := local.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "cannot stop the environment:", err)
		}
	}()
	return m.Run()
}

// kube is an administrator's client.
func kube(t *testing.T, c *ControlPlane) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// eventually fails the test when check does not return nil within a minute.
func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		}
	}
}
