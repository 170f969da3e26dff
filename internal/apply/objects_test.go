package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"kumodo.io/convoy/api/v1alpha1"
)

// resource is the plain plural, which holds for every kind of these tests.
func resource(o *unstructured.Unstructured) schema.GroupVersionResource {
	gvk := o.GroupVersionKind()
	plural := strings.ToLower(gvk.Kind) + "s"
	if stem, ok := strings.CutSuffix(gvk.Kind, "y"); ok {
		plural = strings.ToLower(stem) + "ies"
	}
	return gvk.GroupVersion().WithResource(plural)
}

func object(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	o.SetName(name)
	if namespace != "" {
		o.SetNamespace(namespace)
	}
	return o
}

func (w *world) configMap(name string, data map[string]string) *unstructured.Unstructured {
	o := object("v1", "ConfigMap", w.ns, name)
	values := map[string]any{}
	for k, v := range data {
		values[k] = v
	}
	o.Object["data"] = values
	return o
}

func (w *world) fromYAML(text string) *unstructured.Unstructured {
	w.Helper()
	o := &unstructured.Unstructured{}
	w.check(yaml.Unmarshal([]byte(strings.ReplaceAll(text, "$NS", w.ns)), &o.Object))
	return o
}

func names(entries []v1alpha1.InventoryEntry) []string {
	var out []string
	for _, e := range entries {
		out = append(out, e.Kind+"/"+e.Name)
	}
	slices.Sort(out)
	return out
}

// definition is a CustomResourceDefinition whose group is the namespace's own, so that tests do not meet.
func (w *world) definition(versions ...string) *unstructured.Unstructured {
	o := w.fromYAML(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.$NS.example.test}
spec:
  group: $NS.example.test
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList}
`)
	var list []any
	for i, v := range versions {
		list = append(list, w.fromYAML(fmt.Sprintf(`
name: %s
served: true
storage: %v
schema:
  openAPIV3Schema:
    type: object
    properties:
      spec: {type: object, properties: {size: {type: integer}}}
`, v, i == 0)).Object)
	}
	w.check(unstructured.SetNestedSlice(o.Object, list, "spec", "versions"))
	w.Cleanup(func() { // a definition outlives its namespace, and would slow down discovery
		if live, err := w.admin.Resource(resource(o)).Get(context.Background(), o.GetName(), metav1.GetOptions{}); err == nil {
			_ = w.admin.Resource(resource(live)).Delete(context.Background(), o.GetName(), metav1.DeleteOptions{})
		}
	})
	return o
}

func (w *world) widget(version, name string) *unstructured.Unstructured {
	o := object(w.ns+".example.test/"+version, "Widget", w.ns, name)
	o.Object["spec"] = map[string]any{"size": int64(1)}
	return o
}
