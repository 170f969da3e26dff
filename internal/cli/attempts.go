package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"kumodo.io/convoy/activities"
	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// attempts are what Temporal remembers of one rollout.
type attempts struct {
	Namespace string `json:"namespace"`
	Release   string `json:"release"`
	Number    int64  `json:"rollout"`
	// Record is what the hub knows of it; absent when its history is longer than the hub keeps.
	Record *rollout `json:"record,omitempty"`
	// Runs of its workflow, the first one first. A rollout that was stopped by a suspension goes on in another run.
	Runs []run `json:"runs"`
}

// run is one run of the workflow of a rollout.
type run struct {
	Workflow string     `json:"workflow"`
	Run      string     `json:"run"`
	Status   string     `json:"status"`
	Steps    []pastStep `json:"steps,omitempty"`
}

// pastStep is an activity of a rollout, which may have ended.
type pastStep struct {
	Name string `json:"name"`
	// Summary is what the workflow said of it, such as the name of a hook.
	Summary string `json:"summary,omitempty"`
	State   string `json:"state"`
	// Message is what it ended with, when there is something to say.
	Message string `json:"message,omitempty"`
	// Attempt is the number of the last one, or of the next one while it waits for that; 0 when none has begun.
	Attempt int32 `json:"attempt"`
	// LastFailure is how the attempt before that one failed. Temporal keeps no earlier ones.
	LastFailure string `json:"lastFailure,omitempty"`
	// StartTime is when it was due, EndTime when it was over, with all attempts and the pauses between them.
	StartTime metav1.Time  `json:"startTime"`
	EndTime   *metav1.Time `json:"endTime,omitempty"`
	Worker    string       `json:"worker,omitempty"`
	id        string
}

// attemptsOf asks Temporal for a rollout of a Release.
func (e *engine) attemptsOf(ctx context.Context, r *v1alpha1.Release, number int64) (*attempts, error) {
	if r.Status.Rollout == nil || number < 1 || number > r.Status.Rollout.Number {
		return nil, fmt.Errorf("Release %s/%s has had no rollout %d; convoy history shows those that it had", r.Namespace, r.Name, number) //nolint:staticcheck // a kind
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	out := &attempts{Namespace: r.Namespace, Release: r.Name, Number: number}
	for _, known := range historyOf(r).Rollouts {
		if known.Number == number {
			out.Record = &known
		}
	}
	id := delivery.RolloutWorkflowID(r.Namespace, r.Name, number)
	runs, err := e.runsOf(ctx, id)
	if err != nil {
		return nil, err
	}
	for _, found := range runs {
		events, err := e.events(ctx, id, found.Run)
		if err != nil {
			return nil, err
		}
		if uid := lifeOf(events); uid != string(r.UID) {
			continue // a Release of that name was there before
		}
		found.Steps = stepsOf(events, found.Steps, r)
		out.Runs = append(out.Runs, found)
	}
	if len(out.Runs) == 0 {
		return nil, e.forgotten(id)
	}
	return out, nil
}

func (e *engine) forgotten(id string) error {
	return fmt.Errorf("namespace %s of Temporal at %s has no workflow %s: it keeps an ended workflow only for the retention of the namespace; without --rollout, convoy history shows what the hub remembers",
		e.namespace, e.address, id)
}

// runsOf lists the runs of a workflow that Temporal has, the first one first. The newest comes with the steps that it is at.
func (e *engine) runsOf(ctx context.Context, id string) ([]run, error) {
	newest, err := e.DescribeWorkflow(ctx, id, "")
	if _, missing := errors.AsType[*serviceerror.NotFound](err); missing {
		return nil, e.forgotten(id)
	}
	if err != nil {
		return nil, fmt.Errorf("Temporal at %s: %w", e.address, err) //nolint:staticcheck // a name
	}
	info := newest.RawResponse.GetWorkflowExecutionInfo()
	last := run{Workflow: id, Run: info.GetExecution().GetRunId(), Status: info.GetStatus().String()}
	for _, p := range newest.RawResponse.GetPendingActivities() {
		s := stepOf(p)
		last.Steps = append(last.Steps, pastStep{id: p.GetActivityId(), State: s.State, Attempt: s.Attempt, LastFailure: s.Failure, Worker: s.Worker})
	}
	all := []run{last}
	// The list lags behind by moments, so the newest run may not be in it.
	var page []byte
	for {
		listed, err := e.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: "WorkflowId = '" + id + "'", NextPageToken: page})
		if err != nil {
			return nil, fmt.Errorf("Temporal at %s: %w", e.address, err) //nolint:staticcheck // a name
		}
		for _, x := range listed.GetExecutions() {
			if x.GetExecution().GetRunId() != last.Run {
				all = append(all, run{Workflow: id, Run: x.GetExecution().GetRunId(), Status: x.GetStatus().String()})
			}
		}
		if page = listed.GetNextPageToken(); len(page) == 0 {
			slices.Reverse(all) // it lists the newest first
			return all, nil
		}
	}
}

