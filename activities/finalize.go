package activities

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/failure"
	"kumodo.io/convoy/internal/status"
)

// FinalizeCluster does what the deletion policy of a Cluster asks for, and removes the finalizer once nothing
// is left to wait for. While Releases are left it fails, naming them, and is retried.
func (a *Activities) FinalizeCluster(ctx context.Context, in ObjectInput) (ObjectResult, error) {
	c, life, err := a.cluster(ctx, in.Key)
	if err == nil && life == Gone {
		err = a.forgetCluster(ctx, in.Key) // somebody took the finalizer off
	}
	if err != nil || life != Deleting {
		return ObjectResult{Life: life}, err
	}
	waiting, err := a.releasesToAwait(ctx, c)
	if err != nil {
		return ObjectResult{}, err
	}
	if len(waiting) > 0 {
		if err := a.Status.Cluster(ctx, c, func(c *v1alpha1.Cluster) { status.ClusterDeleting(c, waiting) }); err != nil {
			return ObjectResult{}, err
		}
		f := failure.Transient(v1alpha1.ReasonWaitingForReleases, nil, "waiting for %d Releases to leave the cluster", len(waiting))
		f.RetryAfter = time.Second
		return ObjectResult{}, f
	}
	if err := a.forgetCluster(ctx, in.Key); err != nil {
		return ObjectResult{}, err
	}
	return ObjectResult{Life: Gone}, a.removeFinalizer(ctx, c, v1alpha1.ClusterFinalizer)
}

// forgetCluster drops everything that convoy has of a Cluster besides the object.
func (a *Activities) forgetCluster(ctx context.Context, k delivery.Key) error {
	a.Clusters.Evict(types.UID(k.UID))
	a.Metrics.forget(k)
	return a.dropCredentials(ctx, k)
}

// releasesToAwait names the Releases that a deletion of c waits for, after deleting those that it is to delete.
func (a *Activities) releasesToAwait(ctx context.Context, c *v1alpha1.Cluster) ([]string, error) {
	var all v1alpha1.ReleaseList
	if err := a.Hub.List(ctx, &all, client.InNamespace(c.Namespace)); err != nil {
		return nil, fmt.Errorf("list the Releases of Cluster %s/%s: %w", c.Namespace, c.Name, err)
	}
	var ns corev1.Namespace
	if err := a.Hub.Get(ctx, types.NamespacedName{Name: c.Namespace}, &ns); err != nil {
		return nil, fmt.Errorf("read namespace %s: %w", c.Namespace, err)
	}
	moved, err := a.movedAway(ctx, c, all.Items)
	if err != nil {
		return nil, err
	}
	// Everything of a terminating namespace is deleted, at the latest a moment from now.
	every := c.Spec.DeletionPolicy.PruneReleases || !ns.DeletionTimestamp.IsZero()
	waiting := moved
	for i := range all.Items {
		r := &all.Items[i]
		deleting := !r.DeletionTimestamp.IsZero()
		if r.Spec.ClusterRef.Name != c.Name {
			continue
		}
		if every || deleting {
			waiting = append(waiting, r.Name)
		}
		if deleting || !c.Spec.DeletionPolicy.PruneReleases {
			continue
		}
		err := a.Hub.Delete(ctx, r, client.Preconditions{UID: &r.UID})
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("delete Release %s/%s: %w", r.Namespace, r.Name, err)
		}
	}
	slices.Sort(waiting)
	return waiting, nil
}

// movedAway names the Releases that reference another Cluster and still have objects on this one. Its deletion waits for
// them whatever its policy says, because that is about Releases that reference it: without the Cluster nobody could
// remove those objects any more.
func (a *Activities) movedAway(ctx context.Context, c *v1alpha1.Cluster, releases []v1alpha1.Release) ([]string, error) {
	var here v1alpha1.InventoryList
	err := a.Hub.List(ctx, &here, client.InNamespace(c.Namespace), client.MatchingLabels{v1alpha1.LabelClusterUID: string(c.UID)})
	if err != nil {
		return nil, fmt.Errorf("list the inventories of Cluster %s/%s: %w", c.Namespace, c.Name, err)
	}
	var moved []string
	for i := range here.Items {
		inv := &here.Items[i]
		at := slices.IndexFunc(releases, func(r v1alpha1.Release) bool { return string(r.UID) == inv.Release.UID })
		if at < 0 || releases[at].Spec.ClusterRef.Name == c.Name || slices.Contains(moved, releases[at].Name) {
			continue
		}
		now, err := a.clusterOf(ctx, &releases[at])
		if err != nil {
			return nil, err
		}
		if now == nil || !delivery.SameCluster(now, inv.Cluster.UID, inv.ClusterID) { // else it is only called otherwise
			moved = append(moved, releases[at].Name)
		}
	}
	return moved, nil
}

// removeFinalizer lets the hub delete o. Somebody else may have changed o meanwhile: then it fails and is retried.
func (a *Activities) removeFinalizer(ctx context.Context, o client.Object, finalizer string) error {
	before := o.DeepCopyObject().(client.Object) //nolint:forcetypeassert // a deep copy has the type of its original
	if !controllerutil.RemoveFinalizer(o, finalizer) {
		return nil
	}
	err := a.Hub.Patch(ctx, o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove the finalizer of %T %s/%s: %w", o, o.GetNamespace(), o.GetName(), err)
	}
	return nil
}
