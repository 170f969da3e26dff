package render

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"text/template"
	"time"
)

// dateFunctions are those of sprig in UTC, wherever the worker is, and without its habit to take the time of now for
// what is no time.
func dateFunctions() template.FuncMap {
	format := func(layout string, date any) (string, error) {
		t, err := timeOf(date)
		return t.Format(layout), err
	}
	inZone := func(layout string, date any, zone string) (string, error) {
		if zone != "" && zone != "UTC" {
			return "", refusal{"a date in another zone than UTC", "what the worker's machine knows of zones"}
		}
		return format(layout, date)
	}
	parse := func(layout, text string) (time.Time, error) { return time.ParseInLocation(layout, text, time.UTC) }
	return template.FuncMap{
		"date":           format,
		"dateInZone":     inZone,
		"date_in_zone":   inZone,
		"htmlDate":       func(date any) (string, error) { return format(time.DateOnly, date) },
		"htmlDateInZone": func(date any, zone string) (string, error) { return inZone(time.DateOnly, date, zone) },
		"mustToDate":     parse,
		"toDate": func(layout, text string) time.Time {
			t, _ := parse(layout, text) // as sprig: the zero time for what is no date
			return t
		},
		"durationRound": durationRound,
	}
}

func timeOf(date any) (time.Time, error) {
	switch d := date.(type) {
	case time.Time:
		return d.UTC(), nil
	case int64:
		return time.Unix(d, 0).UTC(), nil
	case int:
		return time.Unix(int64(d), 0).UTC(), nil
	case int32:
		return time.Unix(int64(d), 0).UTC(), nil
	case float64: // what numbers of values are
		return time.Unix(int64(d), 0).UTC(), nil
	}
	return time.Time{}, refusal{"a date of something that is no time", givesTime}
}

// durationRound is that of sprig, for what is a duration.
func durationRound(duration any) (string, error) {
	var d time.Duration
	switch v := duration.(type) {
	case string:
		d, _ = time.ParseDuration(v) // as sprig: 0 for what is no duration
	case int64:
		d = time.Duration(v)
	case time.Duration:
		d = v
	case time.Time:
		return "", refusal{"durationRound of a time", givesTime}
	}
	d = d.Abs()
	const day = 24 * time.Hour
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{365 * day, "y"}, {30 * day, "mo"}, {day, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if d > unit.length {
			return fmt.Sprint(int64(d/unit.length)) + unit.name, nil
		}
	}
	return "0s", nil
}

// exactFunctions print integers of values, whatever their verb.
func exactFunctions() template.FuncMap {
	return template.FuncMap{
		"print":   fmt.Sprint,
		"println": fmt.Sprintln,
		"printf": func(format string, args ...any) (string, error) {
			if address.MatchString(format) {
				return "", refusal{"printf with %p", "an address in memory"}
			}
			exact := make([]any, len(args))
			for i, arg := range args {
				exact[i] = arg
				if n, ok := arg.(int64); ok {
					exact[i] = integer(n)
				}
			}
			return fmt.Sprintf(format, exact...), nil
		},
	}
}

var address = regexp.MustCompile(`%[-+# 0-9.*\[\]]*p`)

// integer is an int64 that can also be formatted as a float64, which it is for Helm.
type integer int64

// Format implements fmt.Formatter.
func (n integer) Format(s fmt.State, verb rune) {
	if strings.ContainsRune("eEfFgG", verb) {
		_, _ = fmt.Fprintf(s, fmt.FormatString(s, verb), float64(n))
		return
	}
	_, _ = fmt.Fprintf(s, fmt.FormatString(s, verb), int64(n))
}

// boundedFunctions are those of sprig that make much out of little.
func boundedFunctions(fromSprig template.FuncMap) template.FuncMap {
	untilStep, _ := fromSprig["untilStep"].(func(int, int, int) []int)
	until, _ := fromSprig["until"].(func(int) []int)
	seq, _ := fromSprig["seq"].(func(...int) string)
	tooLong := boundError(fmt.Sprintf("a range of numbers is too long: at most %d", maxItems))
	fits := func(count int) bool { return count <= maxItems && count >= -maxItems }
	return template.FuncMap{
		"until": func(count int) ([]int, error) {
			if !fits(count) {
				return nil, tooLong
			}
			return until(count), nil
		},
		"untilStep": func(start, stop, step int) ([]int, error) {
			if step != 0 && !fits((stop-start)/step) {
				return nil, tooLong
			}
			return untilStep(start, stop, step), nil
		},
		"seq": func(params ...int) (string, error) {
			for _, p := range params {
				if !fits(p) {
					return "", tooLong
				}
			}
			return seq(params...), nil
		},
		"repeat": func(count int, text string) (string, error) {
			if count < 0 || (len(text) > 0 && count > maxText/len(text)) {
				return "", boundError("repeat makes a text that is too large")
			}
			return strings.Repeat(text, count), nil
		},
		"indent": indent,
		"nindent": func(spaces int, text string) (string, error) {
			text, err := indent(spaces, text)
			return "\n" + text, err
		},
	}
}

