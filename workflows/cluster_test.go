package workflows_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/activities"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/workflows"
)

var (
	acts    *activities.Activities
	east    = delivery.Key{Namespace: "default", Name: "east", UID: "c-1"}
	changed = delivery.Kick{UID: "c-1", Generation: 1, Reason: delivery.KickChanged}
	resync  = delivery.Kick{UID: "c-1", Generation: 1, Reason: delivery.KickResync}
	gone    = delivery.Kick{UID: "c-1", Generation: 2, Reason: delivery.KickDeleting}
)

// newEnv is a test environment with every workflow and activity of convoy; the activities are to be mocked.
func newEnv(t *testing.T) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute)
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute}) // a machine under load is no deadlock
	env.RegisterWorkflowWithOptions(workflows.Cluster, workflow.RegisterOptions{Name: delivery.WorkflowCluster})
	env.RegisterWorkflowWithOptions(workflows.Release, workflow.RegisterOptions{Name: delivery.WorkflowRelease})
	env.RegisterWorkflowWithOptions(workflows.Rollout, workflow.RegisterOptions{Name: delivery.WorkflowRollout})
	env.RegisterWorkflowWithOptions(workflows.Source, workflow.RegisterOptions{Name: delivery.WorkflowSource})
	env.RegisterWorkflowWithOptions(workflows.Observer, workflow.RegisterOptions{Name: delivery.WorkflowObserver})
	env.RegisterActivity(&activities.Activities{})
	return env
}

// at calls f once, after d of the workflow's own time. The test environment begins to count anew with each child.
func at(env *testsuite.TestWorkflowEnvironment, d time.Duration, f func()) {
	env.RegisterDelayedCallback(sync.OnceFunc(f), d)
}

// stop ends a workflow that otherwise lives for ever.
func stop(env *testsuite.TestWorkflowEnvironment, d time.Duration) { at(env, d, env.CancelWorkflow) }

func probeFailed() error {
	return temporal.NewApplicationErrorWithOptions("connection refused", "ProbeFailed", temporal.ApplicationErrorOptions{
		NextRetryDelay: time.Minute, Category: temporal.ApplicationErrorCategoryBenign,
	})
}

// probes counts the probes and what they were asked.
type probes struct {
	forced, retrying int
	failures         []int
	pauses           []string
	answer           func(n int) (activities.ProbeResult, error)
}

func (p *probes) run(_ context.Context, in activities.ProbeInput) (activities.ProbeResult, error) {
	if in.After > 0 { // its first attempt only pauses
		p.pauses = append(p.pauses, in.After.String()+" "+in.Last)
		in.Failures++
	}
	p.failures = append(p.failures, in.Failures)
	if in.Forced {
		p.forced++
	} else {
		p.retrying++
	}
	out, err := p.answer(p.forced + p.retrying)
	if app := (*temporal.ApplicationError)(nil); in.Forced && errors.As(err, &app) {
		return activities.ProbeResult{Life: activities.Alive, Reason: app.Type(), Message: app.Message(), Retry: true, RetryAfter: metav1.Duration{Duration: time.Minute}}, nil
	}
	return out, err
}

func reachable(int) (activities.ProbeResult, error) {
	return activities.ProbeResult{Life: activities.Alive, Reachable: true, Reason: "Reachable"}, nil
}

func unreachable(int) (activities.ProbeResult, error) { return activities.ProbeResult{}, probeFailed() }

func runCluster(t *testing.T, p *probes, script func(*testsuite.TestWorkflowEnvironment)) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	env := newEnv(t)
	env.OnActivity(acts.ProbeCluster, mock.Anything, mock.Anything).Return(p.run).Maybe()
	script(env)
	env.ExecuteWorkflow(delivery.WorkflowCluster, delivery.ClusterInput{Key: east})
	if !env.IsWorkflowCompleted() {
		t.Fatal("the workflow did not end")
	}
	return env
}

func TestManyKicksThatComeTogetherCostTwoProbesAtTheMost(t *testing.T) {
	p := &probes{answer: reachable}
	runCluster(t, p, func(env *testsuite.TestWorkflowEnvironment) {
		at(env, time.Second, func() {
			for range 20 {
				env.SignalWorkflow(delivery.SignalKick, changed)
			}
		})
		stop(env, time.Hour)
	})
	if p.retrying < 1 || p.retrying > 2 { // one that began with the first kick, and one for all others
		t.Errorf("%d probes, want 1 or 2", p.retrying)
	}
}

