package main

import (
	"context"
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
)

// sampleSize is how many workflows the histories are read of.
const sampleSize = 10

// history is what the histories of the sample hold.
type history struct {
	// Events counts events by type; those of an activity also name it: "ActivityTaskScheduled FetchSource".
	Events counts `json:"events"`
	// Retries are the attempts of activities after their first.
	Retries int `json:"retries"`
}

func (h history) minus(o history) history {
	return history{h.Events.minus(o.Events), h.Retries - o.Retries}
}

func isActivity(event, _ string) bool { return event == "ActivityTaskScheduled" }

func isChild(event, _ string) bool { return event == "ChildWorkflowExecutionStarted" }

// atRest waits until nothing of these workflows is under way. One by one: none of them wakes another.
func (w *world) atRest(ctx context.Context, ids []string) error {
	for _, id := range ids {
		err := poll(ctx, 50*time.Millisecond, func() error {
			d, err := w.temporal.DescribeWorkflow(ctx, id, "")
			if err != nil {
				return err
			}
			raw := d.RawResponse
			if len(raw.GetPendingActivities()) > 0 || len(raw.GetPendingChildren()) > 0 || raw.GetPendingWorkflowTask() != nil {
				return errors.New(id + " is at work")
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// histories reads the histories of workflows, and of their children, up to now.
func (w *world) histories(ctx context.Context, ids []string) (history, error) {
	h := history{Events: counts{}}
	for _, id := range ids {
		err := w.read(ctx, &h, id, "")
		if notFound := (*serviceerror.NotFound)(nil); errors.As(err, &notFound) {
			continue // not started yet
		}
		if err != nil {
			return h, err
		}
	}
	return h, nil
}

// read adds the history of one run, and of its children.
func (w *world) read(ctx context.Context, h *history, id, run string) error {
	events := w.temporal.GetWorkflowHistory(ctx, id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			return err
		}
		what := e.GetEventType().String()
		if a := e.GetActivityTaskScheduledEventAttributes(); a != nil {
			what += " " + a.GetActivityType().GetName()
		}
		h.Events[what]++
		if a := e.GetActivityTaskStartedEventAttributes(); a != nil {
			h.Retries += int(a.GetAttempt()) - 1
		}
		if c := e.GetChildWorkflowExecutionStartedEventAttributes(); c != nil {
			child := c.GetWorkflowExecution()
			if err := w.read(ctx, h, child.GetWorkflowId(), child.GetRunId()); err != nil {
				return err
			}
		}
	}
	return nil
}
