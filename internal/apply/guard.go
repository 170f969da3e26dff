package apply

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// guardAge is how old discovery may be when it says what kinds a Namespace may hold.
const guardAge = 10 * time.Second

// guard finds what keeps a Namespace or a CustomResourceDefinition from being deleted. For everything else, and for
// those that hold nothing but the Release's, it returns false.
func (r *remover) guard(ctx context.Context, ref delivery.ObjectRef, live *unstructured.Unstructured) (look, bool, error) {
	switch {
	case ref == namespaceRef(ref.Name):
		return r.guardNamespace(ctx, ref.Name)
	case isDefinition(ref.GroupKind()):
		return r.guardDefinition(ctx, live)
	}
	return look{}, false, nil
}

func (r *remover) guardNamespace(ctx context.Context, name string) (look, bool, error) {
	r.resolve.refreshOlder(ctx, guardAge)
	kinds, failing, err := r.resolve.listables(ctx)
	if err != nil {
		return look{}, false, err
	}
	if len(failing) > 0 {
		return look{unseen, fmt.Sprintf("it cannot be seen whether it is empty: the API group %s does not answer", failing[0])}, true, nil
	}
	for _, k := range kinds {
		if !k.namespaced || comesAndGoes(k.resource.Group, k.kind) {
			continue
		}
		found, holds, err := r.guardKind(ctx, k, name)
		if err != nil || holds {
			return found, holds, err
		}
	}
	return look{}, false, nil
}

func (r *remover) guardDefinition(ctx context.Context, live *unstructured.Unstructured) (look, bool, error) {
	def, ok := definitionOf(live)
	if !ok || len(def.served) == 0 {
		return look{}, false, nil
	}
	gvr := schema.GroupVersionResource{Group: def.kind.Group, Version: def.served[0], Resource: def.plural}
	return r.guardKind(ctx, listable{gvr, def.kind.Kind, def.namespaced}, "")
}

// guardKind looks for one object of a kind that is not the Release's, or that stays. It looks as who removes. What that
// service account may not list is looked at with the credentials of the Cluster, and then nothing of it is named.
func (r *remover) guardKind(ctx context.Context, k listable, namespace string) (look, bool, error) {
	target := r.resolve.target
	holder, err := r.holder(ctx, target.Metadata.Resource(k.resource).Namespace(namespace), k)
	if apierrors.IsForbidden(err) && target.ServiceAccount != "" {
		if holder, err = r.holder(ctx, target.Own.Resource(k.resource).Namespace(namespace), k); holder != nil {
			return look{survives, fmt.Sprintf("it still holds %s, which service account %s may not list: remove them first", k.resource.GroupResource(), target.ServiceAccount)}, true, nil
		}
	}
	switch {
	case err != nil && fatal(err):
		return look{}, false, err
	case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
		return look{}, false, nil
	case apierrors.IsForbidden(err):
		return look{survives, fmt.Sprintf("convoy may not list %s, which it may still hold", k.resource.GroupResource())}, true, nil
	case err != nil:
		return look{remains, fmt.Sprintf("it cannot be seen now whether it holds %s", k.resource.GroupResource())}, true, nil //nolint:nilerr // the look tells it
	case holder != nil:
		return look{survives, oneLine(fmt.Sprintf("it still holds %s: remove that first", holder))}, true, nil
	}
	return look{}, false, nil
}

// holder is one object that is listed and may not go, or nil.
func (r *remover) holder(ctx context.Context, objects metadata.ResourceInterface, k listable) (found *delivery.ObjectRef, err error) {
	err = walk(ctx, objects, "", func(o *metav1.PartialObjectMetadata) bool {
		ref := delivery.ObjectRef{Group: k.resource.Group, Kind: k.kind, Namespace: o.Namespace, Name: o.Name}
		if !r.mayGo(ref, o) {
			found = &ref
		}
		return found == nil
	})
	return found, err
}

// mayGo: the Release's own that does not stay, and what a cluster puts into a namespace by itself.
func (r *remover) mayGo(ref delivery.ObjectRef, o *metav1.PartialObjectMetadata) bool {
	if o.Labels[v1alpha1.LabelOwner] == r.owner.Key() {
		return !r.keeps(ref) && !r.wished[string(o.GetUID())]
	}
	switch {
	case o.Labels[v1alpha1.LabelHookOwner] == r.owner.Key():
		return true // it goes with its entry
	case metav1.GetControllerOfNoCopy(o) != nil:
		return true
	case ref.Group != "":
		return false
	}
	return ref.Kind == "ConfigMap" && ref.Name == "kube-root-ca.crt" ||
		ref.Kind == "ServiceAccount" && ref.Name == "default"
}

// comesAndGoes: Events, and Endpoints, which follow a Service that is looked at itself.
func comesAndGoes(group, kind string) bool {
	switch kind {
	case "Event":
		return group == "" || group == "events.k8s.io"
	case "Endpoints":
		return group == ""
	}
	return false
}
