package render

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kumodo.io/convoy/internal/delivery"
)

// serverFields of metadata are written by API servers only. They come along with objects that were copied
// from a cluster, and would make an apply fail.
var serverFields = []string{"uid", "resourceVersion", "generation", "selfLink", "managedFields"}

// expand appends the object, or the objects of which it is a list. A list is what has a kind that ends in List, items,
// and no name: a custom resource whose kind merely ends in List has a name.
func expand(out []located, m map[string]any, where string) ([]located, error) {
	items, isList, err := itemsOf(m)
	if err != nil {
		return nil, invalid("%s: %v", where, err)
	}
	if !isList {
		return append(out, located{Unstructured: &unstructured.Unstructured{Object: m}, where: where}), nil
	}
	for i, item := range items {
		itemWhere := fmt.Sprintf("%s, item %d", where, i+1)
		object, ok := item.(map[string]any)
		if !ok {
			return nil, invalid("%s: it is not an object", itemWhere)
		}
		if kind, _ := m["kind"].(string); kind != "List" { // a typed list may leave out what its items are
			setMissing(object, "kind", strings.TrimSuffix(kind, "List"))
			setMissing(object, "apiVersion", m["apiVersion"])
		}
		if out, err = expand(out, object, itemWhere); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func itemsOf(m map[string]any) (items []any, isList bool, err error) {
	kind, _ := m["kind"].(string)
	if !strings.HasSuffix(kind, "List") {
		return nil, false, nil
	}
	if metadata, _ := m["metadata"].(map[string]any); metadata["name"] != nil {
		return nil, false, nil
	}
	value, has := m["items"]
	isCore := kind == "List" && m["apiVersion"] == "v1"
	if !has && !isCore {
		return nil, false, nil
	}
	if value == nil {
		return nil, true, nil
	}
	items, ok := value.([]any)
	if !ok {
		return nil, false, fmt.Errorf("items of the %s is not a list", delivery.Short(kind))
	}
	return items, true, nil
}

func setMissing(m map[string]any, key string, value any) {
	if _, ok := m[key]; !ok {
		m[key] = value
	}
}

// checkAll cleans and checks every object, and refuses an object that is there twice. An object without a
// namespace goes to the target namespace, so there it is the same as one that names it.
func checkAll(ctx context.Context, found []located, targetNamespace string) error {
	if targetNamespace == "" {
		targetNamespace = "default"
	}
	seen := make(map[delivery.ObjectRef]located, len(found))
	for _, o := range found {
		if err := ctx.Err(); err != nil {
			return err
		}
		clean(o.Object)
		if err := delivery.CheckObject(o.Object); err != nil {
			return invalid("%s: %s%v", o.where, describe(o.Object), err)
		}
		ref := delivery.RefOf(o.Unstructured)
		if ref.Namespace == "" {
			ref.Namespace = targetNamespace
		}
		if first, twice := seen[ref]; twice && (first.hook == nil || o.hook == nil) { // hooks of different events may share one
			return invalid("%s is defined twice: in %s and in %s", delivery.RefOf(o.Unstructured), first.where, o.where)
		}
		seen[ref] = o
	}
	return nameHooks(found, targetNamespace)
}

// describe names the kind of a broken object, as far as it has one.
func describe(m map[string]any) string {
	kind, _ := m["kind"].(string)
	if kind == "" {
		return ""
	}
	return delivery.Short(kind) + ": "
}

// clean drops what only servers write.
func clean(m map[string]any) {
	delete(m, "status")
	dropNullTimestamps(m)
	metadata, ok := m["metadata"].(map[string]any)
	if !ok {
		return
	}
	for _, field := range serverFields {
		delete(metadata, field)
	}
	for _, field := range []string{"namespace", "labels", "annotations"} {
		if metadata[field] == nil {
			delete(metadata, field)
		}
	}
}

// dropNullTimestamps drops "creationTimestamp: null", which tools write into every metadata, also into those of
// pod templates.
func dropNullTimestamps(v any) {
	switch v := v.(type) {
	case map[string]any:
		if metadata, ok := v["metadata"].(map[string]any); ok {
			if t, has := metadata["creationTimestamp"]; has && t == nil {
				delete(metadata, "creationTimestamp")
			}
		}
		for _, child := range v {
			dropNullTimestamps(child)
		}
	case []any:
		for _, child := range v {
			dropNullTimestamps(child)
		}
	}
}
