package render

import (
	"encoding/json"
	"errors"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// maxCopied is how many bytes the copy operations of one JSON patch may add to an object.
const maxCopied = 1 << 20

var secretKind = schema.GroupKind{Kind: "Secret"}

// patch is a patch that was read.
type patch struct {
	kind v1alpha1.PatchType
	// fields of a Strategic or Merge patch, and json of any patch but a Strategic one.
	fields map[string]any
	json   []byte
	// hidden patches may hold values of Secrets: messages do not quote from them.
	hidden bool
	// tests of a JSON patch that fail leave the object as it is, as in a MutatingAdmissionPolicy.
	tests bool
}

// parsePatch reads a patch. A text that holds nothing is a patch that changes nothing.
func parsePatch(subject, what string, text []byte, kind v1alpha1.PatchType, hidden bool) (*patch, error) {
	docs, err := parseYAML(text)
	switch {
	case err != nil && hidden:
		return nil, invalid("%s: %s is not valid YAML", subject, what)
	case err != nil:
		return nil, invalid("%s: %s: %v", subject, what, err)
	}
	var value any
	count := 0
	for _, d := range docs {
		if d.value != nil {
			value = d.value
			count++
		}
	}
	p := &patch{kind: kind, hidden: hidden}
	switch kind {
	case v1alpha1.PatchJSON6902:
		if _, ok := value.([]any); count > 0 && (!ok || count > 1) {
			return nil, invalid("%s: %s is not one list of operations", subject, what)
		}
		if count == 0 {
			value = []any{}
		}
	case v1alpha1.PatchStrategic, v1alpha1.PatchMerge:
		fields, ok := value.(map[string]any)
		if count > 0 && (!ok || count > 1) {
			return nil, invalid("%s: %s is not one map", subject, what)
		}
		if count == 0 {
			fields = map[string]any{}
		}
		p.fields, value = fields, fields
	default:
		return nil, invalid("%s: %s is of the type %s, which is not supported; use Strategic, Merge or JSON6902", subject, what, delivery.Short(string(kind)))
	}
	p.json, err = json.Marshal(value)
	return p, err
}

// apply changes an object by a patch.
func (p *patch) apply(subject string, o located) error {
	var changed map[string]any
	var err error
	switch p.kind {
	case v1alpha1.PatchStrategic:
		changed, err = p.strategic(subject, o)
	case v1alpha1.PatchJSON6902:
		changed, err = p.operations(subject, o)
	default:
		changed, err = throughJSON(o, func(before []byte) ([]byte, error) { return jsonpatch.MergePatch(before, p.json) })
		if err != nil {
			err = invalid("%s: the patch cannot be merged", subject)
		}
	}
	if err != nil {
		return err
	}
	return accept(subject, changed, o, p.hidden)
}

// strategic merges by what the Go types of built-in kinds say of their lists.
func (p *patch) strategic(subject string, o located) (map[string]any, error) {
	like, err := scheme.Scheme.New(o.GroupVersionKind())
	if err != nil {
		return nil, invalid("%s: a Strategic patch needs a kind that is built into Kubernetes; use Merge, JSON6902 or cel", subject)
	}
	var changed map[string]any
	err = guarded(func() (err error) {
		changed, err = strategicpatch.StrategicMergeMapPatch(o.DeepCopy().Object, runtime.DeepCopyJSON(p.fields), like)
		return err
	})
	if err != nil {
		return nil, invalid("%s: the Strategic patch does not fit the object", subject)
	}
	return changed, nil
}

// operations carries out a JSON patch.
func (p *patch) operations(subject string, o located) (map[string]any, error) {
	options := jsonpatch.NewApplyOptions()
	options.AccumulatedCopySizeLimit = maxCopied
	options.EscapeHTML = false
	changed, err := throughJSON(o, func(before []byte) ([]byte, error) {
		operations, err := jsonpatch.DecodePatch(p.json)
		if err != nil {
			return nil, err
		}
		return operations.ApplyWithOptions(before, options)
	})
	switch {
	case errors.Is(err, jsonpatch.ErrTestFailed) && p.tests:
		return o.Object, nil
	case errors.Is(err, jsonpatch.ErrTestFailed):
		return nil, invalid("%s: a test of the JSON patch fails", subject)
	case errors.Is(err, jsonpatch.ErrMissing):
		return nil, invalid("%s: a path of the JSON patch does not exist", subject)
	case err != nil:
		return nil, invalid("%s: the JSON patch does not fit the object", subject)
	}
	return changed, nil
}

// throughJSON changes an object as JSON. Integers stay exact.
func throughJSON(o located, change func([]byte) ([]byte, error)) (map[string]any, error) {
	before, err := json.Marshal(o.Object)
	if err != nil {
		return nil, err
	}
	var changed map[string]any
	err = guarded(func() error {
		after, err := change(before)
		if err != nil {
			return err
		}
		return utiljson.Unmarshal(after, &changed)
	})
	return changed, err
}

// guarded turns a panic of a library over an untrusted patch into an error.
func guarded(change func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.New("the patch cannot be carried out")
		}
	}()
	return change()
}

// accept takes a changed object. What the object is called and is stays: another identity would be another object, which
// no other check has seen.
func accept(subject string, changed map[string]any, o located, hidden bool) error {
	clean(changed)
	switch err := delivery.CheckObject(changed); {
	case err != nil && hidden:
		return invalid("%s: after the patch it is no valid object", subject)
	case err != nil:
		return invalid("%s: after the patch: %v", subject, err)
	}
	result := &unstructured.Unstructured{Object: changed}
	if result.GroupVersionKind() != o.GroupVersionKind() || delivery.RefOf(result) != delivery.RefOf(o.Unstructured) {
		return invalid("%s: a patch must not change apiVersion, kind, name or namespace", subject)
	}
	o.Object = changed // of the Unstructured that found points to
	return nil
}
