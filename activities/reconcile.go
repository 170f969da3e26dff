package activities

import (
	"context"

	"go.temporal.io/sdk/activity"
	"k8s.io/apimachinery/pkg/api/meta"
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
	inputs, source, err := a.inputsNow(ctx, r, c, in)
	switch f, ok := failure.As(err); {
	case ok && f.Terminal:
		return out, nil // the render meets it again, and says so
	case err != nil:
		return CheckResult{}, err
	}
	switch cluster := delivery.ClusterIdentity(c); {
	case delivery.UpToDate(&r.Status, inputs, cluster):
		out.UpToDate = true
		return out, a.Status.Release(ctx, r, func(r *v1alpha1.Release) { status.UpToDate(r, source) })
	case in.Listed && delivery.Failed(r, inputs, cluster):
		out.Failed = true
		if ready := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
			out.Reason, out.Message = ready.Reason, cut(ready.Message)
		}
	}
	return out, nil
}

// inputsNow is the digest of what a render would depend on, and the source as the status has it, nil while a kept render is to be
// delivered.
func (a *Activities) inputsNow(ctx context.Context, r *v1alpha1.Release, c *v1alpha1.Cluster, in RevisionInput) (inputs string, source *v1alpha1.SourceStatus, err error) {
	if r.Spec.PinnedRender != "" {
		return delivery.InputsDigest(r, c, in.Revision), nil, nil
	}
	read, err := readInputs(ctx, a.Hub, r, c)
	if err != nil {
		return "", nil, err
	}
	if delivery.IsChart(r) {
		read.reads = append(read.reads, delivery.ReadAPIs(c.Status.APIDigest))
	}
	return delivery.InputsDigest(r, c, in.Revision, read.reads...), &v1alpha1.SourceStatus{Revision: in.Revision, Digest: in.Digest}, nil
}
