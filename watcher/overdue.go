package watcher

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	hubclient "sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// late is how long a change may wait to be handed over before its object says so.
const late = 30 * time.Second

// Notices write into the status of a Cluster or Release that its change cannot be handed over to Temporal, or that it was.
type Notices interface {
	EngineUnavailable(ctx context.Context, o hubclient.Object) error
	EngineAnswers(ctx context.Context, o hubclient.Object) error
}

// overdue remembers which changes wait to be handed over, by the workflow that they are for.
type overdue struct {
	notices Notices

	mu    sync.Mutex
	waits map[string]*waiting
}

type waiting struct {
	since time.Time
	told  bool
}

// missed notes that a change was not handed over, and tells of it when it has waited for long.
func (d *overdue) missed(ctx context.Context, workflow string, o hubclient.Object, reason delivery.KickReason) error {
	if !isNews(o, reason) {
		return nil
	}
	d.mu.Lock()
	if d.waits == nil {
		d.waits = map[string]*waiting{}
	}
	w := d.waits[workflow]
	if w == nil {
		w = &waiting{since: time.Now()}
		d.waits[workflow] = w
	}
	due := time.Since(w.since) >= late
	w.told = w.told || due
	d.mu.Unlock()
	if !due {
		return nil
	}
	return d.notices.EngineUnavailable(ctx, o)
}

// over notes that an object was handed over. What its status says is taken back, also when another process wrote it.
func (d *overdue) over(ctx context.Context, workflow string, o hubclient.Object) error {
	d.mu.Lock()
	w := d.waits[workflow]
	d.mu.Unlock()
	if (w != nil && w.told) || saysUnavailable(o) {
		if err := d.notices.EngineAnswers(ctx, o); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.waits, workflow)
	return nil
}

// isNews reports whether a request to wake a workflow tells it of a change. A resync and a start wake those that nobody changed,
// too.
func isNews(o hubclient.Object, reason delivery.KickReason) bool {
	if reason != delivery.KickResync && reason != delivery.KickListed {
		return true
	}
	switch o := o.(type) {
	case *v1alpha1.Cluster:
		return o.Status.ObservedGeneration != o.Generation
	case *v1alpha1.Release:
		return o.Status.ObservedGeneration != o.Generation || o.Status.LastHandledReconcileAt != o.Annotations[v1alpha1.AnnotationRequestedAt]
	}
	return false
}

// saysUnavailable reports whether the status of an object has it that Temporal does not answer.
func saysUnavailable(o hubclient.Object) bool {
	switch o := o.(type) {
	case *v1alpha1.Cluster:
		return meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionEngineUnavailable) != nil
	case *v1alpha1.Release:
		return meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionEngineUnavailable) != nil
	}
	return false
}
