package render

import (
	"context"
	"encoding/json"
	"path"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/expr"
)

// mutate applies the mutations, in order, to the objects that they select.
func mutate(ctx context.Context, found []located, mutations []v1alpha1.Mutation, values delivery.Context) error {
	for _, m := range mutations {
		if m.Patch.Type != v1alpha1.PatchMerge {
			return invalid("mutation %s: patch type %s is not supported; use %s", m.Name, m.Patch.Type, v1alpha1.PatchMerge)
		}
		if _, err := path.Match(m.Target.Name, ""); err != nil {
			return invalid("mutation %s: target.name is not a valid pattern", m.Name)
		}
		var patch []byte // made at the first object, which its errors then name
		for _, o := range found {
			if err := ctx.Err(); err != nil {
				return err
			}
			if !selects(m.Target, o) {
				continue
			}
			subject := "mutation " + m.Name + ", " + delivery.RefOf(o.Unstructured).String()
			if patch == nil {
				var err error
				if patch, err = patchOf(subject, m.Patch.Template, values); err != nil {
					return err
				}
			}
			if err := apply(subject, patch, o); err != nil {
				return err
			}
		}
	}
	return nil
}

func selects(t v1alpha1.MutationTarget, o located) bool {
	gvk := o.GroupVersionKind()
	if t.Kind != "" && (t.Kind != gvk.Kind || t.Group != gvk.Group) {
		return false
	}
	if t.Namespace != "" && t.Namespace != o.GetNamespace() {
		return false
	}
	if t.Name == "" {
		return true
	}
	ok, _ := path.Match(t.Name, o.GetName()) // a bad pattern was refused before
	return ok
}

// patchOf evaluates the template and returns the patch as JSON. A template that comes out empty changes nothing.
func patchOf(subject, template string, values delivery.Context) ([]byte, error) {
	text, err := expr.Template(subject, template, values.Values())
	if err != nil {
		return nil, err
	}
	docs, err := parseYAML([]byte(text))
	if err != nil {
		return nil, invalid("%s: the patch that the template makes: %v", subject, err)
	}
	patch := map[string]any{}
	count := 0
	for _, d := range docs {
		if d.value == nil {
			continue
		}
		m, ok := d.value.(map[string]any)
		if count++; !ok || count > 1 {
			return nil, invalid("%s: the patch that the template makes is not one map", subject)
		}
		patch = m
	}
	return json.Marshal(patch)
}

// apply merges the patch into the object. What the object is called and is stays: another identity would be
// another object, which no other check has seen.
func apply(subject string, patch []byte, o located) error {
	before, err := json.Marshal(o.Object)
	if err != nil {
		return err
	}
	after, err := jsonpatch.MergePatch(before, patch)
	if err != nil {
		return invalid("%s: the patch cannot be merged", subject)
	}
	var changed map[string]any
	if err := utiljson.Unmarshal(after, &changed); err != nil {
		return invalid("%s: the patch cannot be merged", subject)
	}
	clean(changed)
	if err := check(changed); err != nil {
		return invalid("%s: after the patch: %v", subject, err)
	}
	result := &unstructured.Unstructured{Object: changed}
	if result.GroupVersionKind() != o.GroupVersionKind() || delivery.RefOf(result) != delivery.RefOf(o.Unstructured) {
		return invalid("%s: a patch must not change apiVersion, kind, name or namespace", subject)
	}
	o.Object = changed // of the Unstructured that found points to
	return nil
}
