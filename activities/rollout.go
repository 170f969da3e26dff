package activities

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/apply"
	"kumodo.io/convoy/internal/connect"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/failure"
	"kumodo.io/convoy/internal/observe"
	"kumodo.io/convoy/internal/render"
	"kumodo.io/convoy/internal/room"
	"kumodo.io/convoy/internal/status"
)

// step is what a step of a rollout acts on, read from the hub: the input of a workflow is a hint only.
type step struct {
	in      delivery.RolloutInput
	release *v1alpha1.Release
	cluster *v1alpha1.Cluster
	owner   delivery.Owner
	conn    *connect.Client
	target  apply.Target
	record  *apply.Record
	// warnings are those of the target during the apply; nil when this step did not apply.
	warnings *[]string
	// elsewhere is what the Release has on other clusters.
	elsewhere []v1alpha1.Leftover
	// still reports whether the hub asks for the step; nil is wished.
	still func(*v1alpha1.Release) bool
	// end gives the place back that the step has among those that work on the target.
	end func()
}

// begin reads what a step acts on, and takes a place among those that work on the target; end gives it back. Without a
// step, the result is that of the activity: the hub asks for something else by now, or the rollout may not go on.
func (a *Activities) begin(ctx context.Context, in delivery.RolloutInput) (*step, StepResult, error) {
	s, err := a.current(ctx, in)
	if err != nil || s == nil {
		return nil, StepResult{Superseded: err == nil}, err
	}
	if s.end, err = a.work(ctx, s.cluster); err != nil {
		return nil, StepResult{}, err
	}
	err = a.connect(ctx, s)
	if err == nil {
		return s, StepResult{}, nil
	}
	s.end()
	if f, ok := failure.As(err); ok && f.Terminal {
		out, err := a.failed(ctx, s, StepResult{}, v1alpha1.ConditionApplied, f.Reason, f.Message)
		return nil, out, err
	}
	return nil, StepResult{}, err
}

// current reads what a step is about. It returns nil when the hub asks for something else by now.
func (a *Activities) current(ctx context.Context, in delivery.RolloutInput) (*step, error) {
	return a.currentWhile(ctx, in, nil)
}

