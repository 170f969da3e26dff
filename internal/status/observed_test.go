package status_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/status"
)

func TestDriftSaysWhatIsOtherwiseWhoDidItAndWhatCameOfItsCorrection(t *testing.T) {
	r := release()
	started(r)
	succeeded(r)
	says := func(want string) {
		t.Helper()
		if got := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionDrifted).Message; got != want {
			t.Errorf("it says %q,\nwant %q", got, want)
		}
	}
	status.Observed(r, drifted)
	says("ConfigMap a is gone; ConfigMap b (data.x, now of kubectl)")
	status.NotCorrected(r, "Service shop/web: the port is taken")
	says("ConfigMap a is gone; ConfigMap b (data.x, now of kubectl); it cannot be corrected: Service shop/web: the port is taken")
	status.Observed(r, drifted) // the observer does not forget it
	says("ConfigMap a is gone; ConfigMap b (data.x, now of kubectl); it cannot be corrected: Service shop/web: the port is taken")
	status.Corrected(r, drifted.Drifted, "Service shop/web: the port is taken", noon)
	if d := r.Status.Drift; d.Corrections != 0 || len(d.Corrected) != 2 {
		t.Errorf("status.drift is %+v", d)
	}
	status.Corrected(r, drifted.Drifted, "", noon)
	status.Observed(r, status.Observation{LooksForDrift: true})
	says("all objects are as they were applied")
	if d := r.Status.Drift; d == nil || d.Corrections != 1 || d.Count != 0 || d.Error != "" || d.LastCorrectionTime == nil || d.Corrected[0].Times != 2 {
		t.Errorf("status.drift is %+v", d)
	}
	r.Annotations = map[string]string{v1alpha1.AnnotationRequestedAt: "now"}
	status.UpToDate(r, nil)
	if d := r.Status.Drift; len(d.Corrected) != 0 || d.Corrections != 1 {
		t.Errorf("after a request for a reconcile status.drift is %+v", d)
	}
	status.Observed(r, drifted)
	status.Corrected(r, drifted.Drifted, "", noon)
	r.Generation++
	status.UpToDate(r, nil)
	if d := r.Status.Drift; len(d.Corrected) != 0 {
		t.Errorf("after a change status.drift is %+v", d)
	}
	many := drifted
	for range 30 {
		many.Drifted = append(many.Drifted, many.Drifted[0])
	}
	many.Count = 500
	status.Observed(r, many)
	says("ConfigMap a is gone; ConfigMap b (data.x, now of kubectl); ConfigMap a is gone; and 497 more")
	if n := len(r.Status.Drift.Objects); n != 10 {
		t.Errorf("the status names %d", n)
	}
	status.RolloutStarted(r, rendered("b"), v1alpha1.RolloutStatus{Number: 2, Phase: v1alpha1.RolloutRunning, Digest: "b", Objects: 4})
	succeeded(r)
	says("all objects are as they were applied")
	if r.Status.Drift != nil {
		t.Errorf("a new rollout leaves %+v", r.Status.Drift)
	}
}

func TestWhoMayDeliverAndNotWatchIsReadyOnceItsClusterAnswersAgain(t *testing.T) {
	r := release()
	started(r)
	succeeded(r)
	unseen := func(reason string) status.Observation {
		return status.Observation{Reason: reason, Unseen: "not known", LooksForDrift: true}
	}
	says := func(want string) {
		t.Helper()
		if ready := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionReady); string(ready.Status)+" "+ready.Reason != want {
			t.Errorf("Ready is %s %s, want %s", ready.Status, ready.Reason, want)
		}
	}
	status.Observed(r, unseen(v1alpha1.ReasonNotObserved))
	says("True Delivered")
	status.Observed(r, unseen(v1alpha1.ReasonClusterNotReady))
	says("Unknown ClusterNotReady")
	status.Observed(r, unseen(v1alpha1.ReasonNotObserved))
	says("True Delivered")
	status.Observed(r, status.Observation{Unhealthy: "1 of 4"})
	says("False Degraded")
	status.Observed(r, unseen(v1alpha1.ReasonNotObserved))
	says("False Degraded")
}

func TestWhatIsSeenSaysNothingOfASpecThatNobodyHasLookedAt(t *testing.T) {
	r := release()
	started(r)
	succeeded(r)
	r.Generation = 4
	for _, o := range []status.Observation{drifted, {Unhealthy: "1 of 4", LooksForDrift: true}, {LooksForDrift: true}} {
		status.Observed(r, o)
	}
	status.NotCorrected(r, "refused")
	status.Corrected(r, drifted.Drifted, "", noon)
	if r.Status.ObservedGeneration != 3 || r.Generation != 4 {
		t.Errorf("observedGeneration is %d of %d", r.Status.ObservedGeneration, r.Generation)
	}
	for _, c := range r.Status.Conditions {
		if c.ObservedGeneration != 3 {
			t.Errorf("%s is about generation %d", c.Type, c.ObservedGeneration)
		}
	}
}
