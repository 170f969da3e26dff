package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"k8s.io/apimachinery/pkg/util/wait"

	"kumodo.io/convoy/internal/delivery"
)

// lookInterval is how often a process looks whether the namespace of Temporal still serves its hub.
const lookInterval = 30 * time.Second

// ErrNotClaimed is what everything that needs the claim ends with until it is made.
var ErrNotClaimed = errors.New("it is not settled yet that this namespace of Temporal serves this hub")

// Claim sees to it that a namespace of Temporal serves one hub. Workflows have the names of objects, so those of two hubs
// would be the same. It is made with a workflow of a fixed ID, which Temporal starts once.
type Claim struct {
	temporal  client.Client
	namespace string
	logger    log.Logger
	hubID     func(context.Context) (string, error)
	made      chan struct{}
}

// NewClaim returns a claim that is not made yet, of the hub whose identity hubID reads.
func NewClaim(temporal client.Client, namespace string, logger log.Logger, hubID func(context.Context) (string, error)) *Claim {
	return &Claim{temporal: temporal, namespace: namespace, logger: logger, hubID: hubID, made: make(chan struct{})}
}

// Start makes the claim, and then looks until ctx is done whether it stands: a Temporal that was emptied is claimed anew. It
// fails when the namespace serves another hub.
func (c *Claim) Start(ctx context.Context) error {
	err := persist(ctx, c.logger, time.Second, c.hold)
	if err == nil {
		close(c.made)
		err = wait.PollUntilContextCancel(ctx, lookInterval, false, func(ctx context.Context) (bool, error) {
			err := c.hold(ctx)
			if u, ok := errors.AsType[*unusable](err); ok && !isNoNamespace(err) {
				return false, u
			}
			return false, nil // a Temporal that does not answer, or is being set up anew, is no loss of the claim
		})
	}
	if ctx.Err() != nil {
		err = nil
	}
	return err
}

// NeedLeaderElection tells the manager that every replica holds the claim.
func (c *Claim) NeedLeaderElection() bool { return false }

// Made is nil once the claim is made.
func (c *Claim) Made() error {
	select {
	case <-c.made:
		return nil
	default:
		return ErrNotClaimed
	}
}

// await reports whether the claim was made before ctx was done.
func (c *Claim) await(ctx context.Context) bool {
	select {
	case <-c.made:
		return true
	case <-ctx.Done():
		return false
	}
}

// hold looks whether the claim stands, and makes it when nobody has.
func (c *Claim) hold(ctx context.Context) error {
	id, err := c.hubID(ctx)
	if err != nil {
		return fmt.Errorf("the hub does not say which one it is: %w", err)
	}
	holder, err := Holder(ctx, c.temporal, c.namespace)
	if err == nil && holder == "" {
		if err = claim(ctx, c.temporal, id, enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING); err == nil {
			holder, err = Holder(ctx, c.temporal, c.namespace) // another hub may have been first
		}
	}
	switch {
	case isNoNamespace(err):
		return noNamespace(c.namespace, err)
	case err != nil:
		return err
	case holder != id:
		return &unusable{fmt.Sprintf("namespace %s of Temporal serves the hub %s, and this is the hub %s: use another namespace; or, when this hub "+
			"takes the place of that one, give it its identity by the annotation convoy.kumodo.io/hub-id of the namespace kube-system; or, when that hub "+
			"is gone for good, run convoy install claim --take-over", c.namespace, holder, id), nil}
	}
	return nil
}

// Holder is the ID of the hub that a namespace of Temporal serves, empty for none.
func Holder(ctx context.Context, temporal client.Client, namespace string) (string, error) {
	described, err := temporal.DescribeWorkflow(ctx, delivery.HubWorkflowID, "")
	if _, none := errors.AsType[*serviceerror.NotFound](err); none {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look which hub namespace %s of Temporal serves: %w", namespace, err)
	}
	info := described.RawResponse.GetWorkflowExecutionInfo()
	if info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return "", nil
	}
	var id string
	named := info.GetMemo().GetFields()[delivery.MemoHub]
	if named == nil || converter.GetDefaultDataConverter().FromPayload(named, &id) != nil || id == "" {
		return "", &unusable{fmt.Sprintf("namespace %s of Temporal has a workflow %s that is not convoy's: use another namespace", namespace, delivery.HubWorkflowID), nil}
	}
	return id, nil
}

// TakeOver lets a namespace of Temporal serve a hub from now on, whichever it serves.
func TakeOver(ctx context.Context, temporal client.Client, hubID string) error {
	return claim(ctx, temporal, hubID, enumspb.WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING)
}

func claim(ctx context.Context, temporal client.Client, hubID string, conflict enumspb.WorkflowIdConflictPolicy) error {
	_, err := temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: delivery.HubWorkflowID, TaskQueue: delivery.QueueMain, WorkflowIDConflictPolicy: conflict,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		Memo:                  map[string]any{delivery.MemoHub: hubID}, StaticSummary: "Hub " + hubID,
	}, delivery.WorkflowHub, delivery.HubInput{HubID: hubID})
	if err != nil {
		return fmt.Errorf("claim the namespace of Temporal for the hub %s: %w", hubID, err)
	}
	return nil
}
