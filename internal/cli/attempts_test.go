package cli

import (
	"strings"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/activities"
	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// past writes the history of a run, one event a second.
type past struct {
	t      *testing.T
	events []*historypb.HistoryEvent
}

func (p *past) add(e *historypb.HistoryEvent) int64 {
	e.EventId = int64(len(p.events) + 1)
	e.EventTime = timestamppb.New(noon.Add(time.Duration(len(p.events))*time.Second - time.Minute))
	p.events = append(p.events, e)
	return e.EventId
}

func (p *past) payloads(value any) *commonpb.Payloads {
	p.t.Helper()
	out, err := converter.GetDefaultDataConverter().ToPayloads(value)
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

func (p *past) begins(uid string) {
	p.t.Helper()
	p.add(&historypb.HistoryEvent{EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED, Attributes: &historypb.HistoryEvent_WorkflowExecutionStartedEventAttributes{
		WorkflowExecutionStartedEventAttributes: &historypb.WorkflowExecutionStartedEventAttributes{Input: p.payloads(delivery.RolloutInput{Key: delivery.Key{UID: uid}})},
	}})
}

func (p *past) schedules(id, name, summary string, in any) int64 {
	p.t.Helper()
	return p.add(&historypb.HistoryEvent{
		EventType: enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, UserMetadata: &sdkpb.UserMetadata{Summary: p.payloads(summary).GetPayloads()[0]},
		Attributes: &historypb.HistoryEvent_ActivityTaskScheduledEventAttributes{ActivityTaskScheduledEventAttributes: &historypb.ActivityTaskScheduledEventAttributes{
			ActivityId: id, ActivityType: &commonpb.ActivityType{Name: name}, Input: p.payloads(in),
		}},
	})
}

// starts is the last attempt of a step; Temporal writes it when the step has ended.
func (p *past) starts(scheduled int64, attempt int32, last *failurepb.Failure) {
	p.add(&historypb.HistoryEvent{EventType: enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED, Attributes: &historypb.HistoryEvent_ActivityTaskStartedEventAttributes{
		ActivityTaskStartedEventAttributes: &historypb.ActivityTaskStartedEventAttributes{ScheduledEventId: scheduled, Attempt: attempt, LastFailure: last, Identity: "w1"},
	}})
}

func (p *past) completes(scheduled int64, out activities.StepResult) {
	p.t.Helper()
	p.add(&historypb.HistoryEvent{EventType: enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED, Attributes: &historypb.HistoryEvent_ActivityTaskCompletedEventAttributes{
		ActivityTaskCompletedEventAttributes: &historypb.ActivityTaskCompletedEventAttributes{ScheduledEventId: scheduled, Result: p.payloads(out)},
	}})
}

func failed(reason, message string) *failurepb.Failure {
	return &failurepb.Failure{Message: message, FailureInfo: &failurepb.Failure_ApplicationFailureInfo{
		ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{Type: reason},
	}}
}

func hookOf(name string, phase v1alpha1.HookPhase, rollout int64) activities.HookInput {
	return activities.HookInput{Hook: delivery.HookRef{Name: name, Phase: phase}, Rollout: delivery.RolloutInput{Number: rollout}}
}

func TestAttemptsAreWhatTheHistoryOfTheWorkflowTells(t *testing.T) {
	apply := func(p *past) int64 {
		return p.schedules("1", "ApplyObjects", "apply to Cluster east", delivery.RolloutInput{})
	}
	hook := func(p *past, rollout int64) int64 {
		return p.schedules("1", "RunHook", "hook PreApply migrate: Job", hookOf("migrate", v1alpha1.HookPreApply, rollout))
	}
	r := newRelease("web")
	r.Status.Hooks = []v1alpha1.HookStatus{{Name: "migrate", Phase: v1alpha1.HookPreApply, Rollout: 3, State: v1alpha1.HookFailed, Message: "it failed"}}
	for name, c := range map[string]struct {
		happened func(*past)
		pending  []pastStep
		want     string
	}{
		"a step that was retried": {func(p *past) {
			s := apply(p)
			p.starts(s, 3, failed("ApplyRetrying", "no answer"))
			p.completes(s, activities.StepResult{Applied: 2})
		}, nil, "ApplyObjects | apply to Cluster east | done | 3 | 60s | 2s | attempt 2: ApplyRetrying: no answer"},
		"a step that failed for good, as a result": {func(p *past) {
			s := apply(p)
			p.starts(s, 1, nil)
			p.completes(s, activities.StepResult{Phase: v1alpha1.RolloutFailed, Reason: "Conflict", Message: "of another"})
		}, nil, "ApplyObjects | apply to Cluster east | failed | 1 | 60s | 2s | Conflict: of another"},
		"a step that failed for good": {func(p *past) {
			s := apply(p)
			p.starts(s, 2, failed("Internal", "x"))
			p.add(&historypb.HistoryEvent{EventType: enumspb.EVENT_TYPE_ACTIVITY_TASK_FAILED, Attributes: &historypb.HistoryEvent_ActivityTaskFailedEventAttributes{
				ActivityTaskFailedEventAttributes: &historypb.ActivityTaskFailedEventAttributes{ScheduledEventId: s, Failure: failed("Panic", "y")},
			}})
		}, nil, "ApplyObjects | apply to Cluster east | failed | 2 | 60s | 2s | Panic: y; attempt 1: Internal: x"},
		"a step that ran out of time": {func(p *past) {
			s := apply(p)
			p.starts(s, 1, nil)
			p.add(&historypb.HistoryEvent{EventType: enumspb.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT, Attributes: &historypb.HistoryEvent_ActivityTaskTimedOutEventAttributes{
				ActivityTaskTimedOutEventAttributes: &historypb.ActivityTaskTimedOutEventAttributes{ScheduledEventId: s, Failure: &failurepb.Failure{Message: "activity StartToClose timeout"}},
			}})
		}, nil, "ApplyObjects | apply to Cluster east | timed out | 1 | 60s | 2s | activity StartToClose timeout"},
		"a step that was cancelled before it began": {func(p *past) {
			s := apply(p)
			p.add(&historypb.HistoryEvent{EventType: enumspb.EVENT_TYPE_ACTIVITY_TASK_CANCELED, Attributes: &historypb.HistoryEvent_ActivityTaskCanceledEventAttributes{
				ActivityTaskCanceledEventAttributes: &historypb.ActivityTaskCanceledEventAttributes{ScheduledEventId: s},
			}})
		}, nil, "ApplyObjects | apply to Cluster east | cancelled | - | 60s | 1s | -"},
		"a step that was superseded": {func(p *past) {
			s := apply(p)
			p.starts(s, 1, nil)
			p.completes(s, activities.StepResult{Superseded: true})
		}, nil, "ApplyObjects | apply to Cluster east | superseded | 1 | 60s | 2s | -"},
		"a step that waits for its next attempt": {
			func(p *past) { apply(p) },
			[]pastStep{{id: "1", State: "waiting for its next attempt", Attempt: 4, LastFailure: "ApplyRetrying: no answer"}},
			"ApplyObjects | apply to Cluster east | waiting for its next attempt | 4 | 60s | - | attempt 3: ApplyRetrying: no answer",
		},
		"a step of a workflow that was terminated": {func(p *past) { apply(p) }, nil, "ApplyObjects | apply to Cluster east | not ended | - | 60s | - | -"},
		"a hook that the hub remembers": {func(p *past) {
			s := hook(p, 3)
			p.starts(s, 1, nil)
			p.completes(s, activities.StepResult{})
		}, nil, "RunHook | hook PreApply migrate: Job | failed | 1 | 60s | 2s | it failed"},
		"a hook of a rollout before": {func(p *past) {
			s := hook(p, 2)
			p.starts(s, 1, nil)
			p.completes(s, activities.StepResult{})
		}, nil, "RunHook | hook PreApply migrate: Job | ended | 1 | 60s | 2s | -"},
		"a hook that failed a rollout before": {func(p *past) {
			s := hook(p, 2)
			p.starts(s, 1, nil)
			p.completes(s, activities.StepResult{Phase: v1alpha1.RolloutFailed, Reason: "HookFailed", Message: "hook migrate failed"})
		}, nil, "RunHook | hook PreApply migrate: Job | failed | 1 | 60s | 2s | HookFailed: hook migrate failed"},
	} {
		p := &past{t: t}
		c.happened(p)
		steps := stepsOf(p.events, c.pending, r)
		if len(steps) != 1 {
			t.Errorf("%s: %d steps", name, len(steps))
			continue
		}
		row := steps[0].row(noon)
		for i := range row {
			if row[i] == "" {
				row[i] = "-"
			}
		}
		if got := strings.Join(row, " | "); got != c.want {
			t.Errorf("%s:\n%s, want\n%s", name, got, c.want)
		}
	}
}

func TestAttemptsOfAnotherLifeAreNotShown(t *testing.T) {
	p := &past{t: t}
	p.begins("uid-1")
	if got := lifeOf(p.events); got != "uid-1" {
		t.Errorf("it is of life %q", got)
	}
	if got := lifeOf(nil); got != "" {
		t.Errorf("without events it is of life %q", got)
	}
}

func TestAttemptsArePrintedByRun(t *testing.T) {
	r := newRelease("web")
	rolled(r)
	record := historyOf(r).Rollouts[1]
	a := attempts{Namespace: "web", Release: "app", Number: 1, Record: &record, Runs: []run{
		{Workflow: "rollout/web/app/1", Run: "r1", Status: "Canceled", Steps: []pastStep{{Name: "RunHook", Summary: "hook PreApply migrate: Job", State: "cancelled", Attempt: 1, StartTime: metav1.NewTime(noon.Add(-time.Minute))}}},
		{Workflow: "rollout/web/app/1", Run: "r2", Status: "Completed"},
	}}
	var out strings.Builder
	if err := a.write(&out, noon); err != nil {
		t.Fatal(err)
	}
	printed(t, out.String(), `
Rollout:   1 of Release web/app
Phase:     Succeeded
Render:    `+digest("aa1")+`
Revision:  v1
Trigger:   Created
Cluster:   east
Started:   10m ago
Took:      7s

Workflow rollout/web/app/1, canceled, run r1
STEP      WHAT                         STATE       ATTEMPT   AGE   TOOK   MESSAGE
RunHook   hook PreApply migrate: Job   cancelled   1         60s   -      -

Workflow rollout/web/app/1, completed, run r2
STEP   WHAT   STATE   ATTEMPT   AGE   TOOK   MESSAGE
`)
}

func TestHistoryOfARolloutNeedsTemporalAndSuchARollout(t *testing.T) {
	w := newWorld(t)
	w.release(rolled)
	w.refused("Temporal at 127.0.0.1:1: ", "history", "app", "--rollout=1")
	w.refused("Release NS/app has had no rollout 3; convoy history shows those that it had", "history", "app", "--rollout=3")
	w.refused("Release NS/app has had no rollout 0", "history", "app", "--rollout=0")
}
