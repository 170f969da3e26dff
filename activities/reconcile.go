package activities

import (
	"context"

	"go.temporal.io/sdk/activity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/failure"
	"kumodo.io/convoy/internal/status"
)

// CheckCluster is the gate: it fails, and is retried, until the Cluster of a Release is reachable. Once it is,
// it tells whether there is anything to do for the given revision.
func (a *Activities) CheckCluster(ctx context.Context, in RevisionInput) (CheckResult, error) {
	r, life, err := a.release(ctx, in.Key)
	if err != nil || life != Alive {
		return CheckResult{Life: life}, err
	}
	c, err := a.clusterOf(ctx, r)
	if err != nil {
		return CheckResult{}, err
	}
	if open, message := delivery.Gate(r.Spec.ClusterRef.Name, c); !open {
		var answered *metav1.Time
		if c != nil {
			answered = c.Status.LastReachableTime
		}
		if err := a.Status.Release(ctx, r, func(r *v1alpha1.Release) { status.ClusterNotReady(r, message, answered) }); err != nil {
			return CheckResult{}, err
		}
		return CheckResult{}, paced(ctx, r, failure.Transient(v1alpha1.ReasonClusterNotReady, nil, "%s", message))
	}
	out := CheckResult{Life: Alive, Waited: activity.GetInfo(ctx).Attempt > 1}
	if out.Waited {
		return out, nil
	}
	if pinned := r.Spec.PinnedRender != ""; pinned {
		return a.checkPinned(ctx, r, c, in.Revision)
	}
	read, err := readInputs(ctx, a.Hub, r, c)
	if f, ok := failure.As(err); ok && f.Terminal {
		return out, nil // the render meets it again, and says so
	}
	if err != nil {
		return CheckResult{}, err
	}
	if delivery.IsChart(r) {
		read.reads = append(read.reads, delivery.ReadAPIs(c.Status.APIDigest))
	}
	if !delivery.UpToDate(&r.Status, delivery.InputsDigest(r, c, in.Revision, read.reads...), delivery.ClusterIdentity(c)) {
		return out, nil
	}
	out.UpToDate = true
	return out, a.Status.Release(ctx, r, func(r *v1alpha1.Release) {
		status.UpToDate(r, &v1alpha1.SourceStatus{Revision: in.Revision, Digest: in.Digest})
	})
}

// checkPinned tells whether there is anything to do while a kept render is to be delivered.
func (a *Activities) checkPinned(ctx context.Context, r *v1alpha1.Release, c *v1alpha1.Cluster, revision string) (CheckResult, error) {
	if !delivery.UpToDate(&r.Status, delivery.InputsDigest(r, c, revision), delivery.ClusterIdentity(c)) {
		return CheckResult{Life: Alive}, nil
	}
	return CheckResult{Life: Alive, UpToDate: true}, a.Status.Release(ctx, r, func(r *v1alpha1.Release) { status.UpToDate(r, nil) })
}
