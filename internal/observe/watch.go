package observe

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// StaleAfter is how long a kind may say nothing, not even that nothing happened, before it counts as not seen. API servers say so
// about every minute.
const StaleAfter = 2 * time.Minute

// Watches follow the objects of all Releases on one target, by their mark, kind by kind. Of an object they keep who owns which of its
// fields and how healthy it is; of kinds that have no health, only the metadata is ever read. They are safe for concurrent use.
type Watches struct {
	target  Target
	changed chan struct{}
	audit   time.Duration
	failed  func(error)
	running sync.WaitGroup

	mu    sync.Mutex
	kinds map[schema.GroupVersionKind]*kind
	// checks are those that the owners have now, by their keys.
	checks map[string]*Checks
	dirty  map[string]time.Time // keys of the owners whose objects changed, and since when that is known
}

// NewWatches follow nothing yet. failed hears of each failure of the target; it must not block. Each kind is listed anew once in audit.
func NewWatches(t Target, audit time.Duration, failed func(error)) *Watches {
	return &Watches{
		target: t, changed: make(chan struct{}, 1), audit: audit, failed: failed,
		kinds: map[schema.GroupVersionKind]*kind{}, dirty: map[string]time.Time{},
	}
}

// Follow goes on with these kinds, and ends all others. Kinds that are new are followed until ctx ends.
func (w *Watches) Follow(ctx context.Context, wanted map[schema.GroupVersionKind]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for gvk, k := range w.kinds {
		if !wanted[gvk] {
			k.cancel()
			delete(w.kinds, gvk)
		}
	}
	for gvk := range wanted {
		if w.kinds[gvk] != nil {
			continue
		}
		following, cancel := context.WithCancel(ctx)
		k := &kind{ctx: following, gvk: gvk, since: time.Now(), watches: w, cancel: cancel, objects: map[delivery.ObjectRef]Object{}}
		w.kinds[gvk] = k
		w.running.Go(func() { k.run(following) })
	}
}

// Close ends everything that Follow began, and waits for it.
func (w *Watches) Close() {
	w.mu.Lock()
	for _, k := range w.kinds {
		k.cancel()
	}
	w.mu.Unlock()
	w.running.Wait()
}

// Changed tells that something is to be looked at.
func (w *Watches) Changed() <-chan struct{} { return w.changed }

// TakeDirty gives the keys of the owners whose objects changed since the last call, and when the first of them did.
func (w *Watches) TakeDirty() map[string]time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.dirty
	w.dirty = map[string]time.Time{}
	return out
}

// KindState is how well the objects of one kind are seen.
type KindState struct {
	Kind schema.GroupVersionKind
	// Objects are kept of it, which take about so many Bytes.
	Objects, Bytes int
	// Since when it is followed.
	Since time.Time
	// Seen is when the server last said something of the kind, zero while it was never listed.
	Seen time.Time
	// Problem is why it is not seen, as a class; empty while it is.
	Problem string
	// Namespaced is known when the kind was seen.
	Namespaced bool
}

// Fresh reports whether what is known of the kind is true now.
func (k KindState) Fresh(now time.Time) bool { return !k.Seen.IsZero() && now.Sub(k.Seen) < StaleAfter }

// Young reports whether it is too early to say anything of the kind.
func (k KindState) Young(now time.Time) bool {
	return k.Seen.IsZero() && k.Problem == "" && now.Sub(k.Since) < firstSight
}

// firstSight is how long the first list of a kind may take before that is worth a word.
const firstSight = 30 * time.Second

// States are those of all kinds, sorted.
func (w *Watches) States() []KindState {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]KindState, 0, len(w.kinds))
	for _, k := range w.kinds {
		out = append(out, k.state())
	}
	slices.SortFunc(out, func(a, b KindState) int { return compareKinds(a.Kind, b.Kind) })
	return out
}

func (w *Watches) mark(owners ...string) {
	for _, owner := range owners {
		if _, known := w.dirty[owner]; !known && owner != "" {
			w.dirty[owner] = time.Now()
		}
	}
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// kind is the watch of one kind. Its state is guarded by the mutex of the Watches.
type kind struct {
	gvk     schema.GroupVersionKind
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
	return KindState{Kind: k.gvk, Objects: len(k.objects), Bytes: k.bytes, Since: k.since, Seen: k.seen, Problem: k.problem, Namespaced: k.namespaced}
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
		r := cache.NewReflectorWithOptions(k.lister(m), k.prototype(), k, cache.ReflectorOptions{Name: k.gvk.String()})
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
		m, err = meta.ToResettableRESTMapperWithContext(k.watches.target.Mapper).RESTMappingWithContext(asking, k.gvk.GroupKind(), k.gvk.Version)
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
	if delivery.AlwaysHealthy(k.gvk.GroupKind()) {
		return &metav1.PartialObjectMetadata{}
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(k.gvk)
	return u
}

// lister lists and watches what bears the mark of a Release, and tells of each failure.
func (k *kind) lister(m *meta.RESTMapping) cache.ListerWatcher {
	list, follow := k.watches.target.Dynamic.Resource(m.Resource).List, k.watches.target.Dynamic.Resource(m.Resource).Watch
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return list(ctx, o)
		},
		WatchFuncWithContext: follow,
	}
	if delivery.AlwaysHealthy(k.gvk.GroupKind()) {
		only := k.watches.target.Metadata.Resource(m.Resource)
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
	object, err := objectOf(k.ctx, k.gvk, o, k.checks)
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
	object, err := objectOf(k.ctx, k.gvk, o, nil)
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
		object, err := objectOf(k.ctx, k.gvk, o, checks)
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
