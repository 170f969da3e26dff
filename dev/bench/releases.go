package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"kumodo.io/convoy/api/v1alpha1"
)

// releases is what the hub holds of the Releases, as one watch tells it.
type releases struct {
	mu      sync.Mutex
	all     map[string]*v1alpha1.Release // by name; never changed
	changed chan struct{}                // holds a token when all has changed
}

// watchReleases watches until ctx ends.
func watchReleases(ctx context.Context, hub *rest.Config, scheme *runtime.Scheme) (*releases, error) {
	c, err := cache.New(hub, cache.Options{Scheme: scheme, DefaultNamespaces: map[string]cache.Config{namespace: {}}})
	if err != nil {
		return nil, err
	}
	informer, err := c.GetInformer(ctx, &v1alpha1.Release{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, err
	}
	r := &releases{all: map[string]*v1alpha1.Release{}, changed: make(chan struct{}, 1)}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { r.note(o, false) },
		UpdateFunc: func(_, o any) { r.note(o, false) },
		DeleteFunc: func(o any) { r.note(o, true) },
	})
	if err != nil {
		return nil, err
	}
	go func() { _ = c.Start(ctx) }() // it ends with ctx, without an error
	if !c.WaitForCacheSync(ctx) {
		return nil, errors.New("the hub does not show its Releases")
	}
	return r, nil
}

// note keeps what the watch tells.
func (r *releases) note(o any, gone bool) {
	if unknown, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = unknown.Obj
	}
	is, ok := o.(*v1alpha1.Release)
	if !ok {
		return
	}
	r.mu.Lock()
	if gone {
		delete(r.all, is.Name)
	} else {
		r.all[is.Name] = is
	}
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// await waits until done is true for each named Release; done gets nil for one that is not there.
func (r *releases) await(ctx context.Context, names []string, done func(*v1alpha1.Release) bool) error {
	for {
		left, first := r.left(names, done)
		if left == 0 {
			return nil
		}
		select {
		case <-r.changed:
		case <-ctx.Done():
			return fmt.Errorf("%w: %d of %d Releases are left, the first is %s", context.Cause(ctx), left, len(names), first)
		}
	}
}

// left counts the Releases that are not done, and describes the first.
func (r *releases) left(names []string, done func(*v1alpha1.Release) bool) (left int, first string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		is := r.all[name]
		if done(is) {
			continue
		}
		if left == 0 {
			first = name + describe(is)
		}
		left++
	}
	return left, first
}

func describe(r *v1alpha1.Release) string {
	if r == nil {
		return ", which is not there"
	}
	ready := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil {
		return ", which has no condition Ready"
	}
	return fmt.Sprintf(" with Ready=%s, %s: %s", ready.Status, ready.Reason, ready.Message)
}
