package apply

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// defaultParallel is how many objects of a stage are worked on at the same time.
const defaultParallel = 8

var (
	getOptions     = metav1.GetOptions{}
	definitionKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	namespaceKind  = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
)

// Request is one apply of a render to a target.
type Request struct {
	Owner delivery.Owner
	// Objects of the render. They are not changed. What only a server may set (managedFields, resourceVersion, uid and
	// the like) is not sent.
	Objects []*unstructured.Unstructured
	// Quiet are objects, applied or not, whose Secrets no message may quote, besides those of Objects.
	Quiet []*unstructured.Unstructured
	// TargetNamespace takes namespaced objects without a namespace; "" means default.
	TargetNamespace string
	// CreateNamespace makes TargetNamespace if it is not there.
	CreateNamespace bool
	// Conflicts and Recreate are those of the sync policy; "" means Force and Never.
	Conflicts v1alpha1.ConflictPolicy
	Recreate  v1alpha1.RecreatePolicy
	// Listen makes a context whose requests tell of the warnings that the target's server sends. It may be nil.
	Listen func(ctx context.Context, heard func(text string)) context.Context
	// Checked reports whether a health check judges an object, which is awaited then. It may be nil.
	Checked func(delivery.ObjectRef) bool
	// Hooks are the names of the hooks whose objects are not to prune.
	Hooks []string
	// Record of the Release on this Cluster. It is changed along with the hub.
	Record *Record
	// Progress is called after each object, one call at a time. It may be nil.
	Progress func(Progress)
	// Parallel is how many objects are written at the same time; 0 means 8.
	Parallel int
}

// ChangeSet is what an apply came to.
type ChangeSet struct {
	// Applied objects, the target namespace included where convoy made it.
	Applied int
	// Failed objects, terminal ones first.
	Failed []ObjectError
	// ToPrune is how many objects the Record has that the render does not.
	ToPrune int
	// Pending are objects that were applied and are not healthy yet, by what the server answered.
	Pending []delivery.ObjectRef
	// Warnings of the server, each once with the first object it is about, at most ten.
	Warnings []string
}

// Retry reports whether an object failed in a way that waiting may heal.
func (c ChangeSet) Retry() bool {
	return slices.ContainsFunc(c.Failed, func(e ObjectError) bool { return !e.Terminal })
}

// applier is the state of one Apply.
type applier struct {
	req     Request
	resolve *resolver
	plan    *plan
	clean   *scrubber
	heard   warnings
	report  *reporter
	settled time.Time // until then, objects whose definition is in the render are tried again
	dryRun  []string  // makes the server try what is sent, and keep nothing of it

	mu          sync.Mutex
	applied     []v1alpha1.InventoryEntry
	refused     []delivery.ObjectRef // for certain, and never recorded before: there is nothing to delete later
	failed      []ObjectError
	pending     []delivery.ObjectRef
	definitions map[delivery.ObjectRef]*unstructured.Unstructured // as the server answered
}

// Apply brings the objects to the target, stage by stage, after it has announced them in the inventory. An object that
// is refused is in ChangeSet.Failed and stops no other; one that the Record did not have before leaves it again, as who may not write an
// object may often not read it either, and could never show that it is gone. The error is failure.Terminal for a render that holds an object
// twice; it wraps ErrHub when the inventory could not be written; any other is of the target, or of ctx. What was
// applied before an error is announced, so that a repetition finds it.
func Apply(ctx context.Context, t Target, l *Ledger, req Request) (ChangeSet, error) {
	r := newResolver(t)
	p, err := makePlan(ctx, r, wish{req.Owner, req.Objects, req.TargetNamespace, req.CreateNamespace, req.Hooks})
	if err != nil {
		return ChangeSet{}, err
	}
	a := &applier{
		req: req, resolve: r, plan: p, failed: p.failed,
		clean:       &scrubber{objects: append(slices.Clone(req.Objects), req.Quiet...)},
		definitions: map[delivery.ObjectRef]*unstructured.Unstructured{},
	}
	a.report = newReporter(req.Progress, len(p.items))
	if err := a.addNamespace(ctx); err != nil {
		return ChangeSet{}, err
	}
	for i := range p.items {
		p.items[i].uid, p.items[i].fresh = req.Record.uid(p.items[i].ref), !req.Record.has(p.items[i].ref)
	}
	if err := l.Announce(ctx, req.Record, p.entries()); err != nil {
		return ChangeSet{}, err
	}
	for _, stage := range delivery.Stages {
		if err := a.runStage(ctx, stage); err != nil {
			_ = dropAfter(ctx, l, req.Record, a.refused) // the error that ended the apply is the one to tell
			return a.changeSet(), fmt.Errorf("apply %s: %w", stage, err)
		}
	}
	if err := l.Confirm(ctx, req.Record, a.applied, a.refused); err != nil {
		return a.changeSet(), err
	}
	return a.changeSet(), nil
}

func (a *applier) runStage(ctx context.Context, stage delivery.Stage) error {
	a.report.stage(stage)
	var items []*item
	for i := range a.plan.items {
		if a.plan.items[i].stage == stage {
			items = append(items, &a.plan.items[i])
		}
	}
	err := each(ctx, a.req.Parallel, items, func(ctx context.Context, it *item) error {
		defer a.report.one()
		return a.applyItem(ctx, it)
	})
	if err != nil || stage != delivery.StageDefinitions {
		return err
	}
	err = a.settleDefinitions(ctx)
	a.settled = time.Now().Add(settleTime)
	return err
}

// applyItem writes one object and notes what came of it. It returns fatal errors only.
func (a *applier) applyItem(ctx context.Context, it *item) error {
	if it.mapping == nil {
		a.fail(transient(it.ref, "its definition %s is not established on the cluster", a.plan.definitions[it.ref.GroupKind()].ref.Name))
		return nil
	}
	live, err := a.write(ctx, it)
	if err != nil {
		return err
	}
	if live == nil {
		return nil
	}
	entry := it.entry("")
	if live.GetLabels()[v1alpha1.LabelOwner] == a.req.Owner.Key() { // else it was left alone, and is not the Release's
		entry.UID = string(live.GetUID())
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.applied = append(a.applied, entry)
	if live.GetDeletionTimestamp() != nil {
		a.failed = append(a.failed, transient(it.ref, "it is being deleted on the cluster; convoy applies it again once it is gone"))
		return nil
	}
	if isPending(live) || a.req.Checked != nil && a.req.Checked(it.ref) {
		a.pending = append(a.pending, it.ref)
	}
	if isDefinition(it.ref.GroupKind()) {
		a.definitions[it.ref] = live
	}
	return nil
}

func (a *applier) fail(e ObjectError) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed = append(a.failed, e)
}

// changeSet sorts what the workers left in any order.
func (a *applier) changeSet() ChangeSet {
	a.mu.Lock()
	defer a.mu.Unlock()
	sortErrors(a.failed)
	slices.SortFunc(a.pending, delivery.ObjectRef.Compare)
	stale, _ := a.plan.split(a.req.Record)
	return ChangeSet{Applied: len(a.applied), Failed: a.failed, ToPrune: len(stale), Pending: a.pending, Warnings: a.heard.lines()}
}

func sortErrors(errs []ObjectError) {
	slices.SortStableFunc(errs, func(x, y ObjectError) int {
		if x.Terminal != y.Terminal {
			if x.Terminal {
				return -1
			}
			return 1
		}
		return x.Ref.Compare(y.Ref)
	})
}
