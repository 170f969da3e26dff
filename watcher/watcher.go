// Package watcher turns changes of Clusters and Releases, of the Secrets and ConfigMaps that they read, and Approvals into
// signals to their workflows, to those of the sources that Releases use and to the observers of Clusters, which it starts when they are not running. It adds finalizers before the first
// signal. Its receiver of webhooks makes sources look when somebody tells of a push. It decides nothing about deliveries and never touches a target; cmd/convoy runs it.
package watcher

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/client"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	hubclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// Starter is the part of a Temporal client that the watcher uses.
type Starter interface {
	SignalWithStartWorkflow(ctx context.Context, workflowID, signalName string, signalArg any,
		options client.StartWorkflowOptions, workflow any, workflowArgs ...any) (client.WorkflowRun, error)
	SignalWorkflow(ctx context.Context, workflowID, runID, signalName string, arg any) error
	ExecuteWorkflow(ctx context.Context, options client.StartWorkflowOptions, workflow any, args ...any) (client.WorkflowRun, error)
}

// Options of the watcher.
type Options struct {
	// ResyncPeriod is over how long a resync is spread. It is also the SyncPeriod of the manager's cache.
	ResyncPeriod time.Duration
	// WebhookAddress is where pushes are told of; empty for nowhere.
	WebhookAddress string
	// Claimed is nil once it is settled that the namespace of Temporal serves this hub; before, nothing is told to it.
	Claimed func() error
	// Notices tell people of changes that Temporal cannot be told of.
	Notices Notices
	// Tracer of handovers; nil for none.
	Tracer trace.Tracer
}

// request is one reason to wake the workflow of one object.
type request struct {
	types.NamespacedName
	reason delivery.KickReason
}

// String is for logs.
func (r request) String() string { return r.NamespacedName.String() + " " + string(r.reason) }

type queue = workqueue.TypedRateLimitingInterface[request]

// debounce folds changes of one object that follow each other closely into one signal, which also keeps a
// workflow below five signals per second.
const debounce = 200 * time.Millisecond

// afterDeletion is how long the workflow of a Cluster that is gone has to end by itself.
const afterDeletion = 3 * time.Second

// Setup adds the watcher to a manager.
func Setup(mgr ctrl.Manager, starter Starter, o Options) error {
	starter = &gate{Starter: starter, claimed: o.Claimed}
	w := &watcher{
		hub: mgr.GetClient(), starter: starter, resync: o.ResyncPeriod, overdue: &overdue{notices: o.Notices},
		state: newState(mgr.GetClient(), mgr.Elected()), tracer: o.Tracer,
	}
	if err := metrics.Registry.Register(w.state); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	if err := w.index(mgr); err != nil {
		return err
	}
	if o.WebhookAddress != "" {
		if err := addReceiver(mgr, o.WebhookAddress, starter, metrics.Registry); err != nil {
			return err
		}
	}
	clusters, err := w.newController(mgr, "cluster", w.reconcileCluster)
	if err != nil {
		return err
	}
	releases, err := w.newController(mgr, "release", w.reconcileRelease)
	if err != nil {
		return err
	}
	polls, err := w.newController(mgr, "source", w.reconcileSource)
	if err != nil {
		return err
	}
	observers, err := w.newController(mgr, "observer", w.reconcileObserver)
	if err != nil {
		return err
	}
	hub := mgr.GetCache()
	sources := []struct {
		to     controller.TypedController[request]
		source source.TypedSource[request]
	}{
		{clusters, source.TypedKind(hub, &v1alpha1.Cluster{}, w.onCluster())},
		{clusters, source.TypedKind(hub, metadataOf("Secret"), w.onDependency(w.clustersOf("Secret")))},
		{clusters, source.TypedKind(hub, metadataOf("ConfigMap"), w.onDependency(w.clustersOf("ConfigMap")))},
		{releases, source.TypedKind(hub, &v1alpha1.Release{}, w.onRelease())},
		{releases, source.TypedKind(hub, &v1alpha1.Approval{}, w.onApproval())},
		{polls, source.TypedKind(hub, &v1alpha1.Release{}, w.onSource())},
		{observers, source.TypedKind(hub, &v1alpha1.Release{}, w.onUser())},
		{observers, source.TypedKind(hub, &v1alpha1.Cluster{}, w.onObserved())},
		{releases, source.TypedKind(hub, metadataOf("Secret"), w.onDependency(w.releasesOf("Secret")))},
		{releases, source.TypedKind(hub, metadataOf("ConfigMap"), w.onDependency(w.releasesOf("ConfigMap")))},
	}
	for _, s := range sources {
		if err := s.to.Watch(s.source); err != nil {
			return fmt.Errorf("watch: %w", err)
		}
	}
	return nil
}

