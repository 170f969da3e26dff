package workflows

import (
	"fmt"
	"strconv"

	"go.temporal.io/sdk/workflow"

	"kumodo.io/convoy/activities"
	"kumodo.io/convoy/internal/delivery"
)

// Rollout brings one render to one Cluster: apply, prune, wait for health. The step that has nothing after it
// concludes the rollout on the hub; the result says how.
func Rollout(ctx workflow.Context, in delivery.RolloutInput) (activities.StepResult, error) {
	progress := &rolloutView{in: in, applied: "running"}
	progress.show(ctx)
	applied, err := result[activities.StepResult](ctx, applyObjects.start(ctx, "apply to Cluster "+in.Cluster, in))
	if err != nil || concluded(applied) {
		return applied, err
	}
	progress.applied = counted(applied.Applied)
	if applied.Prune > 0 {
		progress.pruned = "running"
		progress.show(ctx)
		prune := activities.PruneInput{Rollout: in, Last: applied.Pending == 0}
		pruned, err := result[activities.StepResult](ctx, pruneObjects.start(ctx, "prune "+counted(applied.Prune), prune))
		if err != nil || concluded(pruned) {
			return pruned, err
		}
		progress.pruned = counted(pruned.Pruned)
	}
	progress.healthy = "waiting for " + counted(applied.Pending)
	progress.show(ctx)
	await := activities.HealthInput{Rollout: in, Started: workflow.Now(ctx)}
	return result[activities.StepResult](ctx, awaitHealth.start(ctx, "wait for health of "+counted(applied.Pending), await))
}

func concluded(s activities.StepResult) bool { return s.Superseded || s.Phase != "" }

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
