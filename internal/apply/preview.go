package apply

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// Preview is what an apply would come to.
type Preview struct {
	// Changes are all objects, also those that would stay as they are, in the order of an apply; then those that would be pruned.
	Changes []Change
	// Guessed are objects of Changes that the target cannot try before something else is done: made, such as their namespace, or
	// deleted, where they are to be made anew.
	Guessed []delivery.ObjectRef
	// Failed are objects that the target, or convoy, would refuse.
	Failed []ObjectError
}

// Change is what would become of one object.
type Change struct {
	Ref delivery.ObjectRef
	// Live is the object on the target, nil when it is not there. Next is what it would be, nil when it would be pruned.
	Live, Next *unstructured.Unstructured
}

// previewer is the state of one DryRun.
type previewer struct {
	*applier
	out Preview
}

// Differs reports whether an apply would change a live object: whether anything is another but what a server keeps count of.
func (c Change) Differs() bool {
	if c.Live == nil || c.Next == nil {
		return c.Live != c.Next
	}
	return !equality.Semantic.DeepEqual(withoutCounts(c.Live), withoutCounts(c.Next))
}

// withoutCounts is an object without what changes with every write, and with a change of who owns a field.
func withoutCounts(o *unstructured.Unstructured) map[string]any {
	o = o.DeepCopy()
	for _, field := range []string{"managedFields", "resourceVersion", "generation"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	return o.Object
}

// DryRun asks the target what an apply of the request would come to, and a prune where it has a Record. It writes nothing, neither on the
// target nor to the Record. The error is failure.Terminal for a render that holds an object twice; any other is of the target, or of ctx.
func DryRun(ctx context.Context, t Target, req Request) (Preview, error) {
	r := newResolver(t)
	p, err := makePlan(ctx, r, wish{req.Owner, req.Objects, req.TargetNamespace, req.CreateNamespace, req.Hooks})
	if err != nil {
		return Preview{}, err
	}
	v := &previewer{applier: &applier{
		req: req, resolve: r, plan: p, failed: p.failed, clean: &scrubber{objects: req.Objects}, dryRun: []string{metav1.DryRunAll},
	}}
	items := make([]*item, len(p.items))
	order := make(map[delivery.ObjectRef]int, len(items))
	for i := range p.items {
		items[i] = &p.items[i]
		order[items[i].ref] = i
	}
	if err := each(ctx, req.Parallel, items, v.item); err != nil {
		return Preview{}, err
	}
	slices.SortFunc(v.out.Changes, func(a, b Change) int { return order[a.Ref] - order[b.Ref] })
	if req.Record != nil {
		stale, _ := p.split(req.Record)
		pruned := len(v.out.Changes)
		if err := each(ctx, req.Parallel, stale, v.stale); err != nil {
			return Preview{}, err
		}
		slices.SortFunc(v.out.Changes[pruned:], func(a, b Change) int { return a.Ref.Compare(b.Ref) })
	}
	slices.SortFunc(v.out.Guessed, delivery.ObjectRef.Compare)
	sortErrors(v.failed)
	v.out.Failed = v.failed
	return v.out, nil
}

// item tries one object. It returns fatal errors only.
func (v *previewer) item(ctx context.Context, it *item) error {
	if it.mapping == nil { // its kind is defined by the render itself
		v.guess(it, nil)
		return nil
	}
	var next *unstructured.Unstructured
	live, err := v.get(ctx, it)
	switch {
	case err == nil:
		next, err = v.takeFrom(ctx, it, live, nil)
	case isGone(err):
		live = nil
		next, err = v.patch(ctx, it.absent(), false)
	}
	if live != nil && isImmutable(err) && v.mayNotReplace(it) == "" && v.mayNotDelete(live) == "" {
		v.guess(it, live)
		return nil
	}
	stopped, isStop := errors.AsType[*stop](err)
	switch {
	case err == nil:
		v.change(Change{Ref: it.ref, Live: live, Next: next})
	case isStop:
		v.fail(ObjectError{Ref: it.ref, Reason: stopped.reason, Message: stopped.message, Terminal: stopped.terminal})
	case fatal(err):
		return err
	case live == nil && v.awaits(it, err):
		v.guess(it, nil)
	default:
		v.fail(refusal(v.resolve.target, it.ref, err, v.clean))
	}
	return nil
}

// awaits reports whether an object was refused for want of something that the apply itself makes before.
func (v *previewer) awaits(it *item, err error) bool {
	return it.ours || v.plan.keeps[namespaceRef(it.ref.Namespace)] && isNamespaceMissing(it.ref, err)
}

// stale looks at an object that is recorded, and that the render does not have. What a prune would leave is no change.
func (v *previewer) stale(ctx context.Context, e v1alpha1.InventoryEntry) error {
	live, err := v.read(ctx, schema.GroupVersionKind{Group: e.Group, Version: e.Version, Kind: e.Kind}, RefOf(e))
	switch {
	case errors.Is(err, errNotServed):
		return nil
	case errors.Is(err, errGroupFailing):
		v.fail(unknownKind(RefOf(e), schema.GroupVersionKind{Group: e.Group, Version: e.Version, Kind: e.Kind}, err))
		return nil
	case err != nil && fatal(err):
		return err
	case err != nil:
		v.fail(refusal(v.resolve.target, RefOf(e), err, v.clean))
		return nil
	}
	if live != nil && v.prunes(e, live) {
		v.change(Change{Ref: RefOf(e), Live: live})
	}
	return nil
}

// prunes reports whether a prune takes an object away that is recorded. What a hook made goes with its hook, whatever it says.
func (v *previewer) prunes(e v1alpha1.InventoryEntry, live *unstructured.Unstructured) bool {
	if e.Hook != "" {
		return live.GetLabels()[v1alpha1.LabelHookOwner] == v.req.Owner.Key()
	}
	return live.GetLabels()[v1alpha1.LabelOwner] == v.req.Owner.Key() && live.GetAnnotations()[v1alpha1.AnnotationPrune] != "disabled"
}

// read reads an object, in whichever version is served, nil when it is not there.
func (v *previewer) read(ctx context.Context, gvk schema.GroupVersionKind, ref delivery.ObjectRef) (*unstructured.Unstructured, error) {
	m, err := v.resolve.findAny(ctx, gvk)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	live, err := v.resolve.client(m, ref.Namespace).Get(ctx, ref.Name, getOptions)
	if isGone(err) {
		return nil, nil
	}
	return live, err
}

func (v *previewer) guess(it *item, live *unstructured.Unstructured) {
	v.change(Change{Ref: it.ref, Live: live, Next: it.object})
	v.mu.Lock()
	defer v.mu.Unlock()
	v.out.Guessed = append(v.out.Guessed, it.ref)
}

func (v *previewer) change(c Change) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.out.Changes = append(v.out.Changes, c)
}
