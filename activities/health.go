package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"
	"k8s.io/apimachinery/pkg/api/equality"
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
	expiring, err := a.expiring(ctx, s, entries)
	if err != nil {
		return StepResult{}, err
	}
	renewed, stop := untilRenewed(ctx, s.conn)
	defer stop(nil)
	limited, cancel := context.WithDeadline(renewed, lookUntil(in.Started, timeout, time.Now()))
	defer cancel()
	found, err := observe.Wait(limited, observe.Target{
		Dynamic: s.target.Dynamic, Mapper: s.target.Mapper, ServiceAccount: s.target.ServiceAccount,
	}, entries, checks, expiring, a.waiting(renewed, stop, s, beat, len(entries)))
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

const (
	// firstWord and rarestWord are between two words in the status about what a wait is waiting for.
	firstWord  = 5 * time.Second
	rarestWord = time.Minute
	// everySpec is how often a wait reads whether the Release has other health checks by now.
	everySpec = 10 * time.Second
)

// waiting is the progress of a wait, which it ends when the Release has other health checks: whoever mends one that is never true is not
// to wait for the timeout. The heartbeat always has the progress, the status when the wait lasts, the rarer the longer it does.
func (a *Activities) waiting(ctx context.Context, end context.CancelCauseFunc, s *step, beat *heartbeat, of int) func(observe.Result) {
	begun := s.release.DeepCopy() // what is told brings that of the step up to date
	read, pause, due, said := time.Now(), firstWord, time.Now().Add(firstWord), ""
	return func(now observe.Result) {
		open, progress := now.Open(), Progress{Done: now.Healthy, Of: of}
		if len(open) > 0 {
			progress.Step = open[0].Ref.String()
		}
		beat.set(progress)
		if time.Since(read) > everySpec {
			if read = time.Now(); a.checksChanged(ctx, begun) {
				end(errOtherChecks)
				return
			}
		}
		if len(open) == 0 || time.Now().Before(due) {
			return
		}
		due, pause = time.Now().Add(pause), min(2*pause, rarestWord)
		if text, err := a.sayWaiting(ctx, s, open, said); err == nil {
			said = text
		} else if ctx.Err() == nil { // the wait matters more than what is said of it
			activity.GetLogger(ctx).Warn("cannot say what the rollout waits for", "release", s.owner.String(), "error", typesOf(err))
		}
	}
}

// sayWaiting says in the status what is waited for, unless that was said.
func (a *Activities) sayWaiting(ctx context.Context, s *step, open []observe.Finding, said string) (string, error) {
	content, err := a.content(ctx, s)
	if err != nil {
		return said, err
	}
	text := apply.Scrub(content.Objects, awaited(open))
	if text != said {
		_, err = a.tell(ctx, s, func(r *v1alpha1.Release) { status.Applied(r, text, s.record.Len()) })
	}
	return text, err
}

// checksChanged reports whether a Release has other health checks by now.
func (a *Activities) checksChanged(ctx context.Context, begun *v1alpha1.Release) bool {
	var now v1alpha1.Release
	err := a.Hub.Get(ctx, client.ObjectKeyFromObject(begun), &now)
	return err == nil && now.UID == begun.UID && !equality.Semantic.DeepEqual(now.Spec.HealthChecks, begun.Spec.HealthChecks)
}

// expiring are those of the entries that the cluster removes once they have done their work.
func (a *Activities) expiring(ctx context.Context, s *step, entries []v1alpha1.InventoryEntry) (map[delivery.ObjectRef]bool, error) {
	if !slices.ContainsFunc(entries, func(e v1alpha1.InventoryEntry) bool { return e.Group == "batch" }) {
		return nil, nil
	}
	content, err := a.content(ctx, s)
	if err != nil {
		return nil, err
	}
	all := map[delivery.ObjectRef]bool{}
	for _, o := range content.Objects {
		ref := delivery.RefOf(o)
		ref.Namespace = cmp.Or(ref.Namespace, content.Namespace())
		all[ref] = observe.Expires(o)
	}
	return all, nil
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
