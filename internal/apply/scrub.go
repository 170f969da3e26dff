package apply

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Bounds of a message of the server: what is read of it, and what is shown.
const (
	longestRead  = 64 << 10
	longestShown = 300
	// shortestSecret: shorter values would blank out half of every message.
	shortestSecret = 4
)

// scrubber takes the values of a render's Secrets out of messages. It collects them at the first message.
type scrubber struct {
	objects []*unstructured.Unstructured
	once    sync.Once
	values  []string
}

// Scrub takes the values of a render's Secrets out of a text, which is about other objects of it, and makes it one line.
func Scrub(objects []*unstructured.Unstructured, text string) string {
	s := &scrubber{objects: objects}
	s.once.Do(s.collect)
	return s.blank(printable(s.blank(text)))
}

// line is a message on one line, without Secret values, cut.
func (s *scrubber) line(text string) string {
	if len(text) > longestRead {
		return "the cluster refused it, with a message that is too long to show"
	}
	s.once.Do(s.collect)
	// Twice: a value may only appear once what cannot be printed is out of its middle.
	return cut(s.blank(printable(s.blank(text))))
}

func (s *scrubber) blank(text string) string {
	for _, value := range s.values {
		text = strings.ReplaceAll(text, value, "***")
	}
	return text
}

// oneLine is a text of the far side that is no message about an object, on one line, cut.
func oneLine(text string) string { return cut(printable(text)) }

// printable makes whitespace single spaces and drops what cannot be printed.
func printable(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return -1
		}
		return r
	}, text)
}

// cut ends a text at a character.
func cut(text string) string {
	if len(text) <= longestShown {
		return text
	}
	const dots = "..."
	end := longestShown - len(dots)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + dots
}

func (s *scrubber) collect() {
	seen := map[string]bool{}
	for _, o := range s.objects {
		gvk := o.GroupVersionKind()
		if gvk.Kind != "Secret" || gvk.Group != "" {
			continue
		}
		for _, field := range []string{"data", "stringData"} {
			values, _ := o.Object[field].(map[string]any)
			for _, v := range values {
				for _, form := range formsOf(fmt.Sprint(v)) {
					seen[form] = true
				}
			}
		}
	}
	for form := range seen {
		s.values = append(s.values, form)
	}
	// The longest first, so that a value that contains another is taken out whole.
	slices.SortFunc(s.values, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
}

// formsOf are the ways in which a message may spell a value: plain, decoded, encoded, quoted, and line by line.
func formsOf(value string) []string {
	plain := []string{value, strings.TrimSpace(value)}
	if decoded, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(value), "")); err == nil && len(decoded) > 0 {
		plain = append(plain, string(decoded), strings.TrimSpace(string(decoded)))
	}
	for _, p := range slices.Clone(plain) {
		for line := range strings.Lines(p) {
			plain = append(plain, strings.TrimSpace(line))
		}
	}
	forms := plain
	for _, p := range plain {
		forms = append(forms, base64.StdEncoding.EncodeToString([]byte(p)), inner(strconv.Quote(p)))
		if b, err := json.Marshal(p); err == nil {
			forms = append(forms, inner(string(b)))
		}
	}
	return slices.DeleteFunc(forms, func(f string) bool { return len(f) < shortestSecret })
}

func inner(quoted string) string { return quoted[1 : len(quoted)-1] }
