package crds

import (
	"encoding/json"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// document is what an API server publishes about the kinds of one version of a group.
type document struct {
	Components struct {
		Schemas map[string]json.RawMessage `json:"schemas"`
	} `json:"components"`
}

// published is what it says of a kind beside the schema.
type published struct {
	Kinds []struct {
		Group, Version, Kind string
	} `json:"x-kubernetes-group-version-kind"`
	SelectableFields []struct {
		FieldPath string `json:"fieldPath"`
	} `json:"x-kubernetes-selectable-fields"`
}

// Published is the definition of a kind as an OpenAPI v3 document of its group and version tells it, which every account of a hub may
// read; the definition itself takes a right. It is nil when the document does not know the kind.
func Published(openapi []byte, group, version, kind string) (*apiextensionsv1.CustomResourceDefinition, error) {
	var d document
	if err := json.Unmarshal(openapi, &d); err != nil {
		return nil, fmt.Errorf("OpenAPI of %s/%s: %w", group, version, err)
	}
	for name, raw := range d.Components.Schemas {
		var about published
		if err := json.Unmarshal(raw, &about); err != nil {
			return nil, fmt.Errorf("OpenAPI of %s: %w", name, err)
		}
		for _, k := range about.Kinds {
			if k.Group == group && k.Version == version && k.Kind == kind {
				return definition(raw, &about, version)
			}
		}
	}
	return nil, nil
}

func definition(raw []byte, about *published, version string) (*apiextensionsv1.CustomResourceDefinition, error) {
	schema := &apiextensionsv1.JSONSchemaProps{}
	if err := json.Unmarshal(raw, schema); err != nil {
		return nil, fmt.Errorf("OpenAPI schema: %w", err)
	}
	schema.Properties["metadata"] = apiextensionsv1.JSONSchemaProps{Type: "object"} // it refers to that of all kinds
	v := apiextensionsv1.CustomResourceDefinitionVersion{Name: version, Served: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: schema}}
	for _, f := range about.SelectableFields {
		v.SelectableFields = append(v.SelectableFields, apiextensionsv1.SelectableField{JSONPath: "." + f.FieldPath})
	}
	return &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{v},
	}}, nil
}
