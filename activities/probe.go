package activities

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/connect"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/failure"
	"kumodo.io/convoy/internal/status"
)

// ProbeCluster connects to a Cluster, reads the server's version and its API groups, and writes the verdict.
// A failed probe is an error, which Temporal retries, unless it was forced; what is not built is a result.
func (a *Activities) ProbeCluster(ctx context.Context, in ProbeInput) (ProbeResult, error) {
	if wait := in.After; wait > 0 && activity.GetInfo(ctx).Attempt == 1 {
		again := failure.Transient(v1alpha1.ReasonProbeFailed, nil, "%s", in.Last)
		again.RetryAfter = wait
		return ProbeResult{}, again
	}
	defer startHeartbeat(ctx).stopped()
	c, life, err := a.cluster(ctx, in.Key)
	if err == nil && life == Gone {
		err = a.forgetCluster(ctx, in.Key)
	}
	if err == nil && life == Deleting {
		return ProbeResult{Life: life, Reason: v1alpha1.ReasonDeleting, Message: "the Cluster is being deleted"}, nil
	}
	if err != nil || life != Alive {
		return ProbeResult{Life: life}, err
	}
	began := time.Now()
	conn, found, err := a.probe(ctx, c)
	if ctx.Err() != nil {
		return ProbeResult{}, ctx.Err() // a cancelled probe has no verdict: a newer one is about to begin
	}
	failed, verdict := failure.As(err)
	switch {
	case err == nil:
		a.Metrics.probed(in.Key, v1alpha1.ReasonReachable, time.Since(began), 0)
		return a.reachable(ctx, c, conn, found)
	case !verdict:
		return ProbeResult{}, err // the hub failed, which says nothing about the Cluster
	}
	attempt := int(activity.GetInfo(ctx).Attempt)
	if conn == nil && attempt == 1 && !in.Forced && justLost(c, err) {
		again := *failed
		again.RetryAfter = secretPatience
		return ProbeResult{}, &again
	}
	failures := in.Failures + attempt
	a.Metrics.probed(in.Key, failed.Reason, time.Since(began), failures)
	err = a.Status.Cluster(ctx, c, func(c *v1alpha1.Cluster) { status.NotReachable(c, failed, a.clock()) })
	if err != nil {
		return ProbeResult{}, err
	}
	if in.Forced {
		failures = max(1, in.Failures) // somebody asked: the backoff goes on with the count that it had
	}
	again := *failed
	again.RetryAfter = max(failed.RetryAfter, delivery.ProbeBackoff.Delay(failures))
	if failed.Terminal || in.Forced {
		return ProbeResult{
			Life: Alive, Reason: failed.Reason, Message: cut(failed.Message),
			Retry: !failed.Terminal, RetryAfter: metav1.Duration{Duration: again.RetryAfter},
		}, nil
	}
	return ProbeResult{}, &again
}

// secretPatience is how long a Secret that is gone may be about to be made again: its Cluster is not unready meanwhile.
const secretPatience = 3 * time.Second

// justLost reports whether a Cluster that counts as reachable names a Secret or ConfigMap that does not exist.
func justLost(c *v1alpha1.Cluster, err error) bool {
	return apierrors.IsNotFound(err) && c.Status.Reachable != nil && *c.Status.Reachable
}

func (a *Activities) probe(ctx context.Context, c *v1alpha1.Cluster) (*connect.Client, connect.ProbeResult, error) {
	conn, err := a.Clusters.Client(ctx, c)
	if err != nil {
		return nil, connect.ProbeResult{}, err
	}
	found, err := conn.Probe(ctx, c)
	return conn, found, err
}

// reachable writes the verdict of a good probe, and keeps what it connected with.
func (a *Activities) reachable(ctx context.Context, c *v1alpha1.Cluster, conn *connect.Client, found connect.ProbeResult) (ProbeResult, error) {
	err := a.Status.Cluster(ctx, c, func(c *v1alpha1.Cluster) {
		status.Reachable(c, status.Probed{
			KubernetesVersion: found.KubernetesVersion, APIGroups: found.APIGroups, APIDigest: found.APIDigest, ClusterID: found.ClusterID,
		}, a.clock())
	})
	if err != nil {
		return ProbeResult{}, err
	}
	return ProbeResult{
		Life: Alive, Reachable: true, Reason: v1alpha1.ReasonReachable, KubernetesVersion: found.KubernetesVersion,
		Message: "API server answers; version " + found.KubernetesVersion,
	}, a.keepCredentials(ctx, c, conn)
}

func (a *Activities) clock() status.Clock {
	return status.Clock{Now: time.Now(), Resync: a.ResyncPeriod}
}
