package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"kumodo.io/convoy/api/v1alpha1"
)

func TestAReleaseWhoseWorkflowSomebodyEndedIsReconciledAgainAfterTheNextResync(t *testing.T) {
	s := newScene(t)
	s.greeting("source", "hello")
	s.auditedCluster("prod", "audited-"+s.ns)
	s.release("app", "prod", "source", func(r *v1alpha1.Release) { r.Spec.SyncPolicy.Interval.Duration = time.Hour })
	s.awaitDelivered("app")
	id := s.releaseWorkflow("app")
	before, err := temporal.DescribeWorkflow(s.ctx, id, "")
	s.must(err)
	s.must(temporal.TerminateWorkflow(s.ctx, id, "", "by a person"))
	s.eventually("another run has looked at the Release", func(ctx context.Context) error {
		now, err := temporal.DescribeWorkflow(ctx, id, "")
		if err != nil {
			return err
		}
		run, events := now.WorkflowExecution.RunID, now.RawResponse.GetWorkflowExecutionInfo().GetHistoryLength()
		if run == before.WorkflowExecution.RunID || events < 12 {
			return fmt.Errorf("run %s has %d events", run, events)
		}
		return nil
	})
	if got := s.getRelease("app").Status.Rollout.Number; got != 1 {
		t.Errorf("rollout %d, want no other than the first", got)
	}
}
