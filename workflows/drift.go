package workflows

import (
	"errors"
	"time"

	"go.temporal.io/sdk/workflow"

	"kumodo.io/convoy/activities"
	"kumodo.io/convoy/internal/delivery"
)

// hearOfDrift takes what observers have told, who keep the pauses between corrections that somebody undoes. A change, or a wish for
// a reconcile, ends the wait for a window: they may be others now.
func (r *release) hearOfDrift(ctx workflow.Context, m mail) {
	heard := m.perhaps() && !r.correct.IsZero()
	var d delivery.Drift
	for r.drift.ReceiveAsync(&d) {
		heard = heard || d.UID == r.key.UID && r.correct.IsZero()
		d = delivery.Drift{}
	}
	if heard && r.outcome.Life != activities.Gone {
		r.correct = workflow.Now(ctx)
	}
}

// corrects reports whether something is to be corrected now or later. A rollout applies everything anyway, and a deletion takes it away.
func (r *release) corrects() bool {
	if r.rollout != nil || r.deleting {
		r.correct = time.Time{}
	}
	return !r.correct.IsZero()
}

// drifted reports whether the correction of something is due.
func (r *release) drifted(ctx workflow.Context) bool {
	return r.corrects() && !workflow.Now(ctx).Before(r.correct)
}

// correctDrift applies again what drifted and is due. Of what drifts again, or is left, the observer tells when that is due.
func (r *release) correctDrift(ctx workflow.Context) error {
	out, err := do(ctx, r, correctDrift, false, "correct what drifted on the Cluster", activities.CorrectInput{Key: r.key})
	now := workflow.Now(ctx)
	r.correct = out.Until
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errInterrupted):
		r.correct = now
	case err != nil:
		r.correct = now.Add(pauseAfterFailure)
	}
	return nil
}
