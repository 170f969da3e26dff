package status

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
)

// mostRuns is how many runs the schema lets a status hold.
const mostRuns = 64

// HookStarted records a run of a hook that is about to begin.
func HookStarted(r *v1alpha1.Release, run v1alpha1.HookStatus) {
	putRun(r, run)
	name := fmt.Sprintf("hook %s (%s)", run.Name, run.Phase)
	if run.Message != "" {
		name += ": " + run.Message
	}
	switch run.Phase {
	case v1alpha1.HookPreApply, v1alpha1.HookPostApply:
		rolling(r, run.Phase, fmt.Sprintf("rollout %d waits for %s", run.Rollout, name))
	case v1alpha1.HookPreDelete, v1alpha1.HookPostDelete:
		ReleaseDeleting(r, v1alpha1.ReasonRunningHooks, "waiting for "+name)
	}
}

// HookWaiting records why a run is not done yet.
func HookWaiting(r *v1alpha1.Release, run v1alpha1.HookStatus, message string) {
	run.Message = message
	putRun(r, run)
}

// HookStopped forgets a run that was stopped before it ended.
func HookStopped(r *v1alpha1.Release, run v1alpha1.HookStatus) {
	r.Status.Hooks = slices.DeleteFunc(r.Status.Hooks, func(other v1alpha1.HookStatus) bool {
		return other.Name == run.Name && other.Rollout == run.Rollout && other.State == v1alpha1.HookRunning
	})
}

// HookEnded records how a run ended, when that does not end the rollout.
func HookEnded(r *v1alpha1.Release, run v1alpha1.HookStatus) {
	putRun(r, run)
	if run.Phase == v1alpha1.HookPreApply || run.Phase == v1alpha1.HookPostApply {
		rolling(r, run.Phase, fmt.Sprintf("rollout %d is under way", run.Rollout))
	}
}

// HookFailedRollout concludes the rollout with the failure of a hook. recorded is what the inventory holds, -1 when nobody
// has looked.
func HookFailedRollout(r *v1alpha1.Release, run v1alpha1.HookStatus, message string, recorded int) {
	putRun(r, run)
	condition := v1alpha1.ConditionApplied
	if run.Phase == v1alpha1.HookPostApply {
		condition = v1alpha1.ConditionHealthy
	}
	RolloutFailed(r, condition, v1alpha1.ReasonHookFailed, message, recordedOr(r, recorded), *run.EndTime)
}

// HookSucceededRollout concludes the rollout after its last hook.
func HookSucceededRollout(r *v1alpha1.Release, run v1alpha1.HookStatus, recorded int, elsewhere []v1alpha1.Leftover) {
	putRun(r, run)
	RolloutSucceeded(r, recordedOr(r, recorded), elsewhere, *run.EndTime)
}

// ObjectsRemoved records that a deletion has removed everything, and goes on with the first hook after it.
func ObjectsRemoved(r *v1alpha1.Release, run v1alpha1.HookStatus) {
	setInventory(r, 0)
	HookStarted(r, run)
}

func recordedOr(r *v1alpha1.Release, recorded int) int {
	if recorded < 0 && r.Status.Inventory != nil {
		return int(r.Status.Inventory.Objects)
	}
	return max(recorded, 0)
}

func rolling(r *v1alpha1.Release, phase v1alpha1.HookPhase, message string) {
	if overtaken(r) {
		return
	}
	if phase == v1alpha1.HookPreApply {
		set(r, v1alpha1.ConditionApplied, metav1.ConditionUnknown, v1alpha1.ReasonProgressing, message)
	} else if !meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionApplied) {
		set(r, v1alpha1.ConditionApplied, metav1.ConditionTrue, v1alpha1.ReasonApplied, appliedMessage(r))
	}
	progress(r, message)
}

// putRun writes the run in the place of the one before of that hook. Where there is no room, what ended first goes.
func putRun(r *v1alpha1.Release, run v1alpha1.HookStatus) {
	runs := &r.Status.Hooks
	if i := slices.IndexFunc(*runs, func(other v1alpha1.HookStatus) bool { return other.Name == run.Name }); i >= 0 {
		(*runs)[i] = run
		return
	}
	if len(*runs) >= mostRuns {
		i := max(0, slices.IndexFunc(*runs, func(other v1alpha1.HookStatus) bool { return other.State != v1alpha1.HookRunning }))
		*runs = slices.Delete(*runs, i, i+1)
	}
	*runs = append(*runs, run)
}
