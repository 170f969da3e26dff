package delivery_test

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

func TestARivalIsCorrectedLaterAndLater(t *testing.T) {
	var c delivery.Corrections
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var waits []time.Duration
	for range 9 { // undone at once, each time
		next := c.Next(now)
		waits = append(waits, next.Sub(now))
		now = next
		c = c.Done(now)
	}
	s := time.Second
	if want := []time.Duration{0, 5 * s, 10 * s, 20 * s, 40 * s, 80 * s, 160 * s, 320 * s, 600 * s}; !slices.Equal(waits, want) {
		t.Errorf("it waits %v, want %v", waits, want)
	}
	now = now.Add(time.Hour)
	if next := c.Next(now); next != now {
		t.Errorf("after an hour of peace it waits %s", next.Sub(now))
	}
	if c = c.Done(now); c.InARow != 1 {
		t.Errorf("it counts %d in a row", c.InARow)
	}
}

func TestOnlyWhatARolloutHasDeliveredIsObserved(t *testing.T) {
	cases := map[string]struct {
		change func(*v1alpha1.Release)
		want   bool
	}{
		"delivered":                 {func(*v1alpha1.Release) {}, true},
		"nothing yet":               {func(r *v1alpha1.Release) { r.Status.Rollout = nil }, false},
		"a rollout is under way":    {func(r *v1alpha1.Release) { r.Status.Rollout.Phase = v1alpha1.RolloutRunning }, false},
		"a rollout has failed":      {func(r *v1alpha1.Release) { r.Status.Rollout.Phase = v1alpha1.RolloutFailed }, false},
		"another render is wished":  {func(r *v1alpha1.Release) { r.Status.RenderRef.Digest = "sha256:b" }, false},
		"another Cluster is wished": {func(r *v1alpha1.Release) { r.Spec.ClusterRef.Name = "west" }, false},
		"it is deleted":             {func(r *v1alpha1.Release) { r.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, false},
		"it is suspended":           {func(r *v1alpha1.Release) { r.Spec.Suspend = true }, true},
	}
	for name, tc := range cases {
		r := &v1alpha1.Release{}
		r.Spec.ClusterRef.Name = "east"
		r.Status.RenderRef = &v1alpha1.RenderRef{Digest: "sha256:a"}
		r.Status.Rollout = &v1alpha1.RolloutStatus{Phase: v1alpha1.RolloutSucceeded, Digest: "sha256:a", ClusterName: "east"}
		tc.change(r)
		if got := delivery.Observable(r); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestIgnoredFieldsAreThoseOfTheObjectsThatAreNamed(t *testing.T) {
	all := []v1alpha1.IgnoredDifference{
		{Kind: "Deployment", Group: "apps", JSONPointers: []string{"/spec/replicas"}},
		{Name: "web", Namespace: "shop", JSONPointers: []string{"/metadata/labels"}},
	}
	for ref, want := range map[delivery.ObjectRef]int{
		{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}: 2, {Group: "apps", Kind: "Deployment", Name: "api"}: 1,
		{Kind: "Service", Namespace: "shop", Name: "web"}: 1, {Kind: "Service", Namespace: "shop", Name: "api"}: 0, {Kind: "Deployment", Name: "api"}: 0,
	} {
		if got := delivery.IgnoredFields(all, ref); len(got) != want {
			t.Errorf("%s: %v", ref, got)
		}
	}
}
