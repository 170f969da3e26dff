package apply

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// addNamespace puts the target namespace into the plan where convoy is asked to create it: if it is not there, or if
// convoy made it. One that somebody else made is neither touched nor recorded.
func (a *applier) addNamespace(ctx context.Context) error {
	name := a.req.TargetNamespace
	ref := namespaceRef(name)
	if !a.req.CreateNamespace || name == "" || a.rendered(ref) || a.plan.ignored[ref] {
		return nil
	}
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetGroupVersionKind(namespaceKind)
	o.SetName(name)
	m, err := a.resolve.find(ctx, namespaceKind)
	if err != nil {
		return err
	}
	it := item{
		object: marked(o, "", a.req.Owner), ref: ref,
		stage: delivery.StageDefinitions, mapping: m, implied: true,
	}
	live, err := a.get(ctx, &it)
	switch {
	case isGone(err):
	case err != nil && fatal(err):
		return err
	case err != nil:
		a.fail(refusal(a.resolve.target, ref, err, a.clean))
		return nil
	case live.GetLabels()[v1alpha1.LabelOwner] != a.req.Owner.Key():
		return nil
	}
	a.plan.items = append(a.plan.items, it)
	a.report.update(func(p *Progress) { p.Of++ })
	return nil
}

func (a *applier) rendered(ref delivery.ObjectRef) bool {
	for i := range a.plan.items {
		if a.plan.items[i].ref == ref {
			return true
		}
	}
	return false
}
