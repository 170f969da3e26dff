package delivery

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"kumodo.io/convoy/api/v1alpha1"
)

// HookRef names a hook to a workflow.
type HookRef struct {
	Name  string    `json:"name"`
	Phase HookPhase `json:"phase"`
	// Kind is Job, HTTP, Check, Workflow, Approval or, for a hook that a chart brings, HookChart.
	Kind string `json:"kind"`
}

// HookPhase is when a hook runs.
type HookPhase = v1alpha1.HookPhase

// The phases of hooks of a rollout, for workflows.
const (
	HookPreApply  = v1alpha1.HookPreApply
	HookPostApply = v1alpha1.HookPostApply
	HookOnFailure = v1alpha1.HookOnFailure
)

// HookRefs name, of some hooks, those of some phases.
func HookRefs(hooks []v1alpha1.Hook, phases ...v1alpha1.HookPhase) []HookRef {
	var refs []HookRef
	for i := range hooks {
		if h := &hooks[i]; slices.Contains(phases, h.Phase) {
			refs = append(refs, HookRef{Name: h.Name, Phase: h.Phase, Kind: HookKind(h)})
		}
	}
	return refs
}

// HookKind says what a hook does.
func HookKind(h *v1alpha1.Hook) string {
	switch {
	case h.Job != nil:
		return "Job"
	case h.HTTP != nil:
		return "HTTP"
	case h.Check != nil:
		return "Check"
	case h.Approval != nil:
		return "Approval"
	case h.Workflow != nil:
		return "Workflow"
	}
	return HookChart
}

// HooksIn are those of a rollout in one phase.
func (in RolloutInput) HooksIn(phase HookPhase) []HookRef {
	var refs []HookRef
	for _, h := range in.Hooks {
		if h.Phase == phase {
			refs = append(refs, h)
		}
	}
	return refs
}

// HookOf finds a hook by its name and phase; nil when there is none.
func HookOf(hooks []v1alpha1.Hook, name string, phase v1alpha1.HookPhase) *v1alpha1.Hook {
	for i := range hooks {
		if h := &hooks[i]; h.Name == name && h.Phase == phase {
			return h
		}
	}
	return nil
}

// HookRunOf finds the run of a hook for a rollout, or for the deletion, whose number is 0. A run of the deletion that has
// failed does not count when the Release asks for a reconcile since: it is begun again.
func HookRunOf(r *v1alpha1.Release, name string, phase v1alpha1.HookPhase, rollout int64) *v1alpha1.HookStatus {
	for i := range r.Status.Hooks {
		run := &r.Status.Hooks[i]
		if run.Name != name || run.Phase != phase || run.Rollout != rollout {
			continue
		}
		if rollout == 0 && run.State == v1alpha1.HookFailed && run.Request != r.Annotations[v1alpha1.AnnotationRequestedAt] {
			return nil
		}
		return run
	}
	return nil
}

// HookEnded reports whether a run has ended.
func HookEnded(run *v1alpha1.HookStatus) bool { return run != nil && run.State != v1alpha1.HookRunning }

// HookOutcome is the state of a run, and what is told of it.
func HookOutcome(run *v1alpha1.HookStatus) string {
	if run.Message == "" {
		return string(run.State)
	}
	return string(run.State) + ": " + run.Message
}

// HooksDue are, of the hooks of a Release, those of the deletion in one phase that have not ended. held is the first that has
// failed and holds the deletion; then none is due. Nothing is held where nobody could mend it.
func HooksDue(r *v1alpha1.Release, hooks []v1alpha1.Hook, phase v1alpha1.HookPhase, mendable bool) (due []HookRef, held *v1alpha1.HookStatus) {
	for _, ref := range HookRefs(hooks, phase) {
		run := HookRunOf(r, ref.Name, phase, 0)
		switch {
		case !HookEnded(run):
			due = append(due, ref)
		case run.State == v1alpha1.HookFailed && mendable && HookOf(hooks, ref.Name, phase).OnFailure != v1alpha1.HookContinue:
			return nil, run
		}
	}
	return due, nil
}

// HookRunName names one run of a hook, for ever: the mark of the object that it makes, and the beginning of its ID.
func HookRunName(uid string, run *v1alpha1.HookStatus) string {
	name := uid + "/" + strconv.FormatInt(run.Rollout, 10) + "/" + run.Name
	if run.Rollout == 0 && run.Request != "" {
		sum := sha256.Sum256([]byte(run.Request))
		name += "/" + hex.EncodeToString(sum[:4])
	}
	return name
}

// HookRunID is short and of hexadecimal digits, and the same for one run only.
func HookRunID(uid string, run *v1alpha1.HookStatus) string {
	sum := sha256.Sum256([]byte(HookRunName(uid, run)))
	return hex.EncodeToString(sum[:16])
}

// HookWorkflowID is the ID of the workflow that a hook runs. It ends with the ID of the run: a Release of the same name
// that is made anew counts its rollouts from 1 again.
func HookWorkflowID(namespace, release string, run *v1alpha1.HookStatus, id string) string {
	return strings.Join([]string{"hook", namespace, release, strconv.FormatInt(run.Rollout, 10), run.Name, id[:8]}, "/")
}
