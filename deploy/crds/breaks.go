// Package crds decides whether what one CustomResourceDefinition takes is taken by another one: of a release and the next, of a
// program and a hub, of objects that are stored and a program. It reads nothing and asks nobody. The check of make verify, the
// worker at its start and the command preflight call it.
package crds

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Breaks says what the definition old takes, or offers, that next does not; nothing when next may take its place.
func Breaks(old, next *apiextensionsv1.CustomResourceDefinition) []string {
	b := breaks{strict: true}
	b.definition(old, next)
	return b.all
}

// Lacks says what the definition hub does not know of what own has: what would be dropped on its way to the hub, or not be found
// there. Rules and bounds of a hub are its own: one that is newer may have more of them.
func Lacks(hub, own *apiextensionsv1.CustomResourceDefinition) []string {
	var b breaks
	b.definition(own, hub)
	return b.all
}

// breaks collects what was found. Only when it is strict does it look for what is narrower, and for what only people see.
type breaks struct {
	strict bool
	all    []string
}

func (b *breaks) definition(old, next *apiextensionsv1.CustomResourceDefinition) {
	if b.strict {
		b.names(old, next)
	}
	for i := range old.Spec.Versions {
		was := &old.Spec.Versions[i]
		if !was.Served {
			continue
		}
		at := slices.IndexFunc(next.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == was.Name && v.Served })
		if at < 0 {
			b.add("the version %s is gone", was.Name)
			continue
		}
		b.version(was, &next.Spec.Versions[at])
	}
	slices.Sort(b.all)
}

func (b *breaks) names(old, next *apiextensionsv1.CustomResourceDefinition) {
	b.differs("the scope", old.Spec.Scope, next.Spec.Scope)
	b.differs("the kind", old.Spec.Names.Kind, next.Spec.Names.Kind)
	b.differs("the plural name", old.Spec.Names.Plural, next.Spec.Names.Plural)
	b.gone("the short name ", old.Spec.Names.ShortNames, next.Spec.Names.ShortNames)
}

func (b *breaks) add(format string, args ...any) { b.all = append(b.all, fmt.Sprintf(format, args...)) }

// differs notes that something is not what it was.
func (b *breaks) differs(what string, was, is any) {
	if was != is {
		b.add("%s was %v and is %v", what, was, is)
	}
}

// gone notes what is not there any more.
func (b *breaks) gone(what string, was, is []string) {
	for _, name := range was {
		if !slices.Contains(is, name) {
			b.add("%s%s is gone", what, name)
		}
	}
}

func (b *breaks) version(was, is *apiextensionsv1.CustomResourceDefinitionVersion) {
	columns := func(v *apiextensionsv1.CustomResourceDefinitionVersion) (names []string) {
		for _, c := range v.AdditionalPrinterColumns {
			names = append(names, c.Name)
		}
		return names
	}
	b.gone("the selectable field ", selectable(was), selectable(is))
	if b.strict {
		b.gone("the column ", columns(was), columns(is))
	}
	if s := was.Subresources; s != nil && b.strict {
		if s.Status != nil && (is.Subresources == nil || is.Subresources.Status == nil) {
			b.add("the subresource status is gone")
		}
		if s.Scale != nil && (is.Subresources == nil || is.Subresources.Scale == nil) {
			b.add("the subresource scale is gone")
		}
	}
	if was.Schema != nil && is.Schema != nil {
		b.schema("", was.Schema.OpenAPIV3Schema, is.Schema.OpenAPIV3Schema)
	}
}

func selectable(v *apiextensionsv1.CustomResourceDefinitionVersion) (paths []string) {
	for _, f := range v.SelectableFields {
		paths = append(paths, strings.TrimPrefix(f.JSONPath, "."))
	}
	return paths
}

// schema compares what two schemas take at a path.
func (b *breaks) schema(path string, was, is *apiextensionsv1.JSONSchemaProps) {
	name := path
	if name == "" {
		name = "the object"
	}
	if was.Type != is.Type && (was.Type != "integer" || is.Type != "number") {
		b.add("%s was of the type %s and is of the type %s", name, was.Type, is.Type)
		return
	}
	loses := func(was, is *bool) bool { return was != nil && *was && (is == nil || !*is) }
	if loses(was.XPreserveUnknownFields, is.XPreserveUnknownFields) {
		b.add("%s takes no unknown fields any more", name)
	}
	if b.strict && was.Nullable && !is.Nullable {
		b.add("%s cannot be null any more", name)
	}
	if was.XIntOrString && !is.XIntOrString {
		b.add("%s is not an integer or a string any more", name)
	}
	b.values(name, was, is)
	if b.strict {
		b.bounds(name, was, is)
		b.words(name, was, is)
	}
	b.fields(path, name, was, is)
	if was.Items != nil && was.Items.Schema != nil && is.Items != nil && is.Items.Schema != nil {
		b.schema(path+"[]", was.Items.Schema, is.Items.Schema)
	}
}

