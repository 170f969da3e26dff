package render

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"kumodo.io/convoy/internal/delivery"
)

// formats of the canonical form. A change of one is a change of every digest that it has.
const (
	format = "convoy.kumodo.io/render.v1"
	// formatHooks also has hooks, which a convoy that knows only the other one would apply.
	formatHooks = "convoy.kumodo.io/render.v2"
)

// header is the first line of the canonical form.
type header struct {
	Format          string `json:"format"`
	TargetNamespace string `json:"targetNamespace"`
	// Hooks is how many of the last lines are hooks.
	Hooks int `json:"hooks,omitempty"`
}

// hookLine is a hook in the canonical form.
type hookLine struct {
	Hook   *Hook          `json:"hook"`
	Object map[string]any `json:"object"`
}

// Content is what a render holds.
type Content struct {
	// TargetNamespace is that of the Release when it was rendered, "" for none. What is applied of it later, goes there, whatever the
	// Release says by then.
	TargetNamespace string
	// Objects in the order of an apply.
	Objects []*unstructured.Unstructured
	// Hooks of a chart, in the order in which those of one event run.
	Hooks []Hook
}

// Namespace takes those namespaced objects that name none.
func (c Content) Namespace() string { return cmp.Or(c.TargetNamespace, metav1.NamespaceDefault) }

// All are the objects, and those of the hooks.
func (c Content) All() []*unstructured.Unstructured {
	all := slices.Clone(c.Objects)
	for _, h := range c.Hooks {
		all = append(all, h.Object)
	}
	return all
}

// compareObjects orders as objects are applied.
func compareObjects(a, b located) int {
	ra, rb := delivery.RefOf(a.Unstructured), delivery.RefOf(b.Unstructured)
	return cmp.Or(cmp.Compare(delivery.StageOf(ra.GroupKind()), delivery.StageOf(rb.GroupKind())), ra.Compare(rb))
}

// encode writes the canonical form: a header, then one object per line in the order of an apply, then one hook per line,
// as compact JSON with sorted keys.
func encode(found []located, targetNamespace string) ([]byte, error) {
	var objects, hooks []located
	for _, o := range found {
		if o.hook == nil {
			objects = append(objects, o)
		} else {
			hooks = append(hooks, o)
		}
	}
	slices.SortFunc(objects, compareObjects)
	slices.SortStableFunc(hooks, func(a, b located) int {
		return cmp.Or(compareHooks(a, b), slices.Compare(a.hook.Events, b.hook.Events))
	})
	first := header{format, targetNamespace, len(hooks)}
	if len(hooks) > 0 {
		first.Format = formatHooks
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out) // ends each value with a newline
	enc.SetEscapeHTML(false)
	if err := enc.Encode(first); err != nil {
		return nil, err
	}
	for _, o := range objects {
		if err := enc.Encode(o.Object); err != nil {
			return nil, fmt.Errorf("encode %s: %w", delivery.RefOf(o.Unstructured), err)
		}
	}
	for _, o := range hooks {
		if err := enc.Encode(hookLine{o.hook, o.Object}); err != nil {
			return nil, fmt.Errorf("encode hook %s: %w", delivery.RefOf(o.Unstructured), err)
		}
	}
	return out.Bytes(), nil
}

// Decode reads the canonical form of a render. Integers are int64. An error means that canonical was not made by this
// package, or by another version of it.
func Decode(canonical []byte) (Content, error) {
	first, rest, ok := bytes.Cut(canonical, []byte("\n"))
	var h header
	if !ok || json.Unmarshal(first, &h) != nil || h.Format != format && h.Format != formatHooks {
		return Content{}, errors.New("not a render in a form such as " + formatHooks)
	}
	lines := bytes.Count(rest, []byte("\n"))
	if h.Hooks < 0 || h.Hooks > lines {
		return Content{}, errors.New("the render has fewer lines than hooks")
	}
	c := Content{TargetNamespace: h.TargetNamespace, Objects: make([]*unstructured.Unstructured, 0, lines-h.Hooks)}
	for line := range bytes.Lines(rest) {
		if len(c.Objects) < cap(c.Objects) {
			var m map[string]any
			if err := utiljson.Unmarshal(line, &m); err != nil || m == nil {
				return Content{}, fmt.Errorf("object %d of the render cannot be read", len(c.Objects)+1)
			}
			c.Objects = append(c.Objects, &unstructured.Unstructured{Object: m})
			continue
		}
		hook, err := decodeHook(line)
		if err != nil {
			return Content{}, fmt.Errorf("hook %d of the render cannot be read", len(c.Hooks)+1)
		}
		c.Hooks = append(c.Hooks, hook)
	}
	return c, nil
}

func decodeHook(line []byte) (Hook, error) {
	var h struct {
		Hook   *Hook           `json:"hook"`
		Object json.RawMessage `json:"object"`
	}
	if err := json.Unmarshal(line, &h); err != nil {
		return Hook{}, err
	}
	var m map[string]any
	if err := utiljson.Unmarshal(h.Object, &m); err != nil {
		return Hook{}, err
	}
	if h.Hook == nil || m == nil {
		return Hook{}, errors.New("it is not a hook")
	}
	h.Hook.Object = &unstructured.Unstructured{Object: m}
	return *h.Hook, nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
