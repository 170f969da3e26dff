package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	temporalclient "go.temporal.io/sdk/client"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/dev/env"
	"kumodo.io/convoy/internal/delivery"
)

const (
	// reprobes is how many healthy Clusters are probed by update.
	reprobes = 50
	// queueSample is of how many healthy Clusters is asked whether their probes queue.
	queueSample = 20
	// fullQueue is the share of the Clusters whose probes queue when the reprobes begin.
	fullQueue = 0.9
	// limitLag is how long the Temporal server may take to keep to another rate.
	limitLag = 10 * time.Second
)

// crawl is how many probes a second leave the queue while reprobes are measured: so few that it stays full.
func (c *clustersSuite) crawl() float32 { return max(1, float32(c.N)/200) }

// limitProbes has the Temporal server let so many probes a second leave the queue; nil is as many as convoy says.
func (c *clustersSuite) limitProbes(ctx context.Context, limit *taskqueuepb.RateLimit) error {
	_, err := c.temporal.WorkflowService().UpdateTaskQueueConfig(ctx, &workflowservice.UpdateTaskQueueConfigRequest{
		Namespace: env.Namespace, TaskQueue: delivery.QueueProbe, TaskQueueType: enumspb.TASK_QUEUE_TYPE_ACTIVITY, Identity: "bench",
		UpdateQueueRateLimit: &workflowservice.UpdateTaskQueueConfigRequest_RateLimitUpdate{RateLimit: limit, Reason: "bench"},
	})
	if err != nil {
		return fmt.Errorf("limit the rate of probes: %w", err)
	}
	return nil
}

// fillQueue slows the probes down, changes all healthy Clusters, and returns when the probes of nearly all of them queue.
func (c *clustersSuite) fillQueue(ctx context.Context) error {
	if err := c.limitProbes(ctx, &taskqueuepb.RateLimit{RequestsPerSecond: c.crawl()}); err != nil {
		return err
	}
	if err := pause(ctx, limitLag); err != nil {
		return err
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"metadata":{"changed":"by the bench"}}}`))
	err := each(ctx, c.healthy, func(ctx context.Context, name string) error {
		return c.hub.Patch(ctx, &v1alpha1.Cluster{ObjectMeta: named(name)}, patch)
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 3*time.Minute, errors.New("a change of all Clusters made too few probes queue"))
	defer cancel()
	return poll(ctx, 500*time.Millisecond, func() error {
		share, err := c.queued(ctx)
		if err == nil && share < fullQueue {
			err = fmt.Errorf("%.0f %% of them queue", 100*share)
		}
		return err
	})
}

// reprobeSome asks healthy Clusters for their verdict, one after the other, while probes of all of them queue.
func (c *clustersSuite) reprobeSome(ctx context.Context) error {
	for _, name := range spread(c.healthy, reprobes) {
		began := time.Now()
		if err := c.reprobeNow(ctx, name); err != nil {
			return err
		}
		c.reprobe = append(c.reprobe, time.Since(began))
	}
	share, err := c.queued(ctx)
	if err == nil && share < fullQueue/2 {
		err = fmt.Errorf("the probes of only %.0f %% of the healthy Clusters queued still when the last reprobe ended", 100*share)
	}
	return err
}

// queued is the share of the healthy Clusters whose probe waits for its turn.
func (c *clustersSuite) queued(ctx context.Context) (float64, error) {
	var waiting atomic.Int64
	sample := spread(c.healthy, queueSample)
	err := each(ctx, sample, func(ctx context.Context, name string) error {
		d, err := c.temporal.DescribeWorkflow(ctx, delivery.ClusterWorkflowID(namespace, name), "")
		if err != nil {
			return err
		}
		for _, a := range d.RawResponse.GetPendingActivities() {
			if a.GetState() == enumspb.PENDING_ACTIVITY_STATE_SCHEDULED {
				waiting.Add(1)
			}
		}
		return nil
	})
	return float64(waiting.Load()) / float64(len(sample)), err
}

// reprobeNow has a Cluster probed, and fails when the verdict is not that it is reachable.
func (c *clustersSuite) reprobeNow(ctx context.Context, name string) error {
	update, err := c.temporal.UpdateWorkflow(ctx, temporalclient.UpdateWorkflowOptions{
		WorkflowID: delivery.ClusterWorkflowID(namespace, name), UpdateName: delivery.UpdateReprobe,
		WaitForStage: temporalclient.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return fmt.Errorf("reprobe %s: %w", name, err)
	}
	var verdict struct {
		Reachable bool   `json:"reachable"`
		Message   string `json:"message"`
	}
	if err := update.Get(ctx, &verdict); err != nil {
		return fmt.Errorf("reprobe %s: %w", name, err)
	}
	if !verdict.Reachable {
		return fmt.Errorf("reprobe %s: it is not reachable: %s", name, verdict.Message)
	}
	return nil
}

// checkReprobes checks that what was changed gets its verdict after all.
func (c *clustersSuite) checkReprobes(ctx context.Context, _ figures) ([]fact, error) {
	if err := c.limitProbes(ctx, nil); err != nil {
		return nil, err
	}
	if err := c.clusters.await(ctx, c.healthy, reachable); err != nil {
		return nil, err
	}
	return []fact{
		{Name: "reprobes", Value: float64(len(c.reprobe))},
		{Name: "reprobe p50", Unit: "s", Value: c.reprobe.p50()},
		{Name: "reprobe p99", Unit: "s", Value: c.reprobe.p99(), Limit: new(2.0)},
		{Name: "reprobe max", Unit: "s", Value: c.reprobe.max()},
	}, nil
}
