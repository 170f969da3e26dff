package activities

import (
	"cmp"
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/connect"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/failure"
	"kumodo.io/convoy/internal/observe"
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
	pinned := r.Spec.PinnedRender != ""
	if open, _ := delivery.Gate(r.Spec.ClusterRef.Name, c); !open || delivery.IsPinned(in.Revision) != pinned {
		return RenderResult{Life: Alive, Closed: true}, nil
	}
	if pinned {
		return a.pinned(ctx, r, c, in.Revision)
	}
	bundle, err := a.Sources.Open(ctx, r.Namespace, r.Spec.Source, in.Revision)
	if f, ok := failure.As(err); ok && (f.Terminal || f.Reason == v1alpha1.ReasonSourceNotFound) {
		return RenderResult{Life: Alive, Closed: true}, nil // it moved on, or is another one by now: the fetch tells
	}
	if err != nil {
		return RenderResult{}, a.sourceFailed(ctx, r, err)
	}
	held := v1alpha1.SourceStatus{Revision: in.Revision, Digest: bundle.Digest}
	out, reads, err := Render(ctx, a.Hub, RenderRequest{Release: r, Cluster: c, Bundle: bundle, Builds: a.Builds, Served: a.served})
	var ref v1alpha1.RenderRef
	if err == nil {
		ref, err = a.Renders.Put(ctx, r, out)
	}
	f, known := failure.As(err)
	if known && f.Terminal {
		err := a.Status.Release(ctx, r, func(r *v1alpha1.Release) { status.RenderFailed(r, held, f) })
		return RenderResult{Life: Alive, Reason: f.Reason, Message: cut(f.Message)}, err
	}
	if known && f.Reason != ReasonBusy && ctx.Err() == nil {
		err = cmp.Or(a.Status.Release(ctx, r, func(r *v1alpha1.Release) { status.RenderRetrying(r, held, f) }), err)
	}
	if err != nil {
		return RenderResult{}, err
	}
	return a.rendered(ctx, r, c, out.Content, status.Render{
		Inputs: delivery.InputsDigest(r, c, in.Revision, reads...), Source: held, Ref: ref, Objects: count(out.Objects),
		Render: v1alpha1.RenderStatus{Type: out.Type, Skipped: out.Skipped}, Mutations: out.Mutations,
	})
}

func count(objects []*unstructured.Unstructured) int32 {
	return int32(min(len(objects), 1<<30))
}

// pinned takes a kept render instead of a new one.
func (a *Activities) pinned(ctx context.Context, r *v1alpha1.Release, c *v1alpha1.Cluster, revision string) (RenderResult, error) {
	if f, ok := failure.As(observe.Validate(&r.Spec)); ok {
		return a.refused(ctx, r, f)
	}
	digest := r.Spec.PinnedRender
	ref, kept := delivery.KeptRender(&r.Status, digest)
	if !kept {
		return a.refused(ctx, r, failure.Terminal(v1alpha1.ReasonPinnedRenderMissing, nil,
			"spec.pinnedRender: the render %s is not kept; status.renderRef and status.previousRenderRefs have those that are", digest))
	}
	content, err := a.Renders.Get(ctx, r.Namespace, ref)
	if f, ok := failure.As(err); ok && f.Terminal {
		return a.refused(ctx, r, failure.Terminal(v1alpha1.ReasonPinnedRenderMissing, f, "spec.pinnedRender: %s", f.Message))
	}
	if err != nil {
		return RenderResult{}, err
	}
	return a.rendered(ctx, r, c, content, status.Render{
		Inputs: delivery.InputsDigest(r, c, revision), Ref: ref, Objects: count(content.Objects), Pinned: true,
		Source: v1alpha1.SourceStatus{Revision: delivery.RevisionOf(&r.Status, digest)},
	})
}

// refused records why what the spec asks for cannot be rolled out.
func (a *Activities) refused(ctx context.Context, r *v1alpha1.Release, f *failure.Error) (RenderResult, error) {
	err := a.Status.Release(ctx, r, func(r *v1alpha1.Release) { status.Refused(r, f) })
	return RenderResult{Life: Alive, Reason: f.Reason, Message: cut(f.Message)}, err
}

