package apply

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// Rebuilt is what the marks on a target say that a Release has there.
type Rebuilt struct {
	Entries []v1alpha1.InventoryEntry
	// Unseen are API groups that did not answer, and resources that convoy may not list, in no particular order: there
	// may be more.
	Unseen []string
}

// Rebuild finds the objects of a Release on a target by their marks, for a Release whose inventory was lost. It lists
// metadata of every kind that can be listed, with the credentials of the Cluster: a service account often may not list
// beyond its namespace, and there is nothing in the answer but what the Release has there. It finds no object whose marks
// were taken off.
func Rebuild(ctx context.Context, t Target, owner delivery.Owner) (Rebuilt, error) {
	r := newResolver(t)
	r.refresh(ctx)
	kinds, failing, err := r.listables(ctx)
	if err != nil {
		return Rebuilt{}, err
	}
	out := Rebuilt{Unseen: failing}
	uids := map[string]bool{} // a kind may be served by two groups
	for _, k := range kinds {
		err := r.findMarked(ctx, k, owner, func(e v1alpha1.InventoryEntry) {
			if !uids[e.UID] {
				uids[e.UID] = true
				out.Entries = append(out.Entries, e)
			}
		})
		switch {
		case err == nil, apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
		case ctx.Err() != nil:
			return Rebuilt{}, ctx.Err()
		case fatal(err):
			return Rebuilt{}, err
		default:
			out.Unseen = append(out.Unseen, k.resource.GroupResource().String())
		}
	}
	sortEntries(out.Entries)
	return out, nil
}

// findMarked finds the objects of one kind that were applied, and those that hooks made.
func (r *resolver) findMarked(ctx context.Context, k listable, owner delivery.Owner, found func(v1alpha1.InventoryEntry)) error {
	for _, label := range []string{v1alpha1.LabelOwner, v1alpha1.LabelHookOwner} {
		err := walk(ctx, r.target.Own.Resource(k.resource), label+"="+owner.Key(), func(o *metav1.PartialObjectMetadata) bool {
			if !isMarked(o, owner, label) {
				return true
			}
			e := v1alpha1.InventoryEntry{
				Group: k.resource.Group, Version: k.resource.Version, Kind: k.kind,
				Namespace: o.Namespace, Name: o.Name, UID: string(o.UID),
			}
			if label == v1alpha1.LabelHookOwner {
				e.Hook = hookEntry(o.Annotations[v1alpha1.AnnotationHook])
			}
			found(e)
			return true
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// isMarked tells objects that convoy applied from those that copied the labels of one: Endpoints take those of their
// Service, but no annotation, and what a controller made has an owner.
func isMarked(o *metav1.PartialObjectMetadata, owner delivery.Owner, label string) bool {
	return o.Labels[label] == owner.Key() &&
		o.Annotations[v1alpha1.AnnotationRelease] == owner.String() &&
		metav1.GetControllerOfNoCopy(o) == nil
}
