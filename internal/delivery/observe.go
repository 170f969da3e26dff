package delivery

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
)

// Observable reports whether what is on the target is to be as the last rollout applied it: it has succeeded, and the Release is
// neither deleted nor on its way to another render.
func Observable(r *v1alpha1.Release) bool {
	last := r.Status.Rollout
	return r.DeletionTimestamp.IsZero() && last != nil && last.Phase == v1alpha1.RolloutSucceeded &&
		r.Status.RenderRef != nil && r.Status.RenderRef.Digest == last.Digest && last.ClusterName == r.Spec.ClusterRef.Name
}

// CorrectsDrift reports whether objects of a Release that drift are to be applied again.
func CorrectsDrift(r *v1alpha1.Release) bool {
	policy := r.Spec.SyncPolicy.Drift
	return !r.Spec.Suspend && (policy == v1alpha1.DriftCorrect || policy == "")
}

// correctionPeace is how long after its pause an object may not have drifted for its next correction to count as the first one.
const correctionPeace = 30 * time.Minute

// correctionBackoff is between corrections of one object that follow each other: somebody undoes them.
var correctionBackoff = Backoff{Base: 5 * time.Second, Cap: 10 * time.Minute}

// maxCorrected is how many corrected objects are remembered, as the schema has it.
const maxCorrected = 20

// DueCorrections says which of the objects that drifted may be applied again now, and when the next of the others may, zero when there is
// none. all: so may those that are not named.
func DueCorrections(d v1alpha1.DriftStatus, now time.Time) (due []v1alpha1.DriftedObject, all bool, next time.Time) {
	pauses := map[ObjectRef]time.Time{}
	for _, c := range d.Corrected {
		pauses[CorrectedRef(c)] = c.NotBefore.Time
	}
	for _, o := range d.Objects {
		if until := pauses[DriftedRef(o)]; !until.After(now) {
			due = append(due, o)
		} else if next.IsZero() || until.Before(next) {
			next = until
		}
	}
	return due, int(d.Count) > len(d.Objects) && len(due) == len(d.Objects), next
}

// remind is how often the workflow of a Release is told again of what stays drifted.
const remind = time.Minute

// TellOfDrift says whether the workflow of a Release is to be told now of what drifted: news. told is when it was told last, object by
// object, before and after; wait is when there is something to tell again at the latest.
func TellOfDrift(d v1alpha1.DriftStatus, before map[ObjectRef]time.Time, now time.Time) (told map[ObjectRef]time.Time, news bool, wait time.Duration) {
	due, _, next := DueCorrections(d, now)
	told, wait = map[ObjectRef]time.Time{}, remind
	for _, o := range due {
		ref := DriftedRef(o)
		if told[ref] = before[ref]; now.Sub(told[ref]) >= remind {
			told[ref], news = now, true
		}
	}
	if !next.IsZero() {
		wait = min(wait, next.Sub(now))
	}
	return told, news, wait
}

// CorrectedLately reports whether an object is one of those that were applied again lately. Others are named before it.
func CorrectedLately(d *v1alpha1.DriftStatus, ref ObjectRef) bool {
	return d != nil && slices.ContainsFunc(d.Corrected, func(c v1alpha1.CorrectedObject) bool { return CorrectedRef(c) == ref })
}

// CountCorrections counts one more correction of objects, and forgets those that had their peace.
func CountCorrections(before []v1alpha1.CorrectedObject, objects []v1alpha1.DriftedObject, now time.Time) []v1alpha1.CorrectedObject {
	now = now.Truncate(time.Second) // as precise as an object holds it
	out := slices.DeleteFunc(slices.Clone(before), func(c v1alpha1.CorrectedObject) bool { return now.Sub(c.NotBefore.Time) > correctionPeace })
	for _, o := range objects {
		i := slices.IndexFunc(out, func(c v1alpha1.CorrectedObject) bool { return CorrectedRef(c) == DriftedRef(o) })
		c := v1alpha1.CorrectedObject{Group: o.Group, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
		if i >= 0 {
			c = out[i]
			out = slices.Delete(out, i, i+1)
		}
		c.Times++
		c.NotBefore = metav1.NewTime(now.Add(correctionBackoff.Delay(int(c.Times))))
		out = append(out, c) // the latest come last
	}
	return out[max(0, len(out)-maxCorrected):]
}

// DriftedRef names an object that drifted.
func DriftedRef(o v1alpha1.DriftedObject) ObjectRef {
	return ObjectRef{Group: o.Group, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
}

// MoreDrifted reports whether a status names objects that drifted which an earlier one did not name.
func MoreDrifted(before, now *v1alpha1.DriftStatus) bool {
	return now != nil && slices.ContainsFunc(now.Objects, func(o v1alpha1.DriftedObject) bool {
		return before == nil || !slices.ContainsFunc(before.Objects, func(known v1alpha1.DriftedObject) bool { return DriftedRef(known) == DriftedRef(o) })
	})
}

// CorrectedRef names an object that was corrected.
func CorrectedRef(c v1alpha1.CorrectedObject) ObjectRef {
	return ObjectRef{Group: c.Group, Kind: c.Kind, Namespace: c.Namespace, Name: c.Name}
}
