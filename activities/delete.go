package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/apply"
	"kumodo.io/convoy/internal/connect"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/failure"
	"kumodo.io/convoy/internal/room"
	"kumodo.io/convoy/internal/status"
)

// DeleteRelease removes the objects of a Release from every Cluster that has some, by the deletion policy, and
// then lets the Release go. It does not ask whether a Cluster is reachable; it tries. While something is left
// it fails, saying what, and is retried.
func (a *Activities) DeleteRelease(ctx context.Context, in ObjectInput) (ObjectResult, error) {
	beat := startHeartbeat(ctx)
	defer beat.stopped()
	r, life, err := a.release(ctx, in.Key)
	if err != nil || life != Deleting {
		return ObjectResult{Life: life}, err
	}
	records, err := a.Ledger.Load(ctx, r)
	if err != nil {
		return ObjectResult{}, err
	}
	if len(records) == 0 && !delivery.NothingApplied(r, false) {
		rebuilt, err := a.rebuild(ctx, r)
		if err != nil {
			return ObjectResult{}, err
		}
		records = append(records, rebuilt...)
	}
	clearing := !postDeleting(r)
	if clearing {
		if due, err := a.preDelete(ctx, r, len(records) > 0); err != nil || len(due) > 0 {
			return ObjectResult{Life: Deleting, Hooks: due}, err
		}
	} else if due, err := a.hooksDue(ctx, r, v1alpha1.HookPostDelete); err != nil || len(due) > 0 {
		return ObjectResult{Life: Deleting, Hooks: due}, err
	}
	if err := a.clearAll(ctx, r, records, beat); err != nil {
		return ObjectResult{}, err
	}
	if clearing && len(records) > 0 {
		due, err := a.hooksDue(ctx, r, v1alpha1.HookPostDelete)
		if err == nil && len(due) > 0 {
			err = a.beginPostDelete(ctx, r, due[0])
		}
		if err != nil || len(due) > 0 {
			return ObjectResult{Life: Deleting, Hooks: due}, err
		}
	}
	if err := a.Renders.Collect(ctx, r, nil); err != nil {
		return ObjectResult{}, err
	}
	return ObjectResult{Life: Gone}, a.removeFinalizer(ctx, r, v1alpha1.ReleaseFinalizer)
}

// clearAll removes what the records list.
func (a *Activities) clearAll(ctx context.Context, r *v1alpha1.Release, records []*apply.Record, beat *heartbeat) error {
	var failed error
	for _, rec := range records { // a Cluster that is unreachable does not keep the others from being cleaned
		if err := a.clear(ctx, r, rec, beat); err != nil && failed == nil {
			failed = err
		}
	}
	return failed
}

// rebuild finds the objects of a Release whose inventory is lost by their marks on the Cluster, and records them.
func (a *Activities) rebuild(ctx context.Context, r *v1alpha1.Release) ([]*apply.Record, error) {
	name := r.Spec.ClusterRef.Name
	c, target, done, err := a.targetNamed(ctx, r, name)
	defer done()
	if err != nil {
		return nil, a.unreachable(ctx, r, nil, name, err)
	}
	rec, err := a.rebuilt(ctx, r, c, target)
	if err != nil {
		a.suspect(ctx, c, err)
		return nil, a.unreachable(ctx, r, nil, name, err)
	}
	return []*apply.Record{rec}, nil
}

// targetNamed takes a place among those that work on a Cluster, until done is called, and connects to it, with the kept
// credentials when there are no others. Errors that say nothing about the Cluster wrap apply.ErrHub.
func (a *Activities) targetNamed(ctx context.Context, r *v1alpha1.Release, name string) (
	c *v1alpha1.Cluster, target apply.Target, done func(), err error,
) {
	done = func() {}
	if c, err = a.clusterNamed(ctx, r.Namespace, name); err != nil {
		return nil, target, done, fmt.Errorf("%w: %w", apply.ErrHub, err)
	}
	if c == nil {
		return nil, target, done, failure.Transient(v1alpha1.ReasonClusterUnreachable, nil, "the Cluster does not exist")
	}
	place, err := a.work(ctx, c)
	if err != nil {
		return c, target, done, err
	}
	conn, err := a.Clusters.ClientForCleanup(ctx, c)
	if _, verdict := failure.As(err); err != nil && !verdict {
		err = fmt.Errorf("%w: %w", apply.ErrHub, err)
	}
	if err != nil {
		place()
		return c, target, done, err
	}
	return c, targetOf(conn), place, nil
}

// clear removes what one record lists. A nil error means that nothing is left to do for it.
func (a *Activities) clear(ctx context.Context, r *v1alpha1.Release, rec *apply.Record, beat *heartbeat) error {
	if rec.Len() == 0 {
		return a.Ledger.Remove(ctx, rec)
	}
	owner, err := a.owner(ctx, delivery.Key{Namespace: r.Namespace, Name: r.Name})
	if err != nil {
		return err
	}
	c, target, done, err := a.targetNamed(ctx, r, rec.ClusterName())
	defer done()
	switch {
	case c != nil && string(c.UID) == rec.ClusterUID() && !sameTarget(c, rec):
		return a.abandon(ctx, r, rec, rec.ClusterName(), "another cluster was accepted in the place of the one that has the objects")
	case err == nil && !sameTarget(c, rec):
		err = failure.Transient(v1alpha1.ReasonClusterUnreachable, nil, "a Cluster of this name was registered anew, and is not known to be the same")
	}
	if err != nil {
		return a.unreachable(ctx, r, rec, rec.ClusterName(), err)
	}
	removal, err := bounded(ctx, func(ctx context.Context) (apply.Removal, error) {
		return apply.Delete(ctx, target, a.Ledger, apply.DeleteRequest{
			Owner: owner, KeepWorkloads: r.Spec.DeletionPolicy.KeepWorkloads, SpareNamespace: spareNamespace(r),
			Record: rec, Progress: beat.progress,
		})
	})
	if err != nil {
		a.suspect(ctx, c, err)
		return a.unreachable(ctx, r, rec, rec.ClusterName(), err)
	}
	if removal.Done() {
		return nil
	}
	return a.waiting(ctx, r, v1alpha1.ReasonPruning, fmt.Sprintf("Cluster %q: %s", rec.ClusterName(), unfinished(removal)))
}

