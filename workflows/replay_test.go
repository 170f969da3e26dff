package workflows_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/telemetry"
	"kumodo.io/convoy/workflows"
)

// The histories are those of workflows that ran against real clusters; dev/e2e records them. A change of workflow
// code that does not replay one of them would break workflows that run while convoy is upgraded: put it behind
// workflow.GetVersion, and add a history that takes the new way.
func TestRecordedHistoriesReplay(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "histories", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			history := readHistory(t, file)
			seen[history.GetEvents()[0].GetWorkflowExecutionStartedEventAttributes().GetWorkflowType().GetName()] = true
			for name, replayer := range map[string]worker.WorkflowReplayer{"bare": newReplayer(t), "traced": newReplayer(t, traced(t)...)} {
				if err := replayer.ReplayWorkflowHistory(nil, history); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	for _, kind := range []string{delivery.WorkflowCluster, delivery.WorkflowRelease, delivery.WorkflowRollout, delivery.WorkflowSource, delivery.WorkflowObserver, delivery.WorkflowHub} {
		if !seen[kind] {
			t.Errorf("no history of a %s workflow is recorded in testdata/histories", kind)
		}
	}
}

func readHistory(t *testing.T, path string) *historypb.History {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	history, err := client.HistoryFromJSON(file, client.HistoryJSONOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return history
}

// traced are the interceptors of a worker that traces, which was not when the histories were recorded.
func traced(t *testing.T) (around []interceptor.WorkerInterceptor) {
	t.Helper()
	traces, err := telemetry.Tracing(trace.NewTracerProvider())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range traces.Interceptors {
		around = append(around, i.(interceptor.WorkerInterceptor))
	}
	return around
}

// newReplayer knows the workflows under the names that histories hold, as worker.Register gives them.
func newReplayer(t *testing.T, around ...interceptor.WorkerInterceptor) worker.WorkflowReplayer {
	t.Helper()
	replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{
		DisableRegistrationAliasing: true, Interceptors: around,
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, run := range map[string]any{
		delivery.WorkflowCluster: workflows.Cluster, delivery.WorkflowRelease: workflows.Release, delivery.WorkflowRollout: workflows.Rollout, delivery.WorkflowSource: workflows.Source, delivery.WorkflowObserver: workflows.Observer,
		delivery.WorkflowHub: workflows.Hub,
	} {
		replayer.RegisterWorkflowWithOptions(run, workflow.RegisterOptions{Name: name})
	}
	return replayer
}
