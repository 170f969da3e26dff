package e2e

import (
	"context"
	"errors"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"kumodo.io/convoy/internal/delivery"
)

func (s *scene) clusterWorkflow(name string) string { return delivery.ClusterWorkflowID(s.ns, name) }

func (s *scene) releaseWorkflow(name string) string { return delivery.ReleaseWorkflowID(s.ns, name) }

// history is the history of the newest run of a workflow; empty when there is none.
func (s *scene) history(workflowID string) []*historypb.HistoryEvent {
	s.Helper()
	var events []*historypb.HistoryEvent
	i := s.temporal.GetWorkflowHistory(s.ctx, workflowID, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for i.HasNext() {
		e, err := i.Next()
		if notFound := (*serviceerror.NotFound)(nil); errors.As(err, &notFound) {
			return nil
		}
		s.must(err)
		events = append(events, e)
	}
	return events
}

// scheduled counts how often each activity stands in a history, by its name, and child workflows by their type.
func scheduled(history []*historypb.HistoryEvent) map[string]int {
	n := map[string]int{}
	for _, e := range history {
		if a := e.GetActivityTaskScheduledEventAttributes(); a != nil {
			n[a.GetActivityType().GetName()]++
		}
		if c := e.GetStartChildWorkflowExecutionInitiatedEventAttributes(); c != nil {
			n[c.GetWorkflowType().GetName()]++
		}
	}
	return n
}

// describe is where the newest run of a workflow stands.
func (s *scene) describe(workflowID string) *workflowservice.DescribeWorkflowExecutionResponse {
	s.Helper()
	d, err := s.temporal.DescribeWorkflow(s.ctx, workflowID, "")
	s.must(err)
	return d.RawResponse
}

// pending is the pending activity of that name, nil when there is none.
func (s *scene) pending(workflowID, activity string) *workflowpb.PendingActivityInfo {
	s.Helper()
	for _, p := range s.describe(workflowID).GetPendingActivities() {
		if p.GetActivityType().GetName() == activity {
			return p
		}
	}
	return nil
}

// settled waits until nothing of a workflow is under way, and returns its history.
func (s *scene) settled(workflowID string) []*historypb.HistoryEvent {
	s.Helper()
	s.eventually(workflowID+" rests", func(context.Context) error {
		d := s.describe(workflowID)
		if len(d.GetPendingActivities()) > 0 || len(d.GetPendingChildren()) > 0 || d.GetPendingWorkflowTask() != nil {
			return errors.New("something is pending")
		}
		return nil
	})
	return s.history(workflowID)
}

// standing is where the newest run of a workflow stands, for the report of a failed test.
func (s *scene) standing(ctx context.Context, workflowID string) string {
	described, err := s.temporal.DescribeWorkflow(ctx, workflowID, "")
	if err != nil {
		return fmt.Sprintf("    workflow %s: %v\n", workflowID, err)
	}
	d := described.RawResponse
	info := d.GetWorkflowExecutionInfo()
	out := fmt.Sprintf("    workflow %s: %s, %d events, pending task: %v\n", workflowID, info.GetStatus(), info.GetHistoryLength(), d.GetPendingWorkflowTask())
	for _, p := range d.GetPendingActivities() {
		out += fmt.Sprintf("        activity %s: %s, attempt %d, last failure %q, next attempt %s\n", p.GetActivityType().GetName(),
			p.GetState(), p.GetAttempt(), p.GetLastFailure().GetMessage(), p.GetNextAttemptScheduleTime().AsTime())
	}
	return out
}
