package observe

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// kind is the watch of one kind, perhaps in one namespace only. Its state is guarded by the mutex of the Watches.
type kind struct {
	scope
	watches *Watches
	ctx     context.Context //nolint:containedctx // until the kind is followed no longer: a reflector gives its store none
	cancel  context.CancelFunc

	since      time.Time
	objects    map[delivery.ObjectRef]Object
	bytes      int
	namespaced bool
	seen       time.Time
	problem    string
	// checks are those by which all objects of the kind were judged. Only the watch itself writes them.
	checks map[string]*Checks
	// endRound ends what lasts until the kind is listed anew; anew is when that is due, zero for at the next audit.
	endRound context.CancelFunc
	anew     time.Time
}

func (k *kind) state() KindState {
	return KindState{Kind: k.GroupVersionKind, Namespace: k.namespace, Objects: len(k.objects), Bytes: k.bytes, Since: k.since, Seen: k.seen, Problem: k.problem, Namespaced: k.namespaced}
}

// Delays between two tries to find a kind that is not served, or to watch one that fails.
var retryKind = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 64, Cap: 30 * time.Second}

// run finds the kind and follows it, again after each audit.
func (k *kind) run(ctx context.Context) {
	m, err := k.find(ctx)
	if err != nil {
		return
	}
	for ctx.Err() == nil {
		round, cancel := context.WithTimeout(ctx, wait.Jitter(k.watches.audit, 0.1))
		k.watches.mu.Lock()
		k.endRound = cancel
		k.watches.mu.Unlock()
		r := cache.NewReflectorWithOptions(k.lister(m), k.prototype(), k, cache.ReflectorOptions{Name: k.GroupVersionKind.String()})
		// The reflector's own loop logs each failure, with the address of the target.
		_ = retryKind.DelayWithReset(clock.RealClock{}, StaleAfter).Until(klog.NewContext(round, logr.Discard()), true, true, func(ctx context.Context) (bool, error) {
			_ = r.ListAndWatchWithContext(ctx) // the lister has told of it
			return false, nil
		})
		cancel()
	}
}

// find waits until the cluster serves the kind.
func (k *kind) find(ctx context.Context) (m *meta.RESTMapping, err error) {
	delay := retryKind.DelayFunc()
	err = delay.Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		asking, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		m, err = meta.ToResettableRESTMapperWithContext(k.watches.target.Mapper).RESTMappingWithContext(asking, k.GroupKind(), k.Version)
		if err == nil {
			return true, nil
		}
		if meta.IsNoMatchError(err) {
			k.watches.target.Mapper.Reset()
		}
		k.fail(err)
		return false, nil
	})
	if err == nil {
		k.watches.mu.Lock()
		k.namespaced = m.Scope.Name() == meta.RESTScopeNameNamespace
		k.watches.mu.Unlock()
	}
	return m, err
}

// fail notes why the kind is not seen. What was seen before stays what is known, until it is too old.
func (k *kind) fail(err error) {
	k.watches.mu.Lock()
	if apierrors.IsForbidden(err) && k.namespaced && k.namespace == "" {
		k.watches.narrow[k.GroupVersionKind] = time.Now() // Follow goes on in its namespaces, and those say what is wrong
		k.watches.mark()
		k.watches.mu.Unlock()
		return
	}
	if problem := problemOf(err); problem != k.problem {
		k.problem = problem
		k.watches.mark()
	}
	k.watches.mu.Unlock()
	k.watches.failed(err)
}

// problemOf is the class of a failure: what a server says may hold anything.
func problemOf(err error) string {
	var status apierrors.APIStatus
	switch {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return "the cluster does not serve it"
	case apierrors.IsForbidden(err):
		return "convoy may not list and watch it"
	case errors.As(err, &status):
		return "the cluster refused the watch (" + string(apierrors.ReasonForError(err)) + ")"
	}
	return "the cluster did not answer"
}

