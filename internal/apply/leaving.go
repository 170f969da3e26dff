package apply

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kumodo.io/convoy/internal/delivery"
)

// CountLeaving is how many objects of a Record a render would have removed, those of hooks aside, as far as that is known without a word to the
// target: an object without a namespace may be one of the target namespace or a cluster-scoped one.
func CountLeaving(rec *Record, objects []*unstructured.Unstructured, targetNamespace string, createNamespace bool) int {
	wished := make(map[delivery.ObjectRef]bool, 2*len(objects)+1)
	for _, o := range objects {
		ref := delivery.RefOf(o)
		wished[ref] = true
		if ref.Namespace == "" {
			ref.Namespace = defaultNamespace(targetNamespace)
			wished[ref] = true
		}
	}
	if createNamespace && targetNamespace != "" {
		wished[namespaceRef(targetNamespace)] = true
	}
	leaving := 0
	for ref, e := range rec.entries {
		if e.Hook == "" && !wished[ref] {
			leaving++
		}
	}
	return leaving
}
