package render

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// maxSkipped is how many skipped files are named.
const maxSkipped = 10

// located is an object and where it was found, for messages.
type located struct {
	*unstructured.Unstructured
	where string
	// hook is what a chart wants of an object that it has made at certain points; nil for an object that is delivered.
	hook *Hook
}

// plain reads every manifest of a tree. skipped are files without an object, then hidden ones.
func plain(ctx context.Context, files map[string][]byte) (found []located, skipped []string, err error) {
	var hidden []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		if !isManifest(name) || strings.HasPrefix(name, "../") {
			continue
		}
		if isHidden(name) {
			hidden = append(hidden, name)
			continue
		}
		objects, err := objectsOf(name, files[name])
		if err != nil {
			return nil, nil, err
		}
		if objects == nil {
			skipped = append(skipped, name)
		}
		found = append(found, objects...)
	}
	skipped = append(skipped, hidden...)
	return found, skipped[:min(len(skipped), maxSkipped)], nil
}

func isManifest(name string) bool {
	switch path.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

func isHidden(name string) bool {
	return strings.HasPrefix(name, ".") || strings.Contains(name, "/.")
}

// objectsOf reads one file. It returns nil, and not just nothing, when the file holds no object at all.
func objectsOf(name string, data []byte) ([]located, error) {
	docs, err := parseFile(name, data)
	if err != nil {
		return nil, err
	}
	var objects []located
	isObject, stranger := false, 0
	for _, d := range docs {
		where := fmt.Sprintf("%s, document %d", name, d.index)
		if d.value == nil {
			continue
		}
		m, err := asObject(d.value)
		if err != nil {
			return nil, invalid("%s: %v", where, err)
		}
		if m == nil {
			stranger = d.index
			continue
		}
		isObject = true
		if objects, err = expand(objects, m, where); err != nil {
			return nil, err
		}
	}
	switch {
	case isObject && stranger > 0:
		return nil, invalid("%s, document %d: apiVersion and kind are missing", name, stranger)
	case isObject && objects == nil: // a List without items
		return []located{}, nil
	}
	return objects, nil
}

func parseFile(name string, data []byte) ([]document, error) {
	parse := parseYAML
	if path.Ext(name) == ".json" {
		parse = parseJSON
	}
	docs, err := parse(data)
	if err != nil {
		return nil, invalid("%s: %v", name, err)
	}
	return docs, nil
}

// asObject decides whether a document is an object. It returns nil for one that is something else, and an error
// for one that looks like an object that lost a part: to skip that would be to prune it.
func asObject(v any) (map[string]any, error) {
	m, ok := v.(map[string]any)
	if !ok {
		return nil, nil
	}
	apiVersion, hasVersion := m["apiVersion"]
	_, hasKind := m["kind"]
	_, hasMetadata := m["metadata"].(map[string]any)
	switch {
	case hasVersion && hasKind:
		if text, _ := apiVersion.(string); strings.HasPrefix(text, kustomizeGroup) {
			return nil, nil // kustomize's own configuration is for kustomize, not for a cluster
		}
		return m, nil
	case !hasKind && !hasMetadata:
		return nil, nil
	case !hasKind:
		return nil, fmt.Errorf("kind is missing")
	}
	return nil, fmt.Errorf("apiVersion is missing")
}
