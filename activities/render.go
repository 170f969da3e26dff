package activities

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/failure"
	"kumodo.io/convoy/internal/render"
	"kumodo.io/convoy/internal/source"
	"kumodo.io/convoy/internal/status"
)

// RenderRelease renders a Release at a revision, keeps the render on the hub, and decides whether a rollout
// is due. A source or mutation that is not valid is a result, not an error: waiting does not heal it.
func (a *Activities) RenderRelease(ctx context.Context, in RevisionInput) (RenderResult, error) {
	defer startHeartbeat(ctx).stopped()
	r, life, err := a.release(ctx, in.Key)
	if err != nil || life != Alive {
		return RenderResult{Life: life}, err
	}
	c, err := a.clusterOf(ctx, r)
	if err != nil {
		return RenderResult{}, err
	}
	if open, _ := delivery.Gate(r.Spec.ClusterRef.Name, c); !open {
		return RenderResult{Life: Alive, Closed: true}, nil
	}
	bundle, err := a.Sources.Open(ctx, r.Namespace, r.Spec.Source, in.Revision)
	if f, ok := failure.As(err); ok && (f.Terminal || f.Reason == v1alpha1.ReasonSourceNotFound) {
		return RenderResult{Life: Alive, Closed: true}, nil // it moved on, or is another one by now: the fetch tells
	}
	if err != nil {
		return RenderResult{}, a.sourceFailed(ctx, r, err)
	}
	held := v1alpha1.SourceStatus{Revision: in.Revision, Digest: bundle.Digest}
	out, ref, reads, err := a.keptRender(ctx, r, c, bundle)
	if f, ok := failure.As(err); ok && f.Terminal {
		err := a.Status.Release(ctx, r, func(r *v1alpha1.Release) { status.RenderFailed(r, held, f) })
		return RenderResult{Life: Alive, Reason: f.Reason, Message: cut(f.Message)}, err
	}
	if err != nil {
		return RenderResult{}, err
	}
	return a.rendered(ctx, r, c, status.Render{
		Inputs: delivery.InputsDigest(r, c, in.Revision, reads...), Source: held, Ref: ref, Objects: len(out.Objects),
		Render: v1alpha1.RenderStatus{Type: out.Type, Skipped: out.Skipped}, Mutations: out.Mutations,
	})
}

// keptRender renders and puts the render into the store. reads is what it read on the hub.
func (a *Activities) keptRender(ctx context.Context, r *v1alpha1.Release, c *v1alpha1.Cluster, bundle *source.Bundle) (
	out *render.Output, ref v1alpha1.RenderRef, reads []delivery.Read, err error,
) {
	read, err := a.readPatches(ctx, r, c)
	if err != nil {
		return nil, ref, nil, err
	}
	if err := a.permitSecrets(ctx, r, read); err != nil {
		return nil, ref, nil, err
	}
	if out, err = a.render(ctx, r, c, bundle, read); err != nil {
		return nil, ref, nil, err
	}
	ref, err = a.Renders.Put(ctx, r, out)
	return out, ref, read.reads, err
}

func (a *Activities) render(ctx context.Context, r *v1alpha1.Release, c *v1alpha1.Cluster, bundle *source.Bundle, read patches) (*render.Output, error) {
	var kept v1alpha1.RenderType
	if r.Status.Render != nil {
		kept = r.Status.Render.Type
	}
	out, err := render.Render(ctx, render.Input{
		Files: bundle.Files, Path: bundle.Path, Type: r.Spec.Render.Type, Kept: kept, Mutations: r.Spec.Mutations,
		Context: delivery.NewContext(c, r), Patches: read.byMutation, TargetNamespace: r.Spec.TargetNamespace,
	})
	if err != nil {
		return nil, err
	}
	hadObjects := r.Status.Inventory != nil && r.Status.Inventory.Objects > 0
	if len(out.Objects) == 0 && hadObjects && !r.Spec.SyncPolicy.AllowEmpty {
		return nil, failure.Terminal(v1alpha1.ReasonEmptyRender, nil,
			"the render holds no object, but %d are on the cluster; nothing is pruned; set syncPolicy.allowEmpty if this is meant", r.Status.Inventory.Objects)
	}
	return out, nil
}

// rendered writes the status of a render and, with it, the number of the rollout that is due.
func (a *Activities) rendered(ctx context.Context, r *v1alpha1.Release, c *v1alpha1.Cluster, in status.Render) (RenderResult, error) {
	result := RenderResult{Life: Alive, Digest: in.Ref.Digest, Objects: in.Objects}
	replaces := r.Status.RenderRef != nil && r.Status.RenderRef.Digest != in.Ref.Digest
	err := a.Status.Release(ctx, r, func(r *v1alpha1.Release) {
		result.Rollout = delivery.NextRollout(&r.Status, in.Ref.Digest, delivery.ClusterIdentity(c))
		if result.Rollout == 0 {
			status.Rendered(r, in)
			return
		}
		status.RolloutStarted(r, in, v1alpha1.RolloutStatus{
			Number: result.Rollout, Phase: v1alpha1.RolloutRunning, Digest: in.Ref.Digest, Cluster: delivery.ClusterIdentity(c), Generation: r.Generation,
			WorkflowID: delivery.RolloutWorkflowID(r.Namespace, r.Name, result.Rollout),
			StartTime:  metav1.NewTime(time.Now()), Objects: int32(min(in.Objects, 1<<30)), //nolint:gosec // capped on this line
		})
	})
	if err != nil {
		return RenderResult{}, fmt.Errorf("record the render: %w", err)
	}
	if !replaces {
		return result, nil // no render fell out of the history
	}
	keep := append([]v1alpha1.RenderRef{in.Ref}, r.Status.PreviousRenderRefs...)
	return result, a.Renders.Collect(ctx, r, keep)
}