// served gives what a target serves, for a chart.
func (a *Activities) served(ctx context.Context, c *v1alpha1.Cluster) (connect.APIs, error) {
	done, err := a.work(ctx, c)
	if err != nil {
		return connect.APIs{}, err
	}
	defer done()
	conn, err := a.Clusters.Client(ctx, c)
	if err == nil {
		var apis connect.APIs
		if apis, err = conn.APIs(c.Status.KubernetesVersion, c.Status.APIDigest); err == nil {
			return apis, nil
		}
	}
	a.suspect(ctx, c, err)
	f := connect.Classify(err)
	return connect.APIs{}, failure.Transient(f.Reason, err, "what Cluster %q serves, which a chart may ask for, cannot be read: %s", c.Name, f.Message)
}

// RenderRequest is what is rendered, and for which Cluster.
type RenderRequest struct {
	Release *v1alpha1.Release
	Cluster *v1alpha1.Cluster
	Bundle  *source.Bundle
	// Builds build a kustomization.
	Builds *render.Builds
	// Served gives what the Cluster serves. It is only called for a chart.
	Served func(context.Context, *v1alpha1.Cluster) (connect.APIs, error)
}

// Render renders a Release for a Cluster, with what it reads on the hub: reads, for the digest of the inputs. Nothing is
// written. What is not valid is a terminal failure.
func Render(ctx context.Context, hub client.Reader, req RenderRequest) (out *render.Output, reads []delivery.Read, err error) {
	r, c := req.Release, req.Cluster
	if err := observe.Validate(&r.Spec); err != nil {
		return nil, nil, err
	}
	read, err := readInputs(ctx, hub, r, c)
	if err != nil {
		return nil, nil, err
	}
	if err := read.permit(ctx, hub, r.Namespace); err != nil {
		return nil, nil, err
	}
	in := render.Input{
		Files: req.Bundle.Files, Path: req.Bundle.Path, Type: r.Spec.Render.Type, Mutations: r.Spec.Mutations,
		Context: delivery.NewContext(c, r), Patches: read.patches, Builds: req.Builds, TargetNamespace: r.Spec.TargetNamespace,
	}
	if r.Status.Render != nil {
		in.Kept = r.Status.Render.Type
	}
	kind, err := render.TypeOf(in)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case kind == v1alpha1.RenderHelm:
		apis, err := req.Served(ctx, c)
		if err != nil {
			return nil, nil, err
		}
		if in.Helm, err = chartInput(r, read, c.Status.KubernetesVersion, apis); err != nil {
			return nil, nil, err
		}
		if apis.Digest == "" { // a group fails, and what it serves is not known
			apis.Digest = c.Status.APIDigest
		}
		read.reads = append(read.reads, delivery.ReadAPIs(apis.Digest))
	case r.Spec.Render.Helm != nil:
		return nil, nil, failure.Terminal(v1alpha1.ReasonRenderFailed, nil, "spec.render.helm is for charts, and the source is rendered as %s; remove it", kind)
	}
	if out, err = render.Render(ctx, in); err != nil {
		return nil, nil, err
	}
	return out, read.reads, refuseEmpty(r, out)
}

// chartInput is what a chart is rendered with.
func chartInput(r *v1alpha1.Release, read inputs, kubernetesVersion string, apis connect.APIs) (*render.HelmInput, error) {
	in := &render.HelmInput{
		ReleaseName: r.Name, Namespace: r.Spec.TargetNamespace, IncludeCRDs: true,
		Capabilities: render.Capabilities{KubernetesVersion: kubernetesVersion, APIVersions: apis.Versions, FailingGroups: apis.Failing},
	}
	settings := r.Spec.Render.Helm
	if settings == nil {
		return in, nil
	}
	in.ReleaseName = cmp.Or(settings.ReleaseName, r.Name)
	in.IncludeCRDs = settings.IncludeCRDs == nil || *settings.IncludeCRDs
	in.DisableHooks = settings.DisableHooks
	layers := read.values
	if settings.Values != nil {
		layers = append(layers, render.ValuesLayer{Name: "spec.render.helm.values", Content: settings.Values.Raw})
	}
	var err error
	in.Values, err = render.MergeValues(layers)
	return in, err
}

