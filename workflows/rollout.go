package workflows

import (
	"strconv"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"kumodo.io/convoy/activities"
	"kumodo.io/convoy/internal/delivery"
)

// Rollout brings one render to one Cluster: hooks before it, apply, prune, wait for health, hooks after it. The step that
// has nothing after it concludes the rollout on the hub. A rollout that concluded with a failure runs its hooks for that
// and fails, with the reason as its type.
func Rollout(ctx workflow.Context, in delivery.RolloutInput) (activities.StepResult, error) {
	view := &rolloutView{in: in}
	out, err := steps(ctx, in, view)
	if err == nil && out.Phase == activities.PhaseFailed {
		if _, err := hooks(ctx, in, delivery.HookOnFailure, view); err != nil {
			return out, err
		}
		return out, temporal.NewNonRetryableApplicationError(out.Message, out.Reason, nil)
	}
	return out, err
}

func steps(ctx workflow.Context, in delivery.RolloutInput, view *rolloutView) (out activities.StepResult, err error) {
	defer func() { view.show(ctx) }()
	before, err := hooks(ctx, in, delivery.HookPreApply, view)
	if err != nil || concluded(before) {
		return before, err
	}
	out, err = objects(ctx, in, view)
	if err != nil || concluded(out) {
		return out, err
	}
	after, err := hooks(ctx, in, delivery.HookPostApply, view)
	after.Applied, after.Pruned, after.Healthy = out.Applied, out.Pruned, out.Healthy
	return after, err
}

// hooks runs those of one phase, one after another, until one of them concludes the rollout.
func hooks(ctx workflow.Context, in delivery.RolloutInput, phase delivery.HookPhase, view *rolloutView) (out activities.StepResult, err error) {
	all := in.HooksIn(phase)
	for i, h := range all {
		view.tell(ctx, h.Name+" is running")
		run := activities.HookInput{Rollout: in, Hook: h, Last: phase == delivery.HookPostApply && i == len(all)-1}
		run.Rollout.Hooks = nil // the hub tells
		out, err = result[activities.StepResult](ctx, runHook.start(ctx, hookSummary(h), run))
		if err != nil || concluded(out) {
			view.tell(ctx, h.Name+": "+ended(out, 0, err))
			return out, err
		}
		view.tell(ctx, h.Name+" is done")
	}
	return out, nil
}

func hookSummary(h delivery.HookRef) string {
	return "hook " + string(h.Phase) + " " + h.Name + ": " + h.Kind
}

// objects brings the objects of the render to the target.
func objects(ctx workflow.Context, in delivery.RolloutInput, view *rolloutView) (out activities.StepResult, err error) {
	view.applied = "running"
	view.show(ctx)
	applied, err := result[activities.StepResult](ctx, applyObjects.start(ctx, "apply to Cluster "+in.Cluster, in))
	view.applied = ended(applied, applied.Applied, err)
	if err != nil || concluded(applied) {
		return applied, err
	}
	pruned := activities.StepResult{}
	if applied.Prune > 0 {
		view.pruned = "running"
		view.show(ctx)
		prune := activities.PruneInput{Rollout: in, Last: applied.Pending == 0}
		pruned, err = result[activities.StepResult](ctx, pruneObjects.start(ctx, "prune "+counted(applied.Prune), prune))
		view.pruned = ended(pruned, pruned.Pruned, err)
		pruned.Applied = applied.Applied
		if err != nil || concluded(pruned) {
			return pruned, err
		}
	}
	if applied.Pending == 0 { // only where hooks follow is a rollout not concluded by now
		pruned.Applied = applied.Applied
		return pruned, nil
	}
	view.healthy = "waiting for " + counted(applied.Pending)
	view.show(ctx)
	await := activities.HealthInput{Rollout: in, Started: workflow.Now(ctx)}
	healthy, err := result[activities.StepResult](ctx, awaitHealth.start(ctx, "wait for the health of "+counted(applied.Pending), await))
	view.healthy = ended(healthy, healthy.Healthy, err)
	healthy.Applied, healthy.Pruned = applied.Applied, pruned.Pruned
	return healthy, err
}

func concluded(s activities.StepResult) bool { return s.Superseded || s.Phase != "" }

// ended says how a step ended.
func ended(s activities.StepResult, objects int, err error) string {
	switch {
	case err != nil:
		return "cancelled"
	case s.Superseded:
		return "superseded"
	case s.Phase == activities.PhaseFailed:
		return s.Reason + ": " + s.Message
	}
	return counted(objects)
}

// rolloutView is what the UI shows of a rollout.
type rolloutView struct {
	in                             delivery.RolloutInput
	hook, applied, pruned, healthy string
}

// tell shows where a hook stands.
func (v *rolloutView) tell(ctx workflow.Context, hook string) {
	v.hook = hook
	v.show(ctx)
}

func (v *rolloutView) show(ctx workflow.Context) {
	workflow.SetCurrentDetails(ctx, table(
		"Release", v.in.Key.String(), "Rollout", strconv.FormatInt(v.in.Number, 10), "Cluster", v.in.Cluster, "Render", v.in.Digest,
		"1. Apply", v.applied, "2. Prune", v.pruned, "3. Health", v.healthy, "Hook", v.hook,
	))
}

func counted(n int) string { return delivery.Count(n, "object") }
