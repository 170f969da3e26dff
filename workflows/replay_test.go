package workflows_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"kumodo.io/convoy/internal/delivery"
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
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			if err := newReplayer(t).ReplayWorkflowHistoryFromJSONFile(nil, file); err != nil {
				t.Error(err)
			}
		})
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{delivery.WorkflowCluster, delivery.WorkflowRelease, delivery.WorkflowRollout} {
			if strings.Contains(string(content), `"workflowType":{"name":"`+kind+`"}`) {
				seen[kind] = true
			}
		}
	}
	for _, kind := range []string{delivery.WorkflowCluster, delivery.WorkflowRelease, delivery.WorkflowRollout} {
		if !seen[kind] {
			t.Errorf("no history of a %s workflow is recorded in testdata/histories", kind)
		}
	}
}

// newReplayer knows the workflows under the names that histories hold, as worker.Register gives them.
func newReplayer(t *testing.T) worker.WorkflowReplayer {
	t.Helper()
	replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{DisableRegistrationAliasing: true})
	if err != nil {
		t.Fatal(err)
	}
	for name, run := range map[string]any{
		delivery.WorkflowCluster: workflows.Cluster, delivery.WorkflowRelease: workflows.Release, delivery.WorkflowRollout: workflows.Rollout,
	} {
		replayer.RegisterWorkflowWithOptions(run, workflow.RegisterOptions{Name: name})
	}
	return replayer
}
