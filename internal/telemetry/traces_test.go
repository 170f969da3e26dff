package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

const told = "0af7651916cd43dd8448eb211c80319c"

// twice calls a step, and once more after a while.
func twice(pause time.Duration) func(workflow.Context) error {
	return func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			StartToCloseTimeout: time.Minute,
			RetryPolicy:         &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 1, MaximumAttempts: ownTrace + 1},
		})
		for range 2 {
			_ = workflow.ExecuteActivity(ctx, "Step").Get(ctx, nil)
			if err := workflow.Sleep(ctx, pause); err != nil {
				return err
			}
		}
		return nil
	}
}

// ran runs a workflow that a span has told, and gives the spans of that.
func ran(t *testing.T, kind string, flow func(workflow.Context) error, step func(context.Context) error) tracetest.SpanStubs {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	traces, err := Tracing(provider)
	if err != nil {
		t.Fatal(err)
	}
	var around []interceptor.WorkerInterceptor
	for _, i := range traces.Interceptors {
		around = append(around, i.(interceptor.WorkerInterceptor))
	}
	payload, err := converter.GetDefaultDataConverter().ToPayload(map[string]string{"traceparent": "00-" + told + "-b7ad6b7169203331-01"})
	if err != nil {
		t.Fatal(err)
	}
	var suite testsuite.WorkflowTestSuite
	suite.SetHeader(&commonpb.Header{Fields: map[string]*commonpb.Payload{header: payload}})
	env := suite.NewTestWorkflowEnvironment()
	env.SetWorkerOptions(worker.Options{Interceptors: around})
	env.RegisterWorkflowWithOptions(flow, workflow.RegisterOptions{Name: kind})
	env.RegisterActivityWithOptions(step, activity.RegisterOptions{Name: "Step"})
	env.ExecuteWorkflow(kind)
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	return spans.GetSpans()
}

// tracesOf are the traces of the spans with a name, in their order.
func tracesOf(spans tracetest.SpanStubs, name string) (ids []string) {
	for _, s := range spans {
		if s.Name == name {
			ids = append(ids, s.SpanContext.TraceID().String())
		}
	}
	return ids
}

func TestWhatAWorkflowBeginsBelongsToWhatItWasToldForAWhile(t *testing.T) {
	done := func(context.Context) error { return nil }
	soon := ran(t, "Release", twice(time.Minute), done)
	if ids := tracesOf(soon, "RunActivity:Step"); !slices.Equal(ids, []string{told, told}) {
		t.Errorf("steps that follow each other are of the traces %v", ids)
	}
	if ids := tracesOf(soon, "RunWorkflow:Release"); ids != nil {
		t.Errorf("a workflow that lives as long as its object has spans in %v", ids)
	}
	later := ran(t, "Release", twice(takesIn+time.Minute), done)
	ids, began := tracesOf(later, "RunActivity:Step"), tracesOf(later, "Begin:Release")
	if len(ids) != 2 || ids[0] != told || ids[1] == told || !slices.Equal(began, ids[1:]) {
		t.Errorf("steps are of the traces %v, and the workflow began %v by itself", ids, began)
	}
}

func TestAttemptsWithoutEndAreTracesOfTheirOwn(t *testing.T) {
	spans := ran(t, "Rollout", twice(0), func(context.Context) error { return errors.New("not yet") })
	ids := tracesOf(spans, "RunActivity:Step")
	if len(ids) != 2*(ownTrace+1) {
		t.Fatalf("%d attempts", len(ids))
	}
	for i, id := range ids {
		if own := i%(ownTrace+1) >= ownTrace-1; (id != told) != own {
			t.Errorf("attempt %d is of the trace %s", i+1, id)
		}
	}
}

func TestASpanSaysOfAnErrorTheClassOnly(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want string
	}{
		{temporal.NewNonRetryableApplicationError("S3NT1NEL", "ApplyFailed", errors.New("S3NT1NEL")), "ApplyFailed"},
		{temporal.NewNonRetryableApplicationError("S3NT1NEL", "Internal", nil), "Internal"},
		{context.Canceled, "Cancelled"},
	} {
		if got := classOf(tc.err); got != tc.want {
			t.Errorf("%T is %s, want %s", tc.err, got, tc.want)
		}
		spans := ran(t, "Rollout", twice(0), func(context.Context) error { return tc.err })
		failed := 0
		for _, s := range spans {
			text := s.Status.Description
			for _, a := range s.Attributes {
				text += " " + a.Value.String()
			}
			if strings.Contains(text, "S3NT1NEL") || len(s.Events) > 0 {
				t.Errorf("span %s says %q, with %d events", s.Name, text, len(s.Events))
			}
			if s.Name == "RunActivity:Step" && strings.Contains(text, tc.want) {
				failed++
			}
		}
		if failed == 0 {
			t.Errorf("no span says %s", tc.want)
		}
	}
}

func quiet() log.Logger { return log.NewStructuredLogger(slog.New(slog.DiscardHandler)) }

func TestAHeaderThatCannotBeReadIsNotTold(t *testing.T) {
	var said strings.Builder
	otel.SetLogger(funcr.New(func(prefix, args string) { said.WriteString(prefix + args) }, funcr.Options{Verbosity: 10}))
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	for _, header := range []string{"Bearer S3NT1NEL", "authorization=%zzS3NT1NEL"} {
		t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", header)
		traces, err := NewTraces(t.Context(), "test", quiet())
		if err != nil || strings.Contains(said.String(), "S3NT1NEL") {
			t.Errorf("%v; it says %q", err, said.String())
		}
		if err := traces.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestTracesAreOffUnlessTheEnvironmentNamesAnEndpoint(t *testing.T) {
	for name, tc := range map[string]struct {
		env  map[string]string
		on   bool
		says string
	}{
		"nothing":                    {},
		"an endpoint":                {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, on: true},
		"one of traces, by grpc":     {env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, on: true},
		"switched off all the same":  {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}},
		"for others than traces":     {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"}},
		"a protocol that is unknown": {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, says: `"http/json" is neither`},
	} {
		t.Run(name, func(t *testing.T) {
			for key, value := range tc.env {
				t.Setenv(key, value)
			}
			traces, err := NewTraces(t.Context(), "test", quiet())
			if tc.says != "" {
				if err == nil || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("it says %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if on := traces.Tracer != nil; on != tc.on || (len(traces.Interceptors) > 0) != tc.on {
				t.Errorf("traced: %v, with %d interceptors", on, len(traces.Interceptors))
			}
			if err := traces.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
