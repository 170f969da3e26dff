package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/apply"
	"kumodo.io/convoy/internal/connect"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/failure"
	"kumodo.io/convoy/internal/observe"
	"kumodo.io/convoy/internal/status"
)

// AwaitHealth waits until every object of a rollout is healthy, one has failed, or the timeout of the sync policy
// is over, and concludes the rollout.
func (a *Activities) AwaitHealth(ctx context.Context, in HealthInput) (StepResult, error) {
	beat := startHeartbeat(ctx)
	defer beat.stopped()
	s, out, err := a.begin(ctx, in.Rollout)
	if s == nil {
		return out, err
	}
	s.end() // a wait is no load
	entries := slices.DeleteFunc(s.record.Entries(), func(e v1alpha1.InventoryEntry) bool {
		return e.Hook != "" || delivery.AlwaysHealthy(apply.RefOf(e).GroupKind())
	})
	timeout := s.release.Spec.SyncPolicy.Timeout.Duration
	checks, _ := observe.NewChecks(s.release.Spec.HealthChecks) // what became invalid since the render, the reconcile tells
	renewed, stop := untilRenewed(ctx, s.conn)
	defer stop(nil)
	a.untilChecksChange(renewed, stop, s.release)
	limited, cancel := context.WithDeadline(renewed, lookUntil(in.Started, timeout, time.Now()))
	defer cancel()
	found, err := observe.Wait(limited, observe.Target{
		Dynamic: s.target.Dynamic, Mapper: s.target.Mapper, ServiceAccount: s.target.ServiceAccount,
	}, entries, checks, a.waiting(ctx, s, beat, len(entries)))
	out.Healthy = found.Healthy
	timedOut := limited.Err() != nil && ctx.Err() == nil
	switch {
	case renewed.Err() != nil && ctx.Err() == nil:
		again := failure.Transient(ReasonRenewed, nil, "%s; the wait goes on with them", context.Cause(renewed))
		again.RetryAfter = time.Second
		return StepResult{}, again
	case len(found.Failed) > 0:
		return a.unhealthy(ctx, s, out, v1alpha1.ReasonUnhealthy, "failed", len(entries), found.Failed)
	case err == nil:
		return a.succeeded(ctx, s, out)
	case timedOut:
		return a.unhealthy(ctx, s, out, v1alpha1.ReasonHealthTimeout, "not healthy after "+timeout.String(), len(entries), found.Pending)
	}
	return StepResult{}, a.retrying(ctx, s, v1alpha1.ReasonApplyRetrying, err)
}

// firstWord and rarestWord are between two words in the status about what a wait is waiting for.
const (
	firstWord  = 5 * time.Second
	rarestWord = time.Minute
)

// waiting is the progress of a wait. The heartbeat always has it, the status when the wait lasts, the rarer the longer it does.
func (a *Activities) waiting(ctx context.Context, s *step, beat *heartbeat, of int) func(observe.Result) {
	pause, due, said := firstWord, time.Now().Add(firstWord), ""
	return func(now observe.Result) {
		open, progress := now.Open(), Progress{Done: now.Healthy, Of: of}
		if len(open) > 0 {
			progress.Step = open[0].Ref.String()
		}
		beat.set(progress)
		if len(open) == 0 || time.Now().Before(due) {
			return
		}
		due, pause = time.Now().Add(pause), min(2*pause, rarestWord)
		content, err := a.content(ctx, s)
		if err == nil {
			text := apply.Scrub(content.Objects, awaited(open))
			if text == said {
				return
			}
			said = text
			_, err = a.tell(ctx, s, func(r *v1alpha1.Release) { status.Applied(r, text, s.record.Len()) })
		}
		if err != nil && ctx.Err() == nil { // the wait matters more than what is said of it
			activity.GetLogger(ctx).Warn("cannot say what the rollout waits for", "release", s.owner.String(), "error", typesOf(err))
		}
	}
}

// Why a wait for health begins anew.
var (
	errNewCredentials = errors.New("there are new credentials for the Cluster")
	errOtherChecks    = errors.New("the Release has other health checks")
)

// untilRenewed ends when the client of a target is replaced: a long wait must not go on with credentials of the past.
func untilRenewed(ctx context.Context, conn *connect.Client) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-conn.Done():
			cancel(errNewCredentials)
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// untilChecksChange calls end when the health checks of a Release are others than these. Whoever mends a check that is never true is
// not to wait for the timeout.
func (a *Activities) untilChecksChange(ctx context.Context, end context.CancelCauseFunc, r *v1alpha1.Release) {
	r = r.DeepCopy() // a step brings its own up to date
	follow := func(ctx context.Context) {
		w, err := a.Hub.Watch(ctx, &v1alpha1.ReleaseList{}, client.InNamespace(r.Namespace), client.MatchingFields{"metadata.name": r.Name})
		if err != nil {
			return
		}
		defer w.Stop()
		for event := range w.ResultChan() {
			now, ok := event.Object.(*v1alpha1.Release)
			if ok && now.UID == r.UID && !equality.Semantic.DeepEqual(now.Spec.HealthChecks, r.Spec.HealthChecks) {
				end(errOtherChecks)
			}
		}
	}
	go wait.JitterUntilWithContext(ctx, follow, followAgain, 1, true)
}

// followAgain is between two watches of the hub.
const followAgain = 10 * time.Second

// lastLook is how long a wait looks at the objects that was kept from looking until its time was over.
const lastLook = 15 * time.Second

func lookUntil(started time.Time, timeout time.Duration, now time.Time) time.Time {
	if end := started.Add(timeout); end.After(now.Add(lastLook)) {
		return end
	}
	return now.Add(min(timeout, lastLook))
}

// unhealthy concludes a rollout whose objects are not healthy. What controllers say of them may quote anything.
func (a *Activities) unhealthy(ctx context.Context, s *step, out StepResult, reason, what string, of int, all []observe.Finding) (StepResult, error) {
	content, err := a.content(ctx, s)
	if err != nil {
		return StepResult{}, err
	}
	message := apply.Scrub(content.Objects, fmt.Sprintf("%s %s: %s", delivery.Share(len(all), of, "object"), what, first(all)))
	return a.failed(ctx, s, out, v1alpha1.ConditionHealthy, reason, message)
}
