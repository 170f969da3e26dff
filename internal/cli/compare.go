package cli

import (
	"fmt"
	"io"
	"maps"
	"reflect"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"kumodo.io/convoy/internal/delivery"
)

// pair is an object before and after; either may be nil.
type pair struct {
	ref           delivery.ObjectRef
	before, after *unstructured.Unstructured
}

// pairs match the objects of two renders, in the order of the second; what only the first has comes last.
func pairs(before, after []*unstructured.Unstructured) []pair {
	old := make(map[delivery.ObjectRef]*unstructured.Unstructured, len(before))
	for _, o := range before {
		old[delivery.RefOf(o)] = o
	}
	var out []pair
	for _, o := range after {
		ref := delivery.RefOf(o)
		out = append(out, pair{ref, old[ref], o})
		delete(old, ref)
	}
	for _, o := range before {
		if ref := delivery.RefOf(o); old[ref] != nil {
			out = append(out, pair{ref: ref, before: o})
		}
	}
	return out
}

// compare writes how objects differ, as a unified diff in YAML, and reports how many do. from and to name the two sides.
func compare(out io.Writer, from, to string, all []pair) (differ int, err error) {
	for _, p := range all {
		before, after := masked(readable(p.before), readable(p.after))
		if reflect.DeepEqual(before, after) {
			continue
		}
		differ++
		name := oneLine(p.ref.String())
		text, err := unified(from+" "+name, to+" "+name, before, after)
		if err != nil {
			return differ, fmt.Errorf("compare %s: %w", p.ref, err)
		}
		if _, err := io.WriteString(out, text); err != nil {
			return differ, err
		}
	}
	return differ, nil
}

func unified(from, to string, before, after map[string]any) (string, error) {
	a, err := text(before)
	if err != nil {
		return "", err
	}
	b, err := text(after)
	if err != nil {
		return "", err
	}
	if before == nil {
		from = "/dev/null"
	}
	if after == nil {
		to = "/dev/null"
	}
	return difflib.GetUnifiedDiffString(difflib.UnifiedDiff{A: lines(a), B: lines(b), FromFile: from, ToFile: to, Context: 3})
}

func text(object map[string]any) (string, error) {
	if object == nil {
		return "", nil
	}
	out, err := yaml.Marshal(object)
	return string(out), err
}

// lines are those of a text, each with its end.
func lines(text string) []string {
	if text == "" {
		return nil
	}
	all := strings.SplitAfter(text, "\n")
	return all[:len(all)-1]
}

// readable is a copy of an object without what a server alone writes.
func readable(o *unstructured.Unstructured) map[string]any {
	if o == nil {
		return nil
	}
	o = o.DeepCopy()
	delete(o.Object, "status")
	for _, field := range []string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "selfLink"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	// It repeats the object, as it was, with the values of a Secret.
	unstructured.RemoveNestedField(o.Object, "metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
	return o.Object
}

// What stands for a value of a Secret: it tells whether the value changes, and nothing else.
const (
	maskSame   = "***"
	maskBefore = "*** (before)"
	maskAfter  = "*** (after)"
)

// masked hides the values of Secrets. It changes its arguments, of which either may be nil.
func masked(before, after map[string]any) (map[string]any, map[string]any) {
	if !isSecret(before) && !isSecret(after) {
		return before, after
	}
	for _, field := range []string{"data", "stringData"} {
		was, is := entries(before, field), entries(after, field)
		hide(before, field, was, is, maskBefore)
		hide(after, field, is, was, maskAfter)
	}
	return before, after
}

func isSecret(o map[string]any) bool { return o["kind"] == "Secret" && o["apiVersion"] == "v1" }

// entries are the values of a field of a Secret. A field that is no map is one value.
func entries(o map[string]any, field string) map[string]any {
	value, has := o[field]
	if !has {
		return nil
	}
	if m, ok := value.(map[string]any); ok {
		return maps.Clone(m)
	}
	return map[string]any{"": value}
}

// hide puts masks in the place of values. Those that the other side has alike look alike.
func hide(o map[string]any, field string, values, other map[string]any, changed string) {
	if len(values) == 0 {
		return
	}
	hidden := make(map[string]any, len(values))
	for key, value := range values {
		hidden[key] = maskSame
		if there, has := other[key]; has && !reflect.DeepEqual(value, there) {
			hidden[key] = changed
		}
	}
	o[field] = hidden
}
