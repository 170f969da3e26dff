// Package activities holds every side effect of convoy, one method each: read what it acts on from the hub,
// call one domain package, write the outcome to the status, return little. It decides nothing about order
// or retries; the workflows do, and they call it. No result, error or heartbeat holds a credential, a
// manifest or text of the far side.
package activities

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/apply"
	"kumodo.io/convoy/internal/connect"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/hook"
	"kumodo.io/convoy/internal/render"
	"kumodo.io/convoy/internal/source"
	"kumodo.io/convoy/internal/status"
)

// Activities are the side effects, with what they need. Register the value with a worker.
type Activities struct {
	Deps
	hubID func(context.Context) (string, error)
}

// Deps are what the activities call.
type Deps struct {
	// Hub reads and writes the hub without a cache: an activity acts on what is there now.
	Hub      client.WithWatch
	Clusters *connect.Pool
	Sources  *source.Sources
	Builds   *render.Builds
	Renders  *render.Store
	Ledger   *apply.Ledger
	Status   *status.Writer
	// Kicks wakes the workflows of Clusters.
	Kicks Kicker
	// Workflows are those that hooks run, of which Permits says which they may.
	Workflows Workflows
	Permits   *hook.Permits
	// Sender sends what http hooks send.
	Sender *hook.Sender
	// Metrics count probes.
	Metrics *Metrics
	// ServiceAccounts say what Releases act as on their targets.
	ServiceAccounts delivery.ServiceAccounts
	// Tenure is about how long one worker observes a Cluster before it is placed anew, Audit how often everything is listed.
	Tenure, Audit time.Duration
	// ResyncPeriod bounds how often a Cluster's lastProbeTime moves.
	ResyncPeriod time.Duration
}

// Kicker is the part of a Temporal client that activities use.
type Kicker interface {
	SignalWorkflow(ctx context.Context, workflowID, runID, signalName string, arg any) error
}

// New returns the activities.
func New(d Deps) *Activities {
	return &Activities{Deps: d, hubID: hubID(d.Hub)}
}

// hubID reads once, and then remembers, the identity of the hub.
func hubID(hub client.Reader) func(context.Context) (string, error) {
	var (
		mu sync.Mutex
		id string
	)
	return func(ctx context.Context) (_ string, err error) {
		mu.Lock()
		defer mu.Unlock()
		if id == "" {
			id, err = HubID(ctx, hub)
		}
		return id, err
	}
}

// HubID reads the identity of the hub, which is in the marks on objects of the targets.
func HubID(ctx context.Context, hub client.Reader) (string, error) {
	var ns corev1.Namespace
	if err := hub.Get(ctx, types.NamespacedName{Name: metav1.NamespaceSystem}, &ns); err != nil {
		return "", fmt.Errorf("read the identity of the hub: %w", err)
	}
	return delivery.HubID(&ns), nil
}

func (a *Activities) owner(ctx context.Context, k delivery.Key) (delivery.Owner, error) {
	id, err := a.hubID(ctx)
	return delivery.Owner{HubID: id, Namespace: k.Namespace, Name: k.Name}, err
}

// release reads the Release that a key names. Life is Gone when it does not exist or lives another life.
func (a *Activities) release(ctx context.Context, k delivery.Key) (*v1alpha1.Release, Life, error) {
	var r v1alpha1.Release
	life, err := a.read(ctx, k, &r)
	return &r, life, err
}

func (a *Activities) cluster(ctx context.Context, k delivery.Key) (*v1alpha1.Cluster, Life, error) {
	var c v1alpha1.Cluster
	life, err := a.read(ctx, k, &c)
	return &c, life, err
}

func (a *Activities) read(ctx context.Context, k delivery.Key, o client.Object) (Life, error) {
	err := a.Hub.Get(ctx, types.NamespacedName{Namespace: k.Namespace, Name: k.Name}, o)
	switch {
	case apierrors.IsNotFound(err):
		return Gone, nil
	case err != nil:
		return "", fmt.Errorf("read %T %s: %w", o, k, err)
	case string(o.GetUID()) != k.UID:
		return Gone, nil
	case !o.GetDeletionTimestamp().IsZero():
		return Deleting, nil
	}
	return Alive, nil
}

// clusterOf reads the Cluster that a Release references; nil when it does not exist.
func (a *Activities) clusterOf(ctx context.Context, r *v1alpha1.Release) (*v1alpha1.Cluster, error) {
	return a.clusterNamed(ctx, r.Namespace, r.Spec.ClusterRef.Name)
}

func (a *Activities) clusterNamed(ctx context.Context, namespace, name string) (*v1alpha1.Cluster, error) {
	var c v1alpha1.Cluster
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return nil, nil // there is none of such a name, and the client would not even ask
	}
	err := a.Hub.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &c)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Cluster %s/%s: %w", namespace, name, err)
	}
	return &c, nil
}
