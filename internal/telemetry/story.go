package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/workflow"
)

// header is the key of Temporal's headers that IDs of spans go under: the one that all SDKs use.
const header = "_tracer-data"

// spanKey is where the SDK's interceptor looks for the parent of a span in the context of a workflow.
type spanKey struct{}

const (
	// takesIn is how long what a workflow begins belongs to the trace of what it was told last.
	takesIn = 10 * time.Minute
	// ownTrace is the attempt from which on each attempt of a step is a trace of its own.
	ownTrace = 11
)

// lasting are activities that go on for long and tell others of what they see, which is a story of its own each time.
var lasting = map[string]bool{"ObserveCluster": true}

// story decides which trace the calls of a workflow belong to: that of the last signal, update or start that it heard of,
// for a while. A workflow that lives as long as its object would else be one trace without an end.
type story struct {
	interceptor.InterceptorBase
	tracer interceptor.Tracer
}

// InterceptWorkflow is that of a WorkerInterceptor.
func (s *story) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &hearing{WorkflowInboundInterceptorBase: interceptor.WorkflowInboundInterceptorBase{Next: next}, tracer: s.tracer}
}

// InterceptActivity is that of a WorkerInterceptor.
func (s *story) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &telling{interceptor.ActivityInboundInterceptorBase{Next: next}}
}

// telling has lasting activities begin a trace with each thing that they tell.
type telling struct {
	interceptor.ActivityInboundInterceptorBase
}

// ExecuteActivity runs the activity.
func (t *telling) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	if lasting[activity.GetInfo(ctx).ActivityType.Name] {
		ctx = trace.ContextWithSpan(ctx, nil)
	}
	return t.Next.ExecuteActivity(ctx, in)
}

// hearing notes, in one workflow, the span that told it last. What it notes is in the history too, so that it is the same
// after a replay; and it decides about headers only, which no replay compares.
type hearing struct {
	interceptor.WorkflowInboundInterceptorBase
	tracer interceptor.Tracer
	heard  interceptor.TracerSpan
	at     time.Time
}

// Init is that of a WorkflowInboundInterceptor.
func (h *hearing) Init(out interceptor.WorkflowOutboundInterceptor) error {
	return h.Next.Init(&calling{WorkflowOutboundInterceptorBase: interceptor.WorkflowOutboundInterceptorBase{Next: out}, heard: h})
}

// ExecuteWorkflow hears who started the workflow.
func (h *hearing) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	h.hear(ctx)
	return h.Next.ExecuteWorkflow(ctx, in)
}

// HandleSignal hears who sent the signal.
func (h *hearing) HandleSignal(ctx workflow.Context, in *interceptor.HandleSignalInput) error {
	h.hear(ctx)
	return h.Next.HandleSignal(ctx, in)
}

// ExecuteUpdate hears who sent the update.
func (h *hearing) ExecuteUpdate(ctx workflow.Context, in *interceptor.UpdateInput) (any, error) {
	h.hear(ctx)
	return h.Next.ExecuteUpdate(ctx, in)
}

func (h *hearing) hear(ctx workflow.Context) {
	if told := h.parent(interceptor.WorkflowHeader(ctx)); told != nil {
		h.heard, h.at = told, workflow.Now(ctx)
	}
}

// parent is the span in a header, nil for none.
func (h *hearing) parent(from map[string]*commonpb.Payload) interceptor.TracerSpan {
	payload, is := from[header]
	carrier := propagation.MapCarrier{}
	if !is || converter.GetDefaultDataConverter().FromPayload(payload, &carrier) != nil {
		return nil
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), carrier) //nolint:forbidigo // it holds a span and nothing else
	return h.tracer.SpanFromContext(ctx)
}

// calling puts the calls of a workflow into the trace that it belongs to at the moment.
type calling struct {
	interceptor.WorkflowOutboundInterceptorBase
	heard *hearing
}

// within is the context whose span is the parent of a call.
func (c *calling) within(ctx workflow.Context) workflow.Context {
	h, now := c.heard, workflow.Now(ctx)
	child := workflow.GetInfo(ctx).ParentWorkflowExecution != nil // it ends, and is one trace
	if (h.heard == nil || !child && now.Sub(h.at) > takesIn) && !workflow.IsReplaying(ctx) {
		// Nobody told the workflow: it looks by itself.
		h.heard, h.at = nil, now
		began, err := h.tracer.StartSpan(&interceptor.TracerStartSpanOptions{
			Operation: "Begin", Name: workflow.GetInfo(ctx).WorkflowType.Name, Time: time.Now(),
			Tags: map[string]string{"temporalWorkflowID": workflow.GetInfo(ctx).WorkflowExecution.ID, "temporalRunID": workflow.GetInfo(ctx).WorkflowExecution.RunID},
		})
		if err == nil {
			began.Finish(&interceptor.TracerFinishSpanOptions{})
			h.heard = began
		}
	}
	if h.heard == nil {
		return ctx
	}
	return workflow.WithValue(ctx, spanKey{}, h.heard)
}

// ExecuteActivity calls a step.
func (c *calling) ExecuteActivity(ctx workflow.Context, kind string, args ...any) workflow.Future {
	return c.Next.ExecuteActivity(c.within(ctx), kind, args...)
}

// ExecuteChildWorkflow begins a rollout.
func (c *calling) ExecuteChildWorkflow(ctx workflow.Context, kind string, args ...any) workflow.ChildWorkflowFuture {
	return c.Next.ExecuteChildWorkflow(c.within(ctx), kind, args...)
}

// SignalExternalWorkflow tells another workflow.
func (c *calling) SignalExternalWorkflow(ctx workflow.Context, id, run, signal string, arg any) workflow.Future {
	return c.Next.SignalExternalWorkflow(c.within(ctx), id, run, signal, arg)
}

// GetLogger names in the lines of a workflow the trace that it belongs to at the moment.
func (c *calling) GetLogger(ctx workflow.Context) log.Logger {
	if c.heard.heard == nil {
		return c.Next.GetLogger(workflow.WithValue(ctx, spanKey{}, nil))
	}
	return c.Next.GetLogger(workflow.WithValue(ctx, spanKey{}, c.heard.heard))
}

// attempts has an activity that is retried for long begin a trace with each attempt: a Cluster that is away for a week
// would be one of thousands of spans.
type attempts struct {
	interceptor.InterceptorBase
}

// InterceptActivity is that of a WorkerInterceptor.
func (a *attempts) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &attempt{interceptor.ActivityInboundInterceptorBase{Next: next}}
}

type attempt struct {
	interceptor.ActivityInboundInterceptorBase
}

// ExecuteActivity runs the attempt.
func (a *attempt) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	if activity.GetInfo(ctx).Attempt >= ownTrace {
		delete(interceptor.Header(ctx), header)
	}
	return a.Next.ExecuteActivity(ctx, in)
}
