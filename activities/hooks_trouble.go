package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/apply"
	"kumodo.io/convoy/internal/connect"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/failure"
	"kumodo.io/convoy/internal/room"
	"kumodo.io/convoy/internal/status"
)

// hookTrouble is what an attempt fails with that another one follows. Whoever looks is told why the hook is not done yet.
func (a *Activities) hookTrouble(ctx context.Context, h *hookStep, err error) error {
	if ctx.Err() != nil {
		a.dropHook(ctx, h)
		return ctx.Err()
	}
	if _, busy := errors.AsType[*room.BusyError](err); busy || errors.Is(err, apply.ErrHub) {
		return err
	}
	f, known := failure.As(err)
	if known && (f.Reason == ReasonRenewed || f.Reason == ReasonHookRetrying) {
		return err
	}
	if !ofHook(f, known) {
		a.suspect(ctx, h.cluster, err)
	}
	if !known {
		f = connect.Classify(err)
	}
	message := h.reasonOf(err)
	again := failure.Transient(ReasonHookRetrying, err, "hook %s (%s): %s", h.run.Name, h.run.Phase, message)
	again.RetryAfter = f.RetryAfter
	if h.hook != nil && !delivery.HookEnded(&h.run) {
		again.RetryAfter = a.hookDelay(ctx, h, f.RetryAfter)
		if _, err := a.tell(ctx, h.step, func(r *v1alpha1.Release) { status.HookWaiting(r, h.run, cut(message)) }); err != nil {
			return err
		}
	}
	return again
}

// hookDelay is until the next attempt, which comes when the time of the hook is over at the latest.
func (a *Activities) hookDelay(ctx context.Context, h *hookStep, asked time.Duration) time.Duration {
	d := asked
	if d <= 0 {
		d = delivery.ReleaseBackoff.Delay(int(activity.GetInfo(ctx).Attempt))
	}
	if left := time.Until(h.until()); left > 0 {
		d = min(d, left+time.Second)
	}
	if h.run.Rollout == 0 {
		if left, bounded := delivery.Patience(h.release.Spec.DeletionPolicy, h.release.DeletionTimestamp.Time, time.Now()); bounded {
			d = min(d, left+time.Second)
		}
	}
	return d
}

// outOfReach decides about a hook of a deletion whose target cannot be worked with, which says nothing about the hook:
// it waits as the deletion does, however long, and is skipped when the deletion gives up.
func (h *hookStep) outOfReach(err error) bool {
	if h.run.Rollout != 0 || !h.needsTarget() {
		return false
	}
	f, known := failure.As(err)
	lost := known && f.Reason == v1alpha1.ReasonClusterUnreachable || connect.Unreachable(err)
	return lost
}

// needsTarget reports whether what the hook does is on the target.
func (h *hookStep) needsTarget() bool {
	_, ofChart := h.plan.chart[h.hook.Name]
	return ofChart || h.hook.Job != nil || h.hook.Check != nil
}

// patient reports whether the deletion goes on trying.
func (h *hookStep) patient() bool {
	left, bounded := delivery.Patience(h.release.Spec.DeletionPolicy, h.release.DeletionTimestamp.Time, time.Now())
	return !bounded || left > 0
}

// takesNothing tells a namespace of the hub that goes away, and takes nothing new, from a hub that fails.
func takesNothing(err error) bool {
	return errors.Is(err, apply.ErrHub) && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// until is when the time of a run is over. After that nothing is begun any more.
func (h *hookStep) until() time.Time { return h.run.StartTime.Add(h.hook.Timeout.Duration) }

// attemptUntil is when an attempt that begins now ends at the latest. One that was kept from looking looks once more at what
// may have its result by now; an answer of a server would be a result only if it were asked again.
func (h *hookStep) attemptUntil(now time.Time) time.Time {
	if h.hook.HTTP != nil {
		return h.until()
	}
	return lookUntil(h.run.StartTime.Time, h.hook.Timeout.Duration, now)
}

// ofHook reports whether a failure is of what a hook does, and says all, and not of the Cluster.
func ofHook(f *failure.Error, known bool) bool {
	return known && (f.Reason == v1alpha1.ReasonHookFailed || f.Reason == v1alpha1.ReasonApplyRetrying)
}

// reasonOf says what kept an attempt from going on, whatever the error is of.
func (h *hookStep) reasonOf(err error) string {
	f, known := failure.As(err)
	if ofHook(f, known) {
		return f.Message
	}
	if !known {
		f = connect.Classify(err)
	}
	return fmt.Sprintf("Cluster %q: %s", h.release.Spec.ClusterRef.Name, f.Message)
}

// lastReason is why a run whose time is over is not done: what its last look waited for, or what its last attempt failed with.
// An attempt that did not get to work has no reason of its own, and the one that was recorded before counts.
func (h *hookStep) lastReason(waiting string, err error) string {
	_, busy := errors.AsType[*room.BusyError](err)
	idle := busy || errors.Is(err, errTimeOver) || errors.Is(err, apply.ErrHub) || errors.Is(err, apply.ErrTooLate)
	f, known := failure.As(err)
	switch {
	case waiting != "":
		return waiting
	case !idle:
		return h.reasonOf(err)
	case h.run.Message != "":
		return h.run.Message
	case known:
		return f.Message
	}
	return "it was interrupted before it had a result"
}
