package crds

import (
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
)

// Schema is what one version of a definition takes.
type Schema struct {
	structural *structuralschema.Structural
	validator  validation.SchemaValidator
}

// SchemaOf is that of a version.
func SchemaOf(crd *apiextensionsv1.CustomResourceDefinition, version string) (*Schema, error) {
	at := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == version })
	if at < 0 || crd.Spec.Versions[at].Schema == nil {
		return nil, fmt.Errorf("CRD %s has no schema of version %s", crd.Name, version)
	}
	var all apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd.Spec.Versions[at].Schema.OpenAPIV3Schema, &all, nil); err != nil {
		return nil, fmt.Errorf("CRD %s: %w", crd.Name, err)
	}
	structural, err := structuralschema.NewStructural(&all)
	if err != nil {
		return nil, fmt.Errorf("CRD %s: %w", crd.Name, err)
	}
	validator, _, err := validation.NewSchemaValidator(&all)
	if err != nil {
		return nil, fmt.Errorf("CRD %s: %w", crd.Name, err)
	}
	return &Schema{structural, validator}, nil
}

// Loses says which fields of a stored object the schema does not know, and which it refuses, without their values.
func (s *Schema) Loses(object map[string]any) []string {
	object = runtime.DeepCopyJSON(object)
	var found []string
	for _, path := range pruning.PruneWithOptions(object, s.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}) {
		found = append(found, path+" is not known")
	}
	for _, e := range validation.ValidateCustomResource(nil, object, s.validator) {
		found = append(found, fmt.Sprintf("%s: %s", e.Field, e.Type))
	}
	slices.Sort(found)
	return slices.Compact(found)
}
