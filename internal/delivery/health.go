package delivery

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// AlwaysHealthy reports whether objects of a kind have no health of their own: they are done once they are written.
func AlwaysHealthy(gk schema.GroupKind) bool {
	switch gk.Group {
	case "":
		switch gk.Kind {
		case "ConfigMap", "Secret", "ServiceAccount", "LimitRange", "ResourceQuota", "Endpoints":
			return true
		}
		return false
	case "rbac.authorization.k8s.io", "admissionregistration.k8s.io", "scheduling.k8s.io":
		return true
	}
	return false
}

// Unobserved reports whether the status of an object is of another generation than its spec: its controller has not seen the spec yet.
// One that says nothing of generations is believed.
func Unobserved(o *unstructured.Unstructured) bool {
	seen, found, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	return found && seen != o.GetGeneration()
}

// UnobservedReady reports whether the condition Ready of an object is about an earlier generation.
func UnobservedReady(o *unstructured.Unstructured) bool {
	value, _, _ := unstructured.NestedFieldNoCopy(o.Object, "status", "conditions")
	list, _ := value.([]any)
	for _, c := range list {
		condition, _ := c.(map[string]any)
		if condition["type"] != "Ready" {
			continue
		}
		seen, found, _ := unstructured.NestedInt64(condition, "observedGeneration")
		return found && seen < o.GetGeneration()
	}
	return false
}
