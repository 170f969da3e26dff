package worker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"kumodo.io/convoy/internal/delivery"
)

// served is a namespace of Temporal, as far as its one workflow of a fixed ID goes.
type served struct {
	client.Client
	status  enumspb.WorkflowExecutionStatus
	memo    map[string]any
	fails   []error // what the next looks fail with
	starts  int
	between func() // happens before a start
}

func (s *served) DescribeWorkflow(_ context.Context, id, _ string) (*client.WorkflowExecutionDescription, error) {
	if err := next(&s.fails); err != nil {
		return nil, err
	}
	if id != delivery.HubWorkflowID || s.status == enumspb.WORKFLOW_EXECUTION_STATUS_UNSPECIFIED {
		return nil, serviceerror.NewNotFound("no such workflow")
	}
	fields := map[string]*commonpb.Payload{}
	for name, value := range s.memo {
		fields[name], _ = converter.GetDefaultDataConverter().ToPayload(value)
	}
	return &client.WorkflowExecutionDescription{RawResponse: &workflowservice.DescribeWorkflowExecutionResponse{
		WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{Status: s.status, Memo: &commonpb.Memo{Fields: fields}},
	}}, nil
}

func (s *served) ExecuteWorkflow(_ context.Context, o client.StartWorkflowOptions, _ any, _ ...any) (client.WorkflowRun, error) {
	if s.between != nil {
		s.between()
	}
	s.starts++
	running := s.status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	if !running || o.WorkflowIDConflictPolicy == enumspb.WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING {
		s.status, s.memo = enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, o.Memo
	}
	return nil, nil
}

func (s *served) serve(hub string) {
	s.status, s.memo = enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, map[string]any{delivery.MemoHub: hub}
}

func claimOf(s *served, hub string) *Claim {
	return NewClaim(s, "shared", &said{}, func(context.Context) (string, error) { return hub, nil })
}

func TestANamespaceOfTemporalIsClaimedOnceAndAnewWhenItWasEmptied(t *testing.T) {
	s := &served{}
	c := claimOf(s, "one")
	for range 2 {
		if err := c.hold(t.Context()); err != nil || s.starts != 1 {
			t.Fatalf("%v after %d starts", err, s.starts)
		}
	}
	for _, lost := range []enumspb.WorkflowExecutionStatus{enumspb.WORKFLOW_EXECUTION_STATUS_UNSPECIFIED, enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED} {
		before := s.starts
		s.status = lost
		if err := c.hold(t.Context()); err != nil || s.starts != before+1 {
			t.Errorf("%v after %d starts", err, s.starts-before)
		}
	}
}

func TestANamespaceThatServesAnotherHubIsRefusedWithTheWaysOut(t *testing.T) {
	for name, s := range map[string]*served{
		"it has for long":     {status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, memo: map[string]any{delivery.MemoHub: "one"}},
		"it has for a moment": {},
	} {
		t.Run(name, func(t *testing.T) {
			if s.status == enumspb.WORKFLOW_EXECUTION_STATUS_UNSPECIFIED {
				s.between = func() { s.serve("one") }
			}
			c := claimOf(s, "two")
			err := c.Start(t.Context())
			for _, words := range []string{"namespace shared of Temporal serves the hub one, and this is the hub two", "convoy.kumodo.io/hub-id", "convoy install claim --take-over"} {
				if err == nil || !strings.Contains(err.Error(), words) {
					t.Errorf("it ends with %v, want %q", err, words)
				}
			}
			if !errors.Is(c.Made(), ErrNotClaimed) {
				t.Error("the claim is made")
			}
		})
	}
}

func TestAWorkflowOfTheSameNameThatIsNotConvoysIsNoClaim(t *testing.T) {
	s := &served{status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING}
	if err := claimOf(s, "one").Start(t.Context()); err == nil || !strings.Contains(err.Error(), "has a workflow hub that is not convoy's") {
		t.Errorf("it ends with %v", err)
	}
}

func TestAClaimWaitsForTemporalAndSaysSoOnce(t *testing.T) {
	away := serviceerror.NewUnavailable("not yet")
	s := &served{fails: []error{away, away}}
	c := claimOf(s, "one")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	if !c.await(t.Context()) || c.Made() != nil {
		t.Error("the claim is not made")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := c.logger.(*said).lines; !slices.Equal(got, []string{"Temporal cannot be used yet; waiting for it"}) {
		t.Errorf("it said %q", got)
	}
}

func TestAHubThatTakesOverIsTheOneThatIsServed(t *testing.T) {
	s := &served{}
	s.serve("one")
	if err := TakeOver(t.Context(), s, "two"); err != nil {
		t.Fatal(err)
	}
	if err := claimOf(s, "two").hold(t.Context()); err != nil {
		t.Error(err)
	}
	if err := claimOf(s, "one").hold(t.Context()); err == nil {
		t.Error("the former hub still holds the claim")
	}
}
