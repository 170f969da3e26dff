package delivery_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

func rolledOut(digest, cluster string, phase v1alpha1.RolloutPhase) func(*v1alpha1.Release) {
	return func(r *v1alpha1.Release) {
		r.Status.Rollout = &v1alpha1.RolloutStatus{Number: 3, Digest: digest, Cluster: cluster, Phase: phase, Revision: "rev-1", Generation: 1}
	}
}

func TestWhatARolloutWaitsFor(t *testing.T) {
	due := delivery.Due{Number: 4, Digest: "sha256:b", Cluster: "c-1"}
	pruning := due
	pruning.Prunes = 2
	given := &v1alpha1.Approval{}
	cases := map[string]struct {
		change   func(*v1alpha1.Release)
		due      delivery.Due
		approval *v1alpha1.Approval
		reason   string
		message  string
	}{
		"an automatic one for nothing":                    {func(*v1alpha1.Release) {}, pruning, nil, "", ""},
		"a manual one for an Approval":                    {manual, due, nil, v1alpha1.ReasonAwaitingApproval, "rollout 4 waits for an Approval of sha256:b"},
		"a manual one that is approved for nothing":       {manual, due, given, "", ""},
		"a manual one that is tried again for nothing":    {both(manual, rolledOut("sha256:b", "c-1", v1alpha1.RolloutFailed)), due, nil, "", ""},
		"a manual one to another cluster for an Approval": {both(manual, rolledOut("sha256:b", "c-2", v1alpha1.RolloutSucceeded)), due, nil, v1alpha1.ReasonAwaitingApproval, "sha256:b"},
		"one that removes nothing for nothing":            {confirm, due, nil, "", ""},
		"one that removes something for an Approval":      {confirm, pruning, nil, v1alpha1.ReasonAwaitingApproval, "would remove 2 objects"},
		"one outside all windows for the next":            {closed, due, nil, v1alpha1.ReasonOutsideWindow, "the next one opens at 2026-03-02T21:00:00Z"},
		"one without an Approval for that first":          {both(manual, closed), due, nil, v1alpha1.ReasonAwaitingApproval, ""},
		"one with an Approval for the window":             {both(manual, closed), due, given, v1alpha1.ReasonOutsideWindow, ""},
	}
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			hold, err := delivery.HoldFor(release(tc.change), tc.due, tc.approval, now)
			if err != nil {
				t.Fatal(err)
			}
			if hold == nil {
				hold = &delivery.Hold{}
			}
			if hold.Reason != tc.reason || !strings.Contains(hold.Message, tc.message) {
				t.Errorf("it waits for %q: %q", hold.Reason, hold.Message)
			}
			if waits := strings.Contains(hold.Message, "next one"); waits == hold.Until.IsZero() {
				t.Errorf("it is looked at again at %s", hold.Until)
			}
		})
	}
}

func manual(r *v1alpha1.Release)  { r.Spec.SyncPolicy.Mode = v1alpha1.SyncManual }
func confirm(r *v1alpha1.Release) { r.Spec.SyncPolicy.Prune = v1alpha1.PruneConfirm }
func closed(r *v1alpha1.Release) {
	r.Spec.SyncPolicy.Windows = []v1alpha1.SyncWindow{window("0 21 * * *", "UTC", time.Hour)}
}

func neverOpen(r *v1alpha1.Release) {
	r.Spec.SyncPolicy.Windows = []v1alpha1.SyncWindow{window("0 0 31 11 *", "UTC", time.Hour)}
}

func both(changes ...func(*v1alpha1.Release)) func(*v1alpha1.Release) {
	return func(r *v1alpha1.Release) {
		for _, change := range changes {
			change(r)
		}
	}
}

