package render

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
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
	return invalid("values of %s: %s", layer.Name, text)
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

// chartValues reads the values.yaml of a chart as Helm does, where the last of two equal keys counts, but with
// exact numbers.
func chartValues(content []byte) (map[string]any, error) {
	merged := map[string]any{}
	content = append(bytes.TrimPrefix(content, []byte("\xef\xbb\xbf")), '\n')
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		raw, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return merged, nil
		}
		if err != nil {
			return nil, parseError{0, "it is not valid YAML"}
		}
		doc := map[string]any{}
		if err := unmarshalExact(raw, &doc); err != nil {
			if _, strict := parseYAML(content); strict != nil {
				return nil, strict
			}
			return nil, parseError{0, "it is not a map"}
		}
		merged = mergeMaps(merged, doc)
	}
}

// unmarshalExact is yaml.Unmarshal with numbers as forTemplate makes them. out points to a map or a list.
func unmarshalExact[T map[string]any | []any](content []byte, out *T) error {
	if err := yaml.Unmarshal(content, out, useNumber); err != nil {
		return err
	}
	*out, _ = forTemplate(any(*out)).(T)
	return nil
}

func useNumber(d *json.Decoder) *json.Decoder {
	d.UseNumber()
	return d
}

// forTemplate copies values as templates expect them. To Helm every number of a file is a float64, and charts are written
// for that; but a float64 is printed as 1.234567e+06 and holds 53 bits. So a number is a float64 as long as it is
// printed as it was written, and else, if it is an integer, an int64.
func forTemplate(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if v == nil {
			return v
		}
		out := make(map[string]any, len(v))
		for k, item := range v {
			out[k] = forTemplate(item)
		}
		return out
	case []any:
		if v == nil {
			return v
		}
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = forTemplate(item)
		}
		return out
	case json.Number:
		return exactNumber(v.String())
	case int:
		return exactNumber(strconv.Itoa(v))
	case int64:
		return exactNumber(strconv.FormatInt(v, 10))
	}
	return v
}

func exactNumber(text string) any {
	f, err := strconv.ParseFloat(text, 64)
	if err == nil && fmt.Sprint(f) == text {
		return f
	}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i
	}
	if u, err := strconv.ParseUint(text, 10, 64); err == nil {
		return u
	}
	if err != nil {
		return text
	}
	return f
}
