package expr

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/google/cel-go/common"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/failure"
)

func celFailed(subject, detail string, cause error) error {
	return failure.Terminal(v1alpha1.ReasonRenderFailed, cause, "%s: %s", subject, detail)
}

// issuesError are what a compiler says of an expression.
type issuesError struct{ issues []*common.Error }

func (e issuesError) Error() string { return fmt.Sprintf("%d errors", len(e.issues)) }

// compileDetail says why an expression does not compile. The compiler has seen nothing but the expression.
func compileDetail(err error) string {
	found, ok := errors.AsType[issuesError](err)
	if !ok || len(found.issues) == 0 {
		return "the expression is not valid: " + cut(err.Error())
	}
	first := found.issues[0]
	text, _, _ := strings.Cut(first.Message, "\n")
	if first.Location.Line() < 1 { // about the whole of it
		return "the expression is not valid: " + cut(text)
	}
	return fmt.Sprintf("the expression is not valid: line %d, column %d: %s", first.Location.Line(), first.Location.Column()+1, cut(text))
}

// noSuchKey is how CEL says that a key is missing; the key may be a value, and hold anything.
var noSuchKey = regexp.MustCompile(`(?s)^no such key: (.*)$`)

// runtimeDetails are what the messages of CEL begin with, and what is said instead: they may hold values.
var runtimeDetails = []struct{ begins, says string }{
	{"no such overload", "a value has the wrong type for what is done with it"},
	{"no such attribute", "a variable is not known"},
	{"no such field", "a field does not exist"},
	{"unsupported key type", "a value has the wrong type for a key"},
	{"index out of bounds", "an index is out of bounds"},
	{"invalid_argument", "an argument is not valid"},
	{"division by zero", "a division by zero"},
	{"modulus by zero", "a division by zero"},
	{"integer overflow", "a number is too large"},
	{"unsigned integer overflow", "a number is too large"},
	{"optional.none() dereference", "an optional value is absent; use orValue"},
	{"actual cost limit exceeded", "the expression costs too much"},
	{"operation cancelled: actual cost limit exceeded", "the expression costs too much"},
	{"operation interrupted", "the expression takes too long"},
}

// runDetail says why an expression has no value.
func runDetail(err error, expression string) string {
	switch {
	case errors.Is(err, errTooLarge):
		return errTooLarge.Error()
	case errors.Is(err, errTooBig):
		return errTooBig.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return "the expression takes too long"
	}
	text := err.Error()
	if m := noSuchKey.FindStringSubmatch(text); m != nil {
		if strings.Contains(expression, m[1]) { // else it was a value itself
			return fmt.Sprintf("the key %q does not exist; ask for it with 'key' in map, or take map[?'key'].orValue('')", cut(m[1]))
		}
		return "a key does not exist; ask for it with 'key' in map, or take map[?'key'].orValue('')"
	}
	for _, known := range runtimeDetails {
		if strings.HasPrefix(text, known.begins) {
			return known.says
		}
	}
	return "it cannot be evaluated with these values"
}
