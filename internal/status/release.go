package status

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/failure"
)

// stalledReasons are failures that only a change by somebody heals; convoy looks again at the interval.
var stalledReasons = []string{
	v1alpha1.ReasonRenderFailed, v1alpha1.ReasonEmptyRender, v1alpha1.ReasonApplyFailed, v1alpha1.ReasonConflict,
	v1alpha1.ReasonHealthTimeout, v1alpha1.ReasonUnhealthy, v1alpha1.ReasonSourceInvalid, v1alpha1.ReasonHookFailed,
	v1alpha1.ReasonSyncPolicyInvalid, v1alpha1.ReasonPinnedRenderMissing, v1alpha1.ReasonServiceAccountRequired,
}

// SourceFailed records that the source could not be read. What was applied stays as it is.
func SourceFailed(r *v1alpha1.Release, f *failure.Error) {
	fail(r, v1alpha1.ConditionSourceReady, f.Reason, f.Message)
}

// Knows reports whether the status tells of a source at the revision or, when that is empty, of one that cannot be read.
func Knows(r *v1alpha1.Release, revision string) bool {
	ready := meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionSourceReady)
	return ready == (revision != "") && (!ready || r.Status.Source != nil && r.Status.Source.Revision == revision)
}

// ClusterNotReady records that the gate is closed. Nothing is claimed about health meanwhile; answered is when the Cluster
// answered last, nil when it never did, and does not move while it is unreachable.
func ClusterNotReady(r *v1alpha1.Release, message string, answered *metav1.Time) {
	set(r, v1alpha1.ConditionSourceReady, metav1.ConditionTrue, v1alpha1.ReasonFetched, "the source was read")
	if meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionHealthy) != nil {
		health := AnsweredLast(message, answered)
		set(r, v1alpha1.ConditionHealthy, metav1.ConditionUnknown, v1alpha1.ReasonClusterNotReady, health)
		driftUnknown(r, v1alpha1.ReasonClusterNotReady, health)
	}
	fail(r, v1alpha1.ConditionApplied, v1alpha1.ReasonClusterNotReady, message)
}

// AnsweredLast adds to what is wrong with a Cluster when it answered last, nil when it never did.
func AnsweredLast(message string, answered *metav1.Time) string {
	if answered != nil {
		message += "; its last good probe was at " + answered.UTC().Format(time.RFC3339)
	}
	return message
}

// RenderFailed records that the source or a mutation is not valid. What was applied stays as it is.
func RenderFailed(r *v1alpha1.Release, source v1alpha1.SourceStatus, f *failure.Error) {
	sourceReady(r, source)
	r.Status.Pending = nil
	answer(r)
	fail(r, v1alpha1.ConditionRendered, f.Reason, f.Message)
}

// RenderRetrying records that a chart needs to know something of its Cluster that cannot be read for now.
func RenderRetrying(r *v1alpha1.Release, source v1alpha1.SourceStatus, f *failure.Error) {
	sourceReady(r, source)
	fail(r, v1alpha1.ConditionRendered, v1alpha1.ReasonRenderRetrying, f.Message)
}

// Render is what a render found, for the status.
type Render struct {
	Inputs string
	Source v1alpha1.SourceStatus
	Render v1alpha1.RenderStatus
	Ref    v1alpha1.RenderRef
	// Mutations say what each mutation matched.
	Mutations []v1alpha1.MutationStatus
	// Objects is how many objects it holds.
	Objects int32
	// Pinned: it is a kept render, and neither the source nor a mutation was looked at.
	Pinned bool
}

// Rendered records a render that the target already has.
func Rendered(r *v1alpha1.Release, in Render) {
	rendered(r, in)
	unchanged(r)
}

// RolloutStarted records a render that is about to be applied, or is being applied already: then its progress stands.
func RolloutStarted(r *v1alpha1.Release, in Render, rollout v1alpha1.RolloutStatus) {
	rendered(r, in)
	last := r.Status.Rollout
	same := last != nil && last.Number == rollout.Number
	if same {
		last.Generation = rollout.Generation
	}
	if same && applying(r) {
		r.Status.ObservedGeneration = r.Generation
		return
	}
	if !same {
		if last != nil && last.Phase == v1alpha1.RolloutRunning {
			record(r, v1alpha1.RolloutSuperseded, "", "", rollout.StartTime)
		}
		rollout.Operation = delivery.OperationOf(r, rollout.Cluster) // here: the last rollout may have ended since the caller read it
		r.Status.Rollout, r.Status.Hooks = &rollout, nil
		returned(r, rollout.Cluster)
	}
	message := fmt.Sprintf("rollout %d is under way", rollout.Number)
	set(r, v1alpha1.ConditionApplied, metav1.ConditionUnknown, v1alpha1.ReasonProgressing, message)
	progress(r, message)
}

