package worker

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"

	"kumodo.io/convoy/activities"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/workflows"
)

// recordedHistory is one that ran against real clusters.
func recordedHistory(t *testing.T, name string) *historypb.History {
	t.Helper()
	file, err := os.Open(filepath.Join("..", "workflows", "testdata", "histories", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	h, err := client.HistoryFromJSON(file, client.HistoryJSONOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// installation is a Temporal with histories by the ids of their workflows, two on each page.
type installation struct {
	client.Client
	histories map[string]*historypb.History
	query     string
}

func (i *installation) ListWorkflow(_ context.Context, in *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	i.query = in.Query
	all := []string{}
	for id := range i.histories {
		all = append(all, id)
	}
	slices.Sort(all)
	from := len(in.NextPageToken)
	out := &workflowservice.ListWorkflowExecutionsResponse{}
	for _, id := range all[from:min(from+2, len(all))] {
		kind := "Removed"
		if h := i.histories[id]; h != nil {
			kind = h.GetEvents()[0].GetWorkflowExecutionStartedEventAttributes().GetWorkflowType().GetName()
		}
		out.Executions = append(out.Executions, &workflowpb.WorkflowExecutionInfo{
			Type: &commonpb.WorkflowType{Name: kind}, Execution: &commonpb.WorkflowExecution{WorkflowId: id, RunId: "run-of-" + id},
		})
	}
	if from+2 < len(all) {
		out.NextPageToken = make([]byte, from+2)
	}
	return out, nil
}

type events struct {
	all []*historypb.HistoryEvent
	err error
}

func (e *events) HasNext() bool { return len(e.all) > 0 || e.err != nil }

func (e *events) Next() (*historypb.HistoryEvent, error) {
	if e.err != nil {
		return nil, e.err
	}
	next := e.all[0]
	e.all = e.all[1:]
	return next, nil
}

func (i *installation) GetWorkflowHistory(_ context.Context, id, _ string, _ bool, _ enumspb.HistoryEventFilterType) client.HistoryEventIterator {
	if i.histories[id] == nil {
		return &events{err: serviceerror.NewNotFound("it is gone")}
	}
	return &events{all: slices.Clone(i.histories[id].GetEvents())}
}

// otherRelease begins with a step that no recorded history begins with.
func otherRelease(ctx workflow.Context, _ delivery.ReleaseInput) error {
	var acts *activities.Activities
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 1})
	return workflow.ExecuteActivity(ctx, acts.PruneObjects, "text that nobody is to see").Get(ctx, nil)
}

func checked(t *testing.T, at *installation, o PreflightOptions) *Preflight {
	t.Helper()
	o.Namespace, o.Concurrency = "hub", 3
	if o.Register == nil {
		o.Register = RegisterWorkflows
	}
	p, err := o.Check(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAPreflightReplaysWhatRuns(t *testing.T) {
	at := &installation{histories: map[string]*historypb.History{
		"cluster/a": recordedHistory(t, "cluster-ready"), "release/a": recordedHistory(t, "release-rollouts"), "release/b": recordedHistory(t, "release-hooks"),
		"release/c": recordedHistory(t, "release-corrections"), "rollout/a": recordedHistory(t, "rollout-apply"), "source/a": recordedHistory(t, "source-polled"),
		"ended": nil,
	}}
	// A workflow that has only just begun, and one in the middle.
	at.histories["release/b"].Events = at.histories["release/b"].GetEvents()[:2]
	at.histories["release/c"].Events = at.histories["release/c"].GetEvents()[:12]
	seen := 0
	p := checked(t, at, PreflightOptions{Progress: func(replayed, failed int) { seen = replayed + failed }})
	want := &Preflight{Types: []PreflightType{{"Cluster", 1, 0, 0}, {"Release", 3, 0, 0}, {"Rollout", 1, 0, 0}, {"Source", 1, 0, 0}}, Failures: []PreflightFailure{}}
	if diff := cmp.Diff(want, p); diff != "" || seen != 6 {
		t.Errorf("after %d steps: %s", seen, diff)
	}
	if at.query != "TaskQueue = 'convoy' AND ExecutionStatus = 'Running'" {
		t.Error(at.query)
	}
	p = checked(t, at, PreflightOptions{Limit: 2})
	if p.Types[1] != (PreflightType{"Release", 2, 0, 1}) {
		t.Errorf("with a limit: %+v", p.Types)
	}
}

func TestAPreflightNamesWhatABuildCannotGoOnWith(t *testing.T) {
	at := &installation{histories: map[string]*historypb.History{
		"cluster/a": recordedHistory(t, "cluster-ready"), "release/a": recordedHistory(t, "release-rollouts"), "rollout/a": recordedHistory(t, "rollout-apply"),
	}}
	p := checked(t, at, PreflightOptions{Register: func(r WorkflowRegistry) {
		r.RegisterWorkflowWithOptions(workflows.Cluster, workflow.RegisterOptions{Name: delivery.WorkflowCluster})
		r.RegisterWorkflowWithOptions(otherRelease, workflow.RegisterOptions{Name: delivery.WorkflowRelease})
	}})
	want := []PreflightFailure{
		{"Release", "release/a", "run-of-release/a", "the history has ActivityTaskScheduled CheckCluster, which this build does not do there"},
		{"Rollout", "rollout/a", "run-of-rollout/a", "this build has no workflow Rollout"},
	}
	if diff := cmp.Diff(want, p.Failures); diff != "" {
		t.Error(diff)
	}
	if p.Types[0] != (PreflightType{"Cluster", 1, 0, 0}) || p.Types[1].Failed != 1 {
		t.Errorf("types: %+v", p.Types)
	}
	if text, err := json.Marshal(p); err != nil || strings.Contains(string(text), "nobody is to see") {
		t.Errorf("it says %s, %v", text, err)
	}
}

func TestAHistoryThatWasChangedIsSaidToBeSo(t *testing.T) {
	for name, change := range map[string]func(*historypb.History){
		"the history goes on with Activity of-another-build, which this build does not do": func(h *historypb.History) {
			for _, e := range h.GetEvents() {
				if a := e.GetActivityTaskScheduledEventAttributes(); a != nil {
					a.ActivityId = "of-another-build"
				}
			}
		},
		"the history has ActivityTaskScheduled Frobnicate where this build does": func(h *historypb.History) {
			for _, e := range h.GetEvents() {
				if a := e.GetActivityTaskScheduledEventAttributes(); a != nil {
					a.ActivityType.Name = "Frobnicate"
				}
			}
		},
	} {
		h := recordedHistory(t, "rollout-apply")
		change(h)
		problem, err := Replays(h, RegisterWorkflows)
		if err != nil || !strings.Contains(problem, name) {
			t.Errorf("it says %q, %v, want %q", problem, err, name)
		}
	}
}
