package activities

import (
	"context"
	"fmt"
	"slices"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/apply"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/status"
)

// CleanFormerClusters removes what a Release has on clusters that it has moved away from, by its deletion policy. It takes
// what is there from the status and the inventory, and the wish from the spec, and leaves alone what the Release asks for
// again. While something is left it fails, saying what, and is retried. While the Release is suspended it does nothing.
func (a *Activities) CleanFormerClusters(ctx context.Context, in ObjectInput) (ObjectResult, error) {
	beat := startHeartbeat(ctx)
	defer beat.stopped()
	r, life, err := a.release(ctx, in.Key)
	if err != nil || life != Alive || r.Spec.Suspend {
		return ObjectResult{Life: life}, err
	}
	wished, err := a.clusterOf(ctx, r)
	if err != nil {
		return ObjectResult{}, err
	}
	records, err := a.Ledger.Load(ctx, r)
	if err != nil {
		return ObjectResult{}, err
	}
	leave, staying := partOf(r, wished, records)
	removals := vanished(r, records)
	var failed error
	for i := range leave { // one that is unreachable does not keep the others from being cleaned
		l := &leave[i]
		l.staying = staying
		err := a.clear(ctx, &l.leaving, l.record, beat)
		removals = append(removals, removalOf(*l, err))
		if _, tells := waitsFor(failed); err != nil && !tells {
			failed = err
		}
	}
	if ctx.Err() == nil && len(removals) > 0 { // failures of an attempt that was cancelled are no news
		if err := a.cleaned(ctx, r, removals, leave); err != nil {
			return ObjectResult{}, err
		}
	}
	return ObjectResult{Life: Alive}, failed
}

// former is what a Release has on a cluster that it leaves.
type former struct {
	leaving
	record *apply.Record
	left   v1alpha1.Leftover
}

// partOf tells the records that are to be cleaned from those of what the Release keeps.
func partOf(r *v1alpha1.Release, wished *v1alpha1.Cluster, records []*apply.Record) (leave []former, staying []*apply.Record) {
	for _, rec := range records {
		since, gone := delivery.Former(r, wished, rec.ClusterName(), rec.ClusterUID(), rec.ClusterID())
		if !gone {
			staying = append(staying, rec)
			continue
		}
		leave = append(leave, former{
			leaving: leaving{release: r, since: since, began: "the move"}, record: rec, left: rec.Leftover(),
		})
	}
	return leave, staying
}

// vanished are removals of which the record is gone: an attempt before had cleaned them, and could not say so.
func vanished(r *v1alpha1.Release, records []*apply.Record) (out []status.Removal) {
	for _, l := range r.Status.Leftovers {
		if !slices.ContainsFunc(records, func(rec *apply.Record) bool { return rec.Leftover().Identity == l.Identity }) {
			out = append(out, status.Removal{Left: l, Done: true})
		}
	}
	return out
}

// removalOf is what an attempt to clean a cluster came to.
func removalOf(l former, err error) status.Removal {
	out := status.Removal{Left: l.record.Leftover(), Done: err == nil}
	f, tells := waitsFor(err)
	if !tells {
		return out
	}
	out.Reason, out.Message = f.Reason, f.Message
	if _, bounded := delivery.Patience(l.release.Spec.DeletionPolicy, l.since, l.since); !bounded && f.Reason == v1alpha1.ReasonClusterUnreachable {
		out.Message += "; convoy goes on trying, unless deletionPolicy.blockOnClusterUnreachable is set to false"
	}
	out.Message = cut(out.Message)
	return out
}

// cleaned writes how far the removals are, if that is news, and tells of those that are done. Of what was given up, that was told.
func (a *Activities) cleaned(ctx context.Context, r *v1alpha1.Release, removals []status.Removal, leave []former) error {
	before := r.Status.Leftovers
	if err := a.Status.Release(ctx, r, func(r *v1alpha1.Release) { status.Cleaned(r, removals) }); err != nil {
		return err
	}
	for _, l := range before {
		gaveUp := slices.ContainsFunc(leave, func(f former) bool { return f.gaveUp && f.left.Identity == l.Identity })
		if _, still := delivery.LeftoverOf(r.Status.Leftovers, l.Identity); !still && !gaveUp {
			a.Status.Event(r, false, "Moved", fmt.Sprintf("the Release has left Cluster %q", l.Cluster))
		}
	}
	return nil
}
