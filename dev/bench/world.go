package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	temporalclient "go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/dev/env"
)

// namespace is that of everything on the hub, and of the objects on the target.
const namespace = "bench"

// world is everything that runs.
type world struct {
	options
	progress io.Writer
	local    *env.Env
	convoy   *child
	// observers are more processes of convoy, of the role observer alone.
	observers []*child
	temporal  temporalclient.Client
	hub       client.Client // the bench's own, without a cache
	target    client.Client
	clusters  *kept[*v1alpha1.Cluster]
	releases  *kept[*v1alpha1.Release]
	calls     ownCalls
}

// newWorld starts everything.
func newWorld(ctx context.Context, o options, progress io.Writer) (w *world, err error) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		return nil, errors.New("the bench reads /proc, which only Linux has")
	}
	w = &world{options: o, progress: progress, calls: ownCalls{counts: counts{}}}
	w.local, err = env.Start(ctx, env.Options{
		Bin: os.Getenv("KUBEBUILDER_ASSETS"), Log: progress,
		Hub: env.ControlPlaneOptions{Audit: true}, Targets: []env.ControlPlaneOptions{{Name: "target", Audit: true}},
	})
	if err != nil {
		return nil, fmt.Errorf("start the environment: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if err := w.connect(ctx); err != nil {
		return nil, fmt.Errorf("connect to the environment: %w", err)
	}
	w.convoy, err = startConvoy(w.local, o.Convoy, "convoy", o.convoyFlags()...)
	return w, err
}

// close ends everything.
func (w *world) close() error {
	var errs []error
	for _, c := range w.observers {
		errs = append(errs, c.stop())
	}
	if w.convoy != nil {
		errs = append(errs, w.convoy.stop())
	}
	if w.temporal != nil {
		w.temporal.Close()
	}
	return errors.Join(append(errs, w.local.Stop())...)
}

func (w *world) connect(ctx context.Context) (err error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	if w.hub, err = client.New(w.local.Hub.Config(), client.Options{Scheme: scheme}); err != nil {
		return err
	}
	if w.target, err = client.New(w.local.Targets[0].Config(), client.Options{Scheme: scheme}); err != nil {
		return err
	}
	if w.clusters, w.releases, err = watchHub(ctx, w.local.Hub.Config(), scheme); err != nil {
		return err
	}
	w.temporal, err = temporalclient.DialContext(ctx, temporalclient.Options{
		HostPort: w.local.Temporal.Address, Namespace: env.Namespace,
		Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
		ConnectionOptions: temporalclient.ConnectionOptions{
			DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(w.calls.intercept)},
		},
	})
	return err
}

// begin writes the namespaces, and what the suite begins with.
func (w *world) begin(ctx context.Context, s suite) error {
	ctx, cancel := context.WithTimeout(ctx, w.Timeout)
	defer cancel()
	for _, c := range []client.Client{w.hub, w.target} {
		if err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
			return fmt.Errorf("prepare hub and target: %w", err)
		}
	}
	if err := s.furnish(ctx); err != nil {
		return fmt.Errorf("prepare hub and target: %w", err)
	}
	return nil
}

// kubeconfig leads convoy to the target, by another address when one is given.
func (w *world) kubeconfig(address string) ([]byte, error) {
	return w.kubeconfigOf("system:masters", address)
}

// kubeconfigOf is a kubeconfig with the rights of a group.
func (w *world) kubeconfigOf(group, address string) ([]byte, error) {
	direct, err := w.local.Targets[0].KubeconfigFor(user, group)
	if err != nil || address == "" {
		return direct, err
	}
	config, err := clientcmd.Load(direct)
	if err != nil {
		return nil, err
	}
	for _, c := range config.Clusters {
		c.Server, c.TLSServerName = "https://"+address, "localhost" // the certificate names no other address
	}
	return clientcmd.Write(*config)
}

// kubeconfigSecret describes the Secret of a Cluster.
func kubeconfigSecret(name string, kubeconfig []byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: named(name), Data: map[string][]byte{"kubeconfig": kubeconfig}}
}

// cluster describes a Cluster whose Secret has the same name.
func cluster(name string) *v1alpha1.Cluster {
	return &v1alpha1.Cluster{ObjectMeta: named(name), Spec: v1alpha1.ClusterSpec{
		ConnectionMode: v1alpha1.ConnectionModeAgentless,
		Agentless: &v1alpha1.AgentlessConnection{Auth: v1alpha1.ClusterAuth{
			Type:       v1alpha1.AuthTypeKubeconfig,
			Kubeconfig: &v1alpha1.KubeconfigAuth{SecretRef: v1alpha1.KubeconfigSecretRef{Name: name, Key: "kubeconfig"}},
		}},
	}}
}

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// numbered are n names.
func numbered(prefix string, n int) []string {
	names := make([]string, 0, n)
	for i := range n {
		names = append(names, fmt.Sprintf("%s-%04d", prefix, i))
	}
	return names
}

// spread takes some of the names, evenly spread, n at the most.
func spread(names []string, n int) []string {
	size := min(n, len(names))
	some := make([]string, 0, size)
	for i := range size {
		some = append(some, names[i*len(names)/size])
	}
	return some
}

// report tells whoever waits how far the bench is.
func (w *world) report(format string, args ...any) { fmt.Fprintf(w.progress, format+"\n", args...) }
