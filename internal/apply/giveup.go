package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"kumodo.io/convoy/api/v1alpha1"
)

// giveUp takes convoy's marks and its claim to fields off an object and leaves the rest as it is. Any Release may take
// it over then, and has of it what it renders: a field that is only on the object stays there, as on every adopted one.
func (r *remover) giveUp(ctx context.Context, m *meta.RESTMapping, live *unstructured.Unstructured) (look, error) {
	patch, err := unmarkPatch(live, r.owner.FieldManager())
	if err != nil {
		return look{}, fmt.Errorf("take the marks off an object: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err = r.resolve.client(m, live.GetNamespace()).Patch(ctx, live.GetName(), types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: r.owner.FieldManager()})
	switch {
	case err == nil:
		return look{verdict: left}, nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return look{remains, "somebody else changed it at the same time"}, nil
	}
	return r.refusedOr(err, "take its marks off")
}

// unmarkPatch holds for the state that was read only.
func unmarkPatch(live *unstructured.Unstructured, manager string) ([]byte, error) {
	var others []metav1.ManagedFieldsEntry
	for _, f := range live.GetManagedFields() {
		if f.Manager != manager {
			others = append(others, f)
		}
	}
	if len(others) == 0 {
		others = []metav1.ManagedFieldsEntry{{}} // one empty entry is how the API says none; an empty list means no change
	}
	metadata := map[string]any{
		"uid":             live.GetUID(),
		"resourceVersion": live.GetResourceVersion(),
		"labels":          map[string]any{v1alpha1.LabelOwner: nil, v1alpha1.LabelHookOwner: nil},
		"annotations":     map[string]any{v1alpha1.AnnotationRelease: nil, v1alpha1.AnnotationHook: nil},
		"managedFields":   others,
	}
	if slices.Contains(live.GetFinalizers(), v1alpha1.HookFinalizer) {
		metadata["finalizers"] = withoutHookFinalizer(live)
	}
	return json.Marshal(map[string]any{"metadata": metadata})
}
