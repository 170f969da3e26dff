package status_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/status"
)

func begin(r *v1alpha1.Release, number int64, digest string) {
	status.RolloutStarted(r, rendered(digest), v1alpha1.RolloutStatus{
		Number: number, Phase: v1alpha1.RolloutRunning, Digest: digest, Objects: 4, StartTime: noon, Revision: "main@sha1:1",
	})
}

func TestTheHistoryTellsHowEachRolloutWent(t *testing.T) {
	r := release()
	begin(r, 1, "a")
	status.RolloutSucceeded(r, 4, nil, noon)
	begin(r, 2, "b")
	begin(r, 3, "c") // before the second had concluded
	status.RolloutFailed(r, v1alpha1.ConditionApplied, v1alpha1.ReasonApplyFailed, strings.Repeat("ä", 2000), 4, metav1.NewTime(noon.Add(time.Minute)))
	var told []string
	for _, h := range r.Status.History {
		told = append(told, fmt.Sprintf("%d %s %s %s", h.Number, h.Phase, h.Digest, h.Reason))
		if len(h.Message) > 1024 || !utf8.ValidString(h.Message) {
			t.Errorf("the message of rollout %d has %d bytes", h.Number, len(h.Message))
		}
	}
	if got, want := strings.Join(told, ", "), "3 Failed c ApplyFailed, 2 Superseded b , 1 Succeeded a "; got != want {
		t.Errorf("the history is %q, want %q", got, want)
	}
	if took := r.Status.History[0].EndTime.Sub(r.Status.History[0].StartTime.Time); took != time.Minute {
		t.Errorf("the last rollout took %s", took)
	}
}

func TestTheHistoryIsBounded(t *testing.T) {
	r := release()
	for i := range int64(25) {
		begin(r, i+1, fmt.Sprintf("digest-%d", i))
		status.RolloutSucceeded(r, 4, nil, noon)
	}
	if n := len(r.Status.History); n != 10 || r.Status.History[0].Number != 25 {
		t.Errorf("it holds %d rollouts, the newest is %d", n, r.Status.History[0].Number)
	}
}

func TestARenderThatWaitsIsToldOnceAndKeepsSinceWhen(t *testing.T) {
	r := release()
	later := metav1.NewTime(noon.Add(time.Hour))
	for i, step := range []struct {
		digest, reason string
		now            metav1.Time
		news           bool
		since          metav1.Time
	}{
		{"b", v1alpha1.ReasonAwaitingApproval, noon, true, noon},
		{"b", v1alpha1.ReasonAwaitingApproval, later, false, noon},
		{"b", v1alpha1.ReasonOutsideWindow, later, true, noon},
		{"c", v1alpha1.ReasonOutsideWindow, later, true, later},
	} {
		news := status.Held(r, rendered(step.digest), step.reason, "waits", step.now)
		if news != step.news || !r.Status.Pending.Since.Equal(&step.since) {
			t.Errorf("step %d: news %v, waits since %s", i, news, r.Status.Pending.Since)
		}
	}
	begin(r, 1, "c")
	if r.Status.Pending != nil {
		t.Error("it still waits when its rollout has begun")
	}
}