func TestAResyncOrASuspicionProbesAgainButLeavesABackoffAlone(t *testing.T) {
	for _, reason := range []delivery.KickReason{delivery.KickResync, delivery.KickSuspected} {
		kick := delivery.Kick{UID: "c-1", Generation: 1, Reason: reason}
		p := &probes{answer: func(n int) (activities.ProbeResult, error) {
			if n == 1 {
				return reachable(n)
			}
			return unreachable(n)
		}}
		runCluster(t, p, func(env *testsuite.TestWorkflowEnvironment) {
			at(env, 0, func() { env.SignalWorkflow(delivery.SignalKick, changed) })
			at(env, time.Minute, func() { env.SignalWorkflow(delivery.SignalKick, kick) })
			at(env, time.Minute+10*time.Second, func() { env.SignalWorkflow(delivery.SignalKick, kick) })
			stop(env, time.Minute+30*time.Second)
		})
		if p.retrying != 2 {
			t.Errorf("%s: %d probes, want the first and that of the first kick", reason, p.retrying)
		}
	}
}

func TestAClusterThatVanishedWithoutItsFinalizerEndsItsWorkflowAlsoInABackoff(t *testing.T) {
	p := &probes{answer: func(n int) (activities.ProbeResult, error) {
		if n == 1 {
			return unreachable(n)
		}
		return activities.ProbeResult{Life: activities.Gone}, nil
	}}
	env := runCluster(t, p, func(env *testsuite.TestWorkflowEnvironment) {
		at(env, 0, func() { env.SignalWorkflow(delivery.SignalKick, changed) })
		at(env, 5*time.Second, func() { env.SignalWorkflow(delivery.SignalKick, delivery.Kick{Reason: delivery.KickGone}) })
	})
	if err := env.GetWorkflowError(); err != nil || p.retrying != 2 {
		t.Errorf("after %d probes the workflow ended with %v", p.retrying, err)
	}
}

func TestAChangeStartsAFreshProbeInTheMiddleOfABackoff(t *testing.T) {
	p := &probes{answer: func(n int) (activities.ProbeResult, error) {
		if n < 2 {
			return unreachable(n)
		}
		return reachable(n)
	}}
	runCluster(t, p, func(env *testsuite.TestWorkflowEnvironment) {
		at(env, 0, func() { env.SignalWorkflow(delivery.SignalKick, changed) })
		at(env, 5*time.Second, func() { env.SignalWorkflow(delivery.SignalKick, changed) })
		stop(env, 30*time.Second)
	})
	if p.retrying != 2 || p.failures[1] != 0 {
		t.Errorf("%d probes after failures %v, want 2 and a fresh count", p.retrying, p.failures)
	}
}

func TestTheUpdateReprobeAnswersOnADeadClusterAndTheRetryingGoesOn(t *testing.T) {
	p := &probes{answer: unreachable}
	var answer activities.ProbeResult
	runCluster(t, p, func(env *testsuite.TestWorkflowEnvironment) {
		at(env, 0, func() { env.SignalWorkflow(delivery.SignalKick, changed) })
		at(env, 10*time.Second, func() {
			env.UpdateWorkflow(delivery.UpdateReprobe, "u1", &testsuite.TestUpdateCallback{
				OnReject: func(err error) { t.Errorf("rejected: %v", err) },
				OnAccept: func() {},
				OnComplete: func(out any, err error) {
					if err != nil {
						t.Errorf("the update failed: %v", err)
						return
					}
					answer = out.(activities.ProbeResult)
				},
			})
		})
		stop(env, 90*time.Second)
	})
	if answer.Reason != "ProbeFailed" || answer.Message != "connection refused" {
		t.Errorf("answer = %+v, want the verdict of the probe", answer)
	}
	if len(p.pauses) == 0 || p.pauses[0] != "1m0s connection refused" {
		t.Errorf("the probe after the forced one pauses %v", p.pauses)
	}
	if p.forced != 1 || p.retrying < 3 {
		t.Errorf("%d forced and %d retrying probes, want 1 and the retries of before and after", p.forced, p.retrying)
	}
	for i := 1; i < len(p.failures); i++ {
		if p.failures[i] < p.failures[i-1] {
			t.Errorf("failures before each probe %v: the count went back", p.failures)
		}
	}
}

