package render

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"kumodo.io/convoy/internal/delivery"
)

// format is the version of the canonical form. A change of it is a change of every digest.
const format = "convoy.kumodo.io/render.v1"

// header is the first line of the canonical form.
type header struct {
	Format          string `json:"format"`
	TargetNamespace string `json:"targetNamespace"`
}

// encode writes the canonical form: a header, then one object per line in the order of an apply, as compact JSON
// with sorted keys. It sorts found.
func encode(found []located, targetNamespace string) ([]byte, error) {
	slices.SortFunc(found, func(a, b located) int {
		ra, rb := delivery.RefOf(a.Unstructured), delivery.RefOf(b.Unstructured)
		return cmp.Or(
			cmp.Compare(delivery.StageOf(ra.GroupKind()), delivery.StageOf(rb.GroupKind())),
			ra.Compare(rb),
		)
	})
	var out bytes.Buffer
	enc := json.NewEncoder(&out) // ends each value with a newline
	enc.SetEscapeHTML(false)
	if err := enc.Encode(header{format, targetNamespace}); err != nil {
		return nil, err
	}
	for _, o := range found {
		if err := enc.Encode(o.Object); err != nil {
			return nil, fmt.Errorf("encode %s: %w", delivery.RefOf(o.Unstructured), err)
		}
	}
	return out.Bytes(), nil
}

// Decode reads the canonical form of a render and returns its objects in the order of an apply. Integers are int64.
// An error means that canonical was not made by this package, or by another version of it.
func Decode(canonical []byte) ([]*unstructured.Unstructured, error) {
	first, rest, ok := bytes.Cut(canonical, []byte("\n"))
	var h header
	if !ok || json.Unmarshal(first, &h) != nil || h.Format != format {
		return nil, errors.New("not a render in the form " + format)
	}
	objects := make([]*unstructured.Unstructured, 0, bytes.Count(rest, []byte("\n")))
	for line := range bytes.Lines(rest) {
		var m map[string]any
		if err := utiljson.Unmarshal(line, &m); err != nil || m == nil {
			return nil, fmt.Errorf("object %d of the render cannot be read", len(objects)+1)
		}
		objects = append(objects, &unstructured.Unstructured{Object: m})
	}
	return objects, nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
