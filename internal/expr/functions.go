package expr

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"text/template"
	"time"
)

// run counts what one execution of a template costs.
type run struct {
	deadline time.Time
	steps    int
}

func (r *run) functions() template.FuncMap {
	return template.FuncMap{
		stepFunc:  func() (string, error) { return "", r.step() },
		"index":   r.index,
		"get":     r.get,
		"hasKey":  r.hasKey,
		"default": r.defaultTo,
		"quote":   r.quote,
		"lower":   func(s string) (string, error) { return r.text(strings.ToLower(s)) },
		"upper":   func(s string) (string, error) { return r.text(strings.ToUpper(s)) },
		"trim":    func(s string) (string, error) { return r.text(strings.TrimSpace(s)) },
		"replace": r.replace,
		"toJson":  r.toJSON,
		"printf":  r.printf,
	}
}

func (r *run) step() error {
	r.steps++
	if r.steps > maxSteps || time.Now().After(r.deadline) {
		return errTooLong
	}
	return nil
}

// text is what every function that returns text ends with: it counts the call and bounds the result, so that
// no chain of calls can grow text without end.
func (r *run) text(s string) (string, error) {
	if err := r.step(); err != nil {
		return "", err
	}
	if len(s) > maxText {
		return "", errTooBig
	}
	return s, nil
}

func (r *run) index(v any, keys ...string) (any, error) {
	if err := r.step(); err != nil {
		return nil, err
	}
	for _, k := range keys {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, errors.New("index of something that is no map")
		}
		if v, ok = m[k]; !ok {
			return nil, keyError{k}
		}
	}
	return v, nil
}

func (r *run) get(m map[string]any, key string) (any, error) {
	if err := r.step(); err != nil {
		return nil, err
	}
	if v, ok := m[key]; ok {
		return v, nil
	}
	return "", nil
}

func (r *run) hasKey(m map[string]any, key string) (bool, error) {
	_, ok := m[key]
	return ok, r.step()
}

func (r *run) defaultTo(fallback, v any) (any, error) {
	if v == nil || v == "" {
		return fallback, r.step()
	}
	return v, r.step()
}

func (r *run) quote(v any) (string, error) { return r.toJSON(fmt.Sprint(v)) }

func (r *run) replace(old, replacement, s string) (string, error) {
	if n := strings.Count(s, old); len(s)+n*(len(replacement)-len(old)) > maxText {
		return "", errTooBig
	}
	return r.text(strings.ReplaceAll(s, old, replacement))
}

func (r *run) toJSON(v any) (string, error) {
	out, err := json.Marshal(v)
	if err != nil {
		return "", errors.New("not a value that JSON can hold")
	}
	return r.text(string(out))
}

// wide matches a width or precision that would let printf pad without bound.
var wide = regexp.MustCompile(`%[^%a-zA-Z]*(\d{4}|\*)`)

func (r *run) printf(format string, args ...any) (string, error) {
	if err := r.step(); err != nil {
		return "", err
	}
	longest := 1000 // what padding can add
	for _, a := range args {
		longest = max(longest, len(fmt.Sprint(a)))
	}
	if wide.MatchString(format) || len(format)+strings.Count(format, "%")*longest > maxText {
		return "", errTooBig
	}
	return r.text(fmt.Sprintf(format, args...))
}
