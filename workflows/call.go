// Package workflows is the story of a delivery: what follows what, what waits for what, what cancels what. It
// is deterministic and does no I/O; every touch of the world is an activity. The watcher starts Cluster and
// Release, Release starts Rollout.
package workflows

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"kumodo.io/convoy/activities"
	"kumodo.io/convoy/internal/delivery"
)

// acts names the activities; it is never called.
var acts *activities.Activities

// step is one kind of activity call: where it runs, how long it may take, how it is retried.
type step[In, Out any] struct {
	run     func(context.Context, In) (Out, error)
	options workflow.ActivityOptions
}

// retryForever is the retry policy of a delay. The activity adds the jitter to each delay.
func retryForever(b delivery.Backoff) *temporal.RetryPolicy {
	return &temporal.RetryPolicy{InitialInterval: b.Base, BackoffCoefficient: 2, MaximumInterval: b.Cap}
}

// quick are the options of an activity that only reads and writes the hub.
func quick(queue string, b delivery.Backoff) workflow.ActivityOptions {
	return workflow.ActivityOptions{TaskQueue: queue, StartToCloseTimeout: 30 * time.Second, RetryPolicy: retryForever(b)}
}

// long are the options of an activity that heartbeats. A cancelled one is waited for, so that two never work on
// the same thing at once.
func long(queue string, timeout time.Duration, b delivery.Backoff) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue: queue, StartToCloseTimeout: timeout, HeartbeatTimeout: 10 * time.Second,
		WaitForCancellation: true, RetryPolicy: retryForever(b),
	}
}

// lasting are the options of an activity that is meant to run for ever. There are many of them, so that they beat less often.
func lasting(queue string) workflow.ActivityOptions {
	o := long(queue, 24*time.Hour, delivery.Backoff{Base: time.Second, Cap: 30 * time.Second})
	o.HeartbeatTimeout = 20 * time.Second
	return o
}

// ProbeLimit and FetchLimit are what one attempt may take at the most, whatever its own time-out is.
const (
	ProbeLimit = time.Minute
	FetchLimit = 3 * time.Minute
)

// The activities of convoy, as workflows call them.
var (
	probeCluster    = step[activities.ProbeInput, activities.ProbeResult]{acts.ProbeCluster, long(delivery.QueueProbe, ProbeLimit, delivery.ProbeBackoff)}
	finalizeCluster = step[activities.ObjectInput, activities.ObjectResult]{acts.FinalizeCluster, quick(delivery.QueueMain, delivery.Backoff{Base: time.Second, Cap: 10 * time.Second})}

	fetchSource   = step[activities.FetchInput, activities.FetchResult]{acts.FetchSource, long(delivery.QueueSource, FetchLimit, delivery.ReleaseBackoff)}
	lookSource    = step[activities.LookInput, activities.LookResult]{acts.LookSource, long(delivery.QueueSource, FetchLimit, delivery.ReleaseBackoff)}
	checkCluster  = step[activities.RevisionInput, activities.CheckResult]{acts.CheckCluster, quick(delivery.QueueMain, delivery.ReleaseBackoff)}
	renderRelease = step[activities.RevisionInput, activities.RenderResult]{acts.RenderRelease, long(delivery.QueueSource, 5*time.Minute, delivery.ReleaseBackoff)}
	deleteRelease = step[activities.ObjectInput, activities.ObjectResult]{acts.DeleteRelease, long(delivery.QueueApply, time.Hour, delivery.ReleaseBackoff)}
	cleanFormer   = step[activities.ObjectInput, activities.ObjectResult]{acts.CleanFormerClusters, long(delivery.QueueApply, time.Hour, delivery.ReleaseBackoff)}

	applyObjects = step[delivery.RolloutInput, activities.StepResult]{acts.ApplyObjects, long(delivery.QueueApply, time.Hour, delivery.ReleaseBackoff)}
	pruneObjects = step[activities.PruneInput, activities.StepResult]{acts.PruneObjects, long(delivery.QueueApply, time.Hour, delivery.ReleaseBackoff)}
	// An attempt hands over to another long before; only the last one ends well.
	observeCluster = step[activities.ObserveInput, activities.ObserveResult]{acts.ObserveCluster, lasting(delivery.QueueObserver)}
	markUnobserved = step[activities.ObserveInput, activities.UnobservedResult]{acts.MarkUnobserved, quick(delivery.QueueMain, delivery.ReleaseBackoff)}
	correctDrift   = step[activities.CorrectInput, activities.CorrectResult]{acts.CorrectDrift, long(delivery.QueueApply, time.Hour, delivery.ReleaseBackoff)}
	// A hook may take a week, and is cut off by its own timeout.
	runHook     = step[activities.HookInput, activities.StepResult]{acts.RunHook, long(delivery.QueueObserve, 170*time.Hour, delivery.ReleaseBackoff)}
	awaitHealth = step[activities.HealthInput, activities.StepResult]{acts.AwaitHealth, long(delivery.QueueObserve, 25*time.Hour, delivery.ReleaseBackoff)}
)

// once is the same step with a single attempt, on the queue that no resync can fill.
func (s step[In, Out]) once() step[In, Out] {
	s.options.RetryPolicy = &temporal.RetryPolicy{MaximumAttempts: 1}
	if s.options.TaskQueue == delivery.QueueProbe {
		s.options.TaskQueue = delivery.QueueMain
	}
	return s
}

// within is the same step, which is given up when no worker takes it in time. That is an error of its own.
func (s step[In, Out]) within(d time.Duration) step[In, Out] {
	s.options.ScheduleToStartTimeout = d
	return s
}

// start schedules the step. summary is what the UI shows.
func (s step[In, Out]) start(ctx workflow.Context, summary string, in In) workflow.Future {
	s.options.Summary = summary
	return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, s.options), s.run, in)
}

// result waits for a step that was started.
func result[Out any](ctx workflow.Context, f workflow.Future) (out Out, err error) {
	err = f.Get(ctx, &out)
	return out, err
}

// describe is the class and the message of a failed step.
func describe(err error) (reason, message string) {
	if app, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return app.Type(), app.Message()
	}
	return activities.ReasonInternal, "the step did not finish"
}
