package activities

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
	"k8s.io/apimachinery/pkg/types"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/connect"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/failure"
	"kumodo.io/convoy/internal/status"
)

// ProbeCluster connects to a Cluster, reads the server's version and its API groups, and writes the verdict.
// A failed probe is an error, which Temporal retries, unless it was forced; what is not built is a result.
func (a *Activities) ProbeCluster(ctx context.Context, in ProbeInput) (ProbeResult, error) {
	defer startHeartbeat(ctx).stopped()
	c, life, err := a.cluster(ctx, in.Key)
	if err != nil {
		return ProbeResult{}, err
	}
	if life == Gone {
		a.Clusters.Evict(types.UID(in.Key.UID))
	}
	if life != Alive {
		return ProbeResult{Life: life}, nil
	}
	found, err := a.probe(ctx, c)
	if ctx.Err() != nil {
		return ProbeResult{}, ctx.Err() // a cancelled probe has no verdict: a newer one is about to begin
	}
	clock := status.Clock{Now: time.Now(), Resync: a.ResyncPeriod}
	if err == nil {
		err = a.Status.Cluster(ctx, c, func(c *v1alpha1.Cluster) {
			status.Reachable(c, status.Probed{KubernetesVersion: found.KubernetesVersion, APIGroups: found.APIGroups, ClusterID: found.ClusterID}, clock)
		})
		return ProbeResult{
			Life: Alive, Reachable: true, Reason: v1alpha1.ReasonReachable, KubernetesVersion: found.KubernetesVersion,
			Message: "API server answers; version " + found.KubernetesVersion,
		}, err
	}
	f, ok := failure.As(err)
	if !ok {
		return ProbeResult{}, err // the hub failed, which says nothing about the Cluster
	}
	if err := a.Status.Cluster(ctx, c, func(c *v1alpha1.Cluster) { status.NotReachable(c, f, clock) }); err != nil {
		return ProbeResult{}, err
	}
	if f.Terminal || in.Forced {
		return ProbeResult{Life: Alive, Reason: f.Reason, Message: cut(f.Message), Retry: !f.Terminal}, nil
	}
	again := *f
	again.RetryAfter = max(f.RetryAfter, delivery.ProbeBackoff.Delay(in.Failures+int(activity.GetInfo(ctx).Attempt)))
	return ProbeResult{}, &again
}

func (a *Activities) probe(ctx context.Context, c *v1alpha1.Cluster) (connect.ProbeResult, error) {
	conn, err := a.Clusters.Client(ctx, c)
	if err != nil {
		return connect.ProbeResult{}, err
	}
	return conn.Probe(ctx)
}
