package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// Removal is what a Prune or Delete came to. What is in Survivors, Failed and Waiting is still in the Record.
type Removal struct {
	// Removed is how many objects were seen gone.
	Removed int
	// Left are objects that stay on the target and are no longer convoy's: protected by their annotation, given up by
	// keepWorkloads, or somebody else's by now.
	Left []delivery.ObjectRef
	// Survivors are Namespaces and CustomResourceDefinitions that hold something that is not the Release's, each with
	// an example.
	Survivors []ObjectError
	// Failed are objects that the cluster refuses to delete.
	Failed []ObjectError
	// Waiting are objects that are not gone yet, or that cannot be seen now.
	Waiting []ObjectError
}

// Done reports whether nothing is left to do.
func (r Removal) Done() bool {
	return len(r.Survivors) == 0 && len(r.Failed) == 0 && len(r.Waiting) == 0
}

// verdict is what one look at one object says.
type verdict int

const (
	remains  verdict = iota // it is there, or was not looked at; look again
	gone                    // it is not there, or another object has its name
	left                    // it stays, and is not convoy's
	survives                // it holds what is not ours
	refused                 // the cluster does not let convoy delete it
	unseen                  // discovery cannot say whether it is there
)

// look is a verdict with what to say about it.
type look struct {
	verdict verdict
	message string
}

// remover takes objects away, wave by wave.
type remover struct {
	resolve  *resolver
	owner    delivery.Owner
	keeps    func(delivery.ObjectRef) bool // what stays: a Namespace or definition that it needs survives
	wished   map[string]bool               // UIDs of what stays, under whatever name or in whatever record
	keepAll  bool                          // take the marks off everything, and delete nothing
	again    bool                          // what a hook made is made again right away
	ignored  map[delivery.ObjectRef]bool   // what is given up because the render says to ignore it
	spare    string                        // a Namespace that is given up when it holds what is not ours
	parallel int
	report   *reporter

	mu      sync.Mutex
	deleted map[delivery.ObjectRef]types.UID // what this run asked to delete
	looks   map[delivery.ObjectRef]look
	result  Removal
	done    []delivery.ObjectRef // to be dropped from the Record
}

func newRemover(t Target, owner delivery.Owner, keeps func(delivery.ObjectRef) bool, parallel int, report *reporter) *remover {
	return &remover{
		resolve: newResolver(t), owner: owner, keeps: keeps, parallel: parallel, report: report,
		deleted: map[delivery.ObjectRef]types.UID{}, looks: map[delivery.ObjectRef]look{},
	}
}

// run removes the entries in the reverse order of an apply, and waits after each wave until its objects are gone. It
// returns fatal errors and ctx's; result and done are right in any case.
//
// An object that the cluster refuses to delete holds back all later waves, as they may be what it needs to go. One
// whose API group does not answer holds back Namespaces and definitions only: it may hold its own server for ever.
func (r *remover) run(ctx context.Context, entries []v1alpha1.InventoryEntry) error {
	waves := wavesOf(entries, r.resolve.target.ServiceAccount != "")
	if r.keepAll {
		waves = []wave{{entries: entries}}
	}
	for i, w := range waves {
		if blocker, blocked := r.heldBack(w); blocked {
			r.hold(w.entries, "it stays until %s is gone", blocker)
			continue
		}
		r.report.stage(w.stage)
		err := r.clear(ctx, w.entries)
		if err != nil {
			r.hold(w.entries, "it is not gone yet")
			for _, later := range waves[i+1:] {
				r.hold(later.entries, "its turn has not come yet")
			}
			r.collect(entries)
			return err
		}
	}
	r.collect(entries)
	return nil
}

// clear looks at all entries again and again, more and more slowly, until none remains.
func (r *remover) clear(ctx context.Context, entries []v1alpha1.InventoryEntry) error {
	waiting := entries
	var broken error
	err := growing(100*time.Millisecond, 5*time.Second).Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		broken = each(ctx, r.parallel, waiting, r.visit)
		if broken != nil {
			return false, broken
		}
		waiting = slices.DeleteFunc(slices.Clone(waiting), func(e v1alpha1.InventoryEntry) bool {
			return r.looks[RefOf(e)].verdict != remains
		})
		return len(waiting) == 0, nil
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if broken != nil {
		return broken
	}
	return err
}

// visit takes one step with one object. It returns fatal errors only.
func (r *remover) visit(ctx context.Context, e v1alpha1.InventoryEntry) error {
	found, err := r.step(ctx, e)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.looks[RefOf(e)] = found
	r.mu.Unlock()
	if found.verdict != remains {
		r.report.one()
	}
	return nil
}

func (r *remover) step(ctx context.Context, e v1alpha1.InventoryEntry) (look, error) {
	m, err := r.resolve.findAny(ctx, kindOf(e))
	switch {
	case errors.Is(err, errNotServed):
		return look{verdict: gone}, nil
	case errors.Is(err, errGroupFailing):
		return look{unseen, fmt.Sprintf("the API group %s does not answer on the cluster", e.Group)}, nil
	case err != nil:
		return look{}, err
	}
	live, err := r.get(ctx, m, e)
	if err != nil {
		return r.unread(ctx, e, err)
	}
	return r.judge(ctx, m, e, live)
}

