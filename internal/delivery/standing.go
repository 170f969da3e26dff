package delivery

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
)

// Standing is what somebody who waits for a Release wants to know of it.
type Standing struct {
	// Settled: nothing more happens unless somebody does something, or a long time passes.
	Settled bool
	// Ready: it is settled, and all is as wished.
	Ready bool
	// Reason and Message say what is under way, or in what it ended.
	Reason  string
	Message string
}

// String is reason and message.
func (s Standing) String() string {
	if s.Message == "" {
		return s.Reason
	}
	return s.Reason + ": " + s.Message
}

// held are the reasons for which Ready is Unknown until a person acts, or a time comes.
var held = []string{v1alpha1.ReasonSuspended, v1alpha1.ReasonAwaitingApproval, v1alpha1.ReasonOutsideWindow}

// StandingOf decides whether it is worth to go on waiting for a Release. A failure that is retried is: it may heal.
func StandingOf(r *v1alpha1.Release) Standing {
	ready := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case !r.DeletionTimestamp.IsZero():
		s := Standing{Settled: true, Reason: v1alpha1.ReasonDeleting, Message: "it is being deleted"}
		if d := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionDeleting); d != nil {
			s.Message = d.Message
		}
		return s
	case ready == nil || r.Status.ObservedGeneration < r.Generation:
		return Standing{
			Reason:  "Changed",
			Message: fmt.Sprintf("convoy has not told yet what became of generation %d", r.Generation),
		}
	}
	is := ready.Status == metav1.ConditionTrue
	stalled := meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionStalled)
	return Standing{
		Settled: is || stalled || slices.Contains(held, ready.Reason), Ready: is,
		Reason: ready.Reason, Message: ready.Message,
	}
}
