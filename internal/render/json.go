package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"kumodo.io/convoy/internal/delivery"
)

// parseJSON reads all documents of a JSON file, as strictly as parseYAML: encoding/json itself takes the last of
// two equal keys, and rounds large numbers.
func parseJSON(data []byte) ([]document, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(data) {
		return nil, parseError{0, "it is not valid UTF-8"}
	}
	r := jsonReader{data: data, dec: json.NewDecoder(bytes.NewReader(data))}
	r.dec.UseNumber()
	var docs []document
	for index := 1; ; index++ {
		v, err := r.value(0)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return nil, r.fail(err)
		}
		docs = append(docs, document{index, v})
	}
}

type jsonReader struct {
	data []byte
	dec  *json.Decoder
}

// token reads the next token within a document, where the file must not end.
func (r *jsonReader) token() (json.Token, error) {
	t, err := r.dec.Token()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return t, err
}

// fail adds the line to an error, and hides the text of encoding/json, which quotes the file.
func (r *jsonReader) fail(err error) error {
	line := 1 + bytes.Count(r.data[:min(int(r.dec.InputOffset()), len(r.data))], []byte("\n"))
	if p, ok := errors.AsType[parseError](err); ok {
		return parseError{line, p.text}
	}
	return parseError{line, "it is not valid JSON"}
}

// value reads one value. It returns io.EOF itself only where a document would begin.
func (r *jsonReader) value(depth int) (any, error) {
	if depth > maxNesting {
		return nil, parseError{0, "it is nested too deeply"}
	}
	next := r.token
	if depth == 0 {
		next = r.dec.Token
	}
	token, err := next()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '{' {
			return r.object(depth)
		}
		return r.list(depth)
	case json.Number:
		return number(t.String())
	}
	return token, nil
}

func (r *jsonReader) object(depth int) (any, error) {
	out := map[string]any{}
	for r.dec.More() {
		token, err := r.token()
		if err != nil {
			return nil, err
		}
		key, ok := token.(string)
		if !ok {
			return nil, parseError{0, "a key is not a text"}
		}
		if _, twice := out[key]; twice {
			return nil, parseError{0, fmt.Sprintf("the key %q is set twice", delivery.Short(key))}
		}
		if out[key], err = r.value(depth + 1); err != nil {
			return nil, err
		}
	}
	_, err := r.token()
	return out, err
}

func (r *jsonReader) list(depth int) (any, error) {
	out := []any{}
	for r.dec.More() {
		v, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	_, err := r.token()
	return out, err
}

// number keeps an integer exactly, or refuses it.
func number(s string) (any, error) {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return i, nil
	}
	if !strings.ContainsAny(s, ".eE") {
		return nil, parseError{0, "a number is too large to be kept exactly; quote it if it is a text"}
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil, parseError{0, "a number cannot be kept as JSON"}
	}
	return unsigned(f), nil
}