func (w *watcher) newController(mgr ctrl.Manager, name string, do reconcile.TypedFunc[request]) (controller.TypedController[request], error) {
	c, err := controller.NewTyped(name, mgr, controller.TypedOptions[request]{
		Reconciler: w.state.counting(name, w.traced(name, do)), MaxConcurrentReconciles: 8,
		LogConstructor: func(req *request) logr.Logger { return logger(mgr.GetLogger(), name, req) },
		RateLimiter:    workqueue.NewTypedItemExponentialFailureRateLimiter[request](250*time.Millisecond, 30*time.Second),
	})
	if err != nil {
		return nil, fmt.Errorf("controller %s: %w", name, err)
	}
	return c, nil
}

// logger names in each line what a change is about, as the lines of workflows and steps do.
func logger(to logr.Logger, controller string, req *request) logr.Logger {
	to = to.WithValues("controller", controller)
	if req == nil {
		return to
	}
	to = to.WithValues("reason", req.reason)
	if controller == "source" {
		return to.WithValues("workflowID", delivery.SourceWorkflowID(req.Name))
	}
	kind, id := "Cluster", delivery.ClusterWorkflowID(req.Namespace, req.Name)
	switch controller {
	case "release":
		kind, id = "Release", delivery.ReleaseWorkflowID(req.Namespace, req.Name)
	case "observer":
		id = delivery.ObserverWorkflowID(req.Namespace, req.Name)
	}
	return to.WithValues("kind", kind, "namespace", req.Namespace, "name", req.Name, "workflowID", id)
}

// metadataOf watches a core kind without its content: Secrets must not be held in memory.
func metadataOf(kind string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: kind}}
}

type watcher struct {
	hub     hubclient.Client
	starter Starter
	resync  time.Duration
	overdue *overdue
	state   *state
	tracer  trace.Tracer
}

// onCluster wakes a Cluster when it is new, changed or being deleted, and at each resync, which informers tell
// as an update without a new resourceVersion.
func (w *watcher) onCluster() handler.TypedEventHandler[*v1alpha1.Cluster, request] {
	return handler.TypedFuncs[*v1alpha1.Cluster, request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*v1alpha1.Cluster], q queue) {
			known := e.Object.Status.ObservedGeneration == e.Object.Generation
			if e.IsInInitialList && known && e.Object.DeletionTimestamp.IsZero() && !saysUnavailable(e.Object) {
				q.AddAfter(requestFor(e.Object, delivery.KickResync), w.spread())
				return
			}
			q.Add(requestFor(e.Object, delivery.KickChanged))
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*v1alpha1.Cluster], q queue) {
			switch {
			case e.ObjectOld.ResourceVersion == e.ObjectNew.ResourceVersion:
				q.AddAfter(requestFor(e.ObjectNew, delivery.KickResync), w.spread())
			case e.ObjectOld.Generation != e.ObjectNew.Generation, // a deletion is a new generation too
				accepts(e.ObjectOld) != accepts(e.ObjectNew):
				q.AddAfter(requestFor(e.ObjectNew, delivery.KickChanged), debounce)
			case lost(e.ObjectOld, e.ObjectNew, v1alpha1.ClusterFinalizer):
				q.AddAfter(requestFor(e.ObjectNew, delivery.KickResync), debounce)
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*v1alpha1.Cluster], q queue) {
			// Its workflow ends by itself, unless somebody took the finalizer off.
			q.AddAfter(requestFor(e.Object, delivery.KickGone), afterDeletion)
		},
	}
}

