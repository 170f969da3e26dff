package render

import (
	"context"
	"maps"
	"math"
	"path"

	"k8s.io/apimachinery/pkg/labels"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/expr"
)

// mutator applies the mutations of one render, which share the limits of expressions.
type mutator struct {
	in     Input
	values map[string]any // what templates and expressions see
	cel    expr.Session
}

// mutate applies the mutations, in order, to the objects that they select, and says what each matched.
func mutate(ctx context.Context, found []located, in Input) ([]v1alpha1.MutationStatus, error) {
	m := &mutator{in: in, values: in.Context.Values()}
	var out []v1alpha1.MutationStatus
	for i := range in.Mutations {
		mutation := &in.Mutations[i]
		selected, err := selectedBy(mutation, found)
		if err != nil {
			return nil, err
		}
		status := v1alpha1.MutationStatus{Name: mutation.Name, Matched: int32(min(len(selected), math.MaxInt32))}
		applies, err := m.applies(ctx, mutation)
		if err != nil {
			return nil, err
		}
		switch {
		case !applies:
			status.Skipped = v1alpha1.SkippedByWhen
		case len(selected) == 0 && mutation.Required:
			return nil, invalid("mutation %s: it is required, and its target selects no object", mutation.Name)
		case len(selected) > 0:
			if status.Skipped, err = m.change(ctx, mutation, selected); err != nil {
				return nil, err
			}
		}
		out = append(out, status)
	}
	return out, nil
}

// applies evaluates when.
func (m *mutator) applies(ctx context.Context, mutation *v1alpha1.Mutation) (bool, error) {
	if mutation.When == "" {
		return true, nil
	}
	return m.cel.Condition(ctx, "mutation "+mutation.Name+": when", mutation.When, m.values)
}

// change applies a mutation to the objects that it selected.
func (m *mutator) change(ctx context.Context, mutation *v1alpha1.Mutation, selected []located) (skipped v1alpha1.MutationSkip, err error) {
	var p *patch
	if mutation.CEL == "" {
		if p, err = m.patchOf(mutation, selected[0]); err != nil {
			return "", err
		}
		if p == nil {
			return v1alpha1.SkippedAsMissing, nil
		}
	}
	for _, o := range selected {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		subject := subjectOf(mutation, o)
		if p != nil {
			err = p.apply(subject, o)
		} else {
			err = m.evaluate(ctx, subject, mutation.CEL, o)
		}
		if err != nil {
			return "", err
		}
	}
	return "", nil
}

// evaluate applies what an expression gives for an object.
func (m *mutator) evaluate(ctx context.Context, subject, expression string, o located) error {
	values := maps.Clone(m.values)
	values["object"] = o.Object
	change, err := m.cel.Mutation(ctx, subject, expression, values)
	if err != nil {
		return err
	}
	hidden := delivery.RefOf(o.Unstructured).GroupKind() == secretKind
	if change.Patch != nil {
		return (&patch{kind: v1alpha1.PatchJSON6902, json: change.Patch, hidden: hidden, tests: true}).apply(subject, o)
	}
	return mergeConfiguration(subject, change.Object, o, hidden)
}

func subjectOf(mutation *v1alpha1.Mutation, o located) string {
	return "mutation " + mutation.Name + ", " + delivery.RefOf(o.Unstructured).String()
}

// selectedBy is which of the objects the target of a mutation selects.
func selectedBy(mutation *v1alpha1.Mutation, found []located) ([]located, error) {
	t := mutation.Target
	if _, err := path.Match(t.Name, ""); err != nil {
		return nil, invalid("mutation %s: target.name is not a valid pattern", mutation.Name)
	}
	byLabels, err := labels.Parse(t.LabelSelector)
	if err != nil {
		return nil, invalid("mutation %s: target.labelSelector is not a valid selector", mutation.Name)
	}
	byAnnotations, err := labels.Parse(t.AnnotationSelector)
	if err != nil {
		return nil, invalid("mutation %s: target.annotationSelector is not a valid selector", mutation.Name)
	}
	var selected []located
	for _, o := range found {
		if selects(t, o) && (t.LabelSelector == "" || byLabels.Matches(labels.Set(o.GetLabels()))) &&
			(t.AnnotationSelector == "" || byAnnotations.Matches(labels.Set(o.GetAnnotations()))) {
			selected = append(selected, o)
		}
	}
	return selected, nil
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
