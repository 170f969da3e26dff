package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/apply"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/observe"
)

// AwaitHealth waits until every object of a rollout is healthy, one has failed, or the timeout of the sync policy
// is over, and concludes the rollout.
func (a *Activities) AwaitHealth(ctx context.Context, in HealthInput) (StepResult, error) {
	beat := startHeartbeat(ctx)
	defer beat.stopped()
	s, err := a.begin(ctx, in.Rollout)
	if err != nil || s == nil {
		return StepResult{Superseded: err == nil}, err
	}
	entries := slices.DeleteFunc(s.record.Entries(), func(e v1alpha1.InventoryEntry) bool {
		return delivery.AlwaysHealthy(apply.RefOf(e).GroupKind())
	})
	timeout := s.release.Spec.SyncPolicy.Timeout.Duration
	limited, cancel := context.WithDeadline(ctx, in.Started.Add(timeout))
	defer cancel()
	found, err := observe.Wait(limited, observe.Target{Dynamic: s.target.Dynamic, Mapper: s.target.Mapper}, entries,
		func(done, of int, waitingFor string) { beat.set(Progress{Step: waitingFor, Done: done, Of: of}) })
	out := StepResult{Healthy: found.Healthy}
	timedOut := limited.Err() != nil && ctx.Err() == nil
	switch {
	case len(found.Failed) > 0:
		return a.failed(ctx, s, out, v1alpha1.ConditionHealthy, v1alpha1.ReasonUnhealthy,
			fmt.Sprintf("%d of %d objects failed: %s", len(found.Failed), len(entries), findings(found.Failed)))
	case timedOut:
		return a.failed(ctx, s, out, v1alpha1.ConditionHealthy, v1alpha1.ReasonHealthTimeout,
			fmt.Sprintf("%d of %d objects are not healthy after %s: %s", len(found.Pending), len(entries), timeout, findings(found.Pending)))
	case err != nil && !errors.Is(err, context.DeadlineExceeded):
		return StepResult{}, a.retrying(ctx, s, v1alpha1.ReasonApplyRetrying, err)
	case err != nil:
		return StepResult{}, err
	}
	return a.succeeded(ctx, s, out)
}

// findings names the first few objects that are not healthy.
func findings(all []observe.Finding) string {
	errs := make([]apply.ObjectError, 0, len(all))
	for _, f := range all {
		errs = append(errs, apply.ObjectError{Ref: f.Ref, Message: f.Message})
	}
	return first(errs)
}
