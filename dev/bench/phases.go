package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// Names of the phases, in the figures that programs read.
const (
	phaseCold    = "Cold"
	phaseRequest = "NoopRequested"
	phaseSignal  = "NoopSignalled"
	phaseDelete  = "Delete"
)

// phase is one thing to measure.
type phase struct {
	name  string
	title string
	do    func(context.Context) error // returns when the last Release is through
	check func(context.Context) error // whether the outcome is right; not measured
}

func (w *world) phases() []phase {
	delivered := func(ctx context.Context) error { return w.onTarget(ctx, w.N*w.M) }
	return []phase{
		{phaseCold, "first delivery, from the first Release created to all Ready", w.deliver, delivered},
		{phaseRequest, "nothing to do, asked by annotation, to all answered", w.request, delivered},
		{phaseSignal, "nothing to do, asked by signal, to all workflows at rest", w.signal, delivered},
		{phaseDelete, "deletion, from the first Release deleted to all gone", w.remove, func(ctx context.Context) error { return w.onTarget(ctx, 0) }},
	}
}

// measureAll runs the phases in order and prints the figures of each as soon as it has ended.
func (w *world) measureAll(ctx context.Context, out io.Writer) (*result, error) {
	of, err := version(ctx, w.Convoy)
	if err != nil {
		return nil, err
	}
	r := &result{Version: of, N: w.N, M: w.M}
	for _, p := range w.phases() {
		f, err := w.measure(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.title, err)
		}
		r.Phases = append(r.Phases, f)
		if err := r.print(out, p, f); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// measure runs one phase. Wall time ends when the last Release is through, everything else when all workflows rest.
func (w *world) measure(ctx context.Context, p phase) (figures, error) {
	ctx, cancel := context.WithTimeout(ctx, w.Timeout)
	defer cancel()
	before, err := w.snapshot(ctx)
	if err != nil {
		return figures{}, err
	}
	for _, pids := range w.programs() {
		if err := resetPeak(pids); err != nil {
			return figures{}, err
		}
	}
	// An end of convoy ends the phase.
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	go func() {
		select {
		case <-w.convoy.done:
			end(fmt.Errorf("convoy has ended: %w", w.convoy.err))
		case <-ctx.Done():
		}
	}()
	began := time.Now()
	if err := p.do(ctx); err != nil {
		return figures{}, err
	}
	wall := time.Since(began)
	if err := w.rest(ctx); err != nil {
		return figures{}, err
	}
	after, err := w.snapshot(ctx)
	if err != nil {
		return figures{}, err
	}
	if err := p.check(ctx); err != nil {
		return figures{}, err
	}
	return after.since(before, p.name, wall), nil
}

// each calls do for every Release, a few at a time.
func (w *world) each(ctx context.Context, do func(context.Context, string) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for _, name := range w.names {
		group.Go(func() error { return do(ctx, name) })
	}
	return group.Wait()
}

func (w *world) deliver(ctx context.Context) error {
	err := w.each(ctx, func(ctx context.Context, name string) error { return w.hub.Create(ctx, release(name)) })
	if err != nil {
		return err
	}
	return w.releases.await(ctx, w.names, func(r *v1alpha1.Release) bool {
		if r == nil {
			return false
		}
		ready := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionReady)
		return ready != nil && ready.Status == "True" && ready.ObservedGeneration == r.Generation
	})
}

func (w *world) request(ctx context.Context) error {
	const value = "1"
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationRequestedAt, value))
	err := w.each(ctx, func(ctx context.Context, name string) error {
		return w.hub.Patch(ctx, &v1alpha1.Release{ObjectMeta: named(name)}, patch)
	})
	if err != nil {
		return err
	}
	return w.releases.await(ctx, w.names, func(r *v1alpha1.Release) bool {
		return r != nil && r.Status.LastHandledReconcileAt == value
	})
}

func (w *world) signal(ctx context.Context) error {
	err := w.each(ctx, func(ctx context.Context, name string) error {
		return w.temporal.SignalWorkflow(ctx, delivery.ReleaseWorkflowID(namespace, name), "", delivery.SignalReconcile, nil)
	})
	if err != nil {
		return err
	}
	return w.rest(ctx) // the server has work for a workflow from when it takes the signal
}

func (w *world) remove(ctx context.Context) error {
	err := w.each(ctx, func(ctx context.Context, name string) error {
		return w.hub.Delete(ctx, &v1alpha1.Release{ObjectMeta: named(name)})
	})
	if err != nil {
		return err
	}
	return w.releases.await(ctx, w.names, func(r *v1alpha1.Release) bool { return r == nil })
}

// onTarget checks how many ConfigMaps the target has.
func (w *world) onTarget(ctx context.Context, want int) error {
	var list corev1.ConfigMapList
	if err := w.target.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return err
	}
	if len(list.Items) != want {
		return fmt.Errorf("the target has %d ConfigMaps, want %d", len(list.Items), want)
	}
	return nil
}
