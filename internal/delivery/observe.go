package delivery

import (
	"time"

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

// IgnoredFields are the fields of an object whose drift is not looked at.
func IgnoredFields(all []v1alpha1.IgnoredDifference, ref ObjectRef) []string {
	var pointers []string
	for _, i := range all {
		matches := func(pattern, value string) bool { return pattern == "" || pattern == value }
		if matches(i.Group, ref.Group) && matches(i.Kind, ref.Kind) && matches(i.Name, ref.Name) && matches(i.Namespace, ref.Namespace) {
			pointers = append(pointers, i.JSONPointers...)
		}
	}
	return pointers
}

// correctionPeace is how long nothing may have drifted for a correction to count as the first one.
const correctionPeace = 30 * time.Minute

// correctionBackoff is between corrections that follow each other: somebody undoes them.
var correctionBackoff = Backoff{Base: 5 * time.Second, Cap: 10 * time.Minute}

// Corrections remembers how often a Release was corrected lately.
type Corrections struct {
	InARow int       `json:"inARow,omitempty"`
	Last   time.Time `json:"last,omitzero"`
}

// Next is when the next correction may be: at once for the first, then after delays that double.
func (c Corrections) Next(now time.Time) time.Time {
	if c.InARow == 0 || now.Sub(c.Last) > correctionPeace {
		return now
	}
	return c.Last.Add(correctionBackoff.Delay(c.InARow))
}

// Done counts a correction.
func (c Corrections) Done(now time.Time) Corrections {
	if now.Sub(c.Last) > correctionPeace {
		c.InARow = 0
	}
	return Corrections{InARow: c.InARow + 1, Last: now}
}