func indent(spaces int, text string) (string, error) {
	if spaces < 0 || spaces > maxItems/10 || (strings.Count(text, "\n")+1)*spaces > maxText {
		return "", boundError("indent makes a text that is too large")
	}
	pad := strings.Repeat(" ", spaces)
	return pad + strings.ReplaceAll(text, "\n", "\n"+pad), nil
}

// stableFunctions are those of sprig that follow the order of a map, which is another one each time, or that could
// make a map hold itself, which nothing could print.
func stableFunctions(fromSprig template.FuncMap) template.FuncMap {
	has, _ := fromSprig["mustHas"].(func(any, any) (bool, error))
	known := func(needle, haystack any) (bool, error) {
		versions, ok := haystack.(knownVersions)
		if version, isText := needle.(string); ok && isText {
			return versions.Has(version)
		}
		return has(needle, haystack)
	}
	all := template.FuncMap{
		"has":     known,
		"mustHas": known,
		"keys": func(dicts ...map[string]any) []string {
			keys := []string{}
			for _, dict := range dicts {
				keys = append(keys, sortedKeys(dict)...)
			}
			return keys
		},
		"values": func(dict map[string]any) []any {
			values := []any{}
			for _, key := range sortedKeys(dict) {
				values = append(values, dict[key])
			}
			return values
		},
		"set": func(dict map[string]any, key string, value any) (map[string]any, error) {
			if holds(value, dict) {
				return nil, errHoldsItself
			}
			dict[key] = value
			return dict, nil
		},
	}
	for _, name := range []string{"merge", "mustMerge", "mergeOverwrite", "mustMergeOverwrite"} {
		all[name] = acyclic(fromSprig[name])
	}
	return all
}

const errHoldsItself = boundError("a map would hold itself")

// acyclic wraps a function that merges maps into its first one.
func acyclic(f any) func(dst map[string]any, srcs ...map[string]any) (any, error) {
	return func(dst map[string]any, srcs ...map[string]any) (merged any, err error) {
		switch f := f.(type) {
		case func(map[string]any, ...map[string]any) any:
			merged = f(dst, srcs...)
		case func(map[string]any, ...map[string]any) (any, error):
			merged, err = f(dst, srcs...)
		}
		if err == nil && (&mapWalk{path: map[uintptr]bool{}, done: map[uintptr]bool{}}).meets(reflect.ValueOf(dst)) {
			err = errHoldsItself
		}
		return merged, err
	}
}

// holds says whether a value is the map, or has it inside.
func holds(value any, dict map[string]any) bool {
	w := &mapWalk{path: map[uintptr]bool{reflect.ValueOf(dict).Pointer(): true}, done: map[uintptr]bool{}}
	return w.meets(reflect.ValueOf(value))
}

// mapWalk goes through all that a value holds.
type mapWalk struct {
	path map[uintptr]bool // maps that hold where it is
	done map[uintptr]bool
}

// meets says whether a map of the path is met again.
func (w *mapWalk) meets(v reflect.Value) bool {
	for v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Map:
		at := v.Pointer()
		if w.path[at] || w.done[at] {
			return w.path[at]
		}
		w.path[at] = true
		for items := v.MapRange(); items.Next(); {
			if w.meets(items.Value()) {
				return true
			}
		}
		delete(w.path, at)
		w.done[at] = true
	case reflect.Slice, reflect.Array:
		if k := v.Type().Elem().Kind(); k != reflect.Interface && k != reflect.Map && k != reflect.Slice {
			return false
		}
		for i := range v.Len() {
			if w.meets(v.Index(i)) {
				return true
			}
		}
	}
	return false
}
