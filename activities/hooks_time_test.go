package activities

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"k8s.io/apimachinery/pkg/types"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/apply"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/failure"
	"kumodo.io/convoy/internal/room"
)

// change updates the spec of the Release.
func (s *hookScene) change(how func(*v1alpha1.Release)) *v1alpha1.Release {
	s.Helper()
	var r v1alpha1.Release
	if err := s.hub.Get(s.Context(), types.NamespacedName{Namespace: "default", Name: "podinfo"}, &r); err != nil {
		s.Fatal(err)
	}
	how(&r)
	if err := s.hub.Update(s.Context(), &r); err != nil {
		s.Fatal(err)
	}
	return &r
}

func TestASuspensionBetweenTwoAttemptsStopsTheRunWhichThenHasAllOfItsTime(t *testing.T) {
	s := newHookScene(t, func(r *v1alpha1.Release) {
		r.Status.Hooks = []v1alpha1.HookStatus{runningSince(time.Now().Add(-55 * time.Second))}
	})
	s.answer.Store(http.StatusServiceUnavailable)
	if _, err := s.run(v1alpha1.HookPreApply, false); err == nil {
		t.Fatal("it does not wait for another attempt")
	}
	r := s.change(func(r *v1alpha1.Release) { r.Spec.Suspend = true })
	_, err := s.env.ExecuteActivity(s.acts.FetchSource, FetchInput{Key: delivery.Key{Namespace: r.Namespace, Name: r.Name, UID: string(r.UID)}})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.told(); got != "Running" {
		t.Errorf("while it is suspended the hub says %s", got)
	}
	s.change(func(r *v1alpha1.Release) { r.Spec.Suspend = false })
	if _, err := s.run(v1alpha1.HookPreApply, false); err == nil {
		t.Error("it does not wait for another attempt")
	}
	r = s.change(func(*v1alpha1.Release) {})
	if len(r.Status.Hooks) != 1 || time.Since(r.Status.Hooks[0].StartTime.Time) > 30*time.Second {
		t.Errorf("it has not begun anew: %+v", r.Status.Hooks)
	}
}

func TestAServerThatHangsHasTheTimeoutOfTheHookAndNoMore(t *testing.T) {
	s := newHookScene(t, func(r *v1alpha1.Release) {
		r.Status.Hooks = []v1alpha1.HookStatus{runningSince(time.Now().Add(-58 * time.Second))}
	})
	s.hanging.Store(true)
	began := time.Now()
	out, err := s.run(v1alpha1.HookPreApply, false)
	if err != nil || !strings.Contains(out.Message, "not done after 1m0s: http: the server did not answer in time") {
		t.Errorf("%+v, %v", out, err)
	}
	if took := time.Since(began); took > lastLook-3*time.Second {
		t.Errorf("it took %s, and two seconds were left", took)
	}
}

func TestAServerThatAsksForMoreTimeThanThereIsIsNotAskedAgain(t *testing.T) {
	s := newHookScene(t, func(*v1alpha1.Release) {})
	s.answer.Store(http.StatusServiceUnavailable)
	s.retryAfter.Store(3600)
	out, err := s.run(v1alpha1.HookPreApply, false)
	want := "HTTP status 503, and asks to wait for longer than its timeout of 1m0s leaves"
	if err != nil || !strings.Contains(out.Message, want) || s.sent.Load() != 1 {
		t.Errorf("%+v, %v, sent %d times; want %s", out, err, s.sent.Load(), want)
	}
	s = newHookScene(t, func(*v1alpha1.Release) {})
	s.answer.Store(http.StatusServiceUnavailable)
	s.retryAfter.Store(5)
	if out, err := s.run(v1alpha1.HookPreApply, false); err == nil {
		t.Errorf("it is not tried again: %+v", out)
	}
}

func TestWhyARunWhoseTimeIsOverIsNotDone(t *testing.T) {
	busy := failure.Transient(ReasonBusy, &room.BusyError{}, "others work there")
	for name, tc := range map[string]struct {
		waiting, recorded string
		err               error
		want              string
	}{
		"the last look waited for it":    {"Job a: 0 of 1", "before", errTimeOver, "Job a: 0 of 1"},
		"the target did not answer":      {"", "before", context.DeadlineExceeded, `Cluster "east": the API server did not answer in time`},
		"it said what it waits for":      {"", "before", failure.Transient(v1alpha1.ReasonHookFailed, nil, "http: 503"), "http: 503"},
		"there was no place":             {"", `Cluster "east": the API server did not answer in time`, busy, `Cluster "east": the API server did not answer in time`},
		"there never was a place":        {"", "", busy, "others work there"},
		"the time was over at once":      {"", "before", errTimeOver, "before"},
		"the hub was asked in vain":      {"", "before", apply.ErrHub, "before"},
		"nothing was made, and no cause": {"", "", apply.ErrTooLate, "it was interrupted before it had a result"},
	} {
		h := &hookStep{step: &step{release: rollingOut(3, "sha256:a")}, run: v1alpha1.HookStatus{Message: tc.recorded}}
		if got := h.lastReason(tc.waiting, tc.err); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestAWorkflowThatNobodyRunsNamesTheTaskQueue(t *testing.T) {
	for name, tc := range map[string]struct {
		polled time.Time
		want   string
	}{
		"never":          {time.Time{}, "waits for a worker: none polls task queue jobs"},
		"not any more":   {time.Now().Add(-4 * time.Minute), "waits for a worker: none polls task queue jobs"},
		"a moment since": {time.Now(), "has not ended"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHookScene(t, func(r *v1alpha1.Release) {
				r.Spec.Hooks[0].HTTP, r.Spec.Hooks[0].Workflow = nil, &v1alpha1.HookWorkflow{Type: "Migrate", TaskQueue: "jobs"}
				r.Spec.Hooks[0].Timeout.Duration = time.Second
			})
			s.flows.status, s.flows.polled = enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, tc.polled
			out, err := s.run(v1alpha1.HookPreApply, false)
			if err != nil || !strings.Contains(out.Message, "not done after 1s: workflow: hook/default/podinfo/3/notify/") || !strings.Contains(out.Message, tc.want) {
				t.Errorf("%+v, %v; want %s", out, err, tc.want)
			}
		})
	}
}

func TestARunThatBecameAnotherKindStopsItsWorkflow(t *testing.T) {
	s := newHookScene(t, func(r *v1alpha1.Release) { r.Status.Hooks = []v1alpha1.HookStatus{runningSince(time.Now())} })
	s.kind = "Workflow"
	if out, err := s.run(v1alpha1.HookPreApply, false); err != nil || out != (StepResult{}) || len(s.flows.cancelled) != 1 || s.sent.Load() != 1 {
		t.Errorf("%+v, %v; cancelled %v, sent %d times", out, err, s.flows.cancelled, s.sent.Load())
	}
}
