package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	temporalclient "go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/dev/env"
)

// Names on the hub; the namespace is also that of the objects on the target.
const (
	namespace   = "bench"
	clusterName = "target"
	secretName  = "target-kubeconfig"
)

// world is everything that runs.
type world struct {
	options
	local    *env.Env
	convoy   *child
	temporal temporalclient.Client
	hub      client.Client // the bench's own, without a cache
	target   client.Client
	releases *releases
	calls    ownCalls
	names    []string // of the Releases, and of the ConfigMaps that are their sources
}

// newWorld starts everything and returns when the Cluster is Ready and all sources are there.
func newWorld(ctx context.Context, o options, progress io.Writer) (w *world, err error) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		return nil, errors.New("the bench reads /proc, which only Linux has")
	}
	w = &world{options: o, calls: ownCalls{counts: counts{}}}
	for i := range o.N {
		w.names = append(w.names, fmt.Sprintf("release-%04d", i))
	}
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
	if w.convoy, err = startConvoy(w.local, o.Convoy); err != nil {
		return nil, err
	}
	if err := w.furnish(ctx); err != nil {
		return nil, fmt.Errorf("prepare hub and target: %w\n--- the log of convoy ends with:\n%s", err, w.convoy.tail())
	}
	return w, nil
}

// close ends everything.
func (w *world) close() error {
	var errs []error
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
	if w.releases, err = watchReleases(ctx, w.local.Hub.Config(), scheme); err != nil {
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

// furnish writes all that is there before the first Release: namespaces, the Cluster, which it awaits, and the sources.
func (w *world) furnish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.Timeout)
	defer cancel()
	for _, c := range []client.Client{w.hub, w.target} {
		if err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
			return err
		}
	}
	kubeconfig, err := w.local.Targets[0].KubeconfigFor(user, "system:masters")
	if err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: named(secretName), Data: map[string][]byte{"kubeconfig": kubeconfig}}
	if err := w.hub.Create(ctx, secret); err != nil {
		return err
	}
	cluster := &v1alpha1.Cluster{ObjectMeta: named(clusterName), Spec: v1alpha1.ClusterSpec{
		ConnectionMode: v1alpha1.ConnectionModeAgentless,
		Agentless: &v1alpha1.AgentlessConnection{Auth: v1alpha1.ClusterAuth{
			Type: v1alpha1.AuthTypeKubeconfig,
			Kubeconfig: &v1alpha1.KubeconfigAuth{
				SecretRef: v1alpha1.KubeconfigSecretRef{Name: secretName, Key: "kubeconfig"},
			},
		}},
	}}
	if err := w.hub.Create(ctx, cluster); err != nil {
		return err
	}
	err = poll(ctx, func() error {
		if err := w.hub.Get(ctx, client.ObjectKeyFromObject(cluster), cluster); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ConditionReady) {
			return errors.New("the Cluster is not Ready")
		}
		return nil
	})
	if err != nil {
		return err
	}
	return w.each(ctx, func(ctx context.Context, name string) error { return w.hub.Create(ctx, w.source(name)) })
}

// source describes the source of a Release: one file for each of its ConfigMaps.
func (w *world) source(name string) *corev1.ConfigMap {
	files := map[string]string{}
	for i := range w.M {
		object := fmt.Sprintf("%s-%d", name, i)
		files[object+".yaml"] = fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\ndata:\n  text: %s\n",
			object, strings.Repeat("x", 200))
	}
	return &corev1.ConfigMap{ObjectMeta: named(name), Data: files}
}

// release describes a Release.
func release(name string) *v1alpha1.Release {
	return &v1alpha1.Release{ObjectMeta: named(name), Spec: v1alpha1.ReleaseSpec{
		ClusterRef:      v1alpha1.ClusterRef{Name: clusterName},
		Source:          v1alpha1.Source{ConfigMap: &v1alpha1.ConfigMapSource{Name: name}},
		TargetNamespace: namespace,
		// The Go types write zero durations out, which the schema refuses: the defaults, spelled.
		SyncPolicy:     v1alpha1.SyncPolicy{Interval: metav1.Duration{Duration: time.Hour}, Timeout: metav1.Duration{Duration: 5 * time.Minute}},
		DeletionPolicy: v1alpha1.ReleaseDeletionPolicy{Timeout: metav1.Duration{Duration: 5 * time.Minute}},
	}}
}

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// poll calls check until it returns nil or ctx ends; then the error holds the last answer.
func poll(ctx context.Context, check func() error) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}