// rendered records the render that the last rollout applies, or is to apply.
func rendered(r *v1alpha1.Release, in Render) {
	recordRender(r, in)
	s := &r.Status
	s.InputsDigest = in.Inputs
	s.Pending = nil
	if s.RenderRef != nil && s.RenderRef.Digest != in.Ref.Digest {
		s.PreviousRenderRefs = append([]v1alpha1.RenderRef{*s.RenderRef}, s.PreviousRenderRefs...)
	}
	s.RenderRef = &in.Ref
	s.PreviousRenderRefs = slices.DeleteFunc(s.PreviousRenderRefs, func(p v1alpha1.RenderRef) bool { return p.Digest == in.Ref.Digest })
	if keep := int(max(r.Spec.SyncPolicy.HistoryLimit, 1)) - 1; len(s.PreviousRenderRefs) > keep {
		s.PreviousRenderRefs = s.PreviousRenderRefs[:keep]
	}
}

// recordRender records how the render came about.
func recordRender(r *v1alpha1.Release, in Render) {
	answer(r)
	if !in.Pinned {
		sourceReady(r, in.Source)
		r.Status.Render = &in.Render
		r.Status.Mutations = in.Mutations
	}
	set(r, v1alpha1.ConditionRendered, metav1.ConditionTrue, v1alpha1.ReasonRendered, delivery.Count(int(in.Objects), "object"))
}

// UpToDate records a reconcile that found nothing to do. source is nil when a kept render is delivered, whatever it holds.
func UpToDate(r *v1alpha1.Release, source *v1alpha1.SourceStatus) {
	if source != nil {
		sourceReady(r, *source)
	}
	r.Status.Pending = nil
	answer(r)
	if r.Status.Rollout != nil { // a source that could not be rendered may have come back to what was delivered
		set(r, v1alpha1.ConditionRendered, metav1.ConditionTrue, v1alpha1.ReasonRendered, delivery.Count(int(r.Status.Rollout.Objects), "object"))
	}
	unchanged(r)
}

// ApplyRetrying records that the target could not take everything for now. recorded is what the inventory holds.
func ApplyRetrying(r *v1alpha1.Release, reason, message string, recorded int) {
	if recorded > 0 {
		setInventory(r, recorded)
	}
	if overtaken(r) {
		return
	}
	fail(r, v1alpha1.ConditionApplied, reason, message)
}

// Applied records that every object is on the target while health is still awaited.
func Applied(r *v1alpha1.Release, waiting string, recorded int) {
	setInventory(r, recorded)
	if overtaken(r) {
		return
	}
	set(r, v1alpha1.ConditionApplied, metav1.ConditionTrue, v1alpha1.ReasonApplied, appliedMessage(r))
	progress(r, waiting)
}

// applying reports whether the conditions are those of a rollout under way.
func applying(r *v1alpha1.Release) bool {
	c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionReady)
	return c != nil && slices.Contains(applyingReasons, c.Reason)
}

var applyingReasons = []string{v1alpha1.ReasonProgressing, v1alpha1.ReasonApplyRetrying, v1alpha1.ReasonPruneFailed}

// overtaken reports whether a newer generation than the rollout's was looked at already: its conditions stand.
func overtaken(r *v1alpha1.Release) bool {
	return r.Status.Rollout != nil && r.Status.ObservedGeneration > r.Status.Rollout.Generation && r.Status.Rollout.Generation > 0
}

// RolloutSucceeded concludes the rollout: everything is applied and healthy. What the Release has elsewhere is to be
// removed from now on.
func RolloutSucceeded(r *v1alpha1.Release, recorded int, elsewhere []v1alpha1.Leftover, now metav1.Time) {
	record(r, v1alpha1.RolloutSucceeded, "", "", now)
	setInventory(r, recorded)
	switch {
	case !overtaken(r):
		delivered(r)
	case r.Status.Pending != nil: // what waits says Ready; the target is as the rollout left it
		onTarget(r)
	}
	moved(r, elsewhere, now.Time)
}

// RolloutFailed concludes the rollout with a failure of one condition.
func RolloutFailed(r *v1alpha1.Release, condition, reason, message string, recorded int, now metav1.Time) {
	record(r, v1alpha1.RolloutFailed, reason, message, now)
	setInventory(r, recorded)
	if overtaken(r) {
		return
	}
	unknown := fmt.Sprintf("not known: rollout %d failed", r.Status.Rollout.Number)
	driftUnknown(r, reason, unknown)
	if condition == v1alpha1.ConditionApplied {
		set(r, v1alpha1.ConditionHealthy, metav1.ConditionUnknown, reason, unknown)
	}
	if condition == v1alpha1.ConditionHealthy {
		set(r, v1alpha1.ConditionApplied, metav1.ConditionTrue, v1alpha1.ReasonApplied, appliedMessage(r))
	}
	fail(r, condition, reason, message)
}

// ReleaseDeleting records what a deletion does or waits for.
func ReleaseDeleting(r *v1alpha1.Release, reason, message string) {
	setLeftovers(r, nil, "", "") // the deletion removes them, too, and tells of them
	set(r, v1alpha1.ConditionDeleting, metav1.ConditionTrue, reason, message)
	conclude(r, metav1.ConditionFalse, v1alpha1.ReasonDeleting, message)
}

// Warned records what the target warned of when the objects of the rollout were applied.
func Warned(r *v1alpha1.Release, warnings []string) { r.Status.Rollout.Warnings = warnings }