func TestTheSignalReprobeNeedsNoInput(t *testing.T) {
	p := &probes{answer: reachable}
	runCluster(t, p, func(env *testsuite.TestWorkflowEnvironment) {
		at(env, time.Second, func() { env.SignalWorkflow(delivery.SignalReprobe, nil) })
		stop(env, time.Minute)
	})
	if p.forced != 1 || p.retrying != 0 {
		t.Errorf("%d forced and %d retrying probes, want one forced", p.forced, p.retrying)
	}
}

func TestADeletionEndsTheWorkflowAndItsProbe(t *testing.T) {
	p := &probes{answer: unreachable}
	env := runCluster(t, p, func(env *testsuite.TestWorkflowEnvironment) {
		env.OnActivity(acts.FinalizeCluster, mock.Anything, mock.Anything).Return(activities.ObjectResult{Life: activities.Gone}, nil).Once()
		at(env, 0, func() { env.SignalWorkflow(delivery.SignalKick, changed) })
		at(env, 5*time.Second, func() { env.SignalWorkflow(delivery.SignalKick, gone) })
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Errorf("the workflow ended with %v", err)
	}
	env.AssertExpectations(t)
}

func TestAnObjectCreatedAnewUnderTheSameNameIsANewLife(t *testing.T) {
	var seen []string
	env := newEnv(t)
	env.OnActivity(acts.ProbeCluster, mock.Anything, mock.Anything).Return(func(_ context.Context, in activities.ProbeInput) (activities.ProbeResult, error) {
		seen = append(seen, in.Key.UID)
		return reachable(1)
	})
	env.OnActivity(acts.FinalizeCluster, mock.Anything, mock.Anything).Return(activities.ObjectResult{Life: activities.Gone}, nil)
	at(env, 0, func() { env.SignalWorkflow(delivery.SignalKick, changed) })
	at(env, time.Second, func() {
		env.SignalWorkflow(delivery.SignalKick, gone)
		env.SignalWorkflow(delivery.SignalKick, delivery.Kick{UID: "c-2", Reason: delivery.KickChanged})
	})
	stop(env, time.Minute)
	env.ExecuteWorkflow(delivery.WorkflowCluster, delivery.ClusterInput{Key: east})
	if len(seen) != 2 || seen[0] != "c-1" || seen[1] != "c-2" {
		t.Errorf("probed %v, want the old life and then the new one", seen)
	}
}

func TestAGrownHistoryContinuesAsNewWithTheFailuresAndTheProbe(t *testing.T) {
	p := &probes{answer: unreachable}
	env := runCluster(t, p, func(env *testsuite.TestWorkflowEnvironment) {
		at(env, 0, func() { env.SignalWorkflow(delivery.SignalKick, changed) })
		at(env, 90*time.Second, func() {
			env.SetCurrentHistoryLength(5000)
			env.SignalWorkflow(delivery.SignalKick, resync)
		})
	})
	in := continued[delivery.ClusterInput](t, env)
	if !in.Probing || in.Failures < 2 || in.Key != east {
		t.Errorf("continues with %+v, want the probe and its failures", in)
	}

	next := newEnv(t)
	next.OnActivity(acts.ProbeCluster, mock.Anything, mock.Anything).Return(p.run)
	p.failures = nil
	stop(next, time.Second)
	next.ExecuteWorkflow(delivery.WorkflowCluster, in)
	if len(p.failures) != 1 || p.failures[0] != in.Failures {
		t.Errorf("the next run probes after %v failures, want %d", p.failures, in.Failures)
	}
}

// continued is the input that a workflow continued as new with.
func continued[In any](t *testing.T, env *testsuite.TestWorkflowEnvironment) (in In) {
	t.Helper()
	var next *workflow.ContinueAsNewError
	if !errors.As(env.GetWorkflowError(), &next) {
		t.Fatalf("the workflow ended with %v, want a continue-as-new", env.GetWorkflowError())
	}
	if err := env.GetWorkflowResult(nil); err == nil {
		t.Fatal("a continue-as-new has no result")
	}
	if err := decode(next, &in); err != nil {
		t.Fatal(err)
	}
	return in
}
