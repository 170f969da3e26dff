package render

import (
	"context"
	"path"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/expr"
)

// PatchRef names the entry of a ConfigMap or Secret that a mutation reads.
type PatchRef struct {
	// Mutation is the name of the mutation.
	Mutation string
	Kind     v1alpha1.PatchSourceKind
	Name     string
	Key      string
}

// PatchesOf tells what the mutations read on the hub, in their order: nothing for a mutation whose when is false. Its
// errors are those of Render.
func PatchesOf(ctx context.Context, mutations []v1alpha1.Mutation, values delivery.Context) ([]PatchRef, error) {
	var out []PatchRef
	m := &mutator{values: values.Values()}
	for i := range mutations {
		mutation := &mutations[i]
		if mutation.From == nil || mutation.From.Kind == v1alpha1.PatchFromSource {
			continue
		}
		applies, err := m.applies(ctx, mutation)
		if err != nil {
			return nil, err
		}
		if !applies {
			continue
		}
		name, key, err := m.place(mutation)
		if err != nil {
			return nil, err
		}
		out = append(out, PatchRef{Mutation: mutation.Name, Kind: mutation.From.Kind, Name: name, Key: key})
	}
	return out, nil
}

// place evaluates name and path.
func (m *mutator) place(mutation *v1alpha1.Mutation) (name, at string, err error) {
	if name, err = expr.Template("mutation "+mutation.Name+": from.name", mutation.From.Name, m.values); err != nil {
		return "", "", err
	}
	if at, err = expr.Template("mutation "+mutation.Name+": from.path", mutation.From.Path, m.values); err != nil {
		return "", "", err
	}
	switch {
	case name == "" && mutation.From.Kind != v1alpha1.PatchFromSource:
		return "", "", invalid("mutation %s: from.name comes out empty", mutation.Name)
	case at == "":
		return "", "", invalid("mutation %s: from.path comes out empty", mutation.Name)
	}
	return name, at, nil
}

// patchOf makes the patch of a mutation. first is the first object that it selects, which errors of a template name.
// It is nil when an optional patch does not exist.
func (m *mutator) patchOf(mutation *v1alpha1.Mutation, first located) (*patch, error) {
	from := mutation.From
	if from == nil {
		subject := subjectOf(mutation, first)
		text, err := expr.Template(subject, mutation.Patch.Template, m.values)
		if err != nil {
			return nil, err
		}
		return parsePatch(subject, "the patch that the template makes", []byte(text), mutation.Patch.Type, false)
	}
	content, place, err := m.content(mutation)
	if err != nil {
		return nil, err
	}
	if content == nil {
		if from.Optional {
			return nil, nil
		}
		return nil, invalid("mutation %s: %s does not exist; create it or set from.optional", mutation.Name, place)
	}
	kind := from.Type
	if kind == "" {
		kind = v1alpha1.PatchMerge
	}
	return parsePatch("mutation "+mutation.Name, "the patch in "+place, content, kind, from.Kind == v1alpha1.PatchFromSecret)
}

// content is what a mutation reads, nil when it does not exist, and what to call it.
func (m *mutator) content(mutation *v1alpha1.Mutation) (content []byte, place string, err error) {
	name, at, err := m.place(mutation)
	if err != nil {
		return nil, "", err
	}
	var ok bool
	if mutation.From.Kind == v1alpha1.PatchFromSource {
		place = "file " + delivery.Short(at) + " of the source"
		content, ok = m.in.Files[path.Clean(at)]
	} else {
		place = "key " + delivery.Short(at) + " of " + string(mutation.From.Kind) + " " + delivery.Short(name)
		content, ok = m.in.Patches[mutation.Name]
	}
	if !ok {
		return nil, place, nil
	}
	return append([]byte{}, content...), place, nil // not nil, also when it is empty
}