// fields compares the fields of two objects, and the values of two maps.
func (b *breaks) fields(path, name string, was, is *apiextensionsv1.JSONSchemaProps) {
	open := is.XPreserveUnknownFields != nil && *is.XPreserveUnknownFields
	for _, field := range slices.Sorted(maps.Keys(was.Properties)) {
		before, at := was.Properties[field], strings.TrimPrefix(path+"."+field, ".")
		now, there := is.Properties[field]
		switch {
		case there:
			b.schema(at, &before, &now)
		case is.AdditionalProperties == nil && !open:
			b.add("%s is gone", at)
		}
	}
	for _, field := range is.Required {
		if b.strict && !slices.Contains(was.Required, field) && is.Properties[field].Default == nil {
			b.add("%s is required", strings.TrimPrefix(path+"."+field, "."))
		}
	}
	if was.AdditionalProperties == nil || was.AdditionalProperties.Schema == nil {
		return
	}
	switch {
	case is.AdditionalProperties != nil && is.AdditionalProperties.Schema != nil:
		b.schema(path+"{}", was.AdditionalProperties.Schema, is.AdditionalProperties.Schema)
	case (is.AdditionalProperties == nil || !is.AdditionalProperties.Allows) && !open:
		b.add("%s takes no other names any more", name)
	}
}

// bounds compares numbers: a bound that is new, or is narrower.
func (b *breaks) bounds(name string, was, is *apiextensionsv1.JSONSchemaProps) {
	lower := func(what string, was, is *float64) {
		if is != nil && (was == nil || *is > *was) {
			b.add("%s of %s is %v", what, name, *is)
		}
	}
	upper := func(what string, was, is *float64) {
		if is != nil && (was == nil || *is < *was) {
			b.add("%s of %s is %v", what, name, *is)
		}
	}
	lower("the minimum", was.Minimum, is.Minimum)
	upper("the maximum", was.Maximum, is.Maximum)
	lower("the least length", whole(was.MinLength), whole(is.MinLength))
	upper("the greatest length", whole(was.MaxLength), whole(is.MaxLength))
	lower("the least number of items", whole(was.MinItems), whole(is.MinItems))
	upper("the greatest number of items", whole(was.MaxItems), whole(is.MaxItems))
	lower("the least number of fields", whole(was.MinProperties), whole(is.MinProperties))
	upper("the greatest number of fields", whole(was.MaxProperties), whole(is.MaxProperties))
	for what, now := range map[string]bool{
		"the minimum of " + name + " is excluded": is.ExclusiveMinimum && !was.ExclusiveMinimum,
		"the maximum of " + name + " is excluded": is.ExclusiveMaximum && !was.ExclusiveMaximum,
		name + " takes no item twice":             is.UniqueItems && !was.UniqueItems,
		name + " takes multiples only":            is.MultipleOf != nil && (was.MultipleOf == nil || *was.MultipleOf != *is.MultipleOf),
	} {
		if now {
			b.add("%s", what)
		}
	}
}

func whole(n *int64) *float64 {
	if n == nil {
		return nil
	}
	return new(float64(*n))
}

// values compares what can be chosen from.
func (b *breaks) values(name string, was, is *apiextensionsv1.JSONSchemaProps) {
	if len(is.Enum) == 0 {
		return
	}
	if len(was.Enum) == 0 {
		b.add("%s takes some values only", name)
	}
	for _, v := range was.Enum {
		if !slices.ContainsFunc(is.Enum, func(o apiextensionsv1.JSON) bool { return string(o.Raw) == string(v.Raw) }) {
			b.add("%s does not take %s any more", name, v.Raw)
		}
	}
}

// words compares what is neither a number nor a choice: patterns, rules, and how lists are merged.
func (b *breaks) words(name string, was, is *apiextensionsv1.JSONSchemaProps) {
	if is.Pattern != "" && is.Pattern != was.Pattern {
		b.add("%s has the pattern %s", name, is.Pattern)
	}
	if is.Format != "" && is.Format != was.Format {
		b.add("%s has the format %s", name, is.Format)
	}
	for _, r := range is.XValidations {
		if !slices.ContainsFunc(was.XValidations, func(o apiextensionsv1.ValidationRule) bool { return o.Rule == r.Rule }) {
			b.add("%s has the rule %s", name, r.Rule)
		}
	}
	for what, pair := range map[string][2]any{
		"allOf": {was.AllOf, is.AllOf}, "anyOf": {was.AnyOf, is.AnyOf}, "oneOf": {was.OneOf, is.OneOf}, "not": {was.Not, is.Not},
		"the default": {was.Default, is.Default}, "the type of the list": {was.XListType, is.XListType},
		"the keys of the list": {was.XListMapKeys, is.XListMapKeys}, "the type of the map": {was.XMapType, is.XMapType},
	} {
		if !reflect.DeepEqual(canonical(pair[0]), canonical(pair[1])) {
			b.add("%s of %s is another one", what, name)
		}
	}
}

// canonical is a part of a schema without its spelling.
func canonical(v any) (out any) {
	raw, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		return v
	}
	return out
}
