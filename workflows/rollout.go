package workflows

import (
	"fmt"
	"strconv"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"kumodo.io/convoy/activities"
	"kumodo.io/convoy/internal/delivery"
)

// Rollout brings one render to one Cluster: apply, prune, wait for health. The step that has nothing after it
// concludes the rollout on the hub. A rollout that concluded with a failure fails, with the reason as its type.
func Rollout(ctx workflow.Context, in delivery.RolloutInput) (activities.StepResult, error) {
	out, err := steps(ctx, in)
	if err == nil && out.Phase == activities.PhaseFailed {
		return out, temporal.NewNonRetryableApplicationError(out.Message, out.Reason, nil)
	}
	return out, err
}

func steps(ctx workflow.Context, in delivery.RolloutInput) (out activities.StepResult, err error) {
	view := &rolloutView{in: in, applied: "running"}
	view.show(ctx)
	defer func() { view.show(ctx) }()
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
	in                       delivery.RolloutInput
	applied, pruned, healthy string
}

func (v *rolloutView) show(ctx workflow.Context) {
	workflow.SetCurrentDetails(ctx, table(
		"Release", v.in.Key.String(), "Rollout", strconv.FormatInt(v.in.Number, 10), "Cluster", v.in.Cluster, "Render", v.in.Digest,
		"1. Apply", v.applied, "2. Prune", v.pruned, "3. Health", v.healthy,
	))
}

func counted(n int) string {
	if n == 1 {
		return "1 object"
	}
	return fmt.Sprintf("%d objects", n)
}
