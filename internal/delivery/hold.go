package delivery

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"kumodo.io/convoy/api/v1alpha1"
)

// Hold is why a rollout that is due does not begin yet.
type Hold struct {
	Reason  string
	Message string
	// Until is when to look again, if time alone helps.
	Until time.Time
}

// Due is a rollout that is about to begin.
type Due struct {
	// Number of the rollout.
	Number int64
	// Digest of the render.
	Digest string
	// Cluster it goes to, by ClusterIdentity.
	Cluster string
	// Prunes is how many objects would be removed from the target.
	Prunes int
}

// NeedsApproval reports whether a rollout waits for an Approval: a new render does by the sync policy. One that continues
// or repeats the last rollout does not.
func NeedsApproval(r *v1alpha1.Release, d Due) bool {
	last := r.Status.Rollout
	if last != nil && last.Digest == d.Digest && last.Cluster == d.Cluster {
		return false
	}
	policy := r.Spec.SyncPolicy
	return policy.Mode == v1alpha1.SyncManual || policy.Prune == v1alpha1.PruneConfirm && d.Prunes > 0
}

// HoldFor decides whether a rollout may begin now. approval is the one that lets it, if it needs one and has it. The error is about
// a sync policy that cannot be read.
func HoldFor(r *v1alpha1.Release, d Due, approval *v1alpha1.Approval, now time.Time) (*Hold, error) {
	if NeedsApproval(r, d) && approval == nil {
		what := fmt.Sprintf("rollout %d waits for an Approval of %s", d.Number, d.Digest)
		if r.Spec.SyncPolicy.Mode != v1alpha1.SyncManual {
			what += fmt.Sprintf(", because it would remove %s from the cluster", Count(d.Prunes, "object"))
		}
		return &Hold{Reason: v1alpha1.ReasonAwaitingApproval, Message: what}, nil
	}
	open, opens, err := Windows(r.Spec.SyncPolicy.Windows, now)
	if err != nil || open {
		return nil, err
	}
	if opens.IsZero() {
		return nil, errors.New("syncPolicy.windows: none of them opens within five years")
	}
	return &Hold{
		Reason: v1alpha1.ReasonOutsideWindow, Until: opens,
		Message: fmt.Sprintf("rollout %d waits for a window of the sync policy; the next one opens at %s", d.Number, opens.Format(time.RFC3339)),
	}, nil
}

// JudgeApprovals finds, among the Approvals of a namespace, the one that lets a rollout begin, or a hook of it pass, and those
// that its render voids. hook is empty for the rollout itself. One that was used counts for the rollout that it was used for only;
// one of an earlier life of the Release counts for nothing.
func JudgeApprovals(r *v1alpha1.Release, hook string, rollout int64, digest string, all []v1alpha1.Approval) (use *v1alpha1.Approval, void []*v1alpha1.Approval) {
	for i := range all {
		a := &all[i]
		if a.Spec.ReleaseRef.Name != r.Name || a.Spec.Hook != hook || a.CreationTimestamp.Before(&r.CreationTimestamp) {
			continue
		}
		used := a.Status.State == v1alpha1.ApprovalUsed && a.Status.Rollout == rollout
		switch {
		case a.Spec.Digest != digest && a.Status.State == "":
			void = append(void, a)
		case a.Spec.Digest == digest && (used || a.Status.State == "" && use == nil):
			use = a
		}
	}
	return use, void
}

// TriggerOf names what begins a rollout of a render.
func TriggerOf(r *v1alpha1.Release, digest, revision, cluster string) v1alpha1.RolloutTrigger {
	last := r.Status.Rollout
	switch {
	case last == nil:
		return v1alpha1.TriggerCreated
	case last.Cluster != cluster:
		return v1alpha1.TriggerCluster
	case last.Digest == digest:
		return v1alpha1.TriggerRetry
	case r.Spec.PinnedRender != "":
		return v1alpha1.TriggerPinned
	case last.Revision != revision:
		return v1alpha1.TriggerRevision
	case last.Generation != r.Generation:
		return v1alpha1.TriggerChanged
	}
	return v1alpha1.TriggerInputs
}

// pinnedPrefix begins what stands for the revision of a source where a kept render is delivered instead.
const pinnedPrefix = "pinned/"

// PinnedRevision stands for the revision of the source while spec.pinnedRender names a render.
func PinnedRevision(digest string) string { return pinnedPrefix + digest }

// IsPinned reports whether a revision stands for a kept render.
func IsPinned(revision string) bool { return strings.HasPrefix(revision, pinnedPrefix) }

// KeptRenders are the renders of a Release that are kept, newest first, each once: what is pending may be an earlier one.
func KeptRenders(s *v1alpha1.ReleaseStatus) []v1alpha1.RenderRef {
	var all []v1alpha1.RenderRef
	if s.RenderRef != nil {
		all = append(all, *s.RenderRef)
	}
	all = append(all, s.PreviousRenderRefs...)
	if s.Pending != nil && !slices.Contains(all, s.Pending.RenderRef) {
		all = slices.Insert(all, 0, s.Pending.RenderRef)
	}
	return all
}

// KeptRender finds a kept render by its digest.
func KeptRender(s *v1alpha1.ReleaseStatus, digest string) (ref v1alpha1.RenderRef, kept bool) {
	for _, ref := range KeptRenders(s) {
		if ref.Digest == digest {
			return ref, true
		}
	}
	return v1alpha1.RenderRef{}, false
}

// RevisionOf is the revision of the source that a kept render was made from, empty when that is forgotten.
func RevisionOf(s *v1alpha1.ReleaseStatus, digest string) string {
	switch {
	case s.Pending != nil && s.Pending.Digest == digest:
		return s.Pending.Revision
	case s.Rollout != nil && s.Rollout.Digest == digest:
		return s.Rollout.Revision
	}
	for _, past := range s.History {
		if past.Digest == digest {
			return past.Revision
		}
	}
	return ""
}
