package apply

import (
	"context"
	"errors"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"kumodo.io/convoy/internal/delivery"
)

// definitionWait bounds the wait for definitions that were just applied.
const definitionWait = 60 * time.Second

// definition is what a CustomResourceDefinition says about its kind.
type definition struct {
	ref        delivery.ObjectRef
	kind       schema.GroupKind
	plural     string
	namespaced bool
	served     []string // versions
}

// definitionsOf finds the kinds that a render defines and convoy applies.
func definitionsOf(objects []*unstructured.Unstructured) map[schema.GroupKind]definition {
	out := map[schema.GroupKind]definition{}
	for _, o := range objects {
		if def, ok := definitionOf(o); ok && !isIgnored(o) {
			out[def.kind] = def
		}
	}
	return out
}

func definitionOf(o *unstructured.Unstructured) (definition, bool) {
	if !isDefinition(o.GroupVersionKind().GroupKind()) {
		return definition{}, false
	}
	group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
	plural, _, _ := unstructured.NestedString(o.Object, "spec", "names", "plural")
	scope, _, _ := unstructured.NestedString(o.Object, "spec", "scope")
	def := definition{
		ref: delivery.RefOf(o), kind: schema.GroupKind{Group: group, Kind: kind}, plural: plural,
		namespaced: scope == string(apiextensionsv1.NamespaceScoped),
	}
	def.ref.Namespace = ""
	versions, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "versions")
	list, _ := versions.([]any)
	for _, v := range list {
		version, _ := v.(map[string]any)
		name, _ := version["name"].(string)
		if served, _ := version["served"].(bool); served && name != "" {
			def.served = append(def.served, name)
		}
	}
	return def, group != "" && kind != ""
}

func isDefinition(gk schema.GroupKind) bool {
	return gk.Group == apiextensionsv1.GroupName && gk.Kind == "CustomResourceDefinition"
}

func isEstablished(o *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedFieldNoCopy(o.Object, "status", "conditions")
	list, _ := conditions.([]any)
	for _, c := range list {
		condition, _ := c.(map[string]any)
		if condition["type"] == string(apiextensionsv1.Established) {
			return condition["status"] == string(apiextensionsv1.ConditionTrue)
		}
	}
	return false
}

// settleDefinitions waits until what the render defines is established and discoverable, and maps the objects that
// waited for it. Definitions that were established before, with versions that are known, cost nothing.
func (a *applier) settleDefinitions(ctx context.Context) error {
	waiting := map[schema.GroupKind]definition{}
	for gk, def := range a.plan.definitions {
		if applied, ok := a.definitions[def.ref]; ok && !a.isReady(ctx, def, applied) {
			waiting[gk] = def
		}
	}
	if len(waiting) > 0 {
		if err := a.awaitDefinitions(ctx, waiting); err != nil {
			return err
		}
	}
	for i := range a.plan.items {
		it := &a.plan.items[i]
		if it.mapping != nil {
			continue
		}
		m, err := a.resolve.peek(ctx, it.object.GroupVersionKind())
		if err != nil && !errors.Is(err, errNotServed) {
			return err
		}
		it.mapping = m
	}
	return nil
}

// awaitDefinitions asks again, more and more slowly, until none waits or the time is up; who still waits then is
// an error of the objects that need it.
func (a *applier) awaitDefinitions(ctx context.Context, waiting map[schema.GroupKind]definition) error {
	bounded, cancel := context.WithTimeout(ctx, definitionWait)
	defer cancel()
	var broken error
	err := growing(100*time.Millisecond, 2*time.Second).Until(bounded, true, true, func(ctx context.Context) (bool, error) {
		a.resolve.refresh(ctx)
		for gk, def := range waiting {
			live, err := a.readDefinition(ctx, def.ref)
			if err != nil && fatal(err) {
				broken = err
				return false, err
			}
			if err == nil && a.isReady(ctx, def, live) {
				delete(waiting, gk)
			}
		}
		return len(waiting) == 0, nil
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case bounded.Err() != nil:
		return nil // the time is up
	}
	return broken
}

func (a *applier) readDefinition(ctx context.Context, ref delivery.ObjectRef) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	m, err := a.resolve.find(ctx, definitionKind)
	if err != nil {
		return nil, err
	}
	return a.resolve.client(m, "").Get(ctx, ref.Name, getOptions)
}

// isReady: established, and every served version is known to discovery.
func (a *applier) isReady(ctx context.Context, def definition, live *unstructured.Unstructured) bool {
	if !isEstablished(live) {
		return false
	}
	for _, version := range def.served {
		if _, err := a.resolve.peek(ctx, def.kind.WithVersion(version)); err != nil {
			return false
		}
	}
	return true
}

// growing is a delay that grows from first to longest, jittered.
func growing(first, longest time.Duration) wait.DelayFunc {
	const many = 64 // steps; it stays at the longest once it got there
	return wait.Backoff{Duration: first, Factor: 1.5, Jitter: 0.1, Cap: longest, Steps: many}.DelayFunc()
}
