package delivery

import (
	"fmt"
	"strconv"
	"strings"

	"kumodo.io/convoy/api/v1alpha1"
)

const digestPrefix = "sha256:"

// ShortDigest is as much of a digest as people need to tell renders apart.
func ShortDigest(digest string) string {
	return digest[:min(len(digest), len(digestPrefix)+12)]
}

// ChooseRender decides which kept render somebody means: by the number of a rollout, or else by its digest or the beginning
// of it. The error says what there is to choose from.
func ChooseRender(s *v1alpha1.ReleaseStatus, want string) (v1alpha1.RenderRef, error) {
	if number, err := strconv.ParseInt(want, 10, 64); err == nil {
		if digest := digestOf(s, number); digest != "" {
			ref, kept := KeptRender(s, digest)
			if !kept {
				return ref, fmt.Errorf("the render of rollout %d, %s, is not kept any more; %s", number, ShortDigest(digest), whatIsKept(s))
			}
			return ref, nil
		}
	}
	var found []v1alpha1.RenderRef
	for _, ref := range KeptRenders(s) {
		if hasDigest(ref.Digest, want) {
			found = append(found, ref)
		}
	}
	switch len(found) {
	case 0:
		return v1alpha1.RenderRef{}, fmt.Errorf("%q is neither a rollout in the history nor the beginning of the digest of a kept render; %s", want, whatIsKept(s))
	case 1:
		return found[0], nil
	}
	return v1alpha1.RenderRef{}, fmt.Errorf("%q begins the digests of %d kept renders; give more of it", want, len(found))
}

// RenderBefore decides which kept render a rollback goes to when nobody names one: that of the newest rollout that succeeded
// with another render than the last rollout has.
func RenderBefore(r *v1alpha1.Release) (v1alpha1.RenderRef, error) {
	s := &r.Status
	if r.Spec.PinnedRender != "" {
		return v1alpha1.RenderRef{}, fmt.Errorf("it is pinned to render %s already; say which one to take instead, or undo the rollback", ShortDigest(r.Spec.PinnedRender))
	}
	if s.Rollout == nil {
		return v1alpha1.RenderRef{}, fmt.Errorf("it has had no rollout yet, so there is nothing to go back to")
	}
	for _, past := range s.History {
		if past.Phase != v1alpha1.RolloutSucceeded || past.Digest == s.Rollout.Digest {
			continue
		}
		ref, kept := KeptRender(s, past.Digest)
		if !kept {
			return ref, fmt.Errorf("the last other render that succeeded, %s of rollout %d, is not kept any more; %s", ShortDigest(past.Digest), past.Number, whatIsKept(s))
		}
		return ref, nil
	}
	return v1alpha1.RenderRef{}, fmt.Errorf("its history holds no rollout of another render that succeeded; %s", whatIsKept(s))
}

// Approvable decides which render an Approval is for: the pending one. want is empty, or the digest that somebody has looked
// at, or the beginning of it.
func Approvable(r *v1alpha1.Release, want string) (string, error) {
	pending := r.Status.Pending
	switch {
	case pending == nil:
		return "", fmt.Errorf("no render of it waits for an approval: %s", StandingOf(r))
	case pending.Reason != v1alpha1.ReasonAwaitingApproval:
		return "", fmt.Errorf("render %s does not wait for an approval: %s", ShortDigest(pending.Digest), pending.Message)
	case want != "" && !hasDigest(pending.Digest, want):
		return "", fmt.Errorf("the render that waits is %s, and not %s; look at it before you approve it", pending.Digest, want)
	}
	return pending.Digest, nil
}

// ApprovableHook decides which render an Approval of a hook is for: that of the rollout that is under way. want is as for
// Approvable. A hook that has not begun yet may be approved too.
func ApprovableHook(r *v1alpha1.Release, name, want string) (string, error) {
	last := r.Status.Rollout
	hook, there := approvalHooks(r, name)
	switch {
	case hook == nil:
		return "", fmt.Errorf("spec.hooks has no hook %q; %s", name, there)
	case hook.Approval == nil:
		return "", fmt.Errorf("hook %s (%s) is no approval but does something itself: %s; %s", name, hook.Phase, HookKind(hook), there)
	case last != nil && last.Phase == v1alpha1.RolloutFailed && !r.Spec.Suspend:
		return "", fmt.Errorf("no rollout of it is under way, so hook %s waits for nothing: convoy reconcile %s begins another one, which may be approved then: %s",
			name, r.Name, StandingOf(r))
	case last == nil || last.Phase != v1alpha1.RolloutRunning:
		return "", fmt.Errorf("no rollout of it is under way, so hook %s waits for nothing: %s", name, StandingOf(r))
	}
	run := HookRunOf(r, name, hook.Phase, last.Number)
	switch {
	case HookEnded(run):
		return "", fmt.Errorf("hook %s of rollout %d, which is under way, has ended: %s", name, last.Number, HookOutcome(run))
	case want != "" && !hasDigest(last.Digest, want):
		return "", fmt.Errorf("rollout %d, which is under way, has render %s, and not %s", last.Number, last.Digest, want)
	}
	return last.Digest, nil
}

// approvalHooks finds a hook by its name, nil when there is none, and says which ones wait for an Approval.
func approvalHooks(r *v1alpha1.Release, name string) (found *v1alpha1.Hook, there string) {
	var names []string
	for i := range r.Spec.Hooks {
		h := &r.Spec.Hooks[i]
		if h.Name == name {
			found = h
		}
		if h.Approval != nil {
			names = append(names, fmt.Sprintf("%s (%s)", h.Name, h.Phase))
		}
	}
	if len(names) == 0 {
		return found, "none of its hooks waits for an Approval"
	}
	return found, "those that wait for an Approval are " + strings.Join(names, ", ")
}

// hasDigest reports whether want is a digest, or begins it, with or without the name of the algorithm.
func hasDigest(digest, want string) bool {
	want = strings.TrimPrefix(want, digestPrefix)
	return want != "" && strings.HasPrefix(strings.TrimPrefix(digest, digestPrefix), want)
}

// digestOf is the render of a rollout, empty when the status does not have it.
func digestOf(s *v1alpha1.ReleaseStatus, number int64) string {
	if s.Rollout != nil && s.Rollout.Number == number {
		return s.Rollout.Digest
	}
	for _, past := range s.History {
		if past.Number == number {
			return past.Digest
		}
	}
	return ""
}

// whatIsKept names the kept renders, with the rollout that each had last.
func whatIsKept(s *v1alpha1.ReleaseStatus) string {
	var names []string
	for _, ref := range KeptRenders(s) {
		name := ShortDigest(ref.Digest)
		if number := lastRolloutOf(s, ref.Digest); number > 0 {
			name += fmt.Sprintf(" (rollout %d)", number)
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return "no render is kept"
	}
	return "kept are " + strings.Join(names, ", ")
}

// lastRolloutOf is the newest rollout of a render, 0 when none is remembered.
func lastRolloutOf(s *v1alpha1.ReleaseStatus, digest string) int64 {
	if s.Rollout != nil && s.Rollout.Digest == digest {
		return s.Rollout.Number
	}
	for _, past := range s.History {
		if past.Digest == digest {
			return past.Number
		}
	}
	return 0
}
