package workflows

import (
	"strconv"

	"go.temporal.io/sdk/workflow"

	"kumodo.io/convoy/activities"
)

// stands is how the last reconcile or rollout ended, or what is under way.
func (r *release) stands() standing {
	s := standing{phase: "Failed", revision: r.outcome.Revision}
	switch {
	case r.outcome.Life == "":
		return r.standing // nothing was looked at yet in this run
	case r.deleting || r.outcome.Life != activities.Alive:
		s.phase = "Deleting"
	case r.rollout != nil:
		s.phase = "RollingOut"
	case r.outcome.Held:
		s.phase = "Held"
	case r.outcome.Reason == "" || r.outcome.Reason == activities.ReasonDelivered:
		s.phase, s.ready = "Delivered", true
	}
	return s
}

func (r *release) show(ctx workflow.Context) {
	state := "waiting for a change or the interval"
	switch {
	case r.deleting:
		state = "deleting"
	case r.rollout != nil:
		state = "rollout " + strconv.FormatInt(r.rollout.number, 10) + " is under way"
	}
	former := ""
	if r.cleaning != nil {
		former = "what is left there is being removed"
	}
	last := r.outcome.Reason
	if r.outcome.Message != "" {
		last += ": " + r.outcome.Message
	}
	workflow.SetCurrentDetails(ctx, table(
		"Release", r.key.String(), "Cluster", r.outcome.Cluster, "State", state,
		"Revision", r.outcome.Revision, "Render", r.outcome.Digest, "Last result", last, "Former Clusters", former,
	))
}
