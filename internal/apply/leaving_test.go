package apply

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kumodo.io/convoy/api/v1alpha1"
)

func TestWhatARenderWouldHaveRemovedIsCountedByNames(t *testing.T) {
	configMap := func(namespace, name string) v1alpha1.InventoryEntry {
		return v1alpha1.InventoryEntry{Version: "v1", Kind: "ConfigMap", Namespace: namespace, Name: name}
	}
	job := v1alpha1.InventoryEntry{Group: "batch", Version: "v1", Kind: "Job", Namespace: "apps", Name: "migrate", Hook: "3/migrate"}
	namespace := v1alpha1.InventoryEntry{Version: "v1", Kind: "Namespace", Name: "apps"}
	cases := map[string]struct {
		has    []v1alpha1.InventoryEntry
		create bool
		want   int
	}{
		"what is rendered, without and with its namespace": {[]v1alpha1.InventoryEntry{configMap("apps", "here"), configMap("other", "there")}, false, 0},
		"what left the render":                             {[]v1alpha1.InventoryEntry{configMap("apps", "here"), configMap("apps", "gone")}, false, 1},
		"the same name elsewhere":                          {[]v1alpha1.InventoryEntry{configMap("third", "here"), configMap("apps", "there")}, false, 2},
		"objects of hooks are not the render's":            {[]v1alpha1.InventoryEntry{job}, false, 0},
		"the namespace that convoy makes":                  {[]v1alpha1.InventoryEntry{namespace}, true, 0},
		"the namespace that convoy made":                   {[]v1alpha1.InventoryEntry{namespace}, false, 1},
	}
	rendered := func(namespace, name string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{}
		o.SetAPIVersion("v1")
		o.SetKind("ConfigMap")
		o.SetNamespace(namespace)
		o.SetName(name)
		return o
	}
	objects := []*unstructured.Unstructured{rendered("", "here"), rendered("other", "there")}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			rec := newRecord("default", v1alpha1.InventoryOwner{}, v1alpha1.InventoryOwner{})
			for _, e := range tc.has {
				rec.add(e)
			}
			if got := CountLeaving(rec, objects, "apps", tc.create); got != tc.want {
				t.Errorf("%d, want %d", got, tc.want)
			}
		})
	}
}
