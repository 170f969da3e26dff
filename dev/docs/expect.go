package docs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// What differs each time, as it is shown and as it may be. The order matters: longer forms first.
var volatile = []struct{ shown, real string }{
	{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`, `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`},
	{`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`, `[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`},
	{`(?:sha256|sha1):[0-9a-f]{6,}…?`, `(sha256|sha1):[0-9a-f]+…?`},
	{`\b[0-9a-f]{40}\b`, `[0-9a-f]{40}`},
	{`\b\d+@[\w-]+@`, `\d+@[\w.-]+@`},
	{`\bv\d+\.\d+\.\d+`, `v\d+\.\d+\.\d+`},
	{`\b(?:\d+(?:ms|s|m|h|d))+`, `(\d+(ms|s|m|h|d))+`},
	{`…`, `.*`},
}

var anyVolatile = func() *regexp.Regexp {
	var all []string
	for _, v := range volatile {
		all = append(all, v.shown)
	}
	return regexp.MustCompile(strings.Join(all, "|"))
}()

// pattern matches the lines that are the same as a shown one, but for what differs each time and for the width of columns.
func pattern(shown string) *regexp.Regexp {
	var words []string
	for word := range strings.FieldsSeq(shown) {
		var b strings.Builder
		rest := 0
		for _, at := range anyVolatile.FindAllStringIndex(word, -1) {
			b.WriteString(regexp.QuoteMeta(word[rest:at[0]]) + likes(word[at[0]:at[1]]))
			rest = at[1]
		}
		b.WriteString(regexp.QuoteMeta(word[rest:]))
		words = append(words, b.String())
	}
	return regexp.MustCompile(`^\s*` + strings.Join(words, `\s+`) + `\s*$`)
}

// likes is what may stand in the place of something that differs each time.
func likes(shown string) string {
	for _, v := range volatile {
		if regexp.MustCompile(`^(?:` + v.shown + `)$`).MatchString(shown) {
			return v.real
		}
	}
	return regexp.QuoteMeta(shown)
}

// silent reports whether a page shows nothing of what a command prints.
func silent(shown []string) bool {
	return !slices.ContainsFunc(shown, func(line string) bool { return strings.TrimSpace(strings.Trim(line, "… ")) != "" })
}

// shows says whether the output has all lines that a page shows, in their order. Others may stand between them.
func shows(output string, shown []string) error {
	lines := strings.Split(output, "\n")
	for _, want := range shown {
		if strings.TrimSpace(want) == "" || strings.TrimSpace(want) == "…" {
			continue
		}
		like, found := pattern(want), false
		for len(lines) > 0 && !found {
			found = like.MatchString(lines[0])
			lines = lines[1:]
		}
		if !found {
			return fmt.Errorf("the page shows %q, which is not in the output, or not in this place", want)
		}
	}
	return nil
}