// unread is the verdict on an object that could not be read.
func (r *remover) unread(ctx context.Context, e v1alpha1.InventoryEntry, err error) (look, error) {
	switch {
	case fatal(err):
		return look{}, err
	case isRouteMissing(err): // the kind was there a moment ago: find out, and look again
		r.resolve.refreshOlder(ctx, recent)
		return look{remains, "the cluster does not serve its kind right now"}, nil
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err) && isBinding(RefOf(e)) && r.tookWith(e):
		return look{verdict: gone}, nil
	}
	return r.refusedOr(err, "read")
}

// tookWith reports whether this run deleted an object, or its namespace. A role binding that may not be read afterwards
// was what permitted it, and is gone: one that waits for a finalizer would permit it still.
func (r *remover) tookWith(e v1alpha1.InventoryEntry) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, asked := r.deleted[RefOf(e)]
	return asked || e.Namespace != "" && r.looks[namespaceRef(e.Namespace)].verdict == gone
}

// judge decides about an object that is there.
func (r *remover) judge(ctx context.Context, m *meta.RESTMapping, e v1alpha1.InventoryEntry, live *unstructured.Unstructured) (look, error) {
	ref := RefOf(e)
	r.mu.Lock()
	asked, isAsked := r.deleted[ref]
	r.mu.Unlock()
	switch {
	case isAsked && asked != live.GetUID():
		return look{verdict: gone}, nil
	case e.Hook != "" && live.GetLabels()[v1alpha1.LabelHookOwner] == r.owner.Key():
		if !r.again && r.outlives(ref, live) {
			return r.giveUp(ctx, m, live)
		}
		return r.removeHook(ctx, m, live)
	case e.Hook != "":
		return look{verdict: left}, nil
	case live.GetLabels()[v1alpha1.LabelOwner] != r.owner.Key():
		return look{verdict: left}, nil
	case r.wished[string(live.GetUID())]:
		return look{verdict: left}, nil // the same object as one that stays
	case r.keepAll, r.ignored[ref]:
		return r.giveUp(ctx, m, live)
	case live.GetDeletionTimestamp() != nil:
		return look{remains, describeDeleting(live)}, nil
	case live.GetAnnotations()[v1alpha1.AnnotationPrune] == "disabled":
		return r.giveUp(ctx, m, live)
	}
	found, holds, err := r.guard(ctx, ref, live)
	switch {
	case err != nil:
		return look{}, err
	case holds && found.verdict == survives && r.spare != "" && ref == namespaceRef(r.spare):
		return r.giveUp(ctx, m, live)
	case holds:
		return found, nil
	}
	return r.delete(ctx, m, ref, live)
}

func (r *remover) delete(ctx context.Context, m *meta.RESTMapping, ref delivery.ObjectRef, live *unstructured.Unstructured) (look, error) {
	uid := live.GetUID()
	err := deleteObject(ctx, r.resolve.client(m, live.GetNamespace()), live.GetName(), uid)
	switch {
	case err == nil:
		r.mu.Lock()
		r.deleted[ref] = uid
		r.mu.Unlock()
		return look{remains, "it is not gone yet"}, nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return look{remains, "it is not gone yet"}, nil // look again: gone, or another object by now
	}
	return r.refusedOr(err, "delete")
}

// outlives reports whether the object of a hook stays where objects stay. What runs to an end has done its work.
func (r *remover) outlives(ref delivery.ObjectRef, live *unstructured.Unstructured) bool {
	return r.keepAll && !delivery.RunsOnce(ref.GroupKind()) || live.GetAnnotations()[v1alpha1.AnnotationPrune] == "disabled"
}

// removeHook deletes what a hook made.
func (r *remover) removeHook(ctx context.Context, m *meta.RESTMapping, live *unstructured.Unstructured) (look, error) {
	if err := removeHook(ctx, r.resolve, m, live); err != nil {
		return r.refusedOr(err, "delete")
	}
	return look{remains, describeDeleting(live)}, nil
}

// refusedOr tells a refusal for good from one that may pass.
func (r *remover) refusedOr(err error, verb string) (look, error) {
	if fatal(err) {
		return look{}, err
	}
	if message, ok := passing(delivery.ObjectRef{}, err); ok {
		return look{remains, message}, nil
	}
	message := fmt.Sprintf("the cluster does not let convoy %s it (%s)", verb, classOf(err))
	if apierrors.IsForbidden(err) {
		message += r.resolve.target.as()
	}
	return look{refused, message}, nil
}

func (r *remover) get(ctx context.Context, m *meta.RESTMapping, e v1alpha1.InventoryEntry) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return r.resolve.client(m, e.Namespace).Get(ctx, e.Name, getOptions)
}

func describeDeleting(live *unstructured.Unstructured) string {
	if f := live.GetFinalizers(); len(f) > 0 {
		return oneLine("it waits for the finalizer " + f[0])
	}
	return "it is not gone yet"
}
