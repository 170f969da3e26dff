package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"kumodo.io/convoy/internal/failure"
)

const sentinel = "S3NT1NEL"

// executed is what an activity that ends like this leaves for Temporal to keep.
func executed(t *testing.T, end func(context.Context) (string, error)) *temporal.ApplicationError {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&classes{}}})
	env.RegisterActivityWithOptions(end, activity.RegisterOptions{Name: "Step"})
	_, err := env.ExecuteActivity("Step")
	var app *temporal.ApplicationError
	if !errors.As(err, &app) {
		t.Fatalf("ended with %v, want an application error", err)
	}
	return app
}

func TestErrorsAndPanicsOfActivitiesBecomeClassesWithoutTheirText(t *testing.T) {
	secret := errors.New("the server said " + sentinel)
	cases := map[string]struct {
		end      func(context.Context) (string, error)
		kind     string
		message  string
		terminal bool
	}{
		"a foreign error keeps only its type": {
			func(context.Context) (string, error) { return "", fmt.Errorf("read: %w", secret) },
			"Internal", "Step failed inside convoy (*errors.errorString)", false,
		},
		"a panic keeps nothing": {
			func(context.Context) (string, error) { panic("value " + sentinel) },
			"Panic", "the step panicked; the log of the worker says where", false,
		},
		"a transient failure loses its cause": {
			func(context.Context) (string, error) {
				return "", failure.Transient("ProbeFailed", secret, "connection refused")
			},
			"ProbeFailed", "connection refused", false,
		},
		"a terminal failure is not retried, also when it is wrapped": {
			func(context.Context) (string, error) {
				return "", fmt.Errorf("render: %w", failure.Terminal("RenderFailed", secret, "app.yaml: no kind"))
			},
			"RenderFailed", "app.yaml: no kind", true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := executed(t, tc.end)
			if got.Type() != tc.kind || got.Message() != tc.message || got.NonRetryable() != tc.terminal {
				t.Errorf("got %s %q, non-retryable %v; want %s %q, %v", got.Type(), got.Message(), got.NonRetryable(), tc.kind, tc.message, tc.terminal)
			}
			if strings.Contains(fmt.Sprintf("%+v %v", got, errors.Unwrap(got)), sentinel) {
				t.Errorf("the secret is in %+v", got)
			}
		})
	}
}

func TestAFailureMayAskForItsNextAttempt(t *testing.T) {
	got := executed(t, func(context.Context) (string, error) {
		f := failure.Transient("ProbeFailed", nil, "the server asks to wait")
		f.RetryAfter = time.Minute
		return "", f
	})
	if d := got.NextRetryDelay(); d < 48*time.Second || d > 72*time.Second {
		t.Errorf("the next attempt is after %s, want a minute and up to a fifth off", d)
	}
}

func TestALongMessageIsCut(t *testing.T) {
	got := executed(t, func(context.Context) (string, error) {
		return "", failure.Transient("ApplyFailed", nil, "%s", strings.Repeat("ä", 100_000))
	})
	if n := len(got.Message()); n > 2048 || n < 2000 {
		t.Errorf("the message has %d bytes, want at most 2048", n)
	}
}
