package delivery_test

import (
	"testing"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

func TestARolloutHasFailedUntilSomethingOrSomebodyAsksForAnother(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*v1alpha1.Release)
		want   bool
	}{
		"nothing changed":       {func(*v1alpha1.Release) {}, true},
		"it succeeded":          {func(r *v1alpha1.Release) { r.Status.Rollout.Phase = v1alpha1.RolloutSucceeded }, false},
		"it is under way":       {func(r *v1alpha1.Release) { r.Status.Rollout.Phase = v1alpha1.RolloutRunning }, false},
		"other inputs":          {func(r *v1alpha1.Release) { r.Status.InputsDigest = "b" }, false},
		"another cluster":       {func(r *v1alpha1.Release) { r.Status.Rollout.Cluster = "west" }, false},
		"another render":        {func(r *v1alpha1.Release) { r.Status.RenderRef.Digest = "sha256:b" }, false},
		"a reconcile was asked": {func(r *v1alpha1.Release) { r.Annotations = map[string]string{v1alpha1.AnnotationRequestedAt: "now"} }, false},
		"there was none":        {func(r *v1alpha1.Release) { r.Status.Rollout = nil }, false},
	} {
		r := &v1alpha1.Release{}
		r.Status.InputsDigest, r.Status.RenderRef = "a", &v1alpha1.RenderRef{Digest: "sha256:a"}
		r.Status.Rollout = &v1alpha1.RolloutStatus{Phase: v1alpha1.RolloutFailed, Digest: "sha256:a", Cluster: "east"}
		tc.change(r)
		if got := delivery.Failed(r, "a", "east"); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