func (e *engine) events(ctx context.Context, id, run string) (all []*historypb.HistoryEvent, err error) {
	found := e.GetWorkflowHistory(ctx, id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for found.HasNext() {
		event, err := found.Next()
		if _, missing := errors.AsType[*serviceerror.NotFound](err); missing {
			return nil, e.forgotten(id)
		}
		if err != nil {
			return nil, fmt.Errorf("Temporal at %s: %w", e.address, err) //nolint:staticcheck // a name
		}
		all = append(all, event)
	}
	return all, nil
}

// lifeOf is the UID of the Release that a rollout was begun for.
func lifeOf(events []*historypb.HistoryEvent) string {
	var in delivery.RolloutInput
	for _, event := range events {
		if a := event.GetWorkflowExecutionStartedEventAttributes(); a != nil {
			_ = converter.GetDefaultDataConverter().FromPayloads(a.GetInput(), &in) // what cannot be read is not of this life
		}
	}
	return in.Key.UID
}

// stepsOf makes of the events of a run the steps that it took, in their order. pending are those that have not ended, of which
// the events tell no more than that they are due.
func stepsOf(events []*historypb.HistoryEvent, pending []pastStep, r *v1alpha1.Release) []pastStep {
	t := tale{release: r, steps: map[int64]*pastStep{}, hooks: map[int64]activities.HookInput{}}
	for _, event := range events {
		t.tell(event)
	}
	out := make([]pastStep, 0, len(t.order))
	for _, s := range t.order {
		i := slices.IndexFunc(pending, func(p pastStep) bool { return p.id == s.id })
		if i >= 0 && s.EndTime == nil {
			p := pending[i]
			s.State, s.Attempt, s.LastFailure, s.Worker = p.State, p.Attempt, p.LastFailure, p.Worker
		}
		out = append(out, *s)
	}
	return out
}

// tale is what the events told so far; its maps are by the event that scheduled a step.
type tale struct {
	release *v1alpha1.Release
	order   []*pastStep
	steps   map[int64]*pastStep
	hooks   map[int64]activities.HookInput
}

func (t *tale) tell(event *historypb.HistoryEvent) {
	switch event.GetEventType() {
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
		t.scheduled(event)
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED:
		a := event.GetActivityTaskStartedEventAttributes()
		if s := t.steps[a.GetScheduledEventId()]; s != nil {
			s.Attempt, s.LastFailure, s.Worker = a.GetAttempt(), failureOf(a.GetLastFailure()), a.GetIdentity()
		}
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
		a := event.GetActivityTaskCompletedEventAttributes()
		state, message := t.outcome(a.GetScheduledEventId(), a.GetResult())
		t.ended(event, a.GetScheduledEventId(), state, message)
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_FAILED:
		a := event.GetActivityTaskFailedEventAttributes()
		t.ended(event, a.GetScheduledEventId(), "failed", failureOf(a.GetFailure()))
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT:
		a := event.GetActivityTaskTimedOutEventAttributes()
		t.ended(event, a.GetScheduledEventId(), "timed out", failureOf(a.GetFailure()))
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_CANCELED:
		t.ended(event, event.GetActivityTaskCanceledEventAttributes().GetScheduledEventId(), "cancelled", "")
	}
}

func (t *tale) scheduled(event *historypb.HistoryEvent) {
	a, data := event.GetActivityTaskScheduledEventAttributes(), converter.GetDefaultDataConverter()
	s := &pastStep{id: a.GetActivityId(), Name: a.GetActivityType().GetName(), State: "not ended", StartTime: metav1.NewTime(event.GetEventTime().AsTime())}
	if summary := event.GetUserMetadata().GetSummary(); summary != nil {
		_ = data.FromPayload(summary, &s.Summary) // a step without a name for people is shown all the same
	}
	var in activities.HookInput
	if s.Name == "RunHook" && data.FromPayloads(a.GetInput(), &in) == nil {
		t.hooks[event.GetEventId()] = in
	}
	t.order = append(t.order, s)
	t.steps[event.GetEventId()] = s
}

func (t *tale) ended(event *historypb.HistoryEvent, scheduled int64, state, message string) {
	if s := t.steps[scheduled]; s != nil {
		s.State, s.Message, s.EndTime = state, message, &metav1.Time{Time: event.GetEventTime().AsTime()}
	}
}

// outcome is what a step ended in that came to a result. That of a hook is on the hub, as long as no other rollout ran it.
func (t *tale) outcome(scheduled int64, result *commonpb.Payloads) (state, message string) {
	var out activities.StepResult
	if converter.GetDefaultDataConverter().FromPayloads(result, &out) != nil {
		return "done", ""
	}
	in, isHook := t.hooks[scheduled]
	run := delivery.HookRunOf(t.release, in.Hook.Name, in.Hook.Phase, in.Rollout.Number)
	switch {
	case out.Superseded:
		return "superseded", ""
	case isHook && delivery.HookEnded(run):
		return strings.ToLower(string(run.State)), run.Message
	case out.Phase == activities.PhaseFailed:
		return "failed", joined(out.Reason, out.Message)
	case isHook:
		return "ended", ""
	}
	return "done", ""
}

// write prints the attempts for people.
func (a *attempts) write(out io.Writer, now time.Time) error {
	pairs := []string{"Rollout", fmt.Sprintf("%d of Release %s/%s", a.Number, a.Namespace, a.Release)}
	if r := a.Record; r != nil {
		took := ""
		if r.EndTime != nil {
			took = duration.HumanDuration(r.EndTime.Sub(r.StartTime.Time))
		}
		pairs = append(pairs, "Phase", joined(string(r.Phase), joined(r.Reason, r.Message)), "Render", r.Digest, "Revision", r.Revision,
			"Trigger", string(r.Trigger), "Cluster", r.Cluster, "Started", ago(r.StartTime, now), "Took", took)
	}
	err := facts(out, pairs...)
	for _, r := range a.Runs {
		fmt.Fprintf(out, "\nWorkflow %s, %s, run %s\n", r.Workflow, strings.ToLower(r.Status), r.Run)
		rows := make([][]string, 0, len(r.Steps))
		for _, s := range r.Steps {
			rows = append(rows, s.row(now))
		}
		err = errors.Join(err, table(out, []string{"STEP", "WHAT", "STATE", "ATTEMPT", "AGE", "TOOK", "MESSAGE"}, rows))
	}
	return err
}

func (s *pastStep) row(now time.Time) []string {
	took, failed := "", ""
	if s.EndTime != nil {
		took = duration.HumanDuration(s.EndTime.Sub(s.StartTime.Time))
	}
	if s.LastFailure != "" {
		failed = fmt.Sprintf("attempt %d: %s", s.Attempt-1, s.LastFailure)
	}
	said := strings.Join(slices.DeleteFunc([]string{s.Message, failed}, func(part string) bool { return part == "" }), "; ")
	return []string{s.Name, s.Summary, s.State, count(int(s.Attempt)), age(s.StartTime, now), took, said}
}
