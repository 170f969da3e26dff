package workflows_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"kumodo.io/convoy/activities"
	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/workflows"
)

var (
	podinfo = delivery.Key{Namespace: "default", Name: "podinfo", UID: "r-1"}
	edited  = delivery.Kick{UID: "r-1", Generation: 1, Reason: delivery.KickChanged}
	deleted = delivery.Kick{UID: "r-1", Generation: 2, Reason: delivery.KickDeleting}
)

func decode(next *workflow.ContinueAsNewError, in any) error {
	return converter.GetDefaultDataConverter().FromPayloads(next.Input, in)
}

// hub is what the activities of a Release would find, and the log of what was called.
type hub struct {
	mu  sync.Mutex // a clean-up runs beside other activities
	log []string
	// closed is how many looks at the gate fail before it opens; -1 for ever.
	closed   int
	upToDate bool
	rollout  int64
	apply    activities.StepResult
	// noteListed: a look because a watcher began is told from others.
	noteListed bool
}

func closedGate() error {
	return temporal.NewApplicationErrorWithOptions(`Cluster "east" is not reachable`, "ClusterNotReady", temporal.ApplicationErrorOptions{
		NextRetryDelay: 5 * time.Second, Category: temporal.ApplicationErrorCategoryBenign,
	})
}

func (h *hub) note(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log = append(h.log, what)
}

func (h *hub) install(env *testsuite.TestWorkflowEnvironment) {
	waited := false
	env.OnActivity(acts.FetchSource, mock.Anything, mock.Anything).Return(func(context.Context, activities.FetchInput) (activities.FetchResult, error) {
		h.note("fetch")
		return activities.FetchResult{Life: activities.Alive, Revision: "main@sha1:1", Cluster: "east", Interval: time.Hour}, nil
	}).Maybe()
	env.OnActivity(acts.CheckCluster, mock.Anything, mock.Anything).Return(func(_ context.Context, in activities.RevisionInput) (activities.CheckResult, error) {
		if h.noteListed && in.Listed {
			h.note("listed")
		}
		if h.closed != 0 {
			h.closed--
			waited = true
			h.note("closed")
			return activities.CheckResult{}, closedGate()
		}
		h.note("open")
		out := activities.CheckResult{Life: activities.Alive, Waited: waited, UpToDate: h.upToDate && !waited}
		waited = false
		return out, nil
	}).Maybe()
	env.OnActivity(acts.RenderRelease, mock.Anything, mock.Anything).Return(func(context.Context, activities.RevisionInput) (activities.RenderResult, error) {
		h.note("render")
		return activities.RenderResult{Life: activities.Alive, Digest: "sha256:a", Objects: 4, Rollout: h.rollout}, nil
	}).Maybe()
	env.OnActivity(acts.ApplyObjects, mock.Anything, mock.Anything).Return(func(_ context.Context, in delivery.RolloutInput) (activities.StepResult, error) {
		h.note(fmt.Sprintf("apply %d", in.Number))
		return h.apply, nil
	}).Maybe()
	env.OnActivity(acts.DeleteRelease, mock.Anything, mock.Anything).Return(func(context.Context, activities.ObjectInput) (activities.ObjectResult, error) {
		h.note("delete")
		return activities.ObjectResult{Life: activities.Gone}, nil
	}).Maybe()
}

func runRelease(t *testing.T, h *hub, script func(*testsuite.TestWorkflowEnvironment)) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	env := newEnv(t)
	h.install(env)
	script(env)
	env.ExecuteWorkflow(delivery.WorkflowRelease, delivery.ReleaseInput{Key: podinfo})
	if !env.IsWorkflowCompleted() {
		t.Fatal("the workflow did not end")
	}
	return env
}

func expect(t *testing.T, h *hub, want string) {
	t.Helper()
	if got := strings.Join(h.log, ", "); got != want {
		t.Errorf("called: %s\nwant:   %s", got, want)
	}
}

var succeeded = activities.StepResult{Phase: v1alpha1.RolloutSucceeded, Applied: 4}

func TestAReconcileFetchesChecksRendersAndRollsOutInThisOrder(t *testing.T) {
	h := &hub{rollout: 1, apply: succeeded}
	runRelease(t, h, func(env *testsuite.TestWorkflowEnvironment) {
		at(env, 0, func() { env.SignalWorkflow(delivery.SignalKick, edited) })
		stop(env, time.Minute)
	})
	expect(t, h, "fetch, open, render, apply 1")
}

func TestWhileTheGateIsClosedNothingIsRenderedAndAfterwardsTheSourceIsFetchedAgain(t *testing.T) {
	h := &hub{rollout: 1, apply: succeeded, closed: 3}
	runRelease(t, h, func(env *testsuite.TestWorkflowEnvironment) {
		at(env, 0, func() { env.SignalWorkflow(delivery.SignalKick, edited) })
		stop(env, 10*time.Minute)
	})
	expect(t, h, "fetch, closed, closed, closed, open, fetch, open, render, apply 1")
}

