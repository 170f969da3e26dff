package activities

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/apply"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/failure"
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
	due, err := a.removeAll(ctx, r, beat)
	if err != nil {
		return ObjectResult{}, a.awaited(ctx, r, err)
	}
	if len(due) > 0 {
		return ObjectResult{Life: Deleting, Hooks: due, Generation: r.Generation}, nil
	}
	if err := a.Renders.Collect(ctx, r, nil); err != nil {
		return ObjectResult{}, err
	}
	return ObjectResult{Life: Gone}, a.removeFinalizer(ctx, r, v1alpha1.ReleaseFinalizer)
}

// removeAll removes what a Release has on any Cluster. When hooks are due before it goes on, it names them instead.
func (a *Activities) removeAll(ctx context.Context, r *v1alpha1.Release, beat *heartbeat) (due []delivery.HookRef, err error) {
	l := &leaving{release: r, since: r.DeletionTimestamp.Time, began: "the deletion"}
	records, err := a.recorded(ctx, l)
	if err != nil {
		return nil, err
	}
	if postDeleting(r) {
		if due, err = a.hooksDue(ctx, r, v1alpha1.HookPostDelete); err != nil || len(due) > 0 {
			return due, err
		}
		return nil, a.clearAll(ctx, l, records, beat)
	}
	applied, err := a.everApplied(ctx, r, records)
	if err != nil {
		return nil, err
	}
	if due, err = a.preDelete(ctx, r, applied); err != nil || len(due) > 0 {
		return due, err
	}
	if err := a.clearAll(ctx, l, records, beat); err != nil || !applied {
		return nil, err
	}
	due, err = a.hooksDue(ctx, r, v1alpha1.HookPostDelete)
	if err == nil && len(due) > 0 {
		err = a.beginPostDelete(ctx, r, due[0])
	}
	return due, err
}

// everApplied reports whether anything was ever applied, beside objects of hooks: else there is nothing to prepare for, and nothing to do
// afterwards. The status remembers it, as a removal may take several attempts.
func (a *Activities) everApplied(ctx context.Context, r *v1alpha1.Release, records []*apply.Record) (bool, error) {
	if len(records) == 0 || r.Status.Inventory != nil && r.Status.Inventory.State == v1alpha1.InventoryRecorded {
		return len(records) > 0, nil
	}
	all := 0
	delivered := false
	for _, rec := range records {
		all += rec.Len()
		delivered = delivered || rec.Delivered(namespaceMade(r))
	}
	if !delivered {
		return false, nil
	}
	return true, a.Status.Release(ctx, r, func(r *v1alpha1.Release) { status.Recorded(r, all) })
}

// recorded is what a Release has on each Cluster. What was lost is found again.
func (a *Activities) recorded(ctx context.Context, l *leaving) ([]*apply.Record, error) {
	records, err := a.Ledger.Load(ctx, l.release)
	if err != nil || len(records) > 0 || delivery.NothingApplied(l.release, false) {
		return records, err
	}
	return a.rebuild(ctx, l)
}

// clearAll removes what the records list. Its error is the first that says what is left to do.
func (a *Activities) clearAll(ctx context.Context, l *leaving, records []*apply.Record, beat *heartbeat) error {
	var failed error
	for _, rec := range records { // a Cluster that is unreachable does not keep the others from being cleaned
		err := a.clear(ctx, l, rec, beat)
		if _, tells := waitsFor(failed); err != nil && !tells {
			failed = err
		}
	}
	return failed
}

// awaited writes what a deletion waits for, if that is news, and returns the failure that is retried. An Event tells of what holds it that
// does not pass by itself.
func (a *Activities) awaited(ctx context.Context, r *v1alpha1.Release, err error) error {
	f, ok := waitsFor(err)
	if !ok {
		return err
	}
	said := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionDeleting)
	news := f.Reason != v1alpha1.ReasonPruning && (said == nil || said.Reason != f.Reason)
	if err := a.Status.Release(ctx, r, func(r *v1alpha1.Release) { status.ReleaseDeleting(r, f.Reason, cut(f.Message)) }); err != nil {
		return err
	}
	if news {
		a.Status.Event(r, true, f.Reason, "the deletion waits: "+cut(f.Message))
	}
	return err
}

var awaitedReasons = []string{
	v1alpha1.ReasonPruning, v1alpha1.ReasonClusterUnreachable, v1alpha1.ReasonServiceAccountRequired, v1alpha1.ReasonHookFailed,
}

// waitsFor is what a removal waits for. Other errors say nothing about the objects: they are of convoy or the hub, or a
// place among those that work on the Cluster was not free.
func waitsFor(err error) (*failure.Error, bool) {
	f, ok := failure.As(err)
	return f, ok && slices.Contains(awaitedReasons, f.Reason)
}

// rebuild finds the objects of a Release whose inventory is lost by their marks on the Cluster, and records them.
func (a *Activities) rebuild(ctx context.Context, l *leaving) ([]*apply.Record, error) {
	name := l.release.Spec.ClusterRef.Name
	c, target, done, err := a.targetNamed(ctx, l.release, name)
	defer done()
	if err != nil {
		return nil, a.unreachable(ctx, l, nil, name, err)
	}
	rec, err := a.rebuilt(ctx, l.release, c, target)
	if err != nil {
		a.suspect(ctx, c, err)
		return nil, a.unreachable(ctx, l, nil, name, err)
	}
	return []*apply.Record{rec}, nil
}