// sameTarget reports whether a Cluster leads to the cluster that a record is about.
func sameTarget(c *v1alpha1.Cluster, rec *apply.Record) bool {
	return delivery.SameCluster(c, rec.ClusterUID(), rec.ClusterID())
}

// namespacePatience is how long a deletion waits for others to leave the namespace that convoy created for the
// Release: they may be about to be deleted themselves.
const namespacePatience = time.Minute

// spareNamespace is the namespace that convoy created, once it has waited long enough for it to become empty.
func spareNamespace(r *v1alpha1.Release) string {
	if !r.Spec.CreateNamespace || time.Since(r.DeletionTimestamp.Time) < namespacePatience {
		return ""
	}
	return r.Spec.TargetNamespace
}

// waiting writes what a deletion waits for, and returns the failure that is retried.
func (a *Activities) waiting(ctx context.Context, r *v1alpha1.Release, reason, message string) error {
	err := a.Status.Release(ctx, r, func(r *v1alpha1.Release) { status.ReleaseDeleting(r, reason, cut(message)) })
	if err != nil {
		return err
	}
	return paced(ctx, r, failure.Transient(reason, nil, "%s", message))
}

// unreachable decides what becomes of objects on a Cluster that convoy cannot work with: wait, or give up after
// the timeout of the policy. Errors that are no unreachability are waited for in any case.
func (a *Activities) unreachable(ctx context.Context, r *v1alpha1.Release, rec *apply.Record, cluster string, err error) error {
	if ctx.Err() != nil || errors.Is(err, apply.ErrHub) {
		return err
	}
	left, bounded := delivery.Patience(r.Spec.DeletionPolicy, r.DeletionTimestamp.Time, time.Now())
	if full, busy := errors.AsType[*room.BusyError](err); busy {
		if full.NoAnswer && bounded && left <= 0 {
			return a.abandon(ctx, r, rec, cluster, "the API server gives no answer")
		}
		return err
	}
	f, known := failure.As(err)
	if !known {
		f = connect.Classify(err)
	}
	lost := f.Reason == v1alpha1.ReasonClusterUnreachable || connect.Unreachable(err)
	message := fmt.Sprintf("Cluster %q: %s", cluster, f.Message)
	if !lost || !bounded {
		return a.waiting(ctx, r, v1alpha1.ReasonClusterUnreachable, message)
	}
	if left <= 0 {
		return a.abandon(ctx, r, rec, cluster, f.Message)
	}
	err = a.waiting(ctx, r, v1alpha1.ReasonClusterUnreachable, fmt.Sprintf("%s; convoy gives up %s after the deletion, by deletionPolicy.timeout",
		message, r.Spec.DeletionPolicy.Timeout.Duration))
	if again, ok := failure.As(err); ok {
		again.RetryAfter = min(left, cmp.Or(again.RetryAfter, delivery.ReleaseBackoff.Delay(int(activity.GetInfo(ctx).Attempt))))
	}
	return err
}

// abandon gives up what may be left on a Cluster: a record of it stays on the hub, after the Release.
func (a *Activities) abandon(ctx context.Context, r *v1alpha1.Release, rec *apply.Record, cluster, why string) error {
	objects, id := "unknown: the inventory was lost\n", "unknown"
	if rec != nil {
		objects, id = listed(rec.Entries()), rec.Key()
	}
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.Namespace, Name: "left-behind-" + string(r.UID) + "-" + id,
			Labels: map[string]string{v1alpha1.LabelReleaseUID: string(r.UID)},
		},
		Data: map[string]string{"release": r.Namespace + "/" + r.Name, "cluster": cluster, "reason": why, "objects": objects},
	}
	err := a.Hub.Create(ctx, cm)
	// A namespace that goes away takes nothing new, and would wait for this Release for ever.
	terminating := apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
	if err != nil && !apierrors.IsAlreadyExists(err) && !terminating {
		return fmt.Errorf("record what is left behind: %w", err)
	}
	a.Status.Event(r, true, "LeftBehind", fmt.Sprintf("objects may be left on Cluster %q; ConfigMap %s lists them", cluster, cm.Name))
	if rec == nil {
		return nil
	}
	return a.Ledger.Abandon(ctx, rec)
}

// maxListed bounds the list of a record of what is left behind, so that it fits into a ConfigMap.
const maxListed = 900_000

// listed is one line per object, as many as fit.
func listed(entries []v1alpha1.InventoryEntry) string {
	var b strings.Builder
	for i, e := range entries {
		if b.Len() > maxListed {
			fmt.Fprintf(&b, "and %d more\n", len(entries)-i)
			break
		}
		b.WriteString(apply.RefOf(e).String() + "\n")
	}
	return b.String()
}
