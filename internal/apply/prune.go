package apply

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/failure"
)

// PruneRequest asks for the removal of what the Record has and the render does not.
type PruneRequest struct {
	Owner delivery.Owner
	// Objects, TargetNamespace and CreateNamespace are those of the apply before.
	Objects         []*unstructured.Unstructured
	TargetNamespace string
	CreateNamespace bool
	// Hooks are the names of the hooks whose objects stay.
	Hooks []string
	// AllowEmpty permits a render without objects.
	AllowEmpty bool
	// Record as the apply left it: its UIDs keep an object that is only named otherwise now.
	Record   *Record
	Progress func(Progress)
	Parallel int
}

// Prune deletes what is in the Record and not in the render, in the reverse order of an apply, and waits until it is
// gone or ctx ends. What the render says to ignore is given up instead. It deletes nothing without the Release's mark on it. When ctx ends, the Removal says what it waited
// for. Errors: failure.Terminal for an empty render that is not allowed, ErrHub, or the target's own.
func Prune(ctx context.Context, t Target, l *Ledger, req PruneRequest) (Removal, error) {
	if len(req.Objects) == 0 && !req.AllowEmpty && req.Record.Len() > 0 {
		return Removal{}, failure.Terminal(v1alpha1.ReasonEmptyRender, nil,
			"the render holds no object; set syncPolicy.allowEmpty to remove everything")
	}
	p, err := makePlan(ctx, newResolver(t), wish{req.Owner, req.Objects, req.TargetNamespace, req.CreateNamespace, req.Hooks})
	if err != nil {
		return Removal{}, err
	}
	stale, renamed := p.split(req.Record)
	if len(stale) == 0 && len(renamed) == 0 {
		return Removal{}, nil
	}
	r := newRemover(t, req.Owner, p.wants, req.Parallel, newReporter(req.Progress, len(stale)))
	r.wished, r.ignored = p.uids(req.Record), p.ignored
	err = r.run(ctx, stale)
	if dropErr := dropAfter(ctx, l, req.Record, append(r.done, renamed...)); err == nil {
		err = dropErr
	}
	return r.result, err
}

// DeleteRequest asks for the removal of everything that a Record has.
type DeleteRequest struct {
	Owner delivery.Owner
	// KeepWorkloads leaves the objects, without convoy's marks, and free for others to take over.
	KeepWorkloads bool
	// SpareNamespace stays when it holds what is not the Release's: convoy gives it up instead of waiting for it.
	SpareNamespace string
	Record         *Record
	// Staying are what the Release keeps on other Clusters. An object that is recorded there too, by its UID, was reached
	// by two ways, and stays as it is.
	Staying  []*Record
	Progress func(Progress)
	Parallel int
}

// Delete removes everything in the Record from the target, in the reverse order of an apply, and then the Record from
// the hub. An empty Record is removed without a word to the target. When something is left to do, the Record stays and
// the Removal says what. Errors: ErrHub, or the target's own.
func Delete(ctx context.Context, t Target, l *Ledger, req DeleteRequest) (Removal, error) {
	if req.Record.Len() == 0 {
		return Removal{}, l.Remove(ctx, req.Record)
	}
	r := newRemover(t, req.Owner, func(delivery.ObjectRef) bool { return false }, req.Parallel, newReporter(req.Progress, req.Record.Len()))
	r.keepAll, r.spare, r.wished = req.KeepWorkloads, req.SpareNamespace, uidsOf(req.Staying)
	err := r.run(ctx, req.Record.Entries())
	if err == nil && len(r.done) == req.Record.Len() {
		return r.result, l.Abandon(ctx, req.Record)
	}
	if dropErr := dropAfter(ctx, l, req.Record, r.done); err == nil {
		err = dropErr
	}
	return r.result, err
}

// dropAfter drops also when ctx has ended: what was seen gone need not be looked at again.
func dropAfter(ctx context.Context, l *Ledger, rec *Record, refs []delivery.ObjectRef) error {
	const grace = 3 * time.Second
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
	}
	return l.Drop(ctx, rec, refs)
}