// lost reports whether somebody took the finalizer off an object, which is to get it back.
func lost(was, is hubclient.Object, finalizer string) bool {
	return controllerutil.ContainsFinalizer(was, finalizer) && !controllerutil.ContainsFinalizer(is, finalizer)
}

// accepts is the ID of a cluster that may take the former one's place.
func accepts(c *v1alpha1.Cluster) string { return c.Annotations[v1alpha1.AnnotationAcceptClusterID] }

// onRelease wakes a Release when it is new to this process, and when its spec, labels or annotations change or
// it is deleted. Its own status and finalizers wake nobody. A resync starts a workflow that somebody ended, and leaves
// one that runs alone.
func (w *watcher) onRelease() handler.TypedEventHandler[*v1alpha1.Release, request] {
	return handler.TypedFuncs[*v1alpha1.Release, request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*v1alpha1.Release], q queue) {
			reason := delivery.KickChanged
			if e.IsInInitialList {
				reason = delivery.KickListed
			}
			q.Add(requestFor(e.Object, reason))
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*v1alpha1.Release], q queue) {
			switch {
			case e.ObjectOld.ResourceVersion == e.ObjectNew.ResourceVersion: // starts a workflow that somebody ended
				q.AddAfter(requestFor(e.ObjectNew, delivery.KickResync), w.spread())
			case changed(e.ObjectOld, e.ObjectNew):
				q.AddAfter(requestFor(e.ObjectNew, delivery.KickChanged), debounce)
			case lost(e.ObjectOld, e.ObjectNew, v1alpha1.ReleaseFinalizer):
				q.AddAfter(requestFor(e.ObjectNew, delivery.KickResync), debounce)
			}
		},
	}
}

// onDependency wakes those that read an object. What exists when the process starts has been read already.
func (w *watcher) onDependency(readers func(context.Context, hubclient.Object) []types.NamespacedName) handler.TypedEventHandler[*metav1.PartialObjectMetadata, request] {
	wake := func(ctx context.Context, o hubclient.Object, q queue) {
		for _, name := range readers(ctx, o) {
			q.AddAfter(request{name, delivery.KickDependency}, debounce)
		}
	}
	return handler.TypedFuncs[*metav1.PartialObjectMetadata, request]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*metav1.PartialObjectMetadata], q queue) {
			if !e.IsInInitialList {
				wake(ctx, e.Object, q)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*metav1.PartialObjectMetadata], q queue) {
			if e.ObjectOld.ResourceVersion != e.ObjectNew.ResourceVersion {
				wake(ctx, e.ObjectNew, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*metav1.PartialObjectMetadata], q queue) {
			wake(ctx, e.Object, q)
		},
	}
}

// onApproval wakes the Release that an Approval is for. What exists when the process starts is looked at with the Release
// itself, and what convoy writes into its status wakes nobody.
func (w *watcher) onApproval() handler.TypedEventHandler[*v1alpha1.Approval, request] {
	wake := func(a *v1alpha1.Approval, q queue) {
		name := types.NamespacedName{Namespace: a.Namespace, Name: a.Spec.ReleaseRef.Name}
		q.AddAfter(request{name, delivery.KickDependency}, debounce)
	}
	return handler.TypedFuncs[*v1alpha1.Approval, request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*v1alpha1.Approval], q queue) {
			if !e.IsInInitialList {
				wake(e.Object, q)
			}
		},
	}
}

// spread is a random moment of the resync period, so that a resync does not probe everything at once.
func (w *watcher) spread() time.Duration {
	return time.Duration(rand.Int64N(int64(w.resync)*9/10 + 1)) //nolint:gosec // a spread needs no secrecy
}

func requestFor(o hubclient.Object, reason delivery.KickReason) request {
	return request{hubclient.ObjectKeyFromObject(o), reason}
}
