package delivery

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
)

func TestAWaitEndsWhenNothingMoreHappensByItself(t *testing.T) {
	ready := func(status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: "m"}
	}
	stalled := metav1.Condition{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonApplyFailed}
	now := metav1.Now()
	for _, c := range []struct {
		name       string
		conditions []metav1.Condition
		observed   int64
		deleted    *metav1.Time
		want       Standing
	}{
		{"new", nil, 0, nil, Standing{false, false, "Changed", "convoy has not told yet what became of generation 2"}},
		{"of an older generation", []metav1.Condition{ready("True", "Delivered")}, 1, nil, Standing{false, false, "Changed", "convoy has not told yet what became of generation 2"}},
		{"delivered", []metav1.Condition{ready("True", "Delivered")}, 2, nil, Standing{true, true, "Delivered", "m"}},
		{"under way", []metav1.Condition{ready("Unknown", "Progressing")}, 2, nil, Standing{false, false, "Progressing", "m"}},
		{"retried", []metav1.Condition{ready("False", "ClusterNotReady")}, 2, nil, Standing{false, false, "ClusterNotReady", "m"}},
		{"stalled", []metav1.Condition{ready("False", "ApplyFailed"), stalled}, 2, nil, Standing{true, false, "ApplyFailed", "m"}},
		{"suspended", []metav1.Condition{ready("Unknown", "Suspended")}, 2, nil, Standing{true, false, "Suspended", "m"}},
		{"unapproved", []metav1.Condition{ready("Unknown", "AwaitingApproval")}, 2, nil, Standing{true, false, "AwaitingApproval", "m"}},
		{"outside its window", []metav1.Condition{ready("Unknown", "OutsideWindow")}, 2, nil, Standing{true, false, "OutsideWindow", "m"}},
		{"deleted", []metav1.Condition{ready("True", "Delivered")}, 2, &now, Standing{true, false, "Deleting", "it is being deleted"}},
		{"being pruned", []metav1.Condition{{Type: v1alpha1.ConditionDeleting, Status: "True", Message: "p"}}, 2, &now, Standing{true, false, "Deleting", "p"}},
	} {
		r := &v1alpha1.Release{ObjectMeta: metav1.ObjectMeta{Generation: 2, DeletionTimestamp: c.deleted}}
		r.Status.Conditions, r.Status.ObservedGeneration = c.conditions, c.observed
		if got := StandingOf(r); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
