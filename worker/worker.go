// Package worker runs convoy's workflows and activities: which task queue has which of them, how many at once,
// how long a stop may take. It decides nothing about deliveries; cmd/convoy runs it.
package worker

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"kumodo.io/convoy/activities"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/workflows"
)

// Options of a worker.
type Options struct {
	// Namespace of Temporal that the client works in.
	Namespace string
	// ProbesPerSecond caps the retrying probes of all Clusters together; the Temporal server keeps to it.
	ProbesPerSecond float64
	// Steps runs the workflows and their steps, Observes the observers of Clusters, of which ObserverClusters at once.
	Steps, Observes  bool
	ObserverClusters int
	// Version is what the workers of all queues work as. RoutingPeriod is how often Temporal is asked whether it gives them work.
	Version       Version
	RoutingPeriod time.Duration
	// StopTimeout is how long running activities may go on when the process stops.
	StopTimeout time.Duration
	// Logger is the one of the Temporal client.
	Logger log.Logger
}

// Worker runs all task queues of convoy in one process.
type Worker struct {
	temporal client.Client
	options  Options
	acts     *activities.Activities
	claim    *Claim
	chosen   atomic.Bool // whether Temporal has given work to the version
}

// New returns a worker that is not running yet. It takes no task before the claim is made.
func New(temporal client.Client, acts *activities.Activities, claim *Claim, o Options) *Worker {
	return &Worker{temporal: temporal, options: o, acts: acts, claim: claim}
}

// Start runs until ctx is done, and then stops: no new tasks, running activities have StopTimeout to end. While
// the Temporal server does not answer at the start, it waits for it.
func (w *Worker) Start(ctx context.Context) error {
	if err := w.awaitTemporal(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	if !w.claim.await(ctx) {
		return nil
	}
	fatal := make(chan error, 1)
	var running []worker.Worker
	defer func() { // all at once: each may take StopTimeout
		var stopping sync.WaitGroup
		for _, r := range running {
			stopping.Go(r.Stop)
		}
		stopping.Wait()
	}()
	for _, q := range w.queues(fatal) {
		if err := q.Start(); err != nil {
			return fmt.Errorf("start worker: %w", err)
		}
		running = append(running, q)
	}
	if w.options.Version != (Version{}) {
		following, end := context.WithCancel(ctx)
		var done sync.WaitGroup
		defer done.Wait()
		defer end()
		done.Go(func() { w.followRouting(following) })
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-fatal:
		return fmt.Errorf("worker: %w", err)
	}
}

// NeedLeaderElection tells the manager that every replica works.
func (w *Worker) NeedLeaderElection() bool { return false }

// queues builds one worker per task queue.
func (w *Worker) queues(fatal chan<- error) []worker.Worker {
	var all []worker.Worker
	activitiesOnly := map[string]worker.Options{}
	if w.options.Steps {
		main := worker.New(w.temporal, delivery.QueueMain, w.common(fatal, worker.Options{MaxConcurrentActivityExecutionSize: 200}))
		Register(main, w.acts)
		all = append(all, main)
		activitiesOnly = map[string]worker.Options{
			delivery.QueueProbe: {MaxConcurrentActivityExecutionSize: 200, TaskQueueActivitiesPerSecond: w.options.ProbesPerSecond},
			// Most of these wait for a server. What they hold in memory and do with the CPU is bounded where it is done.
			delivery.QueueSource: {MaxConcurrentActivityExecutionSize: 400},
			delivery.QueueApply:  {MaxConcurrentActivityExecutionSize: 200},
			// The default number of pollers is for short steps; these are few and long.
			delivery.QueueObserve: {MaxConcurrentActivityExecutionSize: 2000, MaxConcurrentActivityTaskPollers: 2},
		}
	}
	if w.options.Observes {
		activitiesOnly[delivery.QueueObserver] = worker.Options{
			MaxConcurrentActivityExecutionSize: w.options.ObserverClusters, MaxConcurrentActivityTaskPollers: 2,
			MaxHeartbeatThrottleInterval: 5 * time.Second, // there may be hundreds, and none is cancelled in a hurry
		}
	}
	for queue, o := range activitiesOnly {
		o.DisableWorkflowWorker = true
		q := worker.New(w.temporal, queue, w.common(fatal, o))
		q.RegisterActivity(w.acts)
		all = append(all, q)
	}
	return all
}

// common adds what every queue has. Heartbeats go out at least every two seconds, because they are what brings a
// cancellation to a running activity.
func (w *Worker) common(fatal chan<- error, o worker.Options) worker.Options {
	o.Interceptors = []interceptor.WorkerInterceptor{&classes{}}
	o.DeploymentOptions = w.options.Version.options()
	o.WorkerStopTimeout = w.options.StopTimeout
	o.MaxHeartbeatThrottleInterval = cmp.Or(o.MaxHeartbeatThrottleInterval, 2*time.Second)
	o.DefaultHeartbeatThrottleInterval = o.MaxHeartbeatThrottleInterval
	o.DisableRegistrationAliasing = true
	o.OnFatalError = func(err error) {
		select {
		case fatal <- err:
		default: // the first one is enough to end the process
		}
	}
	return o
}

// WorkflowRegistry takes workflows: a worker, a replayer or a test environment.
type WorkflowRegistry interface {
	RegisterWorkflowWithOptions(w any, options workflow.RegisterOptions)
}

// Registry takes workflows and activities: a worker, or a test environment.
type Registry interface {
	WorkflowRegistry
	RegisterActivity(a any)
}

// Register adds everything under the names that histories hold.
func Register(r Registry, acts *activities.Activities) {
	RegisterWorkflows(r)
	r.RegisterActivity(acts)
}

// RegisterWorkflows adds the workflows under the names that histories hold.
func RegisterWorkflows(r WorkflowRegistry) {
	r.RegisterWorkflowWithOptions(workflows.Cluster, workflow.RegisterOptions{Name: delivery.WorkflowCluster})
	r.RegisterWorkflowWithOptions(workflows.Release, workflow.RegisterOptions{Name: delivery.WorkflowRelease})
	r.RegisterWorkflowWithOptions(workflows.Rollout, workflow.RegisterOptions{Name: delivery.WorkflowRollout})
	r.RegisterWorkflowWithOptions(workflows.Observer, workflow.RegisterOptions{Name: delivery.WorkflowObserver})
	r.RegisterWorkflowWithOptions(workflows.Source, workflow.RegisterOptions{Name: delivery.WorkflowSource})
	r.RegisterWorkflowWithOptions(workflows.Hub, workflow.RegisterOptions{Name: delivery.WorkflowHub})
}

// classes makes classes of whatever error or panic an activity ends with.
type classes struct {
	interceptor.WorkerInterceptorBase
}

// InterceptActivity puts Translate around every activity.
func (c *classes) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &classesActivity{interceptor.ActivityInboundInterceptorBase{Next: next}}
}

type classesActivity struct {
	interceptor.ActivityInboundInterceptorBase
}

// ExecuteActivity runs the activity. A panic loses its text, which may hold anything, and keeps its place in the
// log of the process.
func (c *classesActivity) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (out any, err error) {
	defer func() {
		if p := recover(); p != nil {
			activity.GetLogger(ctx).Error("activity panicked", "activity", activity.GetInfo(ctx).ActivityType.Name, "at", panicSite())
			out, err = nil, activities.Translate(ctx, errPanic)
		}
	}()
	out, err = c.Next.ExecuteActivity(ctx, in)
	return out, activities.Translate(ctx, err)
}
