package render

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// templateSays are messages of text/template that name functions, fields and types. Others quote values, or the text that
// was given to tpl.
var templateSays = []*regexp.Regexp{
	regexp.MustCompile(`function "[A-Za-z0-9_]{1,64}" not defined`),
	regexp.MustCompile(`template "[^"\s]{1,200}" not defined`),
	regexp.MustCompile(`no template "[^"\s]{1,200}"`),
	regexp.MustCompile(`nil pointer evaluating [^"\s]{1,60}( \{\})?\.[A-Za-z0-9_]{1,64}`),
	regexp.MustCompile(`can't evaluate field [A-Za-z0-9_]{1,64} in type [^"\s]{1,60}( \{\})?`),
	regexp.MustCompile(`wrong type for value; expected [a-z0-9\[\]{} .*]{1,60}; got [A-Za-z0-9\[\]{} .*]{1,60}`),
	regexp.MustCompile(`wrong number of args for [A-Za-z0-9_]{1,64}: want [a-z0-9 ]{1,20} got \d+`),
	regexp.MustCompile(`incompatible types for comparison`),
	regexp.MustCompile(`invalid type for comparison`),
	regexp.MustCompile(`range can't iterate over`),
	regexp.MustCompile(`exceeded maximum template depth`),
	regexp.MustCompile(`index of nil pointer|index of untyped nil|error calling index`),
	regexp.MustCompile(`unexpected (EOF|\{\{end\}\}|\{\{else\}\})`),
	regexp.MustCompile(`unclosed (action|comment)|unterminated (quoted string|raw quoted string)`),
	regexp.MustCompile(`error calling [A-Za-z0-9_]{1,64}`),
}

// templatePlace is where text/template says that an error is.
var templatePlace = regexp.MustCompile(`template: (\S+?):(\d+)(?::\d+)?:`)

// explain makes a failure of an error in a template: it names the template and the line, and no value.
func (t *templates) explain(err error, given values) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	where := "the chart's templates"
	for _, m := range templatePlace.FindAllStringSubmatch(err.Error(), -1) {
		if t.files[m[1]] {
			where = fmt.Sprintf("%s, line %s", m[1], m[2])
		}
	}
	if r, ok := errors.AsType[refusal](err); ok {
		return invalid("%s: it calls a function that is refused: %s gives %s, and a render must be the same each time; give what is needed as a value of the chart", where, r.function, r.gives)
	}
	if b, ok := errors.AsType[boundError](err); ok {
		return invalid("%s: the chart is too much to render: %s", where, b)
	}
	if m, ok := errors.AsType[chartMessage](err); ok {
		text := strings.ToValidUTF8(strings.Join(strings.Fields(string(m)), " "), "")
		if given.occurIn(string(m)) || given.occurIn(text) {
			return invalid("%s: the template refuses the values; what it says may hold one of them and is not shown", where)
		}
		return invalid("%s: the template refuses the values: %s", where, cut(text, 500))
	}
	return invalid("%s: %s", where, given.hide(said(err.Error()), "it cannot be rendered"))
}

// said takes what is known to hold no value out of a message.
func said(text string) string {
	for _, says := range templateSays {
		if m := says.FindString(text); m != "" {
			return m
		}
	}
	return "run \"helm template\" to see why; the reason may quote values and is not shown"
}

func cut(s string, limit int) string {
	if len(s) > limit {
		return strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return s
}

// values are the texts of the values that were given to a chart.
type values []string

// valuesIn collects the texts of values, also as base64, which templates write them in.
func valuesIn(v any) values {
	var all values
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, item := range v {
				walk(item)
			}
		case []any:
			for _, item := range v {
				walk(item)
			}
		case nil, bool:
		default:
			all = append(all, textsOf(fmt.Sprint(v))...)
		}
	}
	walk(v)
	return all
}

func textsOf(text string) []string {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil
	}
	texts := []string{text, base64.StdEncoding.EncodeToString([]byte(text))}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); len(line) >= 4 && line != text {
			texts = append(texts, line)
		}
	}
	return append(texts, strings.Join(strings.Fields(text), " "))
}

// occurIn says whether a text holds one of the values; a short one counts as a word only.
func (v values) occurIn(text string) bool {
	for _, value := range v {
		if !strings.Contains(text, value) {
			continue
		}
		if len(value) >= 4 || isWord(text, value) {
			return true
		}
	}
	return false
}

func isWord(text, word string) bool {
	found, _ := regexp.MatchString(`(^|[^A-Za-z0-9])`+regexp.QuoteMeta(word)+`($|[^A-Za-z0-9])`, text)
	return found
}

// hide gives instead for a text that holds one of the values.
func (v values) hide(text, instead string) string {
	if v.occurIn(text) {
		return instead
	}
	return text
}