func TestWhatIsUpToDateIsLookedAtAgainAtTheIntervalAndNeitherRenderedNorApplied(t *testing.T) {
	h := &hub{upToDate: true}
	runRelease(t, h, func(env *testsuite.TestWorkflowEnvironment) {
		at(env, 0, func() { env.SignalWorkflow(delivery.SignalKick, edited) })
		stop(env, 70*time.Minute)
	})
	expect(t, h, "fetch, open, fetch, open")
}

func TestAnEditInterruptsAGateThatIsWaitedFor(t *testing.T) {
	h := &hub{closed: -1}
	runRelease(t, h, func(env *testsuite.TestWorkflowEnvironment) {
		at(env, 0, func() { env.SignalWorkflow(delivery.SignalKick, edited) })
		at(env, 4*time.Second, func() { env.SignalWorkflow(delivery.SignalKick, edited) })
		stop(env, 6*time.Second)
	})
	expect(t, h, "fetch, closed, fetch, closed")
}

func TestTheUpdateReconcileAnswersWhileTheGateIsClosed(t *testing.T) {
	h := &hub{closed: -1}
	var answer workflows.Outcome
	runRelease(t, h, func(env *testsuite.TestWorkflowEnvironment) {
		at(env, 0, func() { env.SignalWorkflow(delivery.SignalKick, edited) })
		at(env, 10*time.Second, func() {
			env.UpdateWorkflow(delivery.UpdateReconcile, "u1", &testsuite.TestUpdateCallback{
				OnReject: func(err error) { t.Errorf("rejected: %v", err) },
				OnAccept: func() {},
				OnComplete: func(out any, err error) {
					if err != nil {
						t.Errorf("the update failed: %v", err)
						return
					}
					answer = out.(workflows.Outcome)
				},
			})
		})
		stop(env, time.Minute)
	})
	if answer.Reason != v1alpha1.ReasonClusterNotReady {
		t.Errorf("answer = %+v, want ClusterNotReady", answer)
	}
	if n := len(h.log); n < 6 {
		t.Errorf("called %v: the gate is not waited for any more", h.log)
	}
}

// rollingFor makes each apply fail until d of the workflow's time is over, and notes which rollouts end, and how.
func (h *hub) rollingFor(env *testsuite.TestWorkflowEnvironment, d time.Duration) {
	start := env.Now()
	env.OnActivity(acts.ApplyObjects, mock.Anything, mock.Anything).Return(func(context.Context, delivery.RolloutInput) (activities.StepResult, error) {
		if env.Now().Sub(start) > d {
			return succeeded, nil
		}
		return activities.StepResult{}, temporal.NewApplicationErrorWithOptions("refused", "ApplyRetrying", temporal.ApplicationErrorOptions{NextRetryDelay: 15 * time.Minute})
	})
	env.SetOnChildWorkflowCanceledListener(func(info *workflow.Info) { h.note("cancelled " + info.WorkflowExecution.ID) })
	env.SetOnChildWorkflowCompletedListener(func(info *workflow.Info, _ converter.EncodedValue, err error) {
		if err == nil {
			h.note("completed " + info.WorkflowExecution.ID)
		}
	})
}

func TestANewerRenderTakesOverARunningRollout(t *testing.T) {
	h := &hub{rollout: 1}
	env := newEnv(t)
	h.rollingFor(env, time.Hour)
	h.install(env)
	at(env, 0, func() { env.SignalWorkflow(delivery.SignalKick, edited) })
	at(env, 10*time.Minute, func() { env.SignalWorkflow(delivery.SignalKick, edited) }) // the same render: it goes on
	at(env, 20*time.Minute, func() {
		h.note("edit")
		h.rollout = 2
		env.SignalWorkflow(delivery.SignalKick, edited)
	})
	stop(env, 70*time.Minute)
	env.ExecuteWorkflow(delivery.WorkflowRelease, delivery.ReleaseInput{Key: podinfo})
	expect(t, h, "fetch, open, render, fetch, open, render, edit, fetch, open, render, "+
		"cancelled rollout/default/podinfo/1, completed rollout/default/podinfo/2")
}

func TestADeletionCancelsTheRolloutAndRemovesTheObjects(t *testing.T) {
	h := &hub{rollout: 1}
	env := newEnv(t)
	h.rollingFor(env, time.Hour)
	h.install(env)
	at(env, 0, func() { env.SignalWorkflow(delivery.SignalKick, edited) })
	at(env, time.Minute, func() { env.SignalWorkflow(delivery.SignalKick, deleted) })
	env.ExecuteWorkflow(delivery.WorkflowRelease, delivery.ReleaseInput{Key: podinfo})
	if err := env.GetWorkflowError(); err != nil {
		t.Errorf("the workflow ended with %v", err)
	}
	expect(t, h, "fetch, open, render, cancelled rollout/default/podinfo/1, delete")
}

