package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
)

// object is a pointer to a type of the API; nil stands for one that is not there.
type object interface {
	client.Object
	*v1alpha1.Cluster | *v1alpha1.Release
}

// kept is what the hub holds of one kind, as a watch tells it. One caller at a time may wait for its changes.
type kept[T object] struct {
	kind       string
	conditions func(T) []metav1.Condition

	mu      sync.Mutex
	all     map[string]T  // by name; never changed
	changed chan struct{} // holds a token when all has changed
}

// watchHub watches Clusters and Releases until ctx ends.
func watchHub(ctx context.Context, hub *rest.Config, scheme *runtime.Scheme) (*kept[*v1alpha1.Cluster], *kept[*v1alpha1.Release], error) {
	c, err := cache.New(hub, cache.Options{Scheme: scheme, DefaultNamespaces: map[string]cache.Config{namespace: {}}})
	if err != nil {
		return nil, nil, err
	}
	clusters := &kept[*v1alpha1.Cluster]{kind: "Cluster", conditions: func(c *v1alpha1.Cluster) []metav1.Condition { return c.Status.Conditions }}
	releases := &kept[*v1alpha1.Release]{kind: "Release", conditions: func(r *v1alpha1.Release) []metav1.Condition { return r.Status.Conditions }}
	if err := errors.Join(clusters.follow(ctx, c, &v1alpha1.Cluster{}), releases.follow(ctx, c, &v1alpha1.Release{})); err != nil {
		return nil, nil, err
	}
	go func() { _ = c.Start(ctx) }() // it ends with ctx, without an error
	if !c.WaitForCacheSync(ctx) {
		return nil, nil, errors.New("the hub does not show its Clusters and Releases")
	}
	return clusters, releases, nil
}

// follow takes the news of a cache; example names the type.
func (k *kept[T]) follow(ctx context.Context, c cache.Cache, example T) error {
	k.all, k.changed = map[string]T{}, make(chan struct{}, 1)
	informer, err := c.GetInformer(ctx, example, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { k.note(o, false) },
		UpdateFunc: func(_, o any) { k.note(o, false) },
		DeleteFunc: func(o any) { k.note(o, true) },
	})
	return err
}

// note keeps what the watch tells.
func (k *kept[T]) note(o any, gone bool) {
	if unknown, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = unknown.Obj
	}
	is, ok := o.(T)
	if !ok {
		return
	}
	k.mu.Lock()
	if gone {
		delete(k.all, is.GetName())
	} else {
		k.all[is.GetName()] = is
	}
	k.mu.Unlock()
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// get is what the hub holds under a name.
func (k *kept[T]) get(name string) T {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.all[name]
}

// await waits until done is true for each named object; done gets nil for one that is not there.
func (k *kept[T]) await(ctx context.Context, names []string, done func(T) bool) error {
	_, err := k.arrivals(ctx, names, done)
	return err
}

// arrivals waits like await, and tells when each was first seen to be done. What becomes undone later stays done.
func (k *kept[T]) arrivals(ctx context.Context, names []string, done func(T) bool) (map[string]time.Time, error) {
	at := make(map[string]time.Time, len(names))
	for {
		first := k.arrived(at, names, done)
		if first == "" {
			return at, nil
		}
		select {
		case <-k.changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %d of %d %ss are left, the first is %s", context.Cause(ctx), len(names)-len(at), len(names), k.kind, first)
		}
	}
}

// arrived notes the objects that have become done, and describes the first that has not.
func (k *kept[T]) arrived(at map[string]time.Time, names []string, done func(T) bool) (first string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	for _, name := range names {
		if _, ok := at[name]; ok {
			continue
		}
		is := k.all[name]
		if done(is) {
			at[name] = now
			continue
		}
		if first == "" {
			first = name + k.describe(is)
		}
	}
	return first
}

func (k *kept[T]) describe(o T) string {
	if o == nil {
		return ", which is not there"
	}
	ready := meta.FindStatusCondition(k.conditions(o), v1alpha1.ConditionReady)
	if ready == nil {
		return ", which has no condition Ready"
	}
	return fmt.Sprintf(" with Ready=%s, %s: %s", ready.Status, ready.Reason, ready.Message)
}

// Conditions of waits.

func gone[T object](o T) bool { return o == nil }

// verdict reports whether the last probe was about the Cluster as it is, whatever it found.
func verdict(c *v1alpha1.Cluster) bool {
	if c == nil {
		return false
	}
	ready := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.ObservedGeneration == c.Generation
}

func reachable(c *v1alpha1.Cluster) bool {
	return verdict(c) && meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionReady)
}

func unreachable(c *v1alpha1.Cluster) bool { return verdict(c) && !reachable(c) }

func delivered(r *v1alpha1.Release) bool {
	if r == nil {
		return false
	}
	ready := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == r.Generation
}
