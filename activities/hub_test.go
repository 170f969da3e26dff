package activities

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/apply"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/status"
)

func hubWith(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(objects...).
		WithIndex(&v1alpha1.Release{}, "spec.clusterRef.name", func(o client.Object) []string {
			r, _ := o.(*v1alpha1.Release)
			return []string{r.Spec.ClusterRef.Name}
		}).WithIndex(&v1alpha1.Approval{}, "spec.releaseRef.name", func(o client.Object) []string {
		a, _ := o.(*v1alpha1.Approval)
		return []string{a.Spec.ReleaseRef.Name}
	}).WithInterceptorFuncs(funcs).Build()
}

func rollingOut(number int64, digest string) *v1alpha1.Release {
	r := &v1alpha1.Release{}
	r.Namespace, r.Name, r.UID, r.Generation = "default", "podinfo", "r-1", 1
	r.Spec.ClusterRef.Name = "east"
	r.Status.RenderRef = &v1alpha1.RenderRef{Name: "render", Digest: digest}
	r.Status.Rollout = &v1alpha1.RolloutStatus{Number: number, Digest: digest, Phase: v1alpha1.RolloutRunning, Generation: 1}
	return r
}

func TestAStepThatWasOvertakenDoesNotConcludeTheRolloutAfterIt(t *testing.T) {
	hub := hubWith(t, interceptor.Funcs{}, rollingOut(6, "sha256:b"))
	a := &Activities{Deps: Deps{Hub: hub, Status: status.NewWriter(hub, events.NewFakeRecorder(8))}}
	s := &step{
		in:      delivery.RolloutInput{Number: 5, Digest: "sha256:a", Cluster: "east"},
		release: rollingOut(5, "sha256:a"), // as it was when the step began
	}
	s.release.ResourceVersion = "1" // and somebody has written it since
	superseded, err := a.tell(t.Context(), s, func(r *v1alpha1.Release) { status.RolloutSucceeded(r, 4, nil, metav1.Now()) })
	if err != nil || !superseded {
		t.Errorf("superseded = %v, %v", superseded, err)
	}
	var got v1alpha1.Release
	if err := hub.Get(t.Context(), client.ObjectKeyFromObject(s.release), &got); err != nil {
		t.Fatal(err)
	}
	if got.Status.Rollout.Number != 6 || got.Status.Rollout.Phase != v1alpha1.RolloutRunning {
		t.Errorf("rollout %d is %s, want 6 still running", got.Status.Rollout.Number, got.Status.Rollout.Phase)
	}
}

func TestAStepSpeaksOfTheGenerationThatRendersToItsRollout(t *testing.T) {
	newer := rollingOut(5, "sha256:a")
	newer.Generation, newer.Status.Rollout.Generation, newer.Status.ObservedGeneration = 2, 2, 2
	hub := hubWith(t, interceptor.Funcs{}, newer)
	a := &Activities{Deps: Deps{Hub: hub, Status: status.NewWriter(hub, events.NewFakeRecorder(8))}}
	s := &step{in: delivery.RolloutInput{Number: 5, Digest: "sha256:a", Cluster: "east"}, release: rollingOut(5, "sha256:a")}
	s.release.ResourceVersion = "1" // and a change that renders to the same came since
	superseded, err := a.tell(t.Context(), s, func(r *v1alpha1.Release) { status.RolloutSucceeded(r, 4, nil, metav1.Now()) })
	if err != nil || superseded {
		t.Errorf("superseded = %v, %v", superseded, err)
	}
	var got v1alpha1.Release
	if err := hub.Get(t.Context(), client.ObjectKeyFromObject(s.release), &got); err != nil {
		t.Fatal(err)
	}
	ready := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != 2 || got.Status.ObservedGeneration != 2 {
		t.Errorf("Ready is %+v, observedGeneration %d", ready, got.Status.ObservedGeneration)
	}
}

func TestAHubThatFailsIsNotTakenForAnUnreachableCluster(t *testing.T) {
	hub := hubWith(t, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return context.DeadlineExceeded // which would be unreachability if a target said so
		},
	})
	a := &Activities{Deps: Deps{Hub: hub}}
	_, _, _, err := a.targetNamed(t.Context(), rollingOut(1, "sha256:a"), "east")
	if !errors.Is(err, apply.ErrHub) {
		t.Fatalf("error %v does not say that it is the hub's", err)
	}
	if got := a.unreachable(t.Context(), &leaving{release: rollingOut(1, "sha256:a")}, nil, "east", err); !errors.Is(got, apply.ErrHub) {
		t.Errorf("the deletion goes on with %v", got)
	}
}
