package observe

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// anewAfter is how long a kind that is to be judged anew waits for others that ask for the same.
const anewAfter = time.Second

// JudgeBy says by which checks the objects of each owner, which its key names, are judged from now on. Nothing is kept of an object that
// could be judged again: a kind of which objects were judged otherwise is listed anew. The map is not to be changed afterwards.
func (w *Watches) JudgeBy(checks map[string]*Checks) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if maps.Equal(w.checks, checks) {
		return
	}
	w.checks = checks
	for _, k := range w.kinds {
		if k.outdatedLocked() {
			k.listAnewLocked(anewAfter)
		}
	}
}

// outdatedLocked reports whether objects of the kind may have been judged by other checks than those of now.
func (k *kind) outdatedLocked() bool {
	if k.seen.IsZero() {
		return false // the first list is judged by those of then
	}
	for owner, now := range k.watches.checks {
		if differ(now, k.checks[owner], k.GroupKind()) {
			return true
		}
	}
	for owner, before := range k.checks {
		if differ(before, k.watches.checks[owner], k.GroupKind()) {
			return true
		}
	}
	return false
}

// differ reports whether two sets of checks may judge objects of a kind differently.
func differ(a, b *Checks, gk schema.GroupKind) bool {
	return a != b && (a.concern(gk) || b.concern(gk))
}

// listAnewLocked lists the kind anew after a while, once for all who asked until then.
func (k *kind) listAnewLocked(after time.Duration) {
	due := time.Now().Add(after)
	if !k.anew.IsZero() && k.anew.Before(due) {
		return
	}
	k.anew = due
	time.AfterFunc(after, func() {
		k.watches.mu.Lock()
		defer k.watches.mu.Unlock()
		if k.anew.IsZero() || time.Now().Before(k.anew) {
			return
		}
		if k.anew = (time.Time{}); k.endRound != nil {
			k.endRound()
		}
	})
}

// outdated reports whether objects of a kind in a namespace may have been judged by other checks than a wish has.
func (w *Watches) outdated(at scope, wish Wish) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.of(at.GroupVersionKind, at.namespace)
	return k != nil && differ(wish.Checks, k.checks[wish.Owner.Key()], at.GroupKind())
}
