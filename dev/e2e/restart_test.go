package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// TestAStartDoesNotRepeatARolloutThatFailed runs alone: it stops convoy, and empties Temporal.
func TestAStartDoesNotRepeatARolloutThatFailed(t *testing.T) {
	s := newSerialScene(t)
	told := s.listen()
	s.readyCluster("prod", alpha)
	s.greeting("source", "hello")
	s.greeting("changed", "hello")
	broken := func(source string) {
		s.release(source, "prod", source, hooked(
			newHook("no", v1alpha1.HookPreApply, func(h *v1alpha1.Hook) { h.HTTP = &v1alpha1.HookHTTP{URL: "https://169.254.169.254/"} }), told.hook("told", v1alpha1.HookOnFailure),
		))
		s.awaitRelease(source, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonHookFailed)
	}
	broken("source")
	broken("changed")
	s.eventually("both failures were told", func(context.Context) error {
		if n := len(told.told()); n != 2 {
			return fmt.Errorf("%d were", n)
		}
		return nil
	})
	s.must(shared.stop())
	s.edit("changed", "something else")
	s.must(shared.start(s.ctx))
	s.awaitNumber("changed", 2)
	s.must(shared.kill())
	s.must(local.Temporal.Kill())
	s.must(local.Temporal.Start(s.ctx))
	s.must(shared.start(s.ctx))
	for _, name := range []string{"source", "changed"} {
		s.eventually("there is a workflow of "+name, func(ctx context.Context) error {
			_, err := temporal.DescribeWorkflow(ctx, s.releaseWorkflow(name), "")
			return err
		})
		s.awaitIdle(name)
	}
	for name, want := range map[string]int64{"source": 1, "changed": 2} {
		if r := s.getRelease(name); r.Status.Rollout.Number != want {
			t.Errorf("%s is at rollout %d, want %d", name, r.Status.Rollout.Number, want)
		}
	}
	change(s, &v1alpha1.Release{ObjectMeta: s.meta("source")}, func(r *v1alpha1.Release) {
		r.Annotations = map[string]string{v1alpha1.AnnotationRequestedAt: "again"}
	})
	s.awaitNumber("source", 2)
}

// awaitNumber waits until a rollout has failed.
func (s *scene) awaitNumber(release string, number int64) {
	s.Helper()
	s.eventually(fmt.Sprintf("rollout %d of %s has failed", number, release), func(context.Context) error {
		if o := s.getRelease(release).Status.Rollout; o.Number != number || o.Phase != v1alpha1.RolloutFailed {
			return fmt.Errorf("rollout %d is %s", o.Number, o.Phase)
		}
		return nil
	})
}
