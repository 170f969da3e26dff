package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/activity"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/apply"
	"kumodo.io/convoy/internal/connect"
	"kumodo.io/convoy/internal/delivery"
)

// suspect asks for a probe of a Cluster that counts as reachable, but gave no answer to somebody who works on it: the
// next resync may be far. A Cluster that is known to be unreachable is probed anyway, so that a storm of failures ends
// with the first verdict. What the spec names and is wrong or gone is the watcher's to see.
func (a *Activities) suspect(ctx context.Context, c *v1alpha1.Cluster, err error) {
	known := c.Status.Reachable == nil || !*c.Status.Reachable
	if known || errors.Is(err, apply.ErrHub) || !connect.NoAnswer(err) || !a.Clusters.Suspect(c) {
		return
	}
	kick := delivery.Kick{
		UID: string(c.UID), Generation: c.Generation, Reason: delivery.KickSuspected, Created: c.CreationTimestamp.Unix(),
	}
	err = a.Kicks.SignalWorkflow(ctx, delivery.ClusterWorkflowID(c.Namespace, c.Name), "", delivery.SignalKick, kick)
	if err != nil { // a hint that is lost costs time only: the resync comes
		activity.GetLogger(ctx).Warn("cannot ask for a probe", "cluster", c.Namespace+"/"+c.Name, "error", typesOf(err))
	}
}
