package observe

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// longestValue bounds what is shown of the key of a list item, in bytes; longestKey of the name of a field. The names of
// labels and of files have room in it.
const (
	longestValue = 63
	longestKey   = 253 + 1 + 63
)

// render is the place where the walk is, to read.
func (w *walker) render() string {
	var b strings.Builder
	for i, pe := range w.path {
		// Below the keys of a Secret's data there is nothing, unless it was applied in a wrong shape.
		if w.secret && i >= 2 && w.isData() {
			break
		}
		switch {
		case pe.FieldName != nil:
			writeField(&b, *pe.FieldName)
		case pe.Key != nil:
			w.writeKey(&b, *pe.Key)
		case pe.Value != nil:
			b.WriteString("[" + w.shown(*pe.Value) + "]")
		case pe.Index != nil:
			fmt.Fprintf(&b, "[%d]", *pe.Index)
		}
	}
	return b.String()
}

func (w *walker) isData() bool {
	return w.path[0].FieldName == nil || *w.path[0].FieldName != "metadata"
}

// writeField writes the name of a field. A label, an annotation or a file has dots and slashes in its name.
func writeField(b *strings.Builder, name string) {
	quoted := name == "" || strings.ContainsAny(name, "./[]= ")
	name = printable(name, longestKey)
	if quoted {
		b.WriteString("[" + name + "]")
		return
	}
	if b.Len() > 0 {
		b.WriteByte('.')
	}
	b.WriteString(name)
}

func (w *walker) writeKey(b *strings.Builder, key value.FieldList) {
	b.WriteByte('[')
	for i, f := range key {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(printable(f.Name, longestKey) + "=" + w.shown(f.Value))
	}
	b.WriteByte(']')
}

// shown is a value in a path. Of a Secret none is, and of a map or a list neither.
func (w *walker) shown(v value.Value) string {
	switch {
	case w.secret:
		return ""
	case v.IsString():
		return printable(v.AsString(), longestValue)
	case v.IsBool() || v.IsInt() || v.IsFloat():
		return value.ToString(v)
	}
	return ""
}

// printable is text on one line, cut.
func printable(text string, longest int) string {
	if len(text) > longest {
		end := longest - len("...")
		for end > 0 && !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end] + "..."
	}
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
}