func TestAReleaseThatIsDeletedBehindAClosedGateIsRemoved(t *testing.T) {
	h := &hub{closed: -1}
	env := runRelease(t, h, func(env *testsuite.TestWorkflowEnvironment) {
		at(env, 0, func() { env.SignalWorkflow(delivery.SignalKick, edited) })
		at(env, 3*time.Second, func() { env.SignalWorkflow(delivery.SignalKick, deleted) })
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Errorf("the workflow ended with %v", err)
	}
	expect(t, h, "fetch, closed, delete")
}

func TestAGrownHistoryContinuesAsNewOnlyWhenNoRolloutIsUnderWay(t *testing.T) {
	h := &hub{rollout: 1}
	env := newEnv(t)
	h.rollingFor(env, 20*time.Minute)
	h.install(env)
	at(env, 0, func() { env.SignalWorkflow(delivery.SignalKick, edited) })
	at(env, time.Minute, func() {
		env.SetCurrentHistoryLength(5000)
		env.SignalWorkflow(delivery.SignalKick, edited)
	})
	env.ExecuteWorkflow(delivery.WorkflowRelease, delivery.ReleaseInput{Key: podinfo})
	in := continued[delivery.ReleaseInput](t, env)
	if left := in.Next.Sub(env.Now()); in.Key != podinfo || in.Interval != time.Hour || left <= 0 || left > 66*time.Minute {
		t.Errorf("continues as %+v, %s before the next look", in, left)
	}
	expect(t, h, "fetch, open, render, fetch, open, render, completed rollout/default/podinfo/1")
}

func TestTheNextRunLooksWhenTheLastOneWouldHave(t *testing.T) {
	h := &hub{upToDate: true}
	env := newEnv(t)
	h.install(env)
	looked := 0
	at(env, 19*time.Minute, func() { looked = len(h.log) })
	stop(env, 21*time.Minute)
	env.ExecuteWorkflow(delivery.WorkflowRelease, delivery.ReleaseInput{
		Key: podinfo, Interval: time.Hour, Next: env.Now().Add(20 * time.Minute), Turn: 7,
	})
	if looked != 0 {
		t.Errorf("it looked at once: %v", h.log)
	}
	expect(t, h, "fetch, open")
}

func TestTheIntervalAlsoRunsWhileARolloutIsUnderWay(t *testing.T) {
	h := &hub{rollout: 1}
	env := newEnv(t)
	h.rollingFor(env, 90*time.Minute)
	h.install(env)
	at(env, 0, func() { env.SignalWorkflow(delivery.SignalKick, edited) })
	stop(env, 80*time.Minute)
	env.ExecuteWorkflow(delivery.WorkflowRelease, delivery.ReleaseInput{Key: podinfo})
	expect(t, h, "fetch, open, render, fetch, open, render")
}

func TestAResyncLeavesAReleaseAtRestAlone(t *testing.T) {
	h := &hub{upToDate: true}
	runRelease(t, h, func(env *testsuite.TestWorkflowEnvironment) {
		at(env, 0, func() { env.SignalWorkflow(delivery.SignalKick, edited) })
		for i := range 5 {
			at(env, time.Duration(10+10*i)*time.Minute, func() {
				env.SignalWorkflow(delivery.SignalKick, delivery.Kick{UID: "r-1", Reason: delivery.KickResync})
			})
		}
		stop(env, 70*time.Minute)
	})
	expect(t, h, "fetch, open, fetch, open")
}

func TestAWatcherThatBeginsMakesAReleaseLookForWhatItMissed(t *testing.T) {
	listed := delivery.Kick{UID: "r-1", Reason: delivery.KickListed}
	for name, tc := range map[string]struct {
		first delivery.Kick
		want  string
	}{
		"one that runs":           {edited, "fetch, open, fetch, listed, open, fetch, open"},
		"one that begins with it": {listed, "fetch, listed, open, fetch, listed, open, fetch, open"},
	} {
		h := &hub{upToDate: true, noteListed: true}
		env := newEnv(t)
		h.install(env)
		at(env, 0, func() { env.SignalWorkflow(delivery.SignalKick, tc.first) })
		at(env, 40*time.Minute, func() { env.SignalWorkflow(delivery.SignalKick, listed) })
		stop(env, 70*time.Minute) // the interval of an hour is not put off
		env.ExecuteWorkflow(delivery.WorkflowRelease, delivery.ReleaseInput{Key: podinfo})
		t.Log(name)
		expect(t, h, tc.want)
	}
}

func TestALookForWhatWasMissedThatIsInterruptedIsMadeUpFor(t *testing.T) {
	listed := delivery.Kick{UID: "r-1", Reason: delivery.KickListed}
	h := &hub{upToDate: true, noteListed: true, closed: 1}
	env := newEnv(t)
	h.install(env)
	at(env, 0, func() { env.SignalWorkflow(delivery.SignalKick, listed) })
	at(env, 4*time.Second, func() { env.SignalWorkflow(delivery.SignalKick, listed) }) // behind a gate that is closed
	stop(env, 20*time.Second)
	env.ExecuteWorkflow(delivery.WorkflowRelease, delivery.ReleaseInput{Key: podinfo})
	expect(t, h, "fetch, listed, closed, fetch, listed, open, fetch, listed, open")
}

func TestALookForWhatWasMissedIsHandedOn(t *testing.T) {
	h := &hub{upToDate: true}
	env := newEnv(t)
	h.install(env)
	at(env, 0, func() { env.SignalWorkflow(delivery.SignalKick, edited) })
	at(env, time.Minute, func() {
		env.SetCurrentHistoryLength(5000)
		env.SignalWorkflow(delivery.SignalKick, delivery.Kick{UID: "r-1", Reason: delivery.KickListed})
	})
	env.ExecuteWorkflow(delivery.WorkflowRelease, delivery.ReleaseInput{Key: podinfo})
	if in := continued[delivery.ReleaseInput](t, env); !in.Next.IsZero() {
		t.Errorf("continues as %+v", in)
	}
}

func TestALateKickOfAnEarlierLifeIsNotBelieved(t *testing.T) {
	h := &hub{upToDate: true}
	var seen []string
	env := newEnv(t)
	env.OnActivity(acts.FetchSource, mock.Anything, mock.Anything).Return(func(_ context.Context, in activities.FetchInput) (activities.FetchResult, error) {
		seen = append(seen, in.Key.UID)
		return activities.FetchResult{Life: activities.Alive, Revision: "main@sha1:1", Cluster: "east", Interval: time.Hour}, nil
	})
	h.install(env)
	at(env, 0, func() {
		env.SignalWorkflow(delivery.SignalKick, delivery.Kick{UID: "r-2", Created: 200, Reason: delivery.KickChanged})
	})
	at(env, time.Minute, func() {
		env.SignalWorkflow(delivery.SignalKick, delivery.Kick{UID: "r-1", Created: 100, Reason: delivery.KickDependency})
	})
	stop(env, 2*time.Minute)
	env.ExecuteWorkflow(delivery.WorkflowRelease, delivery.ReleaseInput{Key: podinfo})
	for _, uid := range seen {
		if uid != "r-2" {
			t.Errorf("looked at %v, want the new life only", seen)
		}
	}
}

func TestAStepThatFailsForGoodIsAnOutcomeAndDoesNotEndTheWorkflow(t *testing.T) {
	h := &hub{upToDate: true}
	env := newEnv(t)
	calls := 0
	env.OnActivity(acts.FetchSource, mock.Anything, mock.Anything).Return(func(context.Context, activities.FetchInput) (activities.FetchResult, error) {
		calls++
		if calls == 1 {
			return activities.FetchResult{}, temporal.NewNonRetryableApplicationError("spec.source.git.url is not valid", "SourceInvalid", nil)
		}
		return activities.FetchResult{Life: activities.Alive, Revision: "main@sha1:1", Cluster: "east", Interval: time.Hour}, nil
	})
	h.install(env)
	at(env, 0, func() { env.SignalWorkflow(delivery.SignalKick, edited) })
	at(env, 10*time.Minute, func() {
		if calls != 1 {
			t.Errorf("%d looks before a change, want 1", calls)
		}
		env.SignalWorkflow(delivery.SignalKick, edited)
	})
	stop(env, 20*time.Minute)
	env.ExecuteWorkflow(delivery.WorkflowRelease, delivery.ReleaseInput{Key: podinfo})
	if calls != 2 {
		t.Errorf("%d looks, want one more after the change", calls)
	}
}

func TestAReleaseNeverHasMoreThanOneTimer(t *testing.T) {
	h := &hub{upToDate: true}
	running := 0
	runRelease(t, h, func(env *testsuite.TestWorkflowEnvironment) {
		env.SetOnTimerScheduledListener(func(string, time.Duration) {
			if running++; running > 1 {
				t.Errorf("%d timers are running", running)
			}
		})
		env.SetOnTimerCanceledListener(func(string) { running-- })
		env.SetOnTimerFiredListener(func(string) { running-- })
		for i := range 10 {
			at(env, time.Duration(i)*time.Minute, func() { env.SignalWorkflow(delivery.SignalKick, edited) })
		}
		stop(env, 20*time.Minute)
	})
	if len(h.log) != 20 {
		t.Errorf("%d steps, want two for each of ten kicks", len(h.log))
	}
}
