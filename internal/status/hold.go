package status

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/failure"
)

// Suspended records that nothing is delivered while spec.suspend is set. What the other conditions say of the target stays.
// Hooks of the rollout that had not ended are forgotten, also those that wait for their next attempt: they begin anew, with
// all of their time, when the rollout goes on.
func Suspended(r *v1alpha1.Release) {
	answer(r)
	r.Status.Hooks = slices.DeleteFunc(r.Status.Hooks, func(run v1alpha1.HookStatus) bool {
		return run.Rollout > 0 && run.State == v1alpha1.HookRunning
	})
	hold(r, v1alpha1.ReasonSuspended, "spec.suspend is set: nothing is delivered until it is removed")
}

// Held records a render that is not rolled out yet, and why. What the other conditions say of the target stays. It reports
// whether that is news.
func Held(r *v1alpha1.Release, in Render, reason, message string, now metav1.Time) (news bool) {
	recordRender(r, in)
	was := r.Status.Pending
	pending := &v1alpha1.PendingRender{
		RenderRef: in.Ref, Reason: reason, Message: message, Revision: in.Source.Revision, Objects: in.Objects, Since: now,
	}
	if was != nil && was.Digest == pending.Digest {
		pending.Since = was.Since
	}
	r.Status.Pending = pending
	hold(r, reason, message)
	return was == nil || was.Digest != pending.Digest || was.Reason != reason
}

// Refused records that what the spec asks for cannot be rolled out. What was applied stays as it is.
func Refused(r *v1alpha1.Release, f *failure.Error) {
	answer(r)
	r.Status.Pending = nil
	fail(r, v1alpha1.ConditionRendered, f.Reason, f.Message)
}

// hold says that Ready waits for somebody, or for a time.
func hold(r *v1alpha1.Release, reason, message string) {
	conclude(r, metav1.ConditionUnknown, reason, message)
}