// refuseEmpty keeps a render that holds nothing from pruning everything.
func refuseEmpty(r *v1alpha1.Release, out *render.Output) error {
	hadObjects := r.Status.Inventory != nil && r.Status.Inventory.Objects > 0
	if len(out.Objects) > 0 || !hadObjects || r.Spec.SyncPolicy.AllowEmpty {
		return nil
	}
	return failure.Terminal(v1alpha1.ReasonEmptyRender, nil,
		"the render holds no object, but %d are on the cluster; nothing is pruned; set syncPolicy.allowEmpty if this is meant", r.Status.Inventory.Objects)
}

// rendered writes the status of a render and, with it, the number of the rollout that is due, if it may begin now.
func (a *Activities) rendered(ctx context.Context, r *v1alpha1.Release, c *v1alpha1.Cluster, content render.Content, in status.Render) (RenderResult, error) {
	result := RenderResult{Life: Alive, Digest: in.Ref.Digest, Objects: len(content.Objects)}
	due := delivery.Due{Digest: in.Ref.Digest, Cluster: delivery.ClusterIdentity(c)}
	due.Number = delivery.NextRollout(&r.Status, due.Digest, due.Cluster)
	rollout := v1alpha1.RolloutStatus{
		Number: due.Number, Phase: v1alpha1.RolloutRunning, Digest: due.Digest, Cluster: due.Cluster, ClusterName: c.Name,
		Generation: r.Generation, Revision: in.Source.Revision, Objects: in.Objects,
		WorkflowID: delivery.RolloutWorkflowID(r.Namespace, r.Name, due.Number), StartTime: metav1.NewTime(time.Now()),
		Trigger: delivery.TriggerOf(r, due.Digest, in.Source.Revision, due.Cluster),
	}
	last := r.Status.Rollout
	if begins := due.Number != 0 && (last == nil || last.Number != due.Number); begins {
		hold, use, err := a.hold(ctx, r, due, content)
		if f, ok := failure.As(err); ok && f.Terminal {
			return a.refused(ctx, r, f)
		}
		if err != nil {
			return RenderResult{}, err
		}
		if hold != nil {
			return a.held(ctx, r, in, hold)
		}
		if rollout.Approval = use; rollout.Trigger == v1alpha1.TriggerRetry {
			rollout.Approval = last.Approval // it was given for this render
		}
	}
	replaces := r.Status.Pending != nil || r.Status.RenderRef != nil && r.Status.RenderRef.Digest != in.Ref.Digest
	err := a.Status.Release(ctx, r, func(r *v1alpha1.Release) {
		if result.Hooks = nil; due.Number == 0 {
			status.Rendered(r, in)
			return
		}
		status.RolloutStarted(r, in, rollout)
		plan := planHooks(r, r.Status.Rollout.Operation, content)
		result.Hooks = delivery.HookRefs(plan.all, v1alpha1.HookPreApply, v1alpha1.HookPostApply, v1alpha1.HookOnFailure)
	})
	if err != nil {
		return RenderResult{}, fmt.Errorf("record the render: %w", err)
	}
	result.Rollout = due.Number
	if !replaces {
		return result, nil // no render fell out of those that are kept
	}
	return result, a.Renders.Collect(ctx, r, delivery.KeptRenders(&r.Status))
}

// held records a render that waits.
func (a *Activities) held(ctx context.Context, r *v1alpha1.Release, in status.Render, hold *delivery.Hold) (RenderResult, error) {
	news := false
	err := a.Status.Release(ctx, r, func(r *v1alpha1.Release) {
		news = status.Held(r, in, hold.Reason, hold.Message, metav1.NewTime(time.Now()))
	})
	if err != nil {
		return RenderResult{}, fmt.Errorf("record the render: %w", err)
	}
	result := RenderResult{
		Life: Alive, Digest: in.Ref.Digest, Objects: int(in.Objects), Held: true, Until: hold.Until, Reason: hold.Reason, Message: hold.Message,
	}
	if !news {
		return result, nil
	}
	a.Status.Event(r, false, hold.Reason, hold.Message)
	return result, a.Renders.Collect(ctx, r, delivery.KeptRenders(&r.Status))
}
