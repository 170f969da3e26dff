package activities

import (
	"context"

	"go.temporal.io/sdk/activity"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/apply"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/failure"
	"kumodo.io/convoy/internal/hook"
	"kumodo.io/convoy/internal/render"
)

// hookPlan are the hooks of a Release: those of its spec, and around the objects of a chart those of the chart.
type hookPlan struct {
	all []v1alpha1.Hook
	// chart has what the chart says of its own, by their names.
	chart map[string]render.Hook
	// namespace takes their objects that name none.
	namespace string
}

// planHooks decides which hooks a rollout has, or the deletion, for which op is empty. Those of the spec are the outer ones: first
// before the objects, last after them.
func planHooks(r *v1alpha1.Release, op v1alpha1.RolloutOperation, content render.Content) hookPlan {
	p := hookPlan{chart: map[string]render.Hook{}, namespace: content.TargetNamespace}
	before, after := []v1alpha1.HookPhase{v1alpha1.HookPreApply}, []v1alpha1.HookPhase{v1alpha1.HookPostApply}
	if op == "" {
		before, after = []v1alpha1.HookPhase{v1alpha1.HookPreDelete}, []v1alpha1.HookPhase{v1alpha1.HookPostDelete}
	}
	p.add(r, op, content, after)
	p.all = append(p.all, r.Spec.Hooks...)
	p.add(r, op, content, before)
	return p
}

// add takes the hooks of a chart for some phases.
func (p *hookPlan) add(r *v1alpha1.Release, op v1alpha1.RolloutOperation, content render.Content, phases []v1alpha1.HookPhase) {
	if disablesHooks(r) {
		return
	}
	for _, phase := range phases {
		event := delivery.ChartEvent(phase, op)
		for _, h := range content.For(event) {
			name := h.NameFor(event)
			p.chart[name] = h
			p.all = append(p.all, v1alpha1.Hook{
				Name: name, Phase: phase, Timeout: r.Spec.SyncPolicy.Timeout, OnFailure: v1alpha1.HookFail,
			})
		}
	}
}

func disablesHooks(r *v1alpha1.Release) bool {
	return r.Spec.Render.Helm != nil && r.Spec.Render.Helm.DisableHooks
}

// lastOf reports whether a hook is the last one of the chart in its phase.
func (p hookPlan) lastOf(name string, phase v1alpha1.HookPhase) bool {
	last := ""
	for _, h := range p.all {
		if _, ofChart := p.chart[h.Name]; ofChart && h.Phase == phase {
			last = h.Name
		}
	}
	return name == last
}

// hooksOf are the hooks that a run may be of.
func (a *Activities) hooksOf(ctx context.Context, r *v1alpha1.Release, in HookInput) (hookPlan, error) {
	if in.Hook.Kind != delivery.HookChart {
		return hookPlan{all: r.Spec.Hooks}, nil
	}
	if in.Rollout.Number == 0 {
		return a.deletionHooks(ctx, r)
	}
	content, err := a.hooksKept(ctx, r, in.Rollout.Digest)
	return planHooks(r, r.Status.Rollout.Operation, content), err
}

// deletionHooks are the hooks of a deletion. Those of a chart are the ones of the render that was rolled out last; they clear
// up what it is, so none runs where that stays.
func (a *Activities) deletionHooks(ctx context.Context, r *v1alpha1.Release) (hookPlan, error) {
	isChart := r.Status.Render != nil && r.Status.Render.Type == v1alpha1.RenderHelm || r.Spec.PinnedRender != "" || r.Status.Pending != nil // the type is of what was rendered last
	if !isChart || r.Status.Rollout == nil || disablesHooks(r) || r.Spec.DeletionPolicy.KeepWorkloads {
		return hookPlan{all: r.Spec.Hooks}, nil
	}
	content, err := a.hooksKept(ctx, r, r.Status.Rollout.Digest)
	return planHooks(r, "", content), err
}

// hooksKept reads a kept render for its hooks. Of one that is gone, as with its namespace, nobody knows them any more, and
// nothing can wait for them.
func (a *Activities) hooksKept(ctx context.Context, r *v1alpha1.Release, digest string) (render.Content, error) {
	ref, kept := delivery.KeptRender(&r.Status, digest)
	if !kept {
		return render.Content{}, nil
	}
	content, err := a.Renders.Get(ctx, r.Namespace, ref)
	if f, ok := failure.As(err); ok && f.Terminal {
		activity.GetLogger(ctx).Warn("the hooks of a chart are lost with its kept render", "release", r.Namespace+"/"+r.Name, "render", ref.Name)
		return render.Content{}, nil
	}
	return content, err
}

// chartDeed makes the object of a hook that a chart brings. As for Helm, what does not run to an end is done when it is there.
func (a *Activities) chartDeed(h *hookStep, of render.Hook) deed {
	o := of.Object.DeepCopy()
	d := a.objectDeed(h, o, h.plan.namespace)
	if !delivery.RunsOnce(o.GroupVersionKind().GroupKind()) {
		d.look = nil
	}
	return d
}

// sweepChart deletes the objects that the chart wants gone when the hooks of a phase are over: the last of them has ended, or
// one has failed.
func (a *Activities) sweepChart(ctx context.Context, h *hookStep) error {
	if h.run.State != v1alpha1.HookFailed && !h.plan.lastOf(h.run.Name, h.run.Phase) {
		return nil
	}
	for name, of := range h.plan.chart {
		run := delivery.HookRunOf(h.release, name, h.run.Phase, h.run.Rollout)
		if run == nil || run.Object == nil {
			continue
		}
		if run.State == v1alpha1.HookSucceeded && of.DeleteSucceeded || run.State == v1alpha1.HookFailed && of.DeleteFailed {
			if err := a.withObject(ctx, h, run, func(o *apply.HookObject) error { return o.Remove(ctx) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// cleanObject lets an object that has its result go, and deletes one that has none.
func (a *Activities) cleanObject(ctx context.Context, h *hookStep) error {
	return a.withObject(ctx, h, &h.run, func(o *apply.HookObject) error {
		live, err := o.Get(ctx)
		switch {
		case err != nil || live == nil:
			return err
		case h.run.State == v1alpha1.HookSucceeded, hook.Ended(live, healthOf):
			return o.Release(ctx)
		}
		return o.Remove(ctx)
	})
}

// withObject does something with the object that a run made, if the inventory has it.
func (a *Activities) withObject(ctx context.Context, h *hookStep, run *v1alpha1.HookStatus, do func(*apply.HookObject) error) error {
	if h.record == nil {
		if err := a.reach(ctx, h); err != nil {
			return err
		}
		defer h.end()
	}
	o, err := apply.FindHook(ctx, h.target, h.record, delivery.HookRunName(string(h.release.UID), run), entryOf(run))
	if err != nil || o == nil {
		return err
	}
	return do(o)
}