func TestAnApprovalCountsForOneRenderOfOneLife(t *testing.T) {
	born := metav1.NewTime(time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC))
	due := delivery.Due{Number: 4, Digest: "sha256:b", Cluster: "c-1"}
	cases := map[string]struct {
		change func(*v1alpha1.Approval)
		counts bool
		voided bool
	}{
		"its own":                 {func(*v1alpha1.Approval) {}, true, false},
		"of another Release":      {func(a *v1alpha1.Approval) { a.Spec.ReleaseRef.Name = "other" }, false, false},
		"of a hook":               {func(a *v1alpha1.Approval) { a.Spec.Hook = "smoke" }, false, false},
		"of another render":       {func(a *v1alpha1.Approval) { a.Spec.Digest = "sha256:a" }, false, true},
		"of another render, used": {func(a *v1alpha1.Approval) { a.Spec.Digest, a.Status.State = "sha256:a", v1alpha1.ApprovalUsed }, false, false},
		"void":                    {func(a *v1alpha1.Approval) { a.Status.State = v1alpha1.ApprovalVoid }, false, false},
		"used for this very rollout": {func(a *v1alpha1.Approval) {
			a.Status = v1alpha1.ApprovalStatus{State: v1alpha1.ApprovalUsed, Rollout: 4}
		}, true, false},
		"used for an earlier rollout": {func(a *v1alpha1.Approval) {
			a.Status = v1alpha1.ApprovalStatus{State: v1alpha1.ApprovalUsed, Rollout: 3}
		}, false, false},
		"of an earlier life":           {func(a *v1alpha1.Approval) { a.CreationTimestamp = metav1.NewTime(born.Add(-time.Second)) }, false, false},
		"of the second it was born in": {func(a *v1alpha1.Approval) { a.CreationTimestamp = born }, true, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := release(func(r *v1alpha1.Release) { r.CreationTimestamp = born })
			a := v1alpha1.Approval{ObjectMeta: metav1.ObjectMeta{Name: "yes", CreationTimestamp: metav1.NewTime(born.Add(time.Hour))}}
			a.Spec = v1alpha1.ApprovalSpec{ReleaseRef: v1alpha1.ReleaseRef{Name: r.Name}, Digest: due.Digest, ApprovedBy: "jane"}
			tc.change(&a)
			use, void := delivery.JudgeApprovals(r, "", due.Number, due.Digest, []v1alpha1.Approval{a})
			if (use != nil) != tc.counts || (len(void) > 0) != tc.voided {
				t.Errorf("counts %v, voided %v", use != nil, len(void) > 0)
			}
		})
	}
}

func TestWhatBeganARolloutIsNamed(t *testing.T) {
	cases := map[string]struct {
		change   func(*v1alpha1.Release)
		digest   string
		revision string
		want     v1alpha1.RolloutTrigger
	}{
		"the first":         {func(*v1alpha1.Release) {}, "b", "rev-1", v1alpha1.TriggerCreated},
		"another cluster":   {rolledOut("a", "c-2", v1alpha1.RolloutSucceeded), "a", "rev-1", v1alpha1.TriggerCluster},
		"another try":       {rolledOut("b", "c-1", v1alpha1.RolloutFailed), "b", "rev-2", v1alpha1.TriggerRetry},
		"another revision":  {rolledOut("a", "c-1", v1alpha1.RolloutSucceeded), "b", "rev-2", v1alpha1.TriggerRevision},
		"another spec":      {both(rolledOut("a", "c-1", v1alpha1.RolloutSucceeded), func(r *v1alpha1.Release) { r.Generation = 2 }), "b", "rev-1", v1alpha1.TriggerChanged},
		"a pin":             {both(rolledOut("a", "c-1", v1alpha1.RolloutSucceeded), func(r *v1alpha1.Release) { r.Spec.PinnedRender = "b" }), "b", "rev-1", v1alpha1.TriggerPinned},
		"what else it read": {rolledOut("a", "c-1", v1alpha1.RolloutSucceeded), "b", "rev-1", v1alpha1.TriggerInputs},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := delivery.TriggerOf(release(tc.change), tc.digest, tc.revision, "c-1"); got != tc.want {
				t.Errorf("it is %s, want %s", got, tc.want)
			}
		})
	}
}

func TestWindowsOfWhichNoneOpensAreAnError(t *testing.T) {
	_, err := delivery.HoldFor(release(neverOpen), delivery.Due{Number: 4, Digest: "sha256:b", Cluster: "c-1"}, nil, time.Now())
	if err == nil || !strings.Contains(err.Error(), "none of them opens") {
		t.Errorf("got %v", err)
	}
}
