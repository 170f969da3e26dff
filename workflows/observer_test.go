package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"kumodo.io/convoy/activities"
	"kumodo.io/convoy/internal/delivery"
)

var eastCluster = delivery.Key{Namespace: "default", Name: "east", UID: "c-1"}

// observing runs the workflow of an observer whose activity finds after a minute that nobody needs it any more.
func observing(t *testing.T, script func(*testsuite.TestWorkflowEnvironment)) string {
	t.Helper()
	env := newEnv(t)
	var log []string
	env.OnActivity(acts.ObserveCluster, mock.Anything, mock.Anything).Return(func(ctx context.Context, in activities.ObserveInput) (activities.ObserveResult, error) {
		log = append(log, fmt.Sprintf("%s %s", activity.GetInfo(ctx).TaskQueue, in.Key.UID))
		return activities.ObserveResult{}, nil
	}).After(time.Minute).Maybe()
	script(env)
	env.ExecuteWorkflow(delivery.WorkflowObserver, delivery.ObserverInput{Key: eastCluster})
	if !env.IsWorkflowCompleted() || env.GetWorkflowError() != nil {
		t.Fatalf("it ended with %v", env.GetWorkflowError())
	}
	return strings.Join(log, ", ")
}

func TestAnObserverEndsWhenNobodyNeedsIt(t *testing.T) {
	if got := observing(t, func(*testsuite.TestWorkflowEnvironment) {}); got != "convoy-observer c-1" {
		t.Errorf("it observed %s", got)
	}
}

func TestThatNobodyObservesIsSaidAndTriedAgain(t *testing.T) {
	env := newEnv(t)
	var log []string
	untaken := temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil)
	env.OnActivity(acts.ObserveCluster, mock.Anything, mock.Anything).Return(func(context.Context, activities.ObserveInput) (activities.ObserveResult, error) {
		if log = append(log, "observe"); len(log) < 4 {
			return activities.ObserveResult{}, untaken
		}
		return activities.ObserveResult{}, nil
	})
	env.OnActivity(acts.MarkUnobserved, mock.Anything, mock.Anything).Return(func(_ context.Context, in activities.ObserveInput) (activities.UnobservedResult, error) {
		log = append(log, "mark "+in.Key.UID)
		return activities.UnobservedResult{Releases: 1}, nil
	})
	env.ExecuteWorkflow(delivery.WorkflowObserver, delivery.ObserverInput{Key: eastCluster})
	if got := strings.Join(log, ", "); env.GetWorkflowError() != nil || got != "observe, mark c-1, observe, mark c-1, observe" {
		t.Errorf("got %s, %v", got, env.GetWorkflowError())
	}
}

func TestThatItCannotBeSaidKeepsNobodyFromObserving(t *testing.T) {
	env := newEnv(t)
	attempts, marks := 0, 0
	env.OnActivity(acts.ObserveCluster, mock.Anything, mock.Anything).Return(func(context.Context, activities.ObserveInput) (activities.ObserveResult, error) {
		if attempts++; attempts == 1 {
			return activities.ObserveResult{}, temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil)
		}
		return activities.ObserveResult{}, nil
	})
	env.OnActivity(acts.MarkUnobserved, mock.Anything, mock.Anything).Return(func(context.Context, activities.ObserveInput) (activities.UnobservedResult, error) {
		marks++
		return activities.UnobservedResult{}, errors.New("a status is refused")
	})
	env.ExecuteWorkflow(delivery.WorkflowObserver, delivery.ObserverInput{Key: eastCluster})
	if env.GetWorkflowError() != nil || attempts != 2 || marks != 1 {
		t.Errorf("%d attempts to observe, %d to say that none does, %v", attempts, marks, env.GetWorkflowError())
	}
}

func TestAnObserverTurnsToANewClusterOfTheName(t *testing.T) {
	got := observing(t, func(env *testsuite.TestWorkflowEnvironment) {
		kick := func(uid string, created int64) func() {
			return func() {
				env.SignalWorkflow(delivery.SignalKick, delivery.Kick{UID: uid, Created: created, Reason: delivery.KickChanged})
			}
		}
		at(env, 10*time.Second, kick("c-1", 100)) // another Release: nothing changes
		at(env, 20*time.Second, kick("c-2", 200))
		at(env, 30*time.Second, kick("c-1", 100)) // late
	})
	if !strings.HasSuffix(got, "convoy-observer c-2") || strings.Count(got, "c-1") > 1 {
		t.Errorf("it observed %s", got)
	}
}

func TestDriftIsCorrectedWheneverTheObserverTellsOfIt(t *testing.T) {
	h := &hub{rollout: 0, upToDate: true}
	var corrected []string
	drift := delivery.Drift{UID: "r-1"}
	runRelease(t, h, func(env *testsuite.TestWorkflowEnvironment) {
		start := env.Now()
		env.OnActivity(acts.CorrectDrift, mock.Anything, mock.Anything).Return(func(context.Context, activities.CorrectInput) (activities.CorrectResult, error) {
			corrected = append(corrected, env.Now().Sub(start).Round(time.Second).String())
			return activities.CorrectResult{Life: activities.Alive, Applied: 1}, nil
		}).Maybe()
		for _, after := range []time.Duration{10 * time.Second, 15 * time.Second, 50 * time.Minute} {
			at(env, after, func() { env.SignalWorkflow(delivery.SignalDrift, drift) })
		}
		at(env, 20*time.Second, func() { env.SignalWorkflow(delivery.SignalDrift, delivery.Drift{UID: "another life"}) })
		at(env, 52*time.Minute, func() { env.SignalWorkflow(delivery.SignalKick, deleted) })
	})
	if got, want := strings.Join(corrected, " "), "10s 15s 50m0s"; got != want {
		t.Errorf("corrected after %s, want %s", got, want)
	}
	expect(t, h, "fetch, open, delete")
}

func TestDriftWaitsForAWindowAndIsLeftToARolloutAndADeletion(t *testing.T) {
	h := &hub{rollout: 1, apply: succeeded}
	var corrected []string
	drift := delivery.Drift{UID: "r-1"}
	runRelease(t, h, func(env *testsuite.TestWorkflowEnvironment) {
		start := env.Now()
		env.OnActivity(acts.CorrectDrift, mock.Anything, mock.Anything).Return(func(context.Context, activities.CorrectInput) (activities.CorrectResult, error) {
			corrected = append(corrected, env.Now().Sub(start).Round(time.Second).String())
			if len(corrected) == 1 {
				return activities.CorrectResult{Life: activities.Alive, Until: env.Now().Add(10 * time.Minute)}, nil
			}
			return activities.CorrectResult{Life: activities.Alive, Applied: 1}, nil
		}).Maybe()
		at(env, time.Minute, func() { env.SignalWorkflow(delivery.SignalDrift, drift) })
		at(env, 20*time.Minute, func() {
			env.SignalWorkflow(delivery.SignalKick, deleted)
			env.SignalWorkflow(delivery.SignalDrift, drift)
		})
	})
	if got, want := strings.Join(corrected, " "), "1m0s 11m0s"; got != want {
		t.Errorf("corrected after %s, want %s", got, want)
	}
}
