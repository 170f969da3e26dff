package observe

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

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
	kinds map[scope]*kind
	// narrow are kinds that convoy may not watch in all namespaces at once, and when that was found.
	narrow map[schema.GroupVersionKind]time.Time
	// checks are those that the owners have now, by their keys.
	checks map[string]*Checks
	dirty  map[string]time.Time // keys of the owners whose objects changed, and since when that is known
}

// NewWatches follow nothing yet. failed hears of each failure of the target; it must not block. Each kind is listed anew once in audit.
func NewWatches(t Target, audit time.Duration, failed func(error)) *Watches {
	return &Watches{
		target: t, changed: make(chan struct{}, 1), audit: audit, failed: failed,
		kinds: map[scope]*kind{}, narrow: map[schema.GroupVersionKind]time.Time{}, dirty: map[string]time.Time{},
	}
}

// scope is a kind in all namespaces, or in one.
type scope struct {
	schema.GroupVersionKind
	namespace string
}

// Kinds are kinds, each with the namespaces in which there are to be objects of it. A kind that has none by itself has those all the same.
type Kinds map[schema.GroupVersionKind]map[string]bool

// Follow goes on with these kinds, and ends all others. Kinds that are new are followed until ctx ends. One that convoy may not watch in
// all namespaces is followed in each of its own, for as long as until an audit.
func (w *Watches) Follow(ctx context.Context, wanted Kinds) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.narrow, func(_ schema.GroupVersionKind, since time.Time) bool { return time.Since(since) > w.audit })
	scopes := map[scope]bool{}
	for gvk, namespaces := range wanted {
		if w.narrow[gvk].IsZero() {
			scopes[scope{gvk, ""}] = true
			continue
		}
		for namespace := range namespaces {
			scopes[scope{gvk, namespace}] = true
		}
	}
	for s, k := range w.kinds {
		if !scopes[s] {
			k.cancel()
			delete(w.kinds, s)
		}
	}
	for s := range scopes {
		if w.kinds[s] != nil {
			continue
		}
		following, cancel := context.WithCancel(ctx)
		k := &kind{ctx: following, scope: s, since: time.Now(), watches: w, cancel: cancel, objects: map[delivery.ObjectRef]Object{}}
		w.kinds[s] = k
		w.running.Go(func() { k.run(following) })
	}
}

// of is the watch of a kind that sees a namespace, nil when there is none.
func (w *Watches) of(gvk schema.GroupVersionKind, namespace string) *kind {
	if k := w.kinds[scope{gvk, ""}]; k != nil {
		return k
	}
	return w.kinds[scope{gvk, namespace}]
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
	// Namespace in which it is followed, empty for all.
	Namespace string
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
	wait := firstSight
	if k.Problem != "" {
		wait = firstProblem
	}
	return k.Seen.IsZero() && now.Sub(k.Since) < wait
}

// firstSight is how long the first list of a kind may take before that is worth a word, firstProblem how long it may fail: an observer that
// has just taken over is not to say of all Releases that nothing is known, and a moment later that all is well.
const (
	firstSight   = 30 * time.Second
	firstProblem = 10 * time.Second
)

// States are those of all kinds, sorted.
func (w *Watches) States() []KindState {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]KindState, 0, len(w.kinds))
	for _, k := range w.kinds {
		out = append(out, k.state())
	}
	slices.SortFunc(out, func(a, b KindState) int {
		return cmp.Or(compareKinds(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace))
	})
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
