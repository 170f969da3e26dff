package watcher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
)

const (
	// tell is how long one change may take to be handed over.
	tell = 10 * time.Second
	// rest is how long nothing is tried after Temporal did not answer. There may be thousands of changes, and each would
	// wait for its own time-out while others that could tell of it wait behind.
	rest = 2 * time.Second
)

// gate lets requests through to Temporal: none that another hub's workflows could take for theirs, and none while Temporal has
// just not answered.
type gate struct {
	Starter
	claimed func() error

	mu     sync.Mutex
	failed error // how Temporal did not answer
	at     time.Time
}

// through does a request, if it may be done now.
func (g *gate) through(ctx context.Context, do func(context.Context) error) error {
	if err := g.claimed(); err != nil {
		return fmt.Errorf("%w: %w", errNotTaken, err)
	}
	if err := g.resting(); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, tell)
	defer cancel()
	err := do(limited)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%w: %w", errNotTaken, err)
	if noAnswer(err) && ctx.Err() == nil { // whose own time is over has not waited for Temporal alone
		g.mu.Lock()
		defer g.mu.Unlock()
		g.failed, g.at = err, time.Now()
	}
	return err
}

// errNotTaken is in the error of what could not be handed over.
var errNotTaken = errors.New("Temporal did not take it") //nolint:staticcheck // a name

// resting is how Temporal did not answer a moment ago, nil when it did, or when that is long ago.
func (g *gate) resting() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Since(g.at) < rest {
		return g.failed
	}
	return nil
}

// noAnswer reports whether an error is about Temporal and not about what it was asked.
func noAnswer(err error) bool {
	_, unavailable := errors.AsType[*serviceerror.Unavailable](err)
	_, late := errors.AsType[*serviceerror.DeadlineExceeded](err)
	return unavailable || late || errors.Is(err, context.DeadlineExceeded)
}

// SignalWithStartWorkflow signals a workflow, and starts it when there is none.
func (g *gate) SignalWithStartWorkflow(ctx context.Context, workflowID, signalName string, signalArg any,
	options client.StartWorkflowOptions, workflow any, workflowArgs ...any,
) (run client.WorkflowRun, err error) {
	err = g.through(ctx, func(ctx context.Context) error {
		run, err = g.Starter.SignalWithStartWorkflow(ctx, workflowID, signalName, signalArg, options, workflow, workflowArgs...)
		return err
	})
	return run, err
}

// SignalWorkflow signals a workflow that runs.
func (g *gate) SignalWorkflow(ctx context.Context, workflowID, runID, signalName string, arg any) error {
	return g.through(ctx, func(ctx context.Context) error {
		return g.Starter.SignalWorkflow(ctx, workflowID, runID, signalName, arg)
	})
}

// ExecuteWorkflow starts a workflow when there is none.
func (g *gate) ExecuteWorkflow(ctx context.Context, options client.StartWorkflowOptions, workflow any, args ...any) (run client.WorkflowRun, err error) {
	err = g.through(ctx, func(ctx context.Context) error {
		run, err = g.Starter.ExecuteWorkflow(ctx, options, workflow, args...)
		return err
	})
	return run, err
}
