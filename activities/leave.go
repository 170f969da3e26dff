package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
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
)

// leaving is a Release that leaves Clusters: it is being deleted, or has moved away.
type leaving struct {
	release *v1alpha1.Release
	// since is when it began, and began what that was; the patience of the policy counts from there.
	since time.Time
	began string
	// staying are the records of what the Release keeps.
	staying []*apply.Record
	// gaveUp: what may be left somewhere was given up.
	gaveUp bool
}

// targetNamed takes a place among those that work on a Cluster, until done is called, and connects to it: once a
// deletion of the Release or the Cluster has begun, with the kept credentials when there are no others. Errors that say
// nothing about the Cluster wrap apply.ErrHub.
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
	open := a.Clusters.Client
	if !r.DeletionTimestamp.IsZero() || !c.DeletionTimestamp.IsZero() {
		open = a.Clusters.ClientForCleanup
	}
	conn, err := open(ctx, c)
	if _, verdict := failure.As(err); err != nil && !verdict {
		err = fmt.Errorf("%w: %w", apply.ErrHub, err)
	}
	if err != nil {
		place()
		return c, target, done, err
	}
	if target, err = a.targetOf(conn, r); err != nil {
		place()
		return c, target, done, err
	}
	return c, target, place, nil
}

// clear removes what one record lists. A nil error means that nothing is left to do for it.
func (a *Activities) clear(ctx context.Context, l *leaving, rec *apply.Record, beat *heartbeat) error {
	if rec.Len() == 0 {
		return a.Ledger.Remove(ctx, rec)
	}
	r := l.release
	name, err := a.wayTo(ctx, r, rec)
	if err != nil {
		return err
	}
	owner, err := a.owner(ctx, delivery.Key{Namespace: r.Namespace, Name: r.Name})
	if err != nil {
		return err
	}
	c, target, done, err := a.targetNamed(ctx, r, name)
	defer done()
	switch {
	case c != nil && string(c.UID) == rec.ClusterUID() && !sameTarget(c, rec):
		return a.abandon(ctx, l, rec, name, "another cluster was accepted in the place of the one that has the objects")
	case err == nil && !sameTarget(c, rec):
		err = failure.Transient(v1alpha1.ReasonClusterUnreachable, nil, "a Cluster of this name was registered anew, and is not known to be the same")
	}
	if err != nil {
		return a.unreachable(ctx, l, rec, name, err)
	}
	removal, err := bounded(ctx, func(ctx context.Context) (apply.Removal, error) {
		return apply.Delete(ctx, target, a.Ledger, apply.DeleteRequest{
			Owner: owner, KeepWorkloads: r.Spec.DeletionPolicy.KeepWorkloads, SpareNamespace: l.spareNamespace(),
			Record: rec, Staying: l.staying, Progress: beat.progress,
		})
	})
	if err != nil {
		a.suspect(ctx, c, err)
		return a.unreachable(ctx, l, rec, name, err)
	}
	if removal.Done() {
		return nil
	}
	return paced(ctx, r, failure.Transient(v1alpha1.ReasonPruning, nil, "Cluster %q: %s", name, unfinished(removal)))
}

// wayTo names the Cluster that leads to what a record is about: the one that the Release references when it leads there,
// since the one that is recorded may be gone by now.
func (a *Activities) wayTo(ctx context.Context, r *v1alpha1.Release, rec *apply.Record) (string, error) {
	if r.Spec.ClusterRef.Name == rec.ClusterName() {
		return rec.ClusterName(), nil
	}
	c, err := a.clusterOf(ctx, r)
	if err == nil && c != nil && sameTarget(c, rec) {
		return c.Name, nil
	}
	return rec.ClusterName(), err
}

// sameTarget reports whether a Cluster leads to the cluster that a record is about.
func sameTarget(c *v1alpha1.Cluster, rec *apply.Record) bool {
	return delivery.SameCluster(c, rec.ClusterUID(), rec.ClusterID())
}

// namespacePatience is how long a removal waits for others to leave the namespace that convoy created for the
// Release: they may be about to be deleted themselves.
const namespacePatience = time.Minute

// spareNamespace is the namespace that convoy created, once it has waited long enough for it to become empty.
func (l *leaving) spareNamespace() string {
	if time.Since(l.since) < namespacePatience {
		return ""
	}
	return namespaceMade(l.release)
}

// namespaceMade is the namespace that convoy makes for a Release, "" for none.
func namespaceMade(r *v1alpha1.Release) string {
	if !r.Spec.CreateNamespace {
		return ""
	}
	return r.Spec.TargetNamespace
}

// unreachable decides what becomes of objects on a Cluster that convoy cannot work with: wait, or give up after
// the timeout of the policy. Errors that are no unreachability are waited for in any case.
func (a *Activities) unreachable(ctx context.Context, l *leaving, rec *apply.Record, cluster string, err error) error {
	if ctx.Err() != nil || errors.Is(err, apply.ErrHub) {
		return err
	}
	policy := l.release.Spec.DeletionPolicy
	left, bounded := delivery.Patience(policy, l.since, time.Now())
	if full, busy := errors.AsType[*room.BusyError](err); busy {
		if full.NoAnswer && bounded && left <= 0 {
			return a.abandon(ctx, l, rec, cluster, "the API server gives no answer")
		}
		return err
	}
	f, known := failure.As(err)
	if !known {
		f = connect.Classify(err)
	}
	if f.Reason == v1alpha1.ReasonServiceAccountRequired {
		return paced(ctx, l.release, failure.Transient(f.Reason, nil, "%s", f.Message))
	}
	lost := f.Reason == v1alpha1.ReasonClusterUnreachable || connect.Unreachable(err)
	message := fmt.Sprintf("Cluster %q: %s", cluster, f.Message)
	if !lost || !bounded {
		return paced(ctx, l.release, failure.Transient(v1alpha1.ReasonClusterUnreachable, nil, "%s", message))
	}
	if left <= 0 {
		return a.abandon(ctx, l, rec, cluster, f.Message)
	}
	again := paced(ctx, l.release, failure.Transient(v1alpha1.ReasonClusterUnreachable, nil,
		"%s; convoy gives up %s after %s, by deletionPolicy.timeout", message, policy.Timeout.Duration, l.began))
	again.RetryAfter = min(left, cmp.Or(again.RetryAfter, delivery.ReleaseBackoff.Delay(int(activity.GetInfo(ctx).Attempt))))
	return again
}

// abandon gives up what may be left on a Cluster: a record of it stays on the hub, also after the Release.
func (a *Activities) abandon(ctx context.Context, l *leaving, rec *apply.Record, cluster, why string) error {
	r := l.release
	objects, id := "unknown: the inventory was lost\n", "unknown"
	if rec != nil {
		objects, id = listed(rec.Entries()), rec.Key()
	}
	if r.DeletionTimestamp.IsZero() { // it may move there again, and away again
		id += "-" + strconv.FormatInt(l.since.Unix(), 10)
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
	l.gaveUp = true
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
