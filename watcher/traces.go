package watcher

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// traced begins a trace with each handover, which the workflow that hears of it goes on with. An error is in the log, and
// not in the span: its text may be that of a server.
func (w *watcher) traced(controller string, do reconcile.TypedFunc[request]) reconcile.TypedFunc[request] {
	if w.tracer == nil {
		return do
	}
	return func(ctx context.Context, req request) (reconcile.Result, error) {
		ctx, span := w.tracer.Start(ctx, "Handover:"+controller, trace.WithNewRoot(), trace.WithAttributes(
			attribute.String("convoy.namespace", req.Namespace), attribute.String("convoy.name", req.Name),
			attribute.String("convoy.reason", string(req.reason)),
		))
		defer span.End()
		result, err := do(ctx, req)
		if err != nil {
			span.SetStatus(codes.Error, "not handed over; it is tried again")
		}
		return result, err
	}
}
