package activities

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/status"
)

func TestOfAClusterThatNobodyObservesNothingIsClaimed(t *testing.T) {
	east, west := clusterAt("east", "x"), clusterAt("west", "y")
	delivered, running, elsewhere := rollingOut(1, "sha256:a"), rollingOut(1, "sha256:a"), rollingOut(1, "sha256:a")
	running.Name, elsewhere.Name, elsewhere.Spec.ClusterRef.Name = "running", "elsewhere", "west"
	for _, r := range []*v1alpha1.Release{delivered, elsewhere} {
		r.Status.Rollout.ClusterName = r.Spec.ClusterRef.Name
		status.RolloutSucceeded(r, 4, nil, metav1.Now())
	}
	hub := hubWith(t, interceptor.Funcs{}, east, west, delivered, running, elsewhere)
	a := &Activities{Deps: Deps{Hub: hub, Status: status.NewWriter(hub, events.NewFakeRecorder(8))}}
	for range 2 { // it may run twice
		out, err := a.MarkUnobserved(t.Context(), ObserveInput{Key: delivery.Key{Namespace: "default", Name: "east", UID: string(east.UID)}})
		if err != nil || out.Releases != 1 {
			t.Fatalf("got %+v, %v", out, err)
		}
	}
	for name, want := range map[string]string{"podinfo": "NotObserved NotObserved Delivered", "running": "", "elsewhere": "Healthy InSync Delivered"} {
		var r v1alpha1.Release
		if err := hub.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: name}, &r); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, kind := range []string{v1alpha1.ConditionHealthy, v1alpha1.ConditionDrifted, v1alpha1.ConditionReady} {
			if c := meta.FindStatusCondition(r.Status.Conditions, kind); c != nil {
				got += " " + c.Reason
			}
		}
		if got != "" {
			got = got[1:]
		}
		if got != want {
			t.Errorf("%s says %q, want %q", name, got, want)
		}
	}
	if out, err := a.MarkUnobserved(t.Context(), ObserveInput{Key: delivery.Key{Namespace: "default", Name: "east", UID: "another life"}}); err != nil || out.Releases != 0 {
		t.Errorf("of another life: %+v, %v", out, err)
	}
}
