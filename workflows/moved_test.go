package workflows_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"kumodo.io/convoy/activities"
	"kumodo.io/convoy/internal/delivery"
)

// leaving makes the clean-up of former Clusters fail until d of the workflow's time is over, and notes its attempts.
func (h *hub) leaving(env *testsuite.TestWorkflowEnvironment, d time.Duration) {
	start := env.Now()
	env.OnActivity(acts.CleanFormerClusters, mock.Anything, mock.Anything).Return(func(context.Context, activities.ObjectInput) (activities.ObjectResult, error) {
		if env.Now().Sub(start) > d {
			h.note("cleaned")
			return activities.ObjectResult{Life: activities.Alive}, nil
		}
		h.note("unclean")
		return activities.ObjectResult{}, temporal.NewApplicationErrorWithOptions("down", "ClusterUnreachable", temporal.ApplicationErrorOptions{NextRetryDelay: 15 * time.Minute})
	}).Maybe()
	env.SetOnActivityCanceledListener(func(info *activity.Info) { h.note("cancelled " + info.ActivityType.Name) })
}

// remembers makes each look at the source tell that something is left.
func (h *hub) remembers(env *testsuite.TestWorkflowEnvironment) {
	env.OnActivity(acts.FetchSource, mock.Anything, mock.Anything).Return(func(context.Context, activities.FetchInput) (activities.FetchResult, error) {
		h.note("fetch")
		return activities.FetchResult{Life: activities.Alive, Revision: "main@sha1:1", Cluster: "east", Interval: time.Hour, Leftovers: true}, nil
	}).Maybe()
}

var moved = activities.StepResult{Phase: succeeded.Phase, Applied: 4, Leftovers: 1}

func TestWhatARolloutElsewhereLeftIsCleanedBesideTheLifeOfTheRelease(t *testing.T) {
	h := &hub{rollout: 1, apply: moved}
	env := newEnv(t)
	h.leaving(env, 20*time.Minute)
	h.install(env)
	at(env, 0, func() { env.SignalWorkflow(delivery.SignalKick, edited) })
	at(env, 40*time.Minute, func() { h.upToDate = true }) // what was there is gone by then
	stop(env, 70*time.Minute)
	env.ExecuteWorkflow(delivery.WorkflowRelease, delivery.ReleaseInput{Key: podinfo})
	expect(t, h, "fetch, open, render, apply 1, unclean, unclean, cleaned, fetch, open")
}

func TestACleanUpThatARestartForgotIsFoundByTheNextLook(t *testing.T) {
	h := &hub{upToDate: true}
	env := newEnv(t)
	h.leaving(env, time.Hour)
	h.remembers(env)
	h.install(env)
	at(env, 0, func() { env.SignalWorkflow(delivery.SignalKick, edited) })
	at(env, time.Minute, func() { // news of the source: another look, and not another clean-up
		env.SignalWorkflow(delivery.SignalNews, delivery.News{UID: podinfo.UID, Word: delivery.Word{Revision: "main@sha1:2", At: env.Now()}})
	})
	stop(env, 10*time.Minute)
	env.ExecuteWorkflow(delivery.WorkflowRelease, delivery.ReleaseInput{Key: podinfo})
	if got := strings.Join(h.log, ", "); strings.Count(got, "unclean") != 1 || strings.Count(got, "fetch") != 2 {
		t.Errorf("called: %s", got)
	}
}

func TestAChangeLetsTheCleanUpLookAnew(t *testing.T) {
	h := &hub{upToDate: true}
	env := newEnv(t)
	h.leaving(env, time.Hour)
	h.remembers(env)
	h.install(env)
	at(env, 0, func() { env.SignalWorkflow(delivery.SignalKick, edited) })
	at(env, time.Minute, func() {
		h.note("edit")
		env.SignalWorkflow(delivery.SignalKick, edited)
	})
	stop(env, 2*time.Minute)
	env.ExecuteWorkflow(delivery.WorkflowRelease, delivery.ReleaseInput{Key: podinfo})
	got := strings.Join(h.log, ", ")
	_, after, _ := strings.Cut(got, "edit, ")
	if !strings.HasPrefix(after, "cancelled CleanFormerClusters, ") || strings.Count(after, "unclean") != 1 {
		t.Errorf("called: %s", got)
	}
}

func TestARolloutBeginsOnlyWhenTheCleanUpBeforeItHasEnded(t *testing.T) {
	h := &hub{rollout: 1, apply: moved}
	env := newEnv(t)
	h.leaving(env, time.Hour)
	h.install(env)
	at(env, 0, func() { env.SignalWorkflow(delivery.SignalKick, edited) })
	at(env, 10*time.Minute, func() {
		h.note("news")
		h.rollout = 2
		env.SignalWorkflow(delivery.SignalNews, delivery.News{UID: podinfo.UID, Word: delivery.Word{Revision: "main@sha1:2", At: env.Now()}})
	})
	stop(env, 11*time.Minute)
	env.ExecuteWorkflow(delivery.WorkflowRelease, delivery.ReleaseInput{Key: podinfo})
	got := strings.Join(h.log, ", ")
	_, after, _ := strings.Cut(got, "news, ")
	ended, began := strings.Index(after, "cancelled CleanFormerClusters"), strings.Index(after, "apply 2")
	if ended < 0 || began < ended || strings.Count(after, "unclean") != 1 {
		t.Errorf("called: %s", got)
	}
}

func TestADeletionTakesOverFromACleanUp(t *testing.T) {
	h := &hub{rollout: 1, apply: moved}
	env := newEnv(t)
	h.leaving(env, time.Hour)
	h.install(env)
	at(env, 0, func() { env.SignalWorkflow(delivery.SignalKick, edited) })
	at(env, time.Minute, func() { env.SignalWorkflow(delivery.SignalKick, deleted) })
	env.ExecuteWorkflow(delivery.WorkflowRelease, delivery.ReleaseInput{Key: podinfo})
	if err := env.GetWorkflowError(); err != nil {
		t.Errorf("the workflow ended with %v", err)
	}
	expect(t, h, "fetch, open, render, apply 1, unclean, cancelled CleanFormerClusters, delete")
}

func TestAGrownHistoryTakesACleanUpAlongByLookingAtOnce(t *testing.T) {
	h := &hub{rollout: 1, apply: moved}
	env := newEnv(t)
	h.leaving(env, time.Hour)
	h.install(env)
	at(env, 0, func() { env.SignalWorkflow(delivery.SignalKick, edited) })
	at(env, time.Minute, func() {
		env.SetCurrentHistoryLength(5000)
		env.SignalWorkflow(delivery.SignalNews, delivery.News{UID: podinfo.UID})
	})
	env.ExecuteWorkflow(delivery.WorkflowRelease, delivery.ReleaseInput{Key: podinfo})
	in := continued[delivery.ReleaseInput](t, env)
	if in.Key != podinfo || in.Next.IsZero() || in.Next.After(env.Now()) {
		t.Errorf("continues as %+v, and not with a look", in)
	}
	expect(t, h, "fetch, open, render, apply 1, unclean, cancelled CleanFormerClusters")
}
