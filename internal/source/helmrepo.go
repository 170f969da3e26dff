package source

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"go.yaml.in/yaml/v2"
)

const (
	// maxIndexBytes bounds the index of a chart repository: the largest public ones are a third of that.
	maxIndexBytes = 64 << 20
	// maxIndexFields bounds what an index of that size may hold. Each field takes some 200 bytes of memory while it is read,
	// and need be no longer than two in the index; where Helm writes it, it is nearly twenty.
	maxIndexFields = 2_000_000
	// fewIndexFields are read at once: indexes of more wait for each other.
	fewIndexFields = 50_000
)

var (
	errNoIndex   = errors.New("has no index.yaml")
	errIndex     = errors.New("has an index.yaml that is none")
	errLongIndex = fmt.Errorf("has an index.yaml of more than %d bytes", maxIndexBytes)
	errFullIndex = fmt.Errorf("has an index.yaml of more than %d fields", maxIndexFields)
	errElsewhere = errors.New("leads to another server that asks for credentials, which are sent to the repository alone")
)

// entry is a version of a chart in an index.
type entry struct {
	Version string   `json:"version" yaml:"version"`
	URLs    []string `json:"urls"    yaml:"urls"`
	Digest  string   `json:"digest"  yaml:"digest"`
}

// index reads what the repository has, by chart. All charts of it that are asked for at the same time share one answer:
// the indexes of large repositories take a hundred times the memory of a chart.
func (r *chartRepository) index(ctx context.Context) (map[string][]entry, error) {
	return join(ctx, r.flights, "index "+r.about.cred.key+" "+r.base.String(), func(ctx context.Context) (map[string][]entry, error) {
		text, err := r.get(ctx, r.base.JoinPath("index.yaml"), maxIndexBytes, false)
		switch {
		case isMissing(err):
			return nil, errNoIndex
		case errors.Is(err, errRepositoryTooBig) && r.limits.MaxRepositoryBytes >= maxIndexBytes: // else it is the operator's limit
			return nil, errLongIndex
		case err != nil:
			return nil, err
		case fieldsAtMost(text) <= fewIndexFields:
			return readIndex(text)
		}
		select {
		case r.reading <- struct{}{}:
			defer func() { <-r.reading }()
			return readIndex(text)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
}

// readIndex takes what counts from the text of an index. It is read as JSON when it is that, as Helm does: not all JSON is
// YAML. What is YAML goes into the fields directly, by way of JSON it would take three times the memory.
func readIndex(text []byte) (map[string][]entry, error) {
	if fieldsAtMost(text) > maxIndexFields {
		return nil, errFullIndex
	}
	var index struct {
		Entries map[string][]entry `json:"entries" yaml:"entries"`
	}
	read := yaml.Unmarshal
	if json.Valid(text) {
		read = json.Unmarshal
	}
	if err := read(text, &index); err != nil || index.Entries == nil {
		return nil, errIndex
	}
	return index.Entries, nil
}

// fieldsAtMost is how many keys and elements a text of YAML can have: before each stands one of these. They stand in names
// and dates as well, so that it is an estimate from above.
func fieldsAtMost(text []byte) (n int) {
	for _, before := range []string{":", "-", "?", ",", "[", "{"} {
		n += bytes.Count(text, []byte(before))
	}
	return n
}

// answerOf is the error of an answer that is no content, nil when it is. at is who gave it in the end.
func (r *chartRepository) answerOf(status int, at *url.URL) error {
	denied := status == http.StatusUnauthorized || status == http.StatusForbidden
	switch {
	case status == http.StatusOK:
		return nil
	case denied && !r.isOwn(at):
		return errElsewhere
	}
	return statusError(status)
}

// isOwn reports whether a URL is on the very scheme, host and port of the repository, which a login is for.
func (r *chartRepository) isOwn(at *url.URL) bool {
	return (address{url: at}).origin() == (address{url: r.base}).origin()
}