// Recorded records that the inventory holds something.
func Recorded(r *v1alpha1.Release, recorded int) { setInventory(r, recorded) }

func setInventory(r *v1alpha1.Release, recorded int) {
	state := v1alpha1.InventoryRecorded
	if recorded == 0 {
		state = v1alpha1.InventoryEmpty
	}
	r.Status.Inventory = &v1alpha1.InventoryStatus{State: state, Objects: int32(min(recorded, 1<<30))} //nolint:gosec // capped on this line
}

func delivered(r *v1alpha1.Release) {
	onTarget(r)
	conclude(r, metav1.ConditionTrue, v1alpha1.ReasonDelivered, appliedMessage(r))
}

// unchanged says that what is wished is on the target. What the observer saw of it since stands.
func unchanged(r *v1alpha1.Release) {
	set(r, v1alpha1.ConditionApplied, metav1.ConditionTrue, v1alpha1.ReasonApplied, appliedMessage(r))
	seen := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionHealthy)
	switch {
	case seen != nil && seen.Reason == v1alpha1.ReasonDegraded:
		conclude(r, seen.Status, seen.Reason, seen.Message)
		return
	case seen == nil || seen.Reason != v1alpha1.ReasonNotObserved:
		set(r, v1alpha1.ConditionHealthy, metav1.ConditionTrue, v1alpha1.ReasonHealthy, healthyMessage)
	}
	conclude(r, metav1.ConditionTrue, v1alpha1.ReasonDelivered, appliedMessage(r))
}

// onTarget says that a rollout has applied everything, and that it was healthy and as it was applied then.
func onTarget(r *v1alpha1.Release) {
	set(r, v1alpha1.ConditionApplied, metav1.ConditionTrue, v1alpha1.ReasonApplied, appliedMessage(r))
	set(r, v1alpha1.ConditionHealthy, metav1.ConditionTrue, v1alpha1.ReasonHealthy, healthyMessage)
	r.Status.Drift = nil
	inSync(r)
}

func appliedMessage(r *v1alpha1.Release) string {
	if r.Status.Rollout == nil {
		return "nothing to apply"
	}
	return fmt.Sprintf("rollout %d applied %s", r.Status.Rollout.Number, delivery.Count(int(r.Status.Rollout.Objects), "object"))
}

func sourceReady(r *v1alpha1.Release, source v1alpha1.SourceStatus) {
	r.Status.Source = &source
	set(r, v1alpha1.ConditionSourceReady, metav1.ConditionTrue, v1alpha1.ReasonFetched, "the source was read")
}

func fail(r *v1alpha1.Release, condition, reason, message string) {
	set(r, condition, metav1.ConditionFalse, reason, message)
	conclude(r, metav1.ConditionFalse, reason, message)
}

func progress(r *v1alpha1.Release, message string) {
	set(r, v1alpha1.ConditionHealthy, metav1.ConditionUnknown, v1alpha1.ReasonProgressing, message)
	conclude(r, metav1.ConditionUnknown, v1alpha1.ReasonProgressing, message)
}

func set(r *v1alpha1.Release, condition string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{
		Type: condition, Status: status, ObservedGeneration: r.Generation, Reason: reason, Message: message,
	})
}

// answer says that a reconcile that was asked for has been. Whoever asks may have sent the rival of a correction away.
func answer(r *v1alpha1.Release) {
	if asked := r.Annotations[v1alpha1.AnnotationRequestedAt]; asked != r.Status.LastHandledReconcileAt {
		r.Status.LastHandledReconcileAt = asked
		endPauses(r)
	}
}

// conclude derives Ready, Reconciling and Stalled from the outcome of the last step. A deletion outweighs it.
func conclude(r *v1alpha1.Release, status metav1.ConditionStatus, reason, message string) {
	if r.Status.ObservedGeneration != r.Generation {
		r.Status.ObservedGeneration = r.Generation
		endPauses(r)
	}
	if r.Status.Inventory == nil && delivery.NothingApplied(r, false) {
		r.Status.Inventory = &v1alpha1.InventoryStatus{State: v1alpha1.InventoryEmpty}
	}
	if d := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionDeleting); d != nil {
		status, reason, message = metav1.ConditionFalse, v1alpha1.ReasonDeleting, d.Message
	}
	set(r, v1alpha1.ConditionReady, status, reason, message)
	stalled := slices.Contains(stalledReasons, reason)
	flag(r, v1alpha1.ConditionStalled, stalled, reason, message)
	idle := reason == v1alpha1.ReasonSuspended || reason == v1alpha1.ReasonDegraded // convoy does nothing about it
	flag(r, v1alpha1.ConditionReconciling, status != metav1.ConditionTrue && !stalled && !idle, reason, message)
}

// flag keeps an abnormal-true condition: present when true, absent otherwise.
func flag(r *v1alpha1.Release, condition string, on bool, reason, message string) {
	if on {
		set(r, condition, metav1.ConditionTrue, reason, message)
		return
	}
	meta.RemoveStatusCondition(&r.Status.Conditions, condition)
}
