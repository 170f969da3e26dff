package main

import (
	"context"
	"fmt"
	"time"

	temporalclient "go.temporal.io/sdk/client"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// takeTargetAway stops the target and checks that the Cluster says so and that the Release waits.
func (d *demo) takeTargetAway(ctx context.Context) error {
	var err error
	if d.delivered, err = d.deployment(ctx); err != nil {
		return err
	}
	if err := d.target0().Kill(); err != nil {
		return err
	}
	d.out.detail("the target's API server is stopped")
	if err := d.reprobe(ctx, false); err != nil {
		return err
	}
	if _, err := d.awaitCluster(ctx, metav1.ConditionFalse, v1alpha1.ReasonProbeFailed); err != nil {
		return err
	}
	if _, err := d.request(ctx); err != nil {
		return err
	}
	return d.await(ctx, "the Release to wait at the gate", func(ctx context.Context) error {
		r := &v1alpha1.Release{}
		if err := d.hub.Get(ctx, key(releaseName), r); err != nil {
			return err
		}
		if err := compare(r.Status.Conditions, v1alpha1.ConditionApplied, metav1.ConditionFalse, v1alpha1.ReasonClusterNotReady, r.Generation); err != nil {
			return err
		}
		d.out.detail("Release: Applied=False, %s", v1alpha1.ReasonClusterNotReady)
		return nil
	})
}

// bringTargetBack starts the target again and checks that the Release is Ready again without a rollout.
func (d *demo) bringTargetBack(ctx context.Context) error {
	stop := d.meanwhile("waiting for the target's API server")
	err := d.target0().Start(ctx)
	stop()
	if err != nil {
		return err
	}
	d.out.detail("the target's API server answers again")
	if err := d.reprobe(ctx, true); err != nil {
		return err
	}
	if _, err := d.awaitCluster(ctx, metav1.ConditionTrue, v1alpha1.ReasonReachable); err != nil {
		return err
	}
	r, err := d.awaitDelivered(ctx, func(*v1alpha1.Release) error { return nil })
	if err != nil {
		return err
	}
	if r.Status.Rollout.Number != d.release.Status.Rollout.Number {
		return fmt.Errorf("the outage led to rollout %d", r.Status.Rollout.Number)
	}
	deployment, err := d.deployment(ctx)
	if err != nil {
		return err
	}
	if deployment.UID != d.delivered.UID || deployment.Generation != d.delivered.Generation {
		return fmt.Errorf("the Deployment on the target was changed: generation %d became %d", d.delivered.Generation, deployment.Generation)
	}
	d.out.detail("Release: Ready=True, still rollout %d; the Deployment is the same", r.Status.Rollout.Number)
	return nil
}

// reprobe has convoy probe the Cluster now, by the Temporal update of that name, and checks its answer.
func (d *demo) reprobe(ctx context.Context, reachable bool) error {
	ctx, cancel := context.WithTimeout(ctx, 45*time.Second)
	defer cancel()
	update, err := d.temporal.UpdateWorkflow(ctx, temporalclient.UpdateWorkflowOptions{
		WorkflowID: delivery.ClusterWorkflowID(namespace, clusterName), UpdateName: delivery.UpdateReprobe,
		WaitForStage: temporalclient.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return fmt.Errorf("update %s: %w", delivery.UpdateReprobe, err)
	}
	var verdict struct {
		Reachable       bool
		Reason, Message string
	}
	if err := update.Get(ctx, &verdict); err != nil {
		return fmt.Errorf("update %s: %w", delivery.UpdateReprobe, err)
	}
	d.out.detail("update %s answers: reachable %t, %s: %s", delivery.UpdateReprobe, verdict.Reachable, verdict.Reason, verdict.Message)
	if verdict.Reachable != reachable {
		return fmt.Errorf("update %s answers reachable: %t", delivery.UpdateReprobe, verdict.Reachable)
	}
	return nil
}
