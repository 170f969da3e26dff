package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/testsuite"

	"kumodo.io/convoy/activities"
	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// holding makes each render wait until a time, after which its rollout begins.
func (h *hub) holding(env *testsuite.TestWorkflowEnvironment, reason string, until time.Time, tells bool) {
	env.OnActivity(acts.RenderRelease, mock.Anything, mock.Anything).Return(func(context.Context, activities.RevisionInput) (activities.RenderResult, error) {
		out := activities.RenderResult{Life: activities.Alive, Digest: "sha256:a", Objects: 4}
		if env.Now().Before(until) {
			h.note("hold")
			out.Held, out.Reason = true, reason
			if tells {
				out.Until = until
			}
			return out, nil
		}
		h.note("render")
		out.Rollout = 1
		return out, nil
	})
}

func TestARolloutOutsideItsWindowBeginsWhenTheWindowOpens(t *testing.T) {
	h := &hub{apply: succeeded}
	env := newEnv(t)
	began := env.Now()
	h.holding(env, v1alpha1.ReasonOutsideWindow, began.Add(20*time.Minute), true)
	h.install(env)
	at(env, 0, func() { env.SignalWorkflow(delivery.SignalKick, edited) })
	stop(env, 21*time.Minute)
	env.ExecuteWorkflow(delivery.WorkflowRelease, delivery.ReleaseInput{Key: podinfo})
	expect(t, h, "fetch, open, hold, fetch, open, render, apply 1")
}

func TestARolloutWithoutAnApprovalBeginsAtTheKickOfTheApproval(t *testing.T) {
	h := &hub{apply: succeeded}
	env := newEnv(t)
	h.holding(env, v1alpha1.ReasonAwaitingApproval, env.Now().Add(20*time.Minute), false)
	h.install(env)
	at(env, 0, func() { env.SignalWorkflow(delivery.SignalKick, edited) })
	at(env, 30*time.Minute, func() {
		h.note("approval")
		env.SignalWorkflow(delivery.SignalKick, delivery.Kick{UID: "r-1", Reason: delivery.KickDependency})
	})
	stop(env, 31*time.Minute)
	env.ExecuteWorkflow(delivery.WorkflowRelease, delivery.ReleaseInput{Key: podinfo})
	expect(t, h, "fetch, open, hold, approval, fetch, open, render, apply 1")
}

func TestARolloutGoesOnWhileANewerRenderWaits(t *testing.T) {
	h := &hub{rollout: 1}
	env := newEnv(t)
	h.rollingFor(env, 40*time.Minute)
	renders := 0
	env.OnActivity(acts.RenderRelease, mock.Anything, mock.Anything).Return(func(context.Context, activities.RevisionInput) (activities.RenderResult, error) {
		if renders++; renders == 1 {
			return activities.RenderResult{Life: activities.Alive, Digest: "sha256:a", Rollout: 1}, nil
		}
		return activities.RenderResult{Life: activities.Alive, Digest: "sha256:b", Held: true, Reason: v1alpha1.ReasonAwaitingApproval}, nil
	})
	h.install(env)
	at(env, 0, func() { env.SignalWorkflow(delivery.SignalKick, edited) })
	at(env, 10*time.Minute, func() { env.SignalWorkflow(delivery.SignalKick, edited) })
	stop(env, 50*time.Minute)
	env.ExecuteWorkflow(delivery.WorkflowRelease, delivery.ReleaseInput{Key: podinfo})
	expect(t, h, "fetch, open, fetch, open, completed rollout/default/podinfo/1")
}

func TestASuspensionStopsTheRolloutAndNothingIsLookedAt(t *testing.T) {
	h := &hub{rollout: 1}
	env := newEnv(t)
	h.rollingFor(env, time.Hour)
	suspended := false
	env.OnActivity(acts.FetchSource, mock.Anything, mock.Anything).Return(func(context.Context, activities.FetchInput) (activities.FetchResult, error) {
		h.note("fetch")
		out := activities.FetchResult{Life: activities.Alive, Revision: "main@sha1:1", Cluster: "east", Interval: time.Hour}
		if suspended {
			out = activities.FetchResult{Life: activities.Alive, Cluster: "east", Interval: time.Hour, Suspended: true}
		}
		return out, nil
	})
	h.install(env)
	at(env, 0, func() { env.SignalWorkflow(delivery.SignalKick, edited) })
	at(env, 10*time.Minute, func() { suspended = true; env.SignalWorkflow(delivery.SignalKick, edited) })
	at(env, 20*time.Minute, func() {
		h.note("resume")
		suspended = false
		env.SignalWorkflow(delivery.SignalKick, edited)
	})
	stop(env, 75*time.Minute)
	env.ExecuteWorkflow(delivery.WorkflowRelease, delivery.ReleaseInput{Key: podinfo})
	expect(t, h, "fetch, open, render, fetch, cancelled rollout/default/podinfo/1, resume, fetch, open, render, completed rollout/default/podinfo/1")
}

func TestADeletionBeatsASuspension(t *testing.T) {
	h := &hub{}
	env := newEnv(t)
	env.OnActivity(acts.FetchSource, mock.Anything, mock.Anything).Return(activities.FetchResult{Life: activities.Alive, Suspended: true, Interval: time.Hour}, nil)
	h.install(env)
	at(env, 0, func() { env.SignalWorkflow(delivery.SignalKick, edited) })
	at(env, time.Minute, func() { env.SignalWorkflow(delivery.SignalKick, deleted) })
	env.ExecuteWorkflow(delivery.WorkflowRelease, delivery.ReleaseInput{Key: podinfo})
	if err := env.GetWorkflowError(); err != nil {
		t.Errorf("the workflow ended with %v", err)
	}
	expect(t, h, "delete")
}
