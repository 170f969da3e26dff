package status_test

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/status"
)

// edited is a hub on which somebody edits the object just before its status is first written. A real one cannot be made
// to do so at that very moment.
func edited(t *testing.T, o client.Object, edit func(client.Object)) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	done := false
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(o).WithStatusSubresource(o).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			if done {
				return c.SubResource(sub).Patch(ctx, o, patch, opts...)
			}
			done = true
			live := o.DeepCopyObject().(client.Object)
			if err := c.Get(ctx, client.ObjectKeyFromObject(o), live); err != nil {
				return err
			}
			edit(live)
			if err := c.Update(ctx, live); err != nil {
				return err
			}
			return apierrors.NewConflict(schema.GroupResource{Resource: "releases"}, o.GetName(), nil)
		},
	}).Build()
}

func TestAnOutcomeIsAboutTheGenerationThatWasActedOnAlsoWhenTheReleaseWasEditedMeanwhile(t *testing.T) {
	r := release()
	hub := edited(t, r, func(o client.Object) { o.SetGeneration(4); o.SetLabels(map[string]string{"team": "a"}) })
	if err := hub.Get(t.Context(), client.ObjectKeyFromObject(r), r); err != nil {
		t.Fatal(err)
	}
	err := status.NewWriter(hub, events.NewFakeRecorder(8)).Release(t.Context(), r, func(r *v1alpha1.Release) { status.ClusterNotReady(r, "down", nil) })
	if err != nil {
		t.Fatal(err)
	}
	var got v1alpha1.Release
	if err := hub.Get(t.Context(), client.ObjectKeyFromObject(r), &got); err != nil {
		t.Fatal(err)
	}
	if got.Generation != 4 || got.Labels["team"] != "a" || got.Status.ObservedGeneration != 3 {
		t.Errorf("generation %d, labels %v, observed %d; want the edit and an outcome about 3", got.Generation, got.Labels, got.Status.ObservedGeneration)
	}
}

func TestAVerdictAboutAClusterThatWasEditedMeanwhileIsDropped(t *testing.T) {
	c := &v1alpha1.Cluster{}
	c.Namespace, c.Name, c.UID, c.Generation = "default", "east", "c-1", 1
	hub := edited(t, c, func(o client.Object) { o.SetGeneration(2) })
	if err := hub.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
		t.Fatal(err)
	}
	err := status.NewWriter(hub, events.NewFakeRecorder(8)).Cluster(t.Context(), c, func(c *v1alpha1.Cluster) {
		status.Reachable(c, status.Probed{KubernetesVersion: "v1.37.2"}, status.Clock{})
	})
	if err != nil {
		t.Fatal(err)
	}
	var got v1alpha1.Cluster
	if err := hub.Get(t.Context(), client.ObjectKeyFromObject(c), &got); err != nil {
		t.Fatal(err)
	}
	if got.Status.Reachable != nil {
		t.Errorf("reachable = %v of a connection that is not there any more", *got.Status.Reachable)
	}
}
