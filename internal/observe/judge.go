package observe

import (
	"cmp"
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// Wish is what a Release wants on the target, as its last rollout applied it.
type Wish struct {
	Owner delivery.Owner
	// Objects of the render.
	Objects []*unstructured.Unstructured
	// Applied is an object of the render as an apply sends it to a namespace, empty for a cluster-scoped one. How far it is convoy's:
	// there is nothing to look at, only that it is there, or all of it.
	Applied func(o *unstructured.Unstructured, namespace string) (*unstructured.Unstructured, Extent)
	// TargetNamespace takes objects without a namespace.
	TargetNamespace string
	// Ignores say which fields of an object are not looked at.
	Ignores *Ignores
	// Checks judge the health of objects.
	Checks *Checks
}

// Extent is how far an object is convoy's.
type Extent int

// The extents.
const (
	Nothing Extent = iota
	Presence
	Fields
)

// Drifted is an object that is not as it was applied.
type Drifted struct {
	Ref delivery.ObjectRef
	// Gone: it is not there, or, as long as nobody asked, does not bear convoy's mark any more.
	Gone bool
	Drift
}

// Report is how the objects of one Release stand. Lists are in the order of the render.
type Report struct {
	// Objects is how many there are to be.
	Objects int
	Drifted []Drifted
	// Failed objects do not get where they are to be, as their controllers say; Pending ones are on their way.
	Failed  []Finding
	Pending []Finding
	// Unseen are kinds of which nothing is known at the moment.
	Unseen []KindState
	// Unsure are objects that nothing is known to be wrong with, but managedFields leave a part open: only a dry run of an apply could tell.
	Unsure []Unsure
	// Outdated: some were judged by other checks than those of the wish, and will be judged anew soon.
	Outdated bool
}

// Unsure is such an object, as it is known now.
type Unsure struct {
	Ref  delivery.ObjectRef
	live Object
}

// Same reports whether nothing has happened to the object since, as far as that is followed.
func (u Unsure) Same(before Unsure) bool { return u.Ref == before.Ref && u.live.same(before.live) }

// KindsOf are the kinds of objects. Objects without a namespace are in the given one.
func KindsOf(objects []*unstructured.Unstructured, namespace string) Kinds {
	kinds := Kinds{}
	for _, o := range objects {
		kinds.Add(o.GroupVersionKind(), cmp.Or(o.GetNamespace(), namespace))
	}
	return kinds
}

// Add adds a kind in a namespace.
func (k Kinds) Add(gvk schema.GroupVersionKind, namespace string) {
	if k[gvk] == nil {
		k[gvk] = map[string]bool{}
	}
	k[gvk][namespace] = true
}

// Judge compares a wish with what is known now. The watches go on meanwhile.
func (w *Watches) Judge(ctx context.Context, wish Wish, now time.Time) Report {
	var out Report
	look := wish.Ignores.glance()
	states, asked := map[scope]KindState{}, map[scope]bool{}
	for _, o := range wish.Objects {
		at := scope{o.GroupVersionKind(), cmp.Or(o.GetNamespace(), wish.TargetNamespace)}
		state, known := states[at]
		if !known {
			state = w.state(at, now)
			states[at] = state
			// Several namespaces may be seen by the same watch.
			if one := (scope{state.Kind, state.Namespace}); !asked[one] {
				asked[one] = true
				if !state.Fresh(now) {
					out.Unseen = append(out.Unseen, state)
				}
				out.Outdated = out.Outdated || w.outdated(at, wish)
			}
		}
		if !state.Fresh(now) {
			out.Objects++
			continue
		}
		w.judge(ctx, wish, look, o, state, &out)
	}
	return out
}

// state is that of the watch that sees a kind in a namespace, whether there is one or not.
func (w *Watches) state(at scope, now time.Time) KindState {
	w.mu.Lock()
	defer w.mu.Unlock()
	if k := w.of(at.GroupVersionKind, at.namespace); k != nil {
		return k.state()
	}
	return KindState{Kind: at.GroupVersionKind, Since: now}
}

// find gives what is known of an object.
func (w *Watches) find(gvk schema.GroupVersionKind, ref delivery.ObjectRef) (live Object, there bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if k := w.of(gvk, ref.Namespace); k != nil {
		live, there = k.objects[ref]
	}
	return live, there
}

// judge compares one object.
func (w *Watches) judge(ctx context.Context, wish Wish, look *glance, o *unstructured.Unstructured, state KindState, out *Report) {
	ref := delivery.RefOf(o)
	if state.Namespaced && ref.Namespace == "" {
		ref.Namespace = wish.TargetNamespace
	}
	applied, extent := wish.Applied(o, ref.Namespace)
	if extent == Nothing {
		return
	}
	out.Objects++
	live, there := w.find(state.Kind, ref)
	if !there {
		if Expires(applied) {
			return
		}
		out.Drifted = append(out.Drifted, Drifted{Ref: ref, Gone: true})
		out.Pending = append(out.Pending, Finding{ref, "it is not on the cluster"})
		return
	}
	switch {
	case live.Verdict == Failed:
		out.Failed = append(out.Failed, Finding{ref, live.Message})
	case !live.Verdict.Healthy():
		out.Pending = append(out.Pending, Finding{ref, live.Message})
	}
	if extent == Fields {
		d, ignored := DriftOf(applied, live.managedFields(), wish.Owner.FieldManager(), Ignore{}), false
		if (d.Lost > 0 || d.Unsure) && wish.Ignores != nil { // what is ignored is asked for only where it matters
			ignore := look.of(ctx, ref, applied)
			ignored = len(ignore.Pointers)+len(ignore.Managers) > 0
			d = DriftOf(applied, live.managedFields(), wish.Owner.FieldManager(), ignore)
		}
		switch {
		case d.Lost > 0:
			out.Drifted = append(out.Drifted, Drifted{Ref: ref, Drift: d})
		case d.Unsure && !ignored: // a dry run does not know what is ignored
			out.Unsure = append(out.Unsure, Unsure{ref, live})
		}
	}
}

// Expires reports whether an object is to go once it has done its work: a Job with a time to live, which would run once more if it were
// made again.
func Expires(applied *unstructured.Unstructured) bool {
	_, expires, _ := unstructured.NestedFieldNoCopy(applied.Object, "spec", "ttlSecondsAfterFinished")
	return expires && applied.GroupVersionKind().GroupKind() == schema.GroupKind{Group: "batch", Kind: "Job"}
}

// maxConfirmed is how many objects one look asks for: who lost more of them does not have to know of each why.
const maxConfirmed = 20

// How long one look asks for all of them together, and how long an answer counts.
const (
	confirmTime   = 5 * time.Second
	confirmsAgain = time.Minute
)

// Confirmed are answers about objects that are gone from the watch. The zero value has none. It is not for concurrent use.
type Confirmed struct {
	answers map[delivery.ObjectRef]confirmation
}

type confirmation struct {
	unmarked bool
	at       time.Time
}

// Confirm asks the target for the first objects that are gone. One that lost its mark leaves the watch as one that was deleted does, but is
// there, and nothing is known of its health, if it has one. What cannot be asked for is gone.
func (w *Watches) Confirm(ctx context.Context, r *Report, before *Confirmed) {
	ctx, cancel := context.WithTimeout(ctx, confirmTime)
	defer cancel()
	known := map[delivery.ObjectRef]confirmation{}
	for i := range r.Drifted {
		d := &r.Drifted[i]
		if !d.Gone || len(known) == maxConfirmed {
			continue
		}
		c, asked := before.answers[d.Ref]
		if !asked || time.Since(c.at) > confirmsAgain {
			c = confirmation{w.unmarked(ctx, d.Ref), time.Now()}
		}
		if known[d.Ref] = c; c.unmarked {
			d.Gone, d.Drift = false, Drift{Paths: []string{"metadata.labels[" + v1alpha1.LabelOwner + "]"}, Lost: 1}
			r.Pending = withoutMark(r.Pending, d.Ref)
		}
	}
	before.answers = known
}

// withoutMark says of an object that lost its mark what is known: of what has no health, nothing is missing.
func withoutMark(pending []Finding, ref delivery.ObjectRef) []Finding {
	at := slices.IndexFunc(pending, func(f Finding) bool { return f.Ref == ref })
	switch {
	case at < 0:
	case delivery.AlwaysHealthy(ref.GroupKind()):
		return slices.Delete(pending, at, at+1)
	default:
		pending[at].Message = "it lost convoy's mark, and its health is not known"
	}
	return pending
}

// unmarked reports whether an object is on the target without a mark. It lists, since that is what convoy may do where it watches.
func (w *Watches) unmarked(ctx context.Context, ref delivery.ObjectRef) bool {
	m, err := meta.ToResettableRESTMapperWithContext(w.target.Mapper).RESTMappingWithContext(ctx, ref.GroupKind())
	if err != nil {
		return false
	}
	found, err := w.target.Metadata.Resource(m.Resource).Namespace(ref.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, ref.Name).String(),
	})
	return err == nil && len(found.Items) == 1 && found.Items[0].Labels[v1alpha1.LabelOwner] == ""
}
