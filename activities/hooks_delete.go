package activities

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/failure"
	"kumodo.io/convoy/internal/status"
)

// reach takes a place among those that work on the target of a hook, which h.end gives back, and adds the target and what
// the Release has there.
func (a *Activities) reach(ctx context.Context, h *hookStep) error {
	if err := a.reachTarget(ctx, h); err != nil {
		return err
	}
	record, err := a.record(ctx, h.step)
	if err != nil {
		h.end()
		return err
	}
	h.record = record
	return nil
}

// reachTarget connects a hook to its target. A deletion uses the kept credentials when there are no others.
func (a *Activities) reachTarget(ctx context.Context, h *hookStep) (err error) {
	if h.run.Rollout == 0 {
		_, h.target, h.end, err = a.targetNamed(ctx, h.release, h.release.Spec.ClusterRef.Name)
		return err
	}
	done, err := a.work(ctx, h.cluster)
	if err != nil {
		return err
	}
	conn, err := a.Clusters.Client(ctx, h.cluster)
	if err != nil {
		done()
		return err
	}
	if h.target, err = a.targetOf(conn, h.release); err != nil {
		done()
		return err
	}
	h.conn, h.end = conn, done
	return nil
}

// deletionStep reads what a hook of a deletion is about. A Cluster that is gone leaves its name.
func (a *Activities) deletionStep(ctx context.Context, in HookInput) (*step, error) {
	r, life, err := a.release(ctx, in.Rollout.Key)
	if err != nil || life != Deleting {
		return nil, err
	}
	s := &step{in: in.Rollout, release: r, still: func(r *v1alpha1.Release) bool { return !r.DeletionTimestamp.IsZero() }}
	if s.cluster, err = a.clusterOf(ctx, r); err != nil {
		return nil, err
	}
	if s.cluster == nil {
		s.cluster = &v1alpha1.Cluster{}
		s.cluster.Namespace, s.cluster.Name = r.Namespace, r.Spec.ClusterRef.Name
	}
	s.owner, err = a.owner(ctx, in.Rollout.Key)
	return s, err
}

// hooksDue are the hooks of a deletion in one phase that have to run before it goes on. It fails while one that has failed
// holds the deletion.
func (a *Activities) hooksDue(ctx context.Context, r *v1alpha1.Release, phase v1alpha1.HookPhase) ([]delivery.HookRef, error) {
	plan, err := a.deletionHooks(ctx, r)
	if err != nil || len(delivery.HookRefs(plan.all, phase)) == 0 {
		return nil, err
	}
	mendable, err := a.mendable(ctx, r)
	if err != nil {
		return nil, err
	}
	due, held := delivery.HooksDue(r, plan.all, phase, mendable)
	if held == nil {
		return due, nil
	}
	without := "set its onFailure to Continue, or remove it from spec.hooks"
	if _, ofChart := plan.chart[held.Name]; ofChart {
		without = "or set spec.render.helm.disableHooks"
	}
	return nil, paced(ctx, r, failure.Transient(v1alpha1.ReasonHookFailed, nil, "hook %s (%s) failed: %s; mend it and set the annotation %s to another value, %s",
		held.Name, held.Phase, held.Message, v1alpha1.AnnotationRequestedAt, without))
}

// preDelete are the hooks that are due before anything is removed. Where nothing was ever applied there is nothing to
// prepare for.
func (a *Activities) preDelete(ctx context.Context, r *v1alpha1.Release, applied bool) ([]delivery.HookRef, error) {
	if !applied {
		return nil, nil
	}
	return a.hooksDue(ctx, r, v1alpha1.HookPreDelete)
}

// mendable: in a namespace that goes away nobody can give a hook what it lacks, and nothing may wait for it.
func (a *Activities) mendable(ctx context.Context, r *v1alpha1.Release) (bool, error) {
	var ns corev1.Namespace
	if err := a.Hub.Get(ctx, types.NamespacedName{Name: r.Namespace}, &ns); err != nil {
		return false, fmt.Errorf("read namespace %s: %w", r.Namespace, err)
	}
	return ns.DeletionTimestamp.IsZero(), nil
}

// beginPostDelete records that everything is removed and the first hook after that begins, so that a deletion that is
// begun again does not take the objects of these hooks for something to remove.
func (a *Activities) beginPostDelete(ctx context.Context, r *v1alpha1.Release, first delivery.HookRef) error {
	return a.Status.Release(ctx, r, func(r *v1alpha1.Release) { status.ObjectsRemoved(r, newRun(r, first, 0)) })
}

// postDeleting reports whether the objects are removed, and hooks after that have begun.
func postDeleting(r *v1alpha1.Release) bool {
	for i := range r.Status.Hooks {
		if run := &r.Status.Hooks[i]; run.Rollout == 0 && run.Phase == v1alpha1.HookPostDelete {
			return true
		}
	}
	return false
}
