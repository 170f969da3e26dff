package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	temporalclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	temporallog "go.temporal.io/sdk/log"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/activities"
)

// engine is a connection to Temporal.
type engine struct {
	temporalclient.Client
	address, namespace string
}

// dialEngine prepares a connection, which is made when it is first used.
func dialEngine(f TemporalFlags) (*engine, error) {
	o, err := f.Options()
	if err != nil {
		return nil, err
	}
	o.Logger = temporallog.NewStructuredLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))
	c, err := temporalclient.NewLazyClient(o)
	if err != nil {
		return nil, fmt.Errorf("client of Temporal: %w", err)
	}
	return &engine{Client: c, address: o.HostPort, namespace: o.Namespace}, nil
}

// failed says what a failed request to Temporal means for the object whose workflow was asked.
func (e *engine) failed(err error, workflow string) error {
	if _, missing := errors.AsType[*serviceerror.NotFound](err); missing {
		return fmt.Errorf("namespace %s of Temporal at %s has no running workflow %s: either this is not the Temporal of this hub, or the watcher of convoy does not run", e.namespace, e.address, workflow)
	}
	return fmt.Errorf("Temporal at %s: %w", e.address, err) //nolint:staticcheck // a name
}

// execution is a workflow of an object, and what it is at.
type execution struct {
	Workflow string `json:"workflow"`
	Run      string `json:"run"`
	Status   string `json:"status"`
	// Version is the build of workers that last worked on it, when they have versions.
	Version string `json:"version,omitempty"`
	// Blocked says why no worker takes what it has to do next.
	Blocked  string `json:"blocked,omitempty"`
	Steps    []step `json:"steps,omitempty"`
	children []string
}

// step is an activity that has not ended.
type step struct {
	Name    string `json:"name"`
	State   string `json:"state"`
	Attempt int32  `json:"attempt"`
	// Next is when the next attempt begins.
	Next *metav1.Time `json:"nextAttempt,omitempty"`
	// Failure is how the last attempt ended.
	Failure string `json:"lastFailure,omitempty"`
	// Worker is where the last attempt runs, or ran.
	Worker string `json:"worker,omitempty"`
	// Progress is what its last heartbeat told.
	Progress string `json:"progress,omitempty"`
}

// states are how a step is called while Temporal has it in a state.
var states = map[enumspb.PendingActivityState]string{
	enumspb.PENDING_ACTIVITY_STATE_SCHEDULED:        "waiting for a worker",
	enumspb.PENDING_ACTIVITY_STATE_STARTED:          "running",
	enumspb.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED: "being cancelled",
	enumspb.PENDING_ACTIVITY_STATE_PAUSED:           "paused in Temporal",
	enumspb.PENDING_ACTIVITY_STATE_PAUSE_REQUESTED:  "being paused in Temporal",
}

// describe looks at the newest run of a workflow.
func (e *engine) describe(ctx context.Context, id string) (*execution, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	found, err := e.DescribeWorkflow(ctx, id, "")
	if err != nil {
		return nil, e.failed(err, id)
	}
	d := found.RawResponse
	info := d.GetWorkflowExecutionInfo()
	out := &execution{Workflow: id, Run: info.GetExecution().GetRunId(), Status: info.GetStatus().String(), Blocked: e.blocked(ctx, d)}
	if v := info.GetVersioningInfo().GetDeploymentVersion(); v != nil {
		out.Version = versionName(v)
	}
	for _, p := range d.GetPendingActivities() {
		out.Steps = append(out.Steps, stepOf(p))
	}
	for _, c := range d.GetPendingChildren() {
		out.children = append(out.children, c.GetWorkflowId())
	}
	return out, nil
}

func stepOf(p *workflowpb.PendingActivityInfo) step {
	s := step{
		Name: p.GetActivityType().GetName(), State: states[p.GetState()], Attempt: p.GetAttempt(),
		Failure: failureOf(p.GetLastFailure()), Worker: p.GetLastWorkerIdentity(),
	}
	if next := p.GetNextAttemptScheduleTime(); next != nil {
		s.Next = &metav1.Time{Time: next.AsTime()}
		s.State = "waiting for its next attempt"
	}
	var beat activities.Progress
	if d := p.GetHeartbeatDetails(); d != nil && converter.GetDefaultDataConverter().FromPayloads(d, &beat) == nil {
		s.Progress = beat.Step
		if beat.Of > 0 {
			s.Progress = fmt.Sprintf("%s, %d of %d", beat.Step, beat.Done, beat.Of)
		}
	}
	return s
}

// failureOf is the class and the message of a failure, as convoy gave them to Temporal.
func failureOf(f *failurepb.Failure) string {
	return joined(f.GetApplicationFailureInfo().GetType(), f.GetMessage())
}
