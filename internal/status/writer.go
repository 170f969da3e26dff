// Package status turns outcomes into the conditions of Clusters and Releases, and is the only writer of
// their status. It decides what Ready means; it never looks at a target, and never writes what is already
// there. Activities call it, and the watcher by an interface of its own, to tell that Temporal does not answer.
package status

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
)

// Writer writes the status of Clusters and Releases, and an Event when Ready turns.
type Writer struct {
	hub    client.Client
	events events.EventRecorder
}

// NewWriter writes to the hub. The client of whoever writes verdicts must not read from a cache: a decision stands on what it reads.
func NewWriter(hub client.Client, recorder events.EventRecorder) *Writer {
	return &Writer{hub: hub, events: recorder}
}

// Cluster applies change to the Cluster's status and writes it when it differs. The object is updated to what
// the hub holds. A Cluster that is gone, lives another life, or was changed since it was read, is left alone: the
// verdict is not about what it is now.
func (w *Writer) Cluster(ctx context.Context, c *v1alpha1.Cluster, change func(*v1alpha1.Cluster)) error {
	return write(ctx, w, c, change, func(c *v1alpha1.Cluster) []metav1.Condition { return c.Status.Conditions })
}

// Release applies change to the Release's status and writes it when it differs. The object is updated to what
// the hub holds. A Release that is gone, or lives another life, is left alone. The change sees the generation that the
// caller read, also when the hub has a newer one by now: that is what the outcome is about.
func (w *Writer) Release(ctx context.Context, r *v1alpha1.Release, change func(*v1alpha1.Release)) error {
	return write(ctx, w, r, change, func(r *v1alpha1.Release) []metav1.Condition { return r.Status.Conditions })
}

// object is a kind with a status and a deep copy of its own type.
type object[T any] interface {
	client.Object
	DeepCopy() T
}

func write[T object[T]](ctx context.Context, w *Writer, o T, change func(T), conditions func(T) []metav1.Condition) error {
	uid, generation := o.GetUID(), o.GetGeneration()
	fresh := true // the caller has just read it; after a conflict it is read again
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if !fresh {
			if err := w.hub.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
				return err
			}
			if o.GetUID() != uid || keepOff(o, generation) {
				return nil
			}
		}
		fresh = false
		before := o.DeepCopy()
		o.SetGeneration(generation)
		change(o)
		o.SetGeneration(before.GetGeneration())
		if equality.Semantic.DeepEqual(before, o) {
			return nil
		}
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := w.hub.Status().Patch(ctx, o, patch); err != nil {
			return err
		}
		w.announce(o, conditions(before), conditions(o))
		return nil
	})
	if err := client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("write status of %T %s/%s: %w", o, o.GetNamespace(), o.GetName(), err)
	}
	return nil
}

// keepOff reports whether an outcome of an earlier generation is void.
func keepOff(o client.Object, generation int64) bool {
	_, isCluster := o.(*v1alpha1.Cluster)
	return isCluster && o.GetGeneration() != generation
}

// announce records an Event when Ready turned to another verdict. Steps on the way are not verdicts.
func (w *Writer) announce(o client.Object, before, after []metav1.Condition) {
	was, is := meta.FindStatusCondition(before, v1alpha1.ConditionReady), meta.FindStatusCondition(after, v1alpha1.ConditionReady)
	if is == nil || is.Status == metav1.ConditionUnknown || is.Reason == v1alpha1.ReasonDeleting {
		return
	}
	if was != nil && was.Status == is.Status && was.Reason == is.Reason {
		return
	}
	seenAgain := was != nil && was.Status == metav1.ConditionUnknown && was.Reason == v1alpha1.ReasonClusterNotReady
	if seenAgain && is.Reason == v1alpha1.ReasonDelivered { // nothing was delivered
		return
	}
	kind := corev1.EventTypeNormal
	if is.Status == metav1.ConditionFalse {
		kind = corev1.EventTypeWarning
	}
	w.event(o, kind, is.Reason, is.Message)
}

// Event records something that happened once and is no turn of Ready.
func (w *Writer) Event(o client.Object, warning bool, reason, message string) {
	kind := corev1.EventTypeNormal
	if warning {
		kind = corev1.EventTypeWarning
	}
	w.event(o, kind, reason, message)
}

func (w *Writer) event(o client.Object, kind, reason, message string) {
	w.events.Eventf(o, nil, kind, reason, "Deliver", "%s", message)
}
