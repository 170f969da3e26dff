package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
)

// deleteCluster deletes the Cluster and checks that nothing is left on the hub and on the target.
func (d *demo) deleteCluster(ctx context.Context) error {
	cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: clusterName}}
	if err := change(ctx, d.hub, cluster, func() { cluster.Spec.DeletionPolicy.PruneReleases = true }); err != nil {
		return err
	}
	if err := d.hub.Delete(ctx, cluster); err != nil {
		return err
	}
	d.out.detail("deleted the Cluster, with pruneReleases: true")
	err := d.await(ctx, "Release and Cluster to be gone from the hub", func(ctx context.Context) error {
		return gone(ctx, d.hub, []client.ObjectList{&v1alpha1.ReleaseList{}, &v1alpha1.ClusterList{}, &v1alpha1.InventoryList{}})
	})
	if err != nil {
		return err
	}
	d.out.detail("on the hub: no Release, no Cluster, no Inventory")
	owned := []client.ObjectList{
		&appsv1.DeploymentList{}, &corev1.ServiceList{}, &autoscalingv2.HorizontalPodAutoscalerList{}, &corev1.NamespaceList{},
	}
	if err := gone(ctx, d.target, owned, client.HasLabels{v1alpha1.LabelOwner}); err != nil {
		return fmt.Errorf("the Release is gone, and the target still holds its objects: %w", err)
	}
	namespace := &corev1.Namespace{}
	if err := d.target.Get(ctx, client.ObjectKey{Name: targetNamespace}, namespace); client.IgnoreNotFound(err) != nil {
		return err
	} else if err == nil {
		return fmt.Errorf("the Release is gone, and the target still has the namespace %s", targetNamespace)
	}
	d.out.detail("on the target: no object of the application, no namespace %s", targetNamespace)
	return nil
}

// gone says what is left of these kinds.
func gone(ctx context.Context, c client.Client, lists []client.ObjectList, options ...client.ListOption) error {
	var left []string
	for _, list := range lists {
		if err := c.List(ctx, list, options...); err != nil {
			return err
		}
		kind := strings.TrimSuffix(fmt.Sprintf("%T", list), "List")
		kind = kind[strings.LastIndexByte(kind, '.')+1:]
		err := meta.EachListItem(list, func(o runtime.Object) error {
			accessor, err := meta.Accessor(o)
			if err == nil {
				left = append(left, kind+" "+accessor.GetName())
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	if len(left) > 0 {
		return errors.New("left: " + strings.Join(left, ", "))
	}
	return nil
}
