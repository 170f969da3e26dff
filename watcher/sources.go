package watcher

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"
	"k8s.io/apimachinery/pkg/types"
	hubclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// leases is how many resync periods the workflow of a source goes without hearing of its users before it counts them.
const leases = 3

// pollOf is the poll that tells a Release about its source, its ID empty when there is none or the Release is going away.
func pollOf(r *v1alpha1.Release) (poll delivery.Poll, id string) {
	poll, polled := delivery.PollOf(r.Namespace, r.Spec.Source)
	if !polled || !r.DeletionTimestamp.IsZero() {
		return delivery.Poll{}, ""
	}
	return poll, poll.ID()
}

// onSource wakes the workflow of a source when a Release begins or ceases to use it, or wants it looked at in another
// interval. A resync starts one that somebody ended.
func (w *watcher) onSource() handler.TypedEventHandler[*v1alpha1.Release, request] {
	wake := func(q queue, id string, reason delivery.KickReason) {
		switch {
		case id == "":
		case reason == delivery.KickResync:
			q.AddAfter(sourceRequest(id, reason), w.spread())
		default:
			q.AddAfter(sourceRequest(id, reason), debounce)
		}
	}
	return handler.TypedFuncs[*v1alpha1.Release, request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*v1alpha1.Release], q queue) {
			_, id := pollOf(e.Object)
			wake(q, id, delivery.KickChanged)
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*v1alpha1.Release], q queue) {
			_, was := pollOf(e.ObjectOld)
			_, is := pollOf(e.ObjectNew)
			switch {
			case e.ObjectOld.ResourceVersion == e.ObjectNew.ResourceVersion:
				wake(q, is, delivery.KickResync)
			case was != is:
				wake(q, was, delivery.KickDependency)
				wake(q, is, delivery.KickChanged)
			case delivery.PollIntervalOf(e.ObjectOld.Spec.Source) != delivery.PollIntervalOf(e.ObjectNew.Spec.Source):
				wake(q, is, delivery.KickDependency)
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*v1alpha1.Release], q queue) {
			if poll, polled := delivery.PollOf(e.Object.Namespace, e.Object.Spec.Source); polled {
				wake(q, poll.ID(), delivery.KickDependency)
			}
		},
	}
}

func sourceRequest(poll string, reason delivery.KickReason) request {
	return request{types.NamespacedName{Name: poll}, reason}
}

// reconcileSource tells the workflow of a source who uses it, and starts it for the first of them.
func (w *watcher) reconcileSource(ctx context.Context, req request) (reconcile.Result, error) {
	var users v1alpha1.ReleaseList
	if err := w.hub.List(ctx, &users, hubclient.MatchingFields{indexPoll: req.Name}); err != nil {
		return reconcile.Result{}, fmt.Errorf("list the Releases of a source: %w", err)
	}
	id := delivery.SourceWorkflowID(req.Name)
	if len(users.Items) == 0 {
		err := w.starter.SignalWorkflow(ctx, id, "", delivery.SignalUsers, delivery.Users{})
		if _, ended := errors.AsType[*serviceerror.NotFound](err); ended || err == nil {
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("wake workflow %s: %w", id, err)
	}
	told := delivery.Users{Count: len(users.Items), Joined: req.reason == delivery.KickChanged, Lease: leases * w.resync}
	for i := range users.Items {
		if every := delivery.PollIntervalOf(users.Items[i].Spec.Source); told.Interval == 0 || every < told.Interval {
			told.Interval = every
		}
	}
	poll, _ := pollOf(&users.Items[0])
	options := startOptions(id, "Source "+poll.String(), sourceAttributes(poll))
	input := delivery.SourceInput{Poll: poll, Interval: told.Interval}
	_, err := w.starter.SignalWithStartWorkflow(ctx, id, delivery.SignalUsers, told, options, delivery.WorkflowSource, input)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("wake workflow %s: %w", id, err)
	}
	return reconcile.Result{}, nil
}

// sourceAttributes are none for a source without credentials, which Releases of any namespace share.
func sourceAttributes(poll delivery.Poll) temporal.SearchAttributes {
	if poll.Namespace == "" {
		return temporal.NewSearchAttributes()
	}
	return attributes(poll.Namespace)
}
