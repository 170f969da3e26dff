package delivery

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// CheckObject decides whether an object can be applied and tracked, as far as that can be said without its schema.
func CheckObject(m map[string]any) error {
	apiVersion, _ := m["apiVersion"].(string)
	kind, _ := m["kind"].(string)
	gv, err := schema.ParseGroupVersion(apiVersion)
	switch {
	case apiVersion == "" || err != nil || gv.Version == "":
		return fmt.Errorf("apiVersion is missing or invalid")
	case kind == "" || len(validation.IsDNS1035Label(strings.ToLower(kind))) > 0:
		return fmt.Errorf("kind is missing or invalid")
	}
	metadata, ok := m["metadata"].(map[string]any)
	if !ok {
		return fmt.Errorf("metadata is missing")
	}
	if _, has := metadata["generateName"]; has {
		return fmt.Errorf("metadata.generateName would make a new object at each apply; set metadata.name instead")
	}
	if err := checkName(gv.Group, metadata["name"]); err != nil {
		return err
	}
	if namespace, has := metadata["namespace"]; has {
		text, ok := namespace.(string)
		if !ok || len(validation.IsDNS1123Label(text)) > 0 {
			return fmt.Errorf("metadata.namespace is not a valid name")
		}
	}
	for _, field := range []string{"labels", "annotations"} {
		if err := checkTexts(field, metadata[field]); err != nil {
			return err
		}
	}
	return checkFinalizers(metadata["finalizers"])
}

func checkName(group string, value any) error {
	name, ok := value.(string)
	switch {
	case value == nil, ok && name == "":
		return fmt.Errorf("metadata.name is missing")
	case !ok:
		return fmt.Errorf("metadata.name is not a text; quote it")
	case group == "rbac.authorization.k8s.io", group == "certificates.k8s.io": // these allow system:node and the like
		if len(content.IsPathSegmentName(name)) > 0 || len(name) > validation.DNS1123SubdomainMaxLength {
			return fmt.Errorf("metadata.name %q is not a valid name", Short(name))
		}
	case len(validation.IsDNS1123Subdomain(name)) > 0:
		return fmt.Errorf("metadata.name %q is not valid: use at most 253 lower-case letters, digits, dots and dashes", Short(name))
	}
	return nil
}

// checkTexts checks labels or annotations: convoy adds its own, and would drop what it cannot read.
func checkTexts(field string, value any) error {
	if value == nil {
		return nil
	}
	m, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("metadata.%s is not a map", field)
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if _, ok := m[key].(string); !ok {
			return fmt.Errorf("metadata.%s: the value of %q is not a text; quote it", field, Short(key))
		}
	}
	return nil
}

// checkFinalizers: convoy adds its own to objects of hooks, and would drop what it cannot read.
func checkFinalizers(value any) error {
	if value == nil {
		return nil
	}
	list, ok := value.([]any)
	if !ok {
		return fmt.Errorf("metadata.finalizers is not a list")
	}
	for _, one := range list {
		if _, ok := one.(string); !ok {
			return fmt.Errorf("metadata.finalizers holds what is not a text; quote it")
		}
	}
	return nil
}