func (a *Activities) currentWhile(ctx context.Context, in delivery.RolloutInput, still func(*v1alpha1.Release) bool) (*step, error) {
	r, life, err := a.release(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	s := &step{in: in, release: r, still: still}
	if life == Gone || !s.asked(r) {
		return nil, nil
	}
	r.Generation = max(r.Status.Rollout.Generation, 1) // what it says is about the generation that was rendered
	if s.cluster, err = a.clusterOf(ctx, r); err != nil {
		return nil, err
	}
	if s.cluster == nil || delivery.ClusterIdentity(s.cluster) != r.Status.Rollout.Cluster {
		return nil, nil // another Cluster calls for another rollout
	}
	s.owner, err = a.owner(ctx, in.Key)
	return s, err
}

// connect adds to a step its target and what the Release has there.
func (a *Activities) connect(ctx context.Context, s *step) (err error) {
	if s.conn, err = a.Clusters.Client(ctx, s.cluster); err != nil {
		return a.retrying(ctx, s, v1alpha1.ReasonApplyRetrying, err)
	}
	target, refused := a.targetOf(s.conn, s.release)
	s.target = target
	if s.record, err = a.record(ctx, s); err != nil {
		return a.retrying(ctx, s, v1alpha1.ReasonApplyRetrying, err)
	}
	return refused
}

// work takes a place among the steps that work on a Cluster, until done is called. A step that finds none steps aside.
// That is no news, so nothing is written about it.
func (a *Activities) work(ctx context.Context, c *v1alpha1.Cluster) (done func(), err error) {
	done, err = a.Clusters.Work(c)
	full, busy := errors.AsType[*room.BusyError](err)
	if !busy {
		return done, err
	}
	return nil, aside(ctx, full, "as many steps as are allowed work on Cluster %q; this one follows", c.Name)
}

// aside is how a step that found no place steps aside for a while.
func aside(ctx context.Context, full *room.BusyError, format string, args ...any) error {
	again := failure.Transient(ReasonBusy, full, format, args...)
	again.RetryAfter = delivery.Aside(full.NoAnswer, int(activity.GetInfo(ctx).Attempt))
	return again
}

// wished reports whether the hub still asks for this rollout.
func wished(r *v1alpha1.Release, in delivery.RolloutInput) bool {
	last := r.Status.Rollout
	return !r.Spec.Suspend && last != nil && last.Number == in.Number && last.Digest == in.Digest && last.Phase == v1alpha1.RolloutRunning &&
		r.Status.RenderRef != nil && r.Status.RenderRef.Digest == in.Digest && r.Spec.ClusterRef.Name == in.Cluster
}

// asked reports whether the hub still asks for the step.
func (s *step) asked(r *v1alpha1.Release) bool {
	if s.still != nil {
		return s.still(r)
	}
	return r.DeletionTimestamp.IsZero() && wished(r, s.in)
}

// record is what the Release has on this Cluster. A record that was lost is found again by the marks on the target.
func (a *Activities) record(ctx context.Context, s *step) (*apply.Record, error) {
	found, lost, err := a.recall(ctx, s)
	switch {
	case err != nil || found != nil:
		return found, err
	case lost:
		return a.rebuilt(ctx, s.release, s.cluster, s.target)
	}
	return apply.NewRecord(s.release, s.cluster), nil
}

// recall reads what the Release has on this Cluster, nil for nothing, and notes what it has elsewhere. lost: there should
// be a record, and is none.
func (a *Activities) recall(ctx context.Context, s *step) (found *apply.Record, lost bool, err error) {
	records, err := a.Ledger.Load(ctx, s.release)
	if err != nil {
		return nil, false, err
	}
	s.elsewhere = nil
	for _, rec := range records {
		switch {
		case !sameTarget(s.cluster, rec):
			s.elsewhere = append(s.elsewhere, rec.Leftover())
		case found == nil:
			found = rec
		}
	}
	return found, len(records) == 0 && !delivery.NothingApplied(s.release, false), nil
}

// rebuilt is a record that was lost, made anew from the marks on the target. It fails while the target does not show
// everything: a record that lacks objects would never lose them.
func (a *Activities) rebuilt(ctx context.Context, r *v1alpha1.Release, c *v1alpha1.Cluster, t apply.Target) (*apply.Record, error) {
	owner, err := a.owner(ctx, delivery.Key{Namespace: r.Namespace, Name: r.Name})
	if err != nil {
		return nil, err
	}
	found, err := apply.Rebuild(ctx, t, owner)
	if err != nil {
		return nil, err
	}
	if len(found.Unseen) > 0 {
		return nil, failure.Transient(v1alpha1.ReasonApplyRetrying, nil,
			"the inventory is lost, and the cluster does not show all its objects: %d kinds did not answer", len(found.Unseen))
	}
	rec := apply.NewRecord(r, c)
	return rec, a.Ledger.Announce(ctx, rec, found.Entries)
}

// tell writes to the status of the rollout's Release, unless the hub asks for something else by now.
func (a *Activities) tell(ctx context.Context, s *step, change func(*v1alpha1.Release)) (superseded bool, err error) {
	err = a.Status.Release(ctx, s.release, func(r *v1alpha1.Release) {
		if superseded = !s.asked(r); !superseded {
			if s.still == nil { // a newer generation may have rendered to the same since the step began
				r.Generation = max(r.Status.Rollout.Generation, 1)
			}
			change(r)
			if s.warnings != nil {
				status.Warned(r, *s.warnings)
			}
		}
	})
	return superseded, err
}

// troubled is the failure that is tried again after an error of the target, of which the Cluster's probe hears.
func (a *Activities) troubled(ctx context.Context, s *step, reason string, err error) *failure.Error {
	f, ok := failure.As(err)
	if !ok {
		f = connect.Classify(err)
	}
	a.suspect(ctx, s.cluster, err)
	again := failure.Transient(reason, err, "Cluster %q: %s", s.cluster.Name, f.Message)
	again.RetryAfter = f.RetryAfter
	return again
}

// retrying writes why a step cannot go on for now, and returns the failure that is retried.
func (a *Activities) retrying(ctx context.Context, s *step, reason string, err error) error {
	if ctx.Err() != nil || errors.Is(err, apply.ErrHub) {
		return err
	}
	again := a.troubled(ctx, s, reason, err)
	recorded := 0
	if s.record != nil {
		recorded = s.record.Len()
	}
	_, err = a.tell(ctx, s, func(r *v1alpha1.Release) { status.ApplyRetrying(r, again.Reason, again.Message, recorded) })
	if err != nil {
		return err
	}
	return paced(ctx, s.release, again)
}

// ApplyObjects brings every object of the render to the target, and concludes the rollout when nothing is left to
// prune or to wait for.
func (a *Activities) ApplyObjects(ctx context.Context, in delivery.RolloutInput) (StepResult, error) {
	beat := startHeartbeat(ctx)
	defer beat.stopped()
	s, out, err := a.begin(ctx, in)
	if s == nil {
		return out, err
	}
	defer s.end()
	content, err := a.content(ctx, s)
	if err != nil {
		return StepResult{}, err
	}
	checks, _ := observe.NewChecks(s.release.Spec.HealthChecks) // what became invalid since the render, the reconcile tells
	changes, err := apply.Apply(ctx, s.target, a.Ledger, apply.Request{
		Owner: s.owner, Objects: content.Objects, Quiet: content.All(), TargetNamespace: content.TargetNamespace,
		CreateNamespace: s.release.Spec.CreateNamespace, Hooks: content.HookNames(s.release), Record: s.record, Progress: beat.progress,
		Conflicts: s.release.Spec.SyncPolicy.Conflicts, Recreate: s.release.Spec.SyncPolicy.Recreate, Listen: connect.Listen, Checked: checks.Selects,
	})
	if f, ok := failure.As(err); ok && f.Terminal {
		return a.failed(ctx, s, StepResult{}, v1alpha1.ConditionApplied, f.Reason, f.Message)
	}
	if err != nil {
		return StepResult{}, a.retrying(ctx, s, v1alpha1.ReasonApplyRetrying, err)
	}
	if delivery.Restored(s.release) && changes.ToPrune > 0 {
		changes.Warnings = append(changes.Warnings, "restored from a backup: what is on the target and not in the render stays until a rollout has succeeded; that is "+counted(changes.ToPrune))
	}
	s.warnings = &changes.Warnings
	out = StepResult{Applied: changes.Applied, Prune: changes.ToPrune, Pending: len(changes.Pending)}
	if !mayPrune(s.release) {
		out.Prune = 0
	}
	switch {
	case changes.Retry():
		return StepResult{}, a.retrying(ctx, s, v1alpha1.ReasonApplyRetrying,
			failure.Transient(v1alpha1.ReasonApplyRetrying, nil, "%s", objectErrors(changes.Failed, len(content.Objects))))
	case len(changes.Failed) > 0:
		return a.failed(ctx, s, out, v1alpha1.ConditionApplied, changes.Failed[0].Reason, objectErrors(changes.Failed, len(content.Objects)))
	case out.Prune > 0:
		out.Superseded, err = a.tell(ctx, s, func(*v1alpha1.Release) {}) // the warnings, if there are any
		return out, err
	case out.Pending > 0:
		return a.applied(ctx, s, out, awaited(changes.Pending))
	}
	return a.succeeded(ctx, s, out)
}

// mayPrune reports whether the sync policy lets this rollout remove what left the render. After a restore none removes anything before one
// has succeeded: a backup is older than what was delivered since.
func mayPrune(r *v1alpha1.Release) bool {
	if delivery.Restored(r) {
		return false
	}
	switch r.Spec.SyncPolicy.Prune {
	case v1alpha1.PruneNever:
		return false
	case v1alpha1.PruneConfirm:
		return r.Status.Rollout.Approval != nil
	default:
		return true
	}
}

// content is the render that the rollout applies.
func (a *Activities) content(ctx context.Context, s *step) (render.Content, error) {
	return a.Renders.Get(ctx, s.release.Namespace, *s.release.Status.RenderRef)
}

// PruneObjects removes from the target what the inventory has and the render has not.
func (a *Activities) PruneObjects(ctx context.Context, in PruneInput) (StepResult, error) {
	beat := startHeartbeat(ctx)
	defer beat.stopped()
	s, out, err := a.begin(ctx, in.Rollout)
	if s == nil {
		return out, err
	}
	defer s.end()
	if !mayPrune(s.release) { // it did when the step was scheduled
		return a.pruned(ctx, s, in, StepResult{})
	}
	content, err := a.content(ctx, s)
	if err != nil {
		return StepResult{}, err
	}
	removal, err := bounded(ctx, func(ctx context.Context) (apply.Removal, error) {
		return apply.Prune(ctx, s.target, a.Ledger, apply.PruneRequest{
			Owner: s.owner, Objects: content.Objects, TargetNamespace: content.TargetNamespace, CreateNamespace: s.release.Spec.CreateNamespace,
			Hooks: content.HookNames(s.release), AllowEmpty: s.release.Spec.SyncPolicy.AllowEmpty, Record: s.record, Progress: beat.progress,
		})
	})
	out.Pruned = removal.Removed + len(removal.Left)
	if f, ok := failure.As(err); ok && f.Terminal {
		return a.failed(ctx, s, out, v1alpha1.ConditionApplied, f.Reason, f.Message)
	}
	if err != nil {
		return StepResult{}, a.retrying(ctx, s, v1alpha1.ReasonPruneFailed, err)
	}
	if !removal.Done() {
		return StepResult{}, a.retrying(ctx, s, v1alpha1.ReasonPruneFailed,
			failure.Transient(v1alpha1.ReasonPruneFailed, nil, "%s", unfinished(removal)))
	}
	return a.pruned(ctx, s, in, out)
}

// pruned tells that nothing is left that is to be removed.
func (a *Activities) pruned(ctx context.Context, s *step, in PruneInput, out StepResult) (StepResult, error) {
	if in.Last {
		return a.succeeded(ctx, s, out)
	}
	return a.applied(ctx, s, out, "what left the render is pruned; waiting for health")
}

// failed concludes a rollout that cannot go on.
func (a *Activities) failed(ctx context.Context, s *step, out StepResult, condition, reason, message string) (StepResult, error) {
	out.Phase, out.Reason, out.Message = v1alpha1.RolloutFailed, reason, cut(message)
	return a.conclude(ctx, s, out, func(r *v1alpha1.Release) {
		status.RolloutFailed(r, condition, reason, out.Message, s.record.Len(), metav1.NewTime(time.Now()))
	})
}

// succeeded concludes a rollout that did all it was to do, unless hooks follow.
func (a *Activities) succeeded(ctx context.Context, s *step, out StepResult) (StepResult, error) {
	if len(s.in.HooksIn(v1alpha1.HookPostApply)) > 0 {
		return a.applied(ctx, s, out, "all objects are healthy; hooks follow")
	}
	out.Phase, out.Reason = v1alpha1.RolloutSucceeded, v1alpha1.ReasonDelivered
	return a.conclude(ctx, s, out, func(r *v1alpha1.Release) {
		status.RolloutSucceeded(r, s.record.Len(), s.elsewhere, metav1.NewTime(time.Now()))
	})
}

func (a *Activities) conclude(ctx context.Context, s *step, out StepResult, change func(*v1alpha1.Release)) (StepResult, error) {
	superseded, err := a.tell(ctx, s, func(r *v1alpha1.Release) {
		r.Status.Rollout.RunID = activity.GetInfo(ctx).WorkflowExecution.RunID
		countPruned(r, out)
		change(r)
	})
	if superseded || err != nil {
		return StepResult{Superseded: superseded}, err
	}
	took := time.Since(s.release.Status.Rollout.StartTime.Time)
	a.Metrics.concluded(out, took)
	activity.GetLogger(ctx).Info("the rollout has ended", "rollout", s.in.Number, "phase", out.Phase, "reason", out.Reason, "seconds", took.Seconds())
	out.Leftovers = len(s.release.Status.Leftovers)
	return out, err
}

// applied tells that every object is on the target while health is still awaited.
func (a *Activities) applied(ctx context.Context, s *step, out StepResult, waiting string) (StepResult, error) {
	superseded, err := a.tell(ctx, s, func(r *v1alpha1.Release) {
		countPruned(r, out)
		status.Applied(r, waiting, s.record.Len())
	})
	out.Superseded = superseded
	return out, err
}

// countPruned keeps for the history what a prune removed, which a later step does not know.
func countPruned(r *v1alpha1.Release, out StepResult) {
	r.Status.Rollout.Pruned += int32(min(out.Pruned, 1<<30)) //nolint:gosec // capped on this line
}

// progress hands a domain package's progress to the heartbeat.
func (h *heartbeat) progress(p apply.Progress) {
	h.set(Progress{Step: p.Stage, Done: p.Done, Of: p.Of})
}
