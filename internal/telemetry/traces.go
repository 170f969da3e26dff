package telemetry

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/contrib/opentelemetry"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
	"golang.org/x/time/rate"
)

// stopTime is how long what is left may take to be sent when the process stops.
const stopTime = 5 * time.Second

// Traces is what a process traces with. The zero value traces nothing and costs nothing.
type Traces struct {
	// Tracer of the watcher; nil when nothing is traced.
	Tracer trace.Tracer
	// Interceptors of the client of Temporal, and of the workers that it has.
	Interceptors []interceptor.ClientInterceptor
	// Stop sends what is left.
	Stop func(context.Context) error
}

// NewTraces reads the OTEL_* environment. Nothing is traced unless that names an endpoint.
func NewTraces(ctx context.Context, version string, l log.Logger) (Traces, error) {
	nothing := Traces{Stop: func(context.Context) error { return nil }}
	if !enabled() {
		return nothing, nil
	}
	otel.SetLogger(logr.Discard()) // it tells of headers that it cannot read, and those are secrets
	complaint := rate.Sometimes{Interval: time.Minute}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { // its text may be the collector's
		complaint.Do(func() { l.Warn("traces cannot be sent", "type", typeOf(err)) })
	}))
	exporter, err := exporterOf(ctx)
	if err != nil {
		return nothing, err
	}
	// What the environment says outweighs what is said here.
	about, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", "convoy"), attribute.String("service.version", version),
	), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nothing, errors.New("OTEL_RESOURCE_ATTRIBUTES cannot be read: it is a list such as key=value,key=value")
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
	t, err := Tracing(provider)
	t.Stop = func(ctx context.Context) error {
		limited, cancel := context.WithTimeout(ctx, stopTime)
		defer cancel()
		if err := provider.Shutdown(limited); err != nil {
			l.Warn("the last traces cannot be sent", "type", typeOf(err))
		}
		return nil // that is no failure of the process
	}
	return t, err
}

// enabled reports whether the environment asks for traces.
func enabled() bool {
	off, _ := strconv.ParseBool(os.Getenv("OTEL_SDK_DISABLED"))
	asked := os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
	return asked && !off && os.Getenv("OTEL_TRACES_EXPORTER") != "none"
}

func exporterOf(ctx context.Context) (*otlptrace.Exporter, error) {
	protocol := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
	if protocol == "" {
		protocol = os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL")
	}
	switch protocol {
	case "", "http/protobuf":
		return otlptracehttp.New(ctx)
	case "grpc":
		return otlptracegrpc.New(ctx)
	}
	return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL: %q is neither http/protobuf nor grpc", protocol)
}

// Tracing joins what the SDK traces into one trace for each pass and rollout.
func Tracing(provider trace.TracerProvider) (Traces, error) {
	tracer, err := opentelemetry.NewTracer(opentelemetry.TracerOptions{
		Tracer: provider.Tracer("temporal-sdk-go"), TextMapPropagator: propagation.TraceContext{}, DisableBaggage: true,
		SpanContextKey: spanKey{}, HeaderKey: header, AllowInvalidParentSpans: true, DisableQueryTracing: true, SpanStarter: startSpan,
	})
	if err != nil {
		return Traces{}, fmt.Errorf("traces: %w", err)
	}
	// The first is the outermost of what comes in, and the last of what goes out.
	return Traces{Tracer: provider.Tracer("kumodo.io/convoy"), Interceptors: []interceptor.ClientInterceptor{
		&attempts{}, interceptor.NewTracingInterceptor(tracer), &story{tracer: tracer},
	}}, nil
}

// endless are spans of workflows that live as long as their object: they would end with it, and be of no trace that is
// there by then.
var endless = map[string]bool{"RunWorkflow:Cluster": true, "RunWorkflow:Release": true, "RunWorkflow:Observer": true, "RunWorkflow:Source": true, "RunWorkflow:Hub": true}

// startSpan starts a span that says no more of an error than its class.
func startSpan(ctx context.Context, t trace.Tracer, name string, o ...trace.SpanStartOption) trace.Span {
	if endless[name] {
		return trace.SpanFromContext(ctx) // its parent in its place, which it cannot end
	}
	_, span := t.Start(ctx, name, o...)
	return &classed{Span: span}
}

// classed is a span without the text of errors, which may hold anything.
type classed struct {
	trace.Span
	class string
}

// RecordError notes the class of an error.
func (s *classed) RecordError(err error, _ ...trace.EventOption) {
	if err == nil || workflow.IsContinueAsNewError(err) {
		return
	}
	s.class = classOf(err)
	s.SetAttributes(attribute.String("convoy.reason", s.class))
}

// SetStatus says that the span failed, by the class that was noted.
func (s *classed) SetStatus(code codes.Code, _ string) {
	if s.class != "" {
		s.Span.SetStatus(code, s.class)
	}
}

// classOf is the reason of a failure, or what kind of error it is.
func classOf(err error) string {
	if app, is := errors.AsType[*temporal.ApplicationError](err); is {
		return app.Type()
	}
	if errors.Is(err, context.Canceled) || temporal.IsCanceledError(err) {
		return "Cancelled"
	}
	return typeOf(err)
}

// typeOf names the Go type of the innermost error.
func typeOf(err error) string {
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(next) {
		err = next
	}
	return fmt.Sprintf("%T", err)
}
