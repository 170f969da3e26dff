package workflows

import (
	"errors"

	"go.temporal.io/sdk/workflow"

	"kumodo.io/convoy/activities"
	"kumodo.io/convoy/internal/delivery"
)

// finalize runs the deletion until it is done or news arrive.
func (r *release) finalize(ctx workflow.Context) error {
	r.cancelRollout(ctx)
	r.stopCleaning(ctx) // the deletion takes over
	r.outcome = Outcome{Life: activities.Deleting}
	r.inbox.answer()
	r.show(ctx)
	out, err := r.remove(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errInterrupted):
		return nil
	case err != nil:
		r.outcome.Reason, r.outcome.Message = describe(err)
		r.pause = pauseAfterFailure
		return nil
	}
	r.deleting, r.again = false, false
	r.outcome = Outcome{Life: out.Life}
	return nil
}

// remove removes the objects, and runs the hooks that are due before it goes on.
func (r *release) remove(ctx workflow.Context) (out activities.ObjectResult, err error) {
	for {
		out, err = do(ctx, r, deleteRelease, false, "remove the objects of "+r.key.String(), activities.ObjectInput{Key: r.key})
		if err != nil || len(out.Hooks) == 0 {
			return out, err
		}
		obsolete := r.stirred
		if workflow.GetVersion(ctx, "hooks-of-a-deletion-go-on", workflow.DefaultVersion, 1) != workflow.DefaultVersion {
			obsolete = func() bool { return r.overtaken(out.Generation) }
		}
		for _, h := range out.Hooks {
			input := activities.HookInput{Rollout: delivery.RolloutInput{Key: r.key}, Hook: h}
			ran, err := doUntil(ctx, runHook, obsolete, hookSummary(h), input)
			if err != nil {
				return out, err
			}
			if ran.Superseded { // another life, or none: the look that follows tells
				r.pause = pauseAfterFailure
				return out, errInterrupted
			}
		}
	}
}

// overtaken reports whether anything has come in that concerns a hook of a deletion, which the spec of some generation has. One
// that runs is not begun again for a label, an annotation or a restart of the watcher, which tell the same generation.
func (r *release) overtaken(generation int64) bool {
	r.inbox.forget(func(k delivery.Kick) bool {
		return k.UID == r.key.UID && k.Reason == delivery.KickDeleting && k.Generation <= generation
	})
	return r.inbox.stirred()
}
