package watcher

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	hubclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// onUser wakes the observer of a Cluster when a Release begins to use it.
func (w *watcher) onUser() handler.TypedEventHandler[*v1alpha1.Release, request] {
	wake := func(q queue, r *v1alpha1.Release) {
		cluster := types.NamespacedName{Namespace: r.Namespace, Name: r.Spec.ClusterRef.Name}
		q.AddAfter(request{cluster, delivery.KickChanged}, debounce)
	}
	return handler.TypedFuncs[*v1alpha1.Release, request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*v1alpha1.Release], q queue) { wake(q, e.Object) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*v1alpha1.Release], q queue) {
			if e.ObjectOld.Spec.ClusterRef != e.ObjectNew.Spec.ClusterRef {
				wake(q, e.ObjectNew)
			}
		},
	}
}

// onObserved wakes the observer of a Cluster that Releases waited for, and starts one at a resync that somebody ended.
func (w *watcher) onObserved() handler.TypedEventHandler[*v1alpha1.Cluster, request] {
	return handler.TypedFuncs[*v1alpha1.Cluster, request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*v1alpha1.Cluster], q queue) {
			q.AddAfter(requestFor(e.Object, delivery.KickChanged), debounce)
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*v1alpha1.Cluster], q queue) {
			if e.ObjectOld.ResourceVersion == e.ObjectNew.ResourceVersion {
				q.AddAfter(requestFor(e.ObjectNew, delivery.KickResync), w.spread())
			}
		},
	}
}

// reconcileObserver sees to it that a Cluster which Releases use is observed.
func (w *watcher) reconcileObserver(ctx context.Context, req request) (reconcile.Result, error) {
	var c v1alpha1.Cluster
	if err := w.hub.Get(ctx, req.NamespacedName, &c); err != nil || !c.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, hubclient.IgnoreNotFound(err)
	}
	var users v1alpha1.ReleaseList
	err := w.hub.List(ctx, &users, hubclient.InNamespace(c.Namespace), hubclient.MatchingFields{indexCluster: c.Name}, hubclient.Limit(1))
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("list the Releases of a Cluster: %w", err)
	}
	if len(users.Items) == 0 {
		return reconcile.Result{}, nil
	}
	key := delivery.Key{Namespace: c.Namespace, Name: c.Name, UID: string(c.UID)}
	id := delivery.ObserverWorkflowID(c.Namespace, c.Name)
	options := startOptions(id, "observer of Cluster "+key.String(), attributes(c.Namespace, keyword(delivery.AttributeCluster).ValueSet(c.Name)))
	if req.reason == delivery.KickResync { // one that runs does not even notice
		_, err = w.starter.ExecuteWorkflow(ctx, options, delivery.WorkflowObserver, delivery.ObserverInput{Key: key})
	} else {
		kick := delivery.Kick{UID: key.UID, Generation: c.Generation, Reason: req.reason, Created: c.CreationTimestamp.Unix()}
		_, err = w.starter.SignalWithStartWorkflow(ctx, id, delivery.SignalKick, kick, options, delivery.WorkflowObserver, delivery.ObserverInput{Key: key})
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("wake workflow %s: %w", id, err)
	}
	return reconcile.Result{}, nil
}
