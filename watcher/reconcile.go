package watcher

import (
	"context"
	"errors"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	hubclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// entity is what is different between the workflows of the two kinds.
type entity struct {
	workflow   string
	id         string
	input      func(delivery.Key) any
	finalizer  string
	attributes temporal.SearchAttributes
	summary    string
}

func (w *watcher) reconcileCluster(ctx context.Context, req request) (reconcile.Result, error) {
	var c v1alpha1.Cluster
	return w.hand(ctx, req, &c, func() entity {
		return entity{
			workflow: delivery.WorkflowCluster, id: delivery.ClusterWorkflowID(c.Namespace, c.Name), finalizer: v1alpha1.ClusterFinalizer,
			input:      func(k delivery.Key) any { return delivery.ClusterInput{Key: k} },
			attributes: attributes(c.Namespace, keyword(delivery.AttributeCluster).ValueSet(c.Name)),
			summary:    "Cluster " + c.Namespace + "/" + c.Name,
		}
	})
}

func (w *watcher) reconcileRelease(ctx context.Context, req request) (reconcile.Result, error) {
	var r v1alpha1.Release
	return w.hand(ctx, req, &r, func() entity {
		return entity{
			workflow: delivery.WorkflowRelease, id: delivery.ReleaseWorkflowID(r.Namespace, r.Name), finalizer: v1alpha1.ReleaseFinalizer,
			input: func(k delivery.Key) any { return delivery.ReleaseInput{Key: k} },
			attributes: attributes(r.Namespace, keyword(delivery.AttributeRelease).ValueSet(r.Name),
				keyword(delivery.AttributeCluster).ValueSet(r.Spec.ClusterRef.Name)),
			summary: "Release " + r.Namespace + "/" + r.Name,
		}
	})
}

func keyword(name string) temporal.SearchAttributeKeyKeyword {
	return temporal.NewSearchAttributeKeyKeyword(name)
}

func attributes(namespace string, more ...temporal.SearchAttributeUpdate) temporal.SearchAttributes {
	return temporal.NewSearchAttributes(append(more, keyword(delivery.AttributeNamespace).ValueSet(namespace))...)
}

// hand gives a change over to the workflow of its object. The finalizer is there before the first signal, so
// that no deletion can be missed by a workflow that has begun.
func (w *watcher) hand(ctx context.Context, req request, o hubclient.Object, describe func() entity) (reconcile.Result, error) {
	if err := w.hub.Get(ctx, req.NamespacedName, o); err != nil {
		if apierrors.IsNotFound(err) && req.reason == delivery.KickGone {
			err = w.tellGone(ctx, req.NamespacedName)
		}
		return reconcile.Result{}, hubclient.IgnoreNotFound(err)
	}
	e := describe()
	deleting := !o.GetDeletionTimestamp().IsZero()
	if req.reason == delivery.KickGone {
		return reconcile.Result{}, nil // made again meanwhile, which has its own request
	}
	if deleting && !controllerutil.ContainsFinalizer(o, e.finalizer) {
		return reconcile.Result{}, nil
	}
	if !deleting {
		err := w.finalizer(ctx, o, e.finalizer)
		if apierrors.IsConflict(err) { // somebody wrote it meanwhile; the cache tells in a moment
			return reconcile.Result{RequeueAfter: debounce}, nil
		}
		if err != nil {
			return reconcile.Result{}, hubclient.IgnoreNotFound(err)
		}
	}
	kick := delivery.Kick{UID: string(o.GetUID()), Generation: o.GetGeneration(), Reason: req.reason, Created: o.GetCreationTimestamp().Unix()}
	if deleting {
		kick.Reason = delivery.KickDeleting
	}
	if err := w.wake(ctx, e, delivery.Key{Namespace: o.GetNamespace(), Name: o.GetName(), UID: string(o.GetUID())}, kick); err != nil {
		return reconcile.Result{}, errors.Join(err, w.overdue.missed(ctx, e.id, o, kick.Reason))
	}
	return reconcile.Result{}, w.overdue.over(ctx, e.id, o)
}

// wake tells the workflow of an object, which it starts when none runs.
func (w *watcher) wake(ctx context.Context, e entity, key delivery.Key, kick delivery.Kick) error {
	options := startOptions(e.id, e.summary, e.attributes)
	var (
		run client.WorkflowRun
		err error
	)
	if kick.Reason == delivery.KickResync && e.workflow == delivery.WorkflowRelease {
		run, err = w.starter.ExecuteWorkflow(ctx, options, e.workflow, e.input(key)) // one that runs does not even notice
	} else {
		run, err = w.starter.SignalWithStartWorkflow(ctx, e.id, delivery.SignalKick, kick, options, e.workflow, e.input(key))
	}
	if err != nil {
		return fmt.Errorf("wake workflow %s: %w", e.id, err)
	}
	log.FromContext(ctx).V(1).Info("handed over", "runID", run.GetRunID())
	return nil
}

// startOptions are those of a workflow that lives as long as what it is about.
func startOptions(id, summary string, attributes temporal.SearchAttributes) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID: id, TaskQueue: delivery.QueueMain, WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		TypedSearchAttributes:    attributes, StaticSummary: summary,
	}
}

// tellGone wakes the workflow of a Cluster that is gone, if there still is one, so that it clears up and ends.
func (w *watcher) tellGone(ctx context.Context, name types.NamespacedName) error {
	id := delivery.ClusterWorkflowID(name.Namespace, name.Name)
	err := w.starter.SignalWorkflow(ctx, id, "", delivery.SignalKick, delivery.Kick{Reason: delivery.KickGone})
	if _, ended := errors.AsType[*serviceerror.NotFound](err); ended || err == nil {
		return nil
	}
	return fmt.Errorf("wake workflow %s: %w", id, err)
}

// finalizer adds the finalizer and, on a Release, the mark of a new life.
func (w *watcher) finalizer(ctx context.Context, o hubclient.Object, name string) error {
	before := o.DeepCopyObject().(hubclient.Object) //nolint:forcetypeassert // a deep copy has the type of its original
	if !controllerutil.AddFinalizer(o, name) {
		return nil
	}
	if r, ok := o.(*v1alpha1.Release); ok {
		if r.Annotations == nil {
			r.Annotations = map[string]string{}
		}
		r.Annotations[v1alpha1.AnnotationNewLife] = string(r.UID)
	}
	patch := hubclient.MergeFromWithOptions(before, hubclient.MergeFromWithOptimisticLock{})
	if err := w.hub.Patch(ctx, o, patch); err != nil {
		return fmt.Errorf("add the finalizer to %s/%s: %w", o.GetNamespace(), o.GetName(), err)
	}
	return nil
}
