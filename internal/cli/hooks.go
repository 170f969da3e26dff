package cli

import (
	"fmt"
	"io"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// hooks writes what is recorded of the runs of hooks.
func hooks(out io.Writer, runs []v1alpha1.HookStatus, now time.Time) error {
	if len(runs) == 0 {
		return nil
	}
	fmt.Fprintln(out, "\nHooks")
	rows := make([][]string, 0, len(runs))
	for _, run := range runs {
		rollout, took := strconv.FormatInt(run.Rollout, 10), ""
		if run.Rollout == 0 {
			rollout = "deletion"
		}
		if run.EndTime != nil {
			took = duration.HumanDuration(run.EndTime.Sub(run.StartTime.Time))
		}
		rows = append(rows, []string{run.Name, string(run.Phase), rollout, string(run.State), age(run.StartTime, now), took, objectOf(run), run.Message})
	}
	return table(out, []string{"NAME", "PHASE", "ROLLOUT", "STATE", "AGE", "TOOK", "OBJECT", "MESSAGE"}, rows)
}

// objectOf names what a run made on the target; empty when it made nothing.
func objectOf(run v1alpha1.HookStatus) string {
	if run.Object == nil {
		return ""
	}
	o := run.Object
	return delivery.ObjectRef{Group: o.Group, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}.String()
}

// runningHook is a hook that a Release waits for.
type runningHook struct {
	Name  string             `json:"name"`
	Phase v1alpha1.HookPhase `json:"phase"`
	Since metav1.Time        `json:"since"`
	// Until is when its time is over; absent when it is not in the spec: of a chart, or gone.
	Until *metav1.Time `json:"until,omitempty"`
	// Object is what it made on the target.
	Object  string `json:"object,omitempty"`
	Message string `json:"message,omitempty"`
	// wayOut is what somebody may do about it.
	wayOut string
}

// runningHooks are those of the rollout, or of the deletion, that is under way. reachable: the Cluster lets Releases through.
func runningHooks(r *v1alpha1.Release, reachable bool) (out []runningHook) {
	number := int64(0)
	if r.DeletionTimestamp.IsZero() && r.Status.Rollout != nil {
		number = r.Status.Rollout.Number
	}
	for _, run := range r.Status.Hooks {
		if run.State != v1alpha1.HookRunning || run.Rollout != number || r.Spec.Suspend && number > 0 {
			continue
		}
		h := runningHook{Name: run.Name, Phase: run.Phase, Since: run.StartTime, Object: objectOf(run), Message: run.Message}
		if spec := delivery.HookOf(r.Spec.Hooks, run.Name, run.Phase); spec != nil {
			h.Until = &metav1.Time{Time: run.StartTime.Add(spec.Timeout.Duration)}
			h.wayOut = wayOutOfHook(r, spec)
			if number == 0 && !reachable && (spec.Job != nil || spec.Check != nil) { // its time does not count
				h.Until, h.wayOut = nil, wayOutOfReach(r)
			}
		}
		out = append(out, h)
	}
	return out
}

// wayOutOfHook is what somebody may do about a hook that runs.
func wayOutOfHook(r *v1alpha1.Release, h *v1alpha1.Hook) string {
	if h.Approval != nil {
		return "do what the hook asks for, then convoy approve release " + r.Name + " -n " + r.Namespace + " --hook " + h.Name
	}
	return map[string]string{
		"Job":      "wait until its object ends, and see on the target what that lacks",
		"HTTP":     "wait for the answer of its server, or mend that",
		"Check":    "wait until what it looks at is as its expression has it, or mend that",
		"Workflow": "wait for its workflow, which a worker of your own runs",
	}[delivery.HookKind(h)] + "; or change the hook in spec.hooks, or remove it there"
}

// wayOutOfReach is what somebody may do about a hook of a deletion whose target cannot be reached.
func wayOutOfReach(r *v1alpha1.Release) string {
	const mend = "mend the Cluster, or remove the hook from spec.hooks, or "
	if _, bounded := delivery.Patience(r.Spec.DeletionPolicy, r.DeletionTimestamp.Time, time.Now()); bounded {
		return mend + "wait for the end of spec.deletionPolicy.timeout, which skips it"
	}
	return mend + "set spec.deletionPolicy.blockOnClusterUnreachable to false, which skips it after spec.deletionPolicy.timeout"
}

// facts are what the command why prints of a hook.
func (h *runningHook) facts(now time.Time) []string {
	name := fmt.Sprintf("%s (%s), running since %s", h.Name, h.Phase, age(h.Since, now))
	if h.Until != nil {
		name += "; its time is over " + when(h.Until.Time, now)
	}
	return []string{"Hook", name, "Hook object", h.Object, "Hook message", h.Message}
}
