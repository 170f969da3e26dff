package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/failure"
)

// ValuesLayer is one source of values for a chart.
type ValuesLayer struct {
	// Name of the layer in messages, such as "Secret web-values, key values.yaml".
	Name string
	// Content is YAML or JSON: a map, or nothing. Of several documents each is laid over those before it.
	Content []byte
	// Secret keeps everything of Content out of messages, also the names of its keys.
	Secret bool
}

// MergeValues lays each layer over those before it: maps are merged, anything else is replaced, and a null stays, for it
// takes away a default of the chart. Integers are int64. Layers are read strictly: a key that is set twice and a number
// that would be changed are terminal failures with reason RenderFailed, which name the layer and the line, and no
// value.
func MergeValues(layers []ValuesLayer) (map[string]any, error) {
	merged := map[string]any{}
	for _, layer := range layers {
		docs, err := parseLayer(layer.Content)
		if err != nil {
			return nil, layerError(layer, err)
		}
		for _, d := range docs {
			if d.value == nil {
				continue
			}
			m, ok := d.value.(map[string]any)
			if !ok {
				return nil, layerError(layer, parseError{0, "the values are not a map"})
			}
			merged = mergeMaps(merged, m)
		}
	}
	return merged, nil
}

func parseLayer(content []byte) ([]document, error) {
	if json.Valid(content) {
		return parseJSON(content)
	}
	return parseYAML(bytes.TrimPrefix(content, []byte("\xef\xbb\xbf")))
}

func layerError(layer ValuesLayer, err error) error {
	text := "it cannot be read"
	if p, ok := errors.AsType[parseError](err); ok {
		text = p.Error()
		if layer.Secret {
			text = parseError{p.line, "it is not valid: see what a strict YAML parser says of it"}.Error()
		}
	}
	return failure.Terminal(v1alpha1.ReasonRenderFailed, nil, "%s", fmt.Sprintf("values of %s: %s", layer.Name, text))
}

// mergeMaps lays b over a. It changes neither.
func mergeMaps(a, b map[string]any) map[string]any {
	out := make(map[string]any, len(a)+len(b))
	maps.Copy(out, a)
	for k, v := range b {
		upper, isMap := v.(map[string]any)
		lower, wasMap := out[k].(map[string]any)
		if isMap && wasMap {
			out[k] = mergeMaps(lower, upper)
			continue
		}
		out[k] = v
	}
	return out
}
