package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/BurntSushi/toml"
	"sigs.k8s.io/yaml"
	goyaml "sigs.k8s.io/yaml/goyaml.v3"
)

// helmFunctions are those that Helm adds to sprig. They do as Helm's, which its library does not export, but what reads
// numbers keeps them exactly.
func helmFunctions() template.FuncMap {
	return template.FuncMap{
		"toYaml":        func(v any) string { s, _ := toYAML(v); return s },
		"mustToYaml":    toYAML,
		"toYamlPretty":  toYAMLPretty,
		"fromYaml":      func(s string) map[string]any { return orError(s, unmarshalExact[map[string]any]) },
		"fromYamlArray": func(s string) []any { return orErrors(s, unmarshalExact[[]any]) },
		"toToml":        toTOML,
		"mustToToml":    mustToTOML,
		"fromToml": func(s string) map[string]any {
			return orError(s, func(content []byte, out *map[string]any) error { return toml.Unmarshal(content, out) })
		},
		"toJson":        func(v any) string { b, _ := json.Marshal(v); return string(b) },
		"mustToJson":    func(v any) (string, error) { b, err := json.Marshal(v); return string(b), err },
		"fromJson":      func(s string) map[string]any { return orError(s, unmarshalJSON[map[string]any]) },
		"fromJsonArray": func(s string) []any { return orErrors(s, unmarshalJSON[[]any]) },
		"mustFromJson": func(s string) (any, error) {
			var v any
			dec := useNumber(json.NewDecoder(strings.NewReader(s)))
			err := dec.Decode(&v)
			return forTemplate(v), err
		},
		"required": required,
		"fail":     func(text string) (string, error) { return "", chartMessage(text) },
		// A render reads no cluster.
		"lookup": func(_, _, _, _ string) map[string]any { return map[string]any{} },

		"mustToDuration":       asDuration,
		"durationSeconds":      func(v any) float64 { return orZero(v).Seconds() },
		"durationMilliseconds": func(v any) int64 { return orZero(v).Milliseconds() },
		"durationMicroseconds": func(v any) int64 { return orZero(v).Microseconds() },
		"durationNanoseconds":  func(v any) int64 { return orZero(v).Nanoseconds() },
		"durationMinutes":      func(v any) float64 { return orZero(v).Minutes() },
		"durationHours":        func(v any) float64 { return orZero(v).Hours() },
		"durationDays":         func(v any) float64 { return orZero(v).Hours() / 24 },
		"durationWeeks":        func(v any) float64 { return orZero(v).Hours() / 24 / 7 },
		"durationRoundTo":      func(v, m any) time.Duration { return byMultiple(v, m, time.Duration.Round) },
		"durationTruncateTo":   func(v, m any) time.Duration { return byMultiple(v, m, time.Duration.Truncate) },
	}
}

// chartMessage is what the author of a chart says in fail or required.
type chartMessage string

func (m chartMessage) Error() string { return string(m) }

func required(text string, v any) (any, error) {
	if v == nil || v == "" {
		return v, chartMessage(text)
	}
	return v, nil
}

func toYAML(v any) (string, error) {
	content, err := yaml.Marshal(v)
	return strings.TrimSuffix(string(content), "\n"), err
}

func toYAMLPretty(v any) string {
	var out bytes.Buffer
	enc := goyaml.NewEncoder(&out)
	enc.SetIndent(2)
	if enc.Encode(v) != nil {
		return ""
	}
	return strings.TrimSuffix(out.String(), "\n")
}

func toTOML(v any) string {
	text, err := mustToTOML(v)
	if err != nil {
		return err.Error()
	}
	return text
}

func mustToTOML(v any) (string, error) {
	var out strings.Builder
	err := toml.NewEncoder(&out).Encode(v)
	return out.String(), err
}

// orError gives an error to the chart as Helm does, as a value.
func orError(s string, read func([]byte, *map[string]any) error) map[string]any {
	m := map[string]any{}
	if err := read([]byte(s), &m); err != nil {
		if m == nil {
			m = map[string]any{}
		}
		m["Error"] = err.Error()
	}
	return m
}

func orErrors(s string, read func([]byte, *[]any) error) []any {
	list := []any{}
	if err := read([]byte(s), &list); err != nil {
		return []any{err.Error()}
	}
	return list
}

// unmarshalJSON is json.Unmarshal with numbers as forTemplate makes them.
func unmarshalJSON[T map[string]any | []any](content []byte, out *T) error {
	if err := json.Unmarshal(content, out); err != nil {
		return err
	}
	var exact T
	if err := useNumber(json.NewDecoder(bytes.NewReader(content))).Decode(&exact); err != nil {
		return err
	}
	*out, _ = forTemplate(any(exact)).(T)
	return nil
}

func orZero(v any) time.Duration {
	d, err := asDuration(v)
	if err != nil {
		return 0
	}
	return d
}

func byMultiple(v, m any, to func(d, m time.Duration) time.Duration) time.Duration {
	d, err := asDuration(v)
	if err != nil {
		return 0
	}
	multiple, err := asDuration(m)
	if err != nil {
		return d
	}
	return to(d, multiple)
}

var errNoDuration = errors.New("not a duration")

// asDuration reads a duration: what Go writes as one, or a number of seconds.
func asDuration(v any) (time.Duration, error) {
	if d, ok := v.(time.Duration); ok {
		return d, nil
	}
	if s, ok := v.(string); ok {
		s = strings.TrimSpace(s)
		if d, err := time.ParseDuration(s); err == nil {
			return d, nil
		}
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return 0, errNoDuration
		}
		return seconds(f)
	}
	switch n := reflect.ValueOf(v); {
	case n.CanInt():
		if n.Int() > math.MaxInt64/int64(time.Second) || n.Int() < math.MinInt64/int64(time.Second) {
			return 0, errNoDuration
		}
		return time.Duration(n.Int()) * time.Second, nil
	case n.CanUint():
		return seconds(float64(n.Uint()))
	case n.CanFloat():
		return seconds(n.Float())
	}
	return 0, errNoDuration
}

func seconds(s float64) (time.Duration, error) {
	nanoseconds := s * float64(time.Second)
	if math.IsNaN(s) || math.Abs(nanoseconds) > math.MaxInt64 {
		return 0, errNoDuration
	}
	return time.Duration(nanoseconds), nil
}
