package crds

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const widgets = `
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets, shortNames: [wd]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    selectableFields: [{jsonPath: .spec.color}]
    additionalPrinterColumns: [{name: Color, type: string, jsonPath: .spec.color}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [color]
            properties:
              color: {type: string, enum: [red, blue], maxLength: 10}
              size: {type: integer, maximum: 10, nullable: true}
              names: {type: array, x-kubernetes-list-type: set, maxItems: 5, items: {type: string, pattern: "^[a-z]+$"}}
              labels: {type: object, additionalProperties: {type: string, maxLength: 5}}
              any: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

func crd(t *testing.T, changes ...string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	text := widgets
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			t.Fatalf("there is no %q to change", changes[i])
		}
		text = strings.Replace(text, changes[i], changes[i+1], 1)
	}
	c := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict([]byte(text), c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestWhatADefinitionDoesNotTakeAnyMoreIsFound(t *testing.T) {
	for name, tc := range map[string]struct {
		change []string
		breaks string // when it comes after the one above
		lacks  string // when a hub has it, and a program the one above
	}{
		"nothing":                   {},
		"a field is gone":           {[]string{"size: {type: integer, maximum: 10, nullable: true}", ""}, "spec.size is gone", "spec.size is gone"},
		"a field more":              {[]string{"spec:\n            type: object", "status: {type: object}\n          spec:\n            type: object"}, "", ""},
		"a required field more":     {[]string{"required: [color]", "required: [color, size]"}, "spec.size is required", ""},
		"a required one by default": {[]string{"required: [color]", "required: [color, mood]", "size: {type", "mood: {type: string, default: calm}\n              size: {type"}, "", ""},
		"another type":              {[]string{"type: integer", "type: string"}, "spec.size was of the type integer and is of the type string", "spec.size was of the type integer and is of the type string"},
		"a wider type":              {[]string{"type: integer", "type: number"}, "", ""},
		"a value less":              {[]string{"[red, blue]", "[red]"}, `spec.color does not take "blue" any more`, `spec.color does not take "blue" any more`},
		"a value more":              {[]string{"[red, blue]", "[red, blue, green]"}, "", ""},
		"any value":                 {[]string{"enum: [red, blue], ", ""}, "", ""},
		"chosen values":             {[]string{"{type: string, maxLength: 5}", "{type: string, maxLength: 5, enum: [a]}"}, "spec.labels{} takes some values only", "spec.labels{} takes some values only"},
		"a narrower bound":          {[]string{"maxLength: 10", "maxLength: 9"}, "the greatest length of spec.color is 9", ""},
		"a wider bound":             {[]string{"maxLength: 10", "maxLength: 11"}, "", ""},
		"a new bound":               {[]string{"maximum: 10", "maximum: 10, minimum: 1"}, "the minimum of spec.size is 1", ""},
		"fewer items":               {[]string{"maxItems: 5", "maxItems: 4"}, "the greatest number of items of spec.names is 4", ""},
		"another pattern":           {[]string{"^[a-z]+$", "^[a-y]+$"}, "spec.names[] has the pattern ^[a-y]+$", ""},
		"no pattern":                {[]string{`, pattern: "^[a-z]+$"`, ""}, "", ""},
		"a rule":                    {[]string{"required: [color]", "x-kubernetes-validations: [{rule: has(self.size)}]\n            required: [color]"}, "spec has the rule has(self.size)", ""},
		"not null":                  {[]string{", nullable: true", ""}, "spec.size cannot be null any more", ""},
		"another kind of list":      {[]string{"x-kubernetes-list-type: set", "x-kubernetes-list-type: atomic"}, "the type of the list of spec.names is another one", ""},
		"no other names":            {[]string{"{type: object, additionalProperties: {type: string, maxLength: 5}}", "{type: object}"}, "spec.labels takes no other names any more", "spec.labels takes no other names any more"},
		"no unknown fields":         {[]string{", x-kubernetes-preserve-unknown-fields: true", ""}, "spec.any takes no unknown fields any more", "spec.any takes no unknown fields any more"},
		"a default":                 {[]string{"maximum: 10", "maximum: 10, default: 3"}, "the default of spec.size is another one", ""},
		"a selectable field less":   {[]string{"selectableFields: [{jsonPath: .spec.color}]", ""}, "the selectable field spec.color is gone", "the selectable field spec.color is gone"},
		"a column less":             {[]string{"additionalPrinterColumns: [{name: Color, type: string, jsonPath: .spec.color}]", ""}, "the column Color is gone", ""},
		"no status":                 {[]string{"subresources: {status: {}}", ""}, "the subresource status is gone", ""},
		"not served":                {[]string{"served: true", "served: false"}, "the version v1 is gone", "the version v1 is gone"},
		"another version":           {[]string{"name: v1\n", "name: v2\n"}, "the version v1 is gone", "the version v1 is gone"},
		"another scope":             {[]string{"Namespaced", "Cluster"}, "the scope was Namespaced and is Cluster", ""},
		"a short name less":         {[]string{"[wd]", "[]"}, "the short name wd is gone", ""},
	} {
		t.Run(name, func(t *testing.T) {
			was, is := crd(t), crd(t, tc.change...)
			if diff := cmp.Diff(tc.breaks, strings.Join(Breaks(was, is), "\n")); diff != "" {
				t.Errorf("as the next one: %s", diff)
			}
			if diff := cmp.Diff(tc.lacks, strings.Join(Lacks(is, was), "\n")); diff != "" {
				t.Errorf("on a hub: %s", diff)
			}
		})
	}
}

func TestWhatAStoredObjectLosesIsNamedWithoutItsValues(t *testing.T) {
	s, err := SchemaOf(crd(t), "v1")
	if err != nil {
		t.Fatal(err)
	}
	object := map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "secret-a"},
		"spec": map[string]any{
			"color": "secret-b", "size": int64(3), "mood": "secret-c", "names": []any{"ok", "SECRET"}, "any": map[string]any{"x": "y"},
		},
	}
	want := []string{"spec.color: Unsupported value", "spec.mood is not known", "spec.names[1]: Invalid value"}
	if diff := cmp.Diff(want, s.Loses(object)); diff != "" {
		t.Error(diff)
	}
	if object["spec"].(map[string]any)["mood"] != "secret-c" {
		t.Error("the object was changed")
	}
	object["spec"] = map[string]any{"color": "red", "size": nil, "labels": map[string]any{"a": "b"}}
	if found := s.Loses(object); len(found) > 0 {
		t.Errorf("a good one: %v", found)
	}
	if _, err := SchemaOf(crd(t), "v2"); err == nil {
		t.Error("a version that there is not has a schema")
	}
}