// prototype is an object as the reflector is to get them.
func (k *kind) prototype() runtime.Object {
	if delivery.AlwaysHealthy(k.GroupKind()) {
		return &metav1.PartialObjectMetadata{}
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(k.GroupVersionKind)
	return u
}

// lister lists and watches what bears the mark of a Release, and tells of each failure.
func (k *kind) lister(m *meta.RESTMapping) cache.ListerWatcher {
	objects := k.watches.target.Dynamic.Resource(m.Resource).Namespace(k.namespace)
	lw := &cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return objects.List(ctx, o) },
		WatchFuncWithContext: objects.Watch,
	}
	if delivery.AlwaysHealthy(k.GroupKind()) {
		only := k.watches.target.Metadata.Resource(m.Resource).Namespace(k.namespace)
		lw.ListWithContextFunc = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return only.List(ctx, o) }
		lw.WatchFuncWithContext = only.Watch
	}
	inner := *lw
	lw.ListWithContextFunc = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		o.LabelSelector = v1alpha1.LabelOwner
		limited, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		out, err := inner.ListWithContextFunc(limited, o)
		if err != nil && ctx.Err() == nil {
			k.fail(err)
		}
		return out, err
	}
	lw.WatchFuncWithContext = func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		o.LabelSelector = v1alpha1.LabelOwner
		out, err := inner.WatchFuncWithContext(ctx, o)
		if err != nil && ctx.Err() == nil {
			k.fail(err)
		}
		return out, err
	}
	return lw
}

// Add, Update, Delete, Replace, Resync and UpdateResourceVersion are what a reflector calls.

// Add takes an object that is new.
func (k *kind) Add(o any) error { return k.put(o) }

// Update takes an object that changed.
func (k *kind) Update(o any) error { return k.put(o) }

func (k *kind) put(o any) error {
	object, err := objectOf(k.ctx, k.GroupVersionKind, o, k.checks)
	if err != nil {
		return err
	}
	k.watches.mu.Lock()
	defer k.watches.mu.Unlock()
	if resting := k.checks[object.Owner].rested(); resting > 0 {
		k.listAnewLocked(resting)
	}
	before, known := k.objects[object.Ref]
	k.objects[object.Ref] = object
	k.bytes += object.size() - before.size()
	k.sawLocked()
	if !known || !before.same(object) {
		k.watches.mark(before.Owner, object.Owner)
	}
	return nil
}

// Delete takes away an object that is gone, or no longer bears the mark.
func (k *kind) Delete(o any) error {
	object, err := objectOf(k.ctx, k.GroupVersionKind, o, nil)
	if err != nil {
		return err
	}
	k.watches.mu.Lock()
	defer k.watches.mu.Unlock()
	before := k.objects[object.Ref]
	delete(k.objects, object.Ref)
	k.bytes -= before.size()
	k.sawLocked()
	k.watches.mark(before.Owner)
	return nil
}

// Replace takes all objects: the watch began, or was audited.
func (k *kind) Replace(all []any, _ string) error {
	k.watches.mu.Lock()
	checks := k.watches.checks
	k.watches.mu.Unlock()
	objects := make(map[delivery.ObjectRef]Object, len(all))
	resting := time.Duration(0)
	for _, o := range all {
		object, err := objectOf(k.ctx, k.GroupVersionKind, o, checks)
		if err != nil {
			return err
		}
		objects[object.Ref] = object
		resting = max(resting, checks[object.Owner].rested())
	}
	k.watches.mu.Lock()
	defer k.watches.mu.Unlock()
	owners := map[string]bool{}
	for ref, before := range k.objects {
		if now, there := objects[ref]; !there || !before.same(now) {
			owners[before.Owner] = true
		}
	}
	for ref, now := range objects {
		if _, known := k.objects[ref]; !known {
			owners[now.Owner] = true
		}
	}
	k.objects, k.bytes, k.checks = objects, 0, checks
	for _, o := range objects {
		k.bytes += o.size()
	}
	k.sawLocked()
	if resting > 0 {
		k.listAnewLocked(resting)
	}
	if k.outdatedLocked() { // they changed meanwhile
		k.listAnewLocked(anewAfter)
	}
	k.watches.mark(slices.Collect(maps.Keys(owners))...)
	return nil
}

// Resync has nothing to do.
func (k *kind) Resync() error { return nil }

// UpdateResourceVersion hears that the server goes on, also when nothing happened.
func (k *kind) UpdateResourceVersion(string) {
	k.watches.mu.Lock()
	defer k.watches.mu.Unlock()
	k.sawLocked()
}

func (k *kind) sawLocked() {
	first := k.seen.IsZero()
	recovered := k.problem != ""
	k.seen, k.problem = time.Now(), ""
	if first || recovered {
		k.watches.mark()
	}
}
