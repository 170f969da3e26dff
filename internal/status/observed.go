package status

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// Bounds of what is said of drift: how many objects the status names, as the schema has it, and how many the message.
const (
	MaxDrifted      = 10
	maxDriftedNamed = 3
)

// Observation is what the observer sees of a Release whose last rollout has succeeded.
type Observation struct {
	// Unseen says why nothing is known about the objects at the moment; empty while it is. Its reason is Reason.
	Unseen, Reason string
	// Unhealthy says which objects are not healthy; empty when all are.
	Unhealthy string
	// LooksForDrift: Count objects have drifted, of which Drifted has the first. Otherwise nobody looks.
	LooksForDrift bool
	Drifted       []v1alpha1.DriftedObject
	Count         int
}

// Observed records what the observer sees. It says nothing while something else is under way, and leaves a verdict about the
// wish, as of a render that failed, to stand.
func Observed(r *v1alpha1.Release, o Observation) {
	if !delivery.Observable(r) {
		return
	}
	defer asLookedAt(r)()
	health, reason, message := metav1.ConditionTrue, v1alpha1.ReasonHealthy, healthyMessage
	switch {
	case o.Unseen != "":
		health, reason, message = metav1.ConditionUnknown, o.Reason, o.Unseen
	case o.Unhealthy != "":
		health, reason, message = metav1.ConditionFalse, v1alpha1.ReasonDegraded, o.Unhealthy
	}
	set(r, v1alpha1.ConditionHealthy, health, reason, message)
	drift(r, o)
	ready := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionReady)
	applied := meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionApplied) // not while the gate is closed for a wish
	if ready == nil || !applied || !slices.Contains(observedReasons, ready.Reason) {
		return
	}
	if reason == v1alpha1.ReasonNotObserved { // who may deliver and not watch has delivered all the same
		if ready.Reason != v1alpha1.ReasonClusterNotReady {
			return
		}
		health = metav1.ConditionTrue
	}
	if health == metav1.ConditionTrue {
		reason, message = v1alpha1.ReasonDelivered, appliedMessage(r)
	}
	conclude(r, health, reason, message)
}

// asLookedAt makes what is said be about the generation that convoy has looked at last: what is seen of the target says nothing of a
// newer one. The function that it returns ends that.
func asLookedAt(r *v1alpha1.Release) (end func()) {
	newest := r.Generation
	r.Generation = r.Status.ObservedGeneration
	return func() { r.Generation = newest }
}

const healthyMessage = "all objects are healthy"

// observedReasons of Ready are those that what is seen decides.
var observedReasons = []string{v1alpha1.ReasonDelivered, v1alpha1.ReasonDegraded, v1alpha1.ReasonClusterNotReady}

func drift(r *v1alpha1.Release, o Observation) {
	if !o.LooksForDrift {
		meta.RemoveStatusCondition(&r.Status.Conditions, v1alpha1.ConditionDrifted)
		r.Status.Drift = nil
		return
	}
	if o.Unseen != "" {
		set(r, v1alpha1.ConditionDrifted, metav1.ConditionUnknown, o.Reason, o.Unseen)
		return
	}
	if o.Count == 0 {
		inSync(r)
		return
	}
	if r.Status.Drift == nil {
		r.Status.Drift = &v1alpha1.DriftStatus{}
	}
	d := r.Status.Drift
	d.Count, d.Objects = int32(min(o.Count, 1<<30)), o.Drifted[:min(len(o.Drifted), MaxDrifted)] //nolint:gosec // capped on this line
	set(r, v1alpha1.ConditionDrifted, metav1.ConditionTrue, v1alpha1.ReasonDrifted, driftMessage(d))
}

// inSync records that the objects are as they were applied.
func inSync(r *v1alpha1.Release) {
	if r.Spec.SyncPolicy.Drift == v1alpha1.DriftIgnore {
		return
	}
	if d := r.Status.Drift; d != nil {
		d.Count, d.Objects, d.Error = 0, nil, ""
		if d.Corrections == 0 && len(d.Corrected) == 0 {
			r.Status.Drift = nil
		}
	}
	set(r, v1alpha1.ConditionDrifted, metav1.ConditionFalse, v1alpha1.ReasonInSync, "all objects are as they were applied")
}

// driftUnknown records that nobody can say whether the objects are as they were applied, where that was said before.
func driftUnknown(r *v1alpha1.Release, reason, message string) {
	if meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionDrifted) != nil {
		set(r, v1alpha1.ConditionDrifted, metav1.ConditionUnknown, reason, message)
	}
}

// Corrected records that drifted objects were applied again, and what the target refused of it; empty when it took all.
func Corrected(r *v1alpha1.Release, objects []v1alpha1.DriftedObject, problem string, now metav1.Time) {
	NotCorrected(r, problem)
	if r.Status.Drift == nil {
		r.Status.Drift = &v1alpha1.DriftStatus{}
	}
	d := r.Status.Drift
	d.Corrected = delivery.CountCorrections(d.Corrected, objects, now.Time)
	if problem == "" {
		d.Corrections++
		d.LastCorrectionTime = &now
	}
}

// endPauses makes the next correction of each object the first one.
func endPauses(r *v1alpha1.Release) {
	if r.Status.Drift != nil {
		r.Status.Drift.Corrected = nil
	}
}

// NotCorrected records what the target refuses of a correction for now; empty when it took all.
func NotCorrected(r *v1alpha1.Release, problem string) {
	d := r.Status.Drift
	if d == nil || d.Count == 0 {
		return // it is as it was applied by now
	}
	defer asLookedAt(r)()
	d.Error = problem
	set(r, v1alpha1.ConditionDrifted, metav1.ConditionTrue, v1alpha1.ReasonDrifted, driftMessage(d))
}

// driftMessage names the first few objects and fields, and who owns these now.
func driftMessage(d *v1alpha1.DriftStatus) string {
	var all []string
	for _, o := range d.Objects[:min(len(d.Objects), maxDriftedNamed)] {
		ref := delivery.ObjectRef{Group: o.Group, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
		text := ref.String()
		switch {
		case o.Gone:
			text += " is gone"
		case len(o.Fields) > 0:
			text += " (" + strings.Join(o.Fields, ", ")
			if len(o.Managers) > 0 {
				text += ", now of " + strings.Join(o.Managers, ", ")
			}
			text += ")"
		}
		all = append(all, text)
	}
	text := strings.Join(all, "; ")
	if more := int(d.Count) - len(all); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	if d.Error != "" {
		text += "; it cannot be corrected: " + d.Error
	}
	return text
}
