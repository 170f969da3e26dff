package activities

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/failure"
)

// maxMessage bounds what a failure may say, in bytes.
const maxMessage = 2048

// Types of failures that have no reason of the API.
const (
	// ReasonInternal is a failure without a class of its own.
	ReasonInternal = "Internal"
	// ReasonBusy is a step that waits until its target has room for it.
	ReasonBusy = "Busy"
	// ReasonRenewed is a wait that goes on with another client.
	ReasonRenewed = "Renewed"
	// ReasonHandover is an observer that another worker goes on with.
	ReasonHandover = "Handover"
	// ReasonHookRetrying is a hook that is tried again.
	ReasonHookRetrying = "HookRetrying"
	// ReasonPanic is a panic of an activity.
	ReasonPanic = "Panic"
)

// Translate makes of any error of an activity what Temporal may keep: a class, a message built from names,
// and when to try again. Causes are dropped, because Temporal stores them. It is the only place that does so.
func Translate(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, activity.ErrResultPending) {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err() // cancelled or out of time: the SDK tells them apart
	}
	f := classify(ctx, err)
	o := temporal.ApplicationErrorOptions{NonRetryable: f.Terminal, NextRetryDelay: jitter(delay(ctx, f))}
	if f.Reason != ReasonInternal && f.Reason != ReasonPanic { // what is expected of a world of clusters is no alarm
		o.Category = temporal.ApplicationErrorCategoryBenign
	}
	return temporal.NewApplicationErrorWithOptions(cut(f.Message), f.Reason, o)
}

// classify is the failure in an error, or a bare class when it has none.
func classify(ctx context.Context, err error) *failure.Error {
	if f, ok := failure.As(err); ok {
		return f
	}
	if s := apierrors.APIStatus(nil); errors.As(err, &s) {
		return failure.Transient(ReasonInternal, err, "the hub answered %s: %s", activity.GetInfo(ctx).ActivityType.Name, s.Status().Reason)
	}
	step := activity.GetInfo(ctx).ActivityType.Name
	activity.GetLogger(ctx).Error("a step failed inside convoy", "step", step, "type", typesOf(err)) // the text may hold anything
	return failure.Transient(ReasonInternal, err, "%s failed inside convoy (%s)", step, typesOf(err))
}

// typesOf names the Go types along an error's chain, which are safe to show where texts are not.
func typesOf(err error) string {
	innermost := err
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(next) {
		innermost = next
	}
	return fmt.Sprintf("%T", innermost)
}

// delay until the next attempt: what the failure asks for, or else the policy's own backoff.
func delay(ctx context.Context, f *failure.Error) time.Duration {
	policy := activity.GetInfo(ctx).RetryPolicy
	if f.RetryAfter > 0 || policy == nil {
		return f.RetryAfter
	}
	b := delivery.Backoff{Base: policy.InitialInterval, Cap: policy.MaximumInterval}
	return b.Delay(int(activity.GetInfo(ctx).Attempt))
}

// paced has a failure tried again by the sync policy of its Release, unless the far side asked for another time.
func paced(ctx context.Context, r *v1alpha1.Release, f *failure.Error) *failure.Error {
	if policy := r.Spec.SyncPolicy.Retry; policy != nil && f.RetryAfter == 0 && !f.Terminal {
		b := delivery.Backoff{Base: policy.MinInterval.Duration, Cap: policy.MaxInterval.Duration}
		f.RetryAfter = b.Delay(int(activity.GetInfo(ctx).Attempt))
	}
	return f
}

// jitter spreads retries that failed together, by up to a fifth either way; the server's own backoff has none.
func jitter(d time.Duration) time.Duration {
	return wait.Jitter(d*8/10, 0.5)
}

func cut(s string) string {
	if len(s) <= maxMessage {
		return s
	}
	s = s[:maxMessage]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s
}
