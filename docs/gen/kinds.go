package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// kind is what the page says about one kind.
type kind struct {
	name        string
	names       apiextensionsv1.CustomResourceDefinitionNames
	scope       string
	description string
	columns     []string
	rules       []string
	fields      []field
}

// field is one row of a kind's table.
type field struct {
	path, typ, need, limits, text string
}

// readKinds reads every CRD that the pattern matches, in the order of their kinds.
func readKinds(pattern string) ([]kind, error) {
	paths, err := filepath.Glob(pattern)
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("no CRD matches %s", pattern)
	}
	kinds := make([]kind, 0, len(paths))
	for _, p := range paths {
		k, err := readKind(p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		kinds = append(kinds, k)
	}
	slices.SortFunc(kinds, func(a, b kind) int { return cmp.Compare(a.name, b.name) })
	return kinds, nil
}

func readKind(path string) (kind, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return kind{}, err
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(raw, &crd); err != nil {
		return kind{}, err
	}
	if len(crd.Spec.Versions) != 1 || crd.Spec.Versions[0].Schema == nil {
		return kind{}, fmt.Errorf("want one version with a schema, it has %d versions", len(crd.Spec.Versions))
	}
	version := crd.Spec.Versions[0]
	schema := version.Schema.OpenAPIV3Schema
	k := kind{
		name: crd.Spec.Names.Kind, names: crd.Spec.Names, scope: string(crd.Spec.Scope),
		description: schema.Description, rules: rules(schema),
	}
	for _, c := range version.AdditionalPrinterColumns {
		k.columns = append(k.columns, c.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		if name == "apiVersion" || name == "kind" || name == "metadata" {
			continue // the same for every kind of Kubernetes
		}
		k.add(name, schema.Properties[name], slices.Contains(schema.Required, name))
	}
	return k, nil
}

// add appends the row of a field and, below it, the rows of what it holds.
func (k *kind) add(path string, s apiextensionsv1.JSONSchemaProps, required bool) {
	need := "no"
	if required {
		need = "yes"
	}
	if s.Default != nil {
		need = "no, default " + code(string(s.Default.Raw))
	}
	k.fields = append(k.fields, field{
		path: code(path), typ: typeOf(&s), need: need,
		limits: strings.Join(limits(&s), "; "), text: oneLine(s.Description),
	})
	if path == "status.conditions" {
		return // the shape is Kubernetes' own
	}
	if s.Items != nil && s.Items.Schema != nil {
		s, path = *s.Items.Schema, path+"[]"
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		k.add(path+"."+name, s.Properties[name], slices.Contains(s.Required, name))
	}
}

func typeOf(s *apiextensionsv1.JSONSchemaProps) string {
	switch {
	case s.Type == "array" && s.Items != nil && s.Items.Schema != nil:
		return "list of " + typeOf(s.Items.Schema)
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		return "map of " + typeOf(s.AdditionalProperties.Schema)
	case s.Format == "date-time":
		return "time"
	case s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields:
		return "any"
	}
	return s.Type
}

// limits are the checks of a field, of the items of a list and of the values of a map.
func limits(s *apiextensionsv1.JSONSchemaProps) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if len(s.Enum) > 0 {
		values := make([]string, 0, len(s.Enum))
		for _, e := range s.Enum {
			values = append(values, code(strings.Trim(string(e.Raw), `"`)))
		}
		add("one of %s", strings.Join(values, ", "))
	}
	out = append(out, bounds(s.MinLength, s.MaxLength, "characters")...)
	out = append(out, bounds(s.MinItems, s.MaxItems, "items")...)
	out = append(out, bounds(s.MinProperties, s.MaxProperties, "keys")...)
	if s.Minimum != nil {
		add("at least %v", *s.Minimum)
	}
	if s.Maximum != nil {
		add("at most %v", *s.Maximum)
	}
	if s.Pattern != "" {
		add("matches %s", code(s.Pattern))
	}
	if len(s.XListMapKeys) > 0 {
		add("one item per %s", code(strings.Join(s.XListMapKeys, ", ")))
	}
	out = append(out, rules(s)...)
	if s.Items != nil && s.Items.Schema != nil {
		for _, l := range limits(s.Items.Schema) {
			add("each item: %s", l)
		}
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		for _, l := range limits(s.AdditionalProperties.Schema) {
			add("each value: %s", l)
		}
	}
	return out
}

func bounds(low, high *int64, unit string) []string {
	switch {
	case low != nil && high != nil:
		return []string{fmt.Sprintf("%d to %d %s", *low, *high, unit)}
	case low != nil:
		return []string{fmt.Sprintf("at least %d %s", *low, unit)}
	case high != nil:
		return []string{fmt.Sprintf("at most %d %s", *high, unit)}
	}
	return nil
}

func rules(s *apiextensionsv1.JSONSchemaProps) []string {
	out := make([]string, 0, len(s.XValidations))
	for _, v := range s.XValidations {
		out = append(out, fmt.Sprintf("rule %s: %s", code(v.Rule), oneLine(v.Message)))
	}
	return out
}

func (k *kind) write(w io.Writer) {
	fmt.Fprintf(w, "## %s\n\n%s\n\n", k.name, k.description)
	fmt.Fprintf(w, "%s, plural %s, short %s, categories %s. Columns of kubectl get: %s.\n\n", k.scope, code(k.names.Plural),
		code(strings.Join(k.names.ShortNames, ", ")), code(strings.Join(k.names.Categories, ", ")), strings.Join(k.columns, ", "))
	for _, r := range k.rules {
		fmt.Fprintf(w, "Of the whole object: %s.\n\n", r)
	}
	rows := make([][]string, 0, len(k.fields))
	for _, f := range k.fields {
		rows = append(rows, []string{f.path, f.typ, f.need, f.limits, f.text})
	}
	table(w, []string{"Field", "Type", "Required", "Limits", "Meaning"}, rows)
}

// code is text in backticks, fit for a cell of a table: the bar would end the cell.
func code(s string) string {
	return "`" + strings.ReplaceAll(oneLineRaw(s), "|", `\|`) + "`"
}

// oneLine is prose fit for a cell of a table.
func oneLine(s string) string {
	return strings.NewReplacer("|", `\|`, "<", `\<`, "*", `\*`, "{{", "`{{", "}}", "}}`").Replace(oneLineRaw(s))
}

func oneLineRaw(s string) string { return strings.Join(strings.Fields(s), " ") }
