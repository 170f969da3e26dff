package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// newRole is what the role in the Cluster's metadata becomes.
const newRole = "canary"

// changeMetadata changes the metadata that a mutation reads, and checks that the Release is left alone.
func (d *demo) changeMetadata(ctx context.Context) error {
	before, err := d.rest(ctx)
	if err != nil {
		return err
	}
	cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: clusterName}}
	was := ""
	err = change(ctx, d.hub, cluster, func() {
		was = string(cluster.Spec.Metadata[roleKey])
		cluster.Spec.Metadata[roleKey] = newRole
	})
	if err != nil {
		return err
	}
	d.out.detail("%s: %s -> %s, generation %d of the Cluster", roleKey, was, newRole, cluster.Generation)
	if cluster, err = d.awaitCluster(ctx, metav1.ConditionTrue, v1alpha1.ReasonReachable); err != nil {
		return err
	}
	after, err := d.rest(ctx)
	if err != nil {
		return err
	}
	release := &v1alpha1.Release{}
	if err := d.hub.Get(ctx, key(releaseName), release); err != nil {
		return err
	}
	if release.Status.Rollout.Number != d.release.Status.Rollout.Number {
		return fmt.Errorf("the change of the Cluster gave rollout %d", release.Status.Rollout.Number)
	}
	if before != after {
		return fmt.Errorf("the change of the Cluster made the history of the Release's workflow grow from %d to %d events", before, after)
	}
	d.out.detail("the Cluster is probed anew: observedGeneration %d", cluster.Status.ObservedGeneration)
	d.out.detail("the Release is as before: %d events in its workflow's history, rollout %d", after, release.Status.Rollout.Number)
	return d.checkRole(ctx, was)
}

// rest waits until the workflow of the Release has nothing under way, and returns the length of its history.
func (d *demo) rest(ctx context.Context) (events int64, err error) {
	err = d.await(ctx, "the workflow of the Release to rest", func(ctx context.Context) error {
		w, err := d.temporal.DescribeWorkflow(ctx, delivery.ReleaseWorkflowID(namespace, releaseName), "")
		if err != nil {
			return err
		}
		raw := w.RawResponse
		if len(raw.GetPendingActivities())+len(raw.GetPendingChildren()) > 0 || raw.GetPendingWorkflowTask() != nil {
			return errors.New("something is under way")
		}
		events = raw.GetWorkflowExecutionInfo().GetHistoryLength()
		return nil
	})
	return events, err
}

// requestReconcile asks for a reconcile and checks that it rolls the new metadata out.
func (d *demo) requestReconcile(ctx context.Context) error {
	before := d.release
	asked, err := d.request(ctx)
	if err != nil {
		return err
	}
	d.release, err = d.awaitDelivered(ctx, func(r *v1alpha1.Release) error {
		if r.Status.LastHandledReconcileAt != asked {
			return errors.New("the request is not handled yet")
		}
		return nextRollout(before, r)
	})
	if err != nil {
		return err
	}
	d.out.detail("renderRef: %.19s -> %.19s", before.Status.RenderRef.Digest, d.release.Status.RenderRef.Digest)
	d.out.detail("rollout:   %d -> %d", before.Status.Rollout.Number, d.release.Status.Rollout.Number)
	return d.checkRole(ctx, newRole)
}

// request asks for a reconcile by the annotation, without waiting, and returns its value.
func (d *demo) request(ctx context.Context) (value string, err error) {
	value = time.Now().Format(time.RFC3339Nano)
	release := &v1alpha1.Release{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: releaseName}}
	err = change(ctx, d.hub, release, func() {
		metav1.SetMetaDataAnnotation(&release.ObjectMeta, v1alpha1.AnnotationRequestedAt, value)
	})
	if err != nil {
		return "", err
	}
	d.out.detail("annotated the Release with %s", v1alpha1.AnnotationRequestedAt)
	return value, nil
}

// nextRollout says when a Release is not one rollout and one render further.
func nextRollout(before, now *v1alpha1.Release) error {
	if now.Status.Rollout.Number != before.Status.Rollout.Number+1 {
		return fmt.Errorf("its rollout is number %d", now.Status.Rollout.Number)
	}
	if now.Status.RenderRef.Digest == before.Status.RenderRef.Digest {
		return errors.New("it has a new rollout of the same render")
	}
	return nil
}

// pushCommit pushes the second version of the application and checks what becomes of its objects.
func (d *demo) pushCommit(ctx context.Context) error {
	autoscaler := &autoscalingv2.HorizontalPodAutoscaler{}
	autoscalerKey := types.NamespacedName{Namespace: targetNamespace, Name: deploymentName}
	if err := d.target.Get(ctx, autoscalerKey, autoscaler); err != nil {
		return fmt.Errorf("read the HorizontalPodAutoscaler on the target: %w", err)
	}
	commit, err := d.commitChange(ctx)
	if err != nil {
		return err
	}
	d.out.detail("pushed %.12s: another color in the Deployment, no HorizontalPodAutoscaler", commit)
	before := d.release
	if _, err := d.request(ctx); err != nil {
		return err
	}
	d.release, err = d.awaitDelivered(ctx, func(r *v1alpha1.Release) error {
		return errors.Join(atCommit(r, commit), nextRollout(before, r))
	})
	if err != nil {
		return err
	}
	if err := d.target.Get(ctx, autoscalerKey, autoscaler); !apierrors.IsNotFound(err) {
		return fmt.Errorf("the HorizontalPodAutoscaler is still on the target (%w)", err)
	}
	deployment, err := d.deployment(ctx)
	if err != nil {
		return err
	}
	if err := checkColor(deployment); err != nil {
		return err
	}
	d.out.detail("rollout:   %d -> %d, %d -> %d objects in the inventory", before.Status.Rollout.Number, d.release.Status.Rollout.Number,
		before.Status.Inventory.Objects, d.release.Status.Inventory.Objects)
	d.out.detail("on the target: the color is %s, the HorizontalPodAutoscaler is gone", newColor)
	return nil
}

// checkColor says when a Deployment does not have the color of the second commit.
func checkColor(deployment *appsv1.Deployment) error {
	for _, container := range deployment.Spec.Template.Spec.Containers {
		for _, variable := range container.Env {
			if variable.Value == newColor {
				return nil
			}
		}
	}
	return fmt.Errorf("the Deployment on the target does not have the color %s", newColor)
}

// change reads an object, changes it and writes it, also when others write it meanwhile.
func change(ctx context.Context, c client.Client, o client.Object, apply func()) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		apply()
		return c.Update(ctx, o)
	})
}
