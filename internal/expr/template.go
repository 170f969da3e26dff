package expr

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"text/template"
	"time"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/failure"
)

// The bounds of one template. The time bound only ever cuts off what the others let through.
const (
	maxText   = 1 << 20 // bytes of the template, of its output, and of every value that a function returns
	maxSteps  = 100_000 // function calls and turns of range
	maxTime   = 2 * time.Second
	maxDetail = 200 // bytes of a parser's message that are shown
)

var (
	errTooBig  = errors.New("it produces more than 1 MiB of text")
	errTooLong = errors.New("it takes too many steps")
)

// keyError says that a map has no such key.
type keyError struct{ key string }

func (e keyError) Error() string { return fmt.Sprintf("the key %q does not exist", e.key) }

// Template executes text, a Go template, over values and returns what it produces, at most 1 MiB. name says
// which template it is and begins the message of an error.
//
// Beside Go's operators (and, or, not, eq, ne, lt, le, gt, ge, len, slice) there are
//
//	index MAP KEY…        the value of a key that is no Go identifier; a missing key is an error
//	get MAP KEY           the same, but the empty text for a missing key
//	hasKey MAP KEY        whether the key exists
//	default TEXT VALUE    VALUE, or TEXT when VALUE is empty
//	quote, lower, upper, trim TEXT
//	replace OLD NEW TEXT
//	toJson VALUE
//	printf FORMAT VALUE…
//
// A missing key is an error. Errors are terminal failures with reason RenderFailed. They name the template, the
// line and the missing key, and never hold a value.
func Template(name, text string, values map[string]any) (string, error) {
	if len(text) > maxText {
		return "", fail(name, 0, "it is longer than 1 MiB", nil)
	}
	r := &run{deadline: time.Now().Add(maxTime)}
	t, err := template.New("t").Option("missingkey=error").Funcs(r.functions()).Parse(text)
	if err != nil {
		line, detail := explain(err, text)
		return "", fail(name, line, detail, err)
	}
	if err := guard(t, r.functions()); err != nil {
		return "", fail(name, 0, err.Error(), err)
	}
	out := &limitedBuffer{}
	if err := t.Execute(out, values); err != nil {
		line, detail := explain(err, text)
		return "", fail(name, line, detail, err)
	}
	return out.String(), nil
}

func fail(name string, line int, detail string, cause error) error {
	if line > 0 {
		return failure.Terminal(v1alpha1.ReasonRenderFailed, cause, "%s: template line %d: %s", name, line, detail)
	}
	return failure.Terminal(v1alpha1.ReasonRenderFailed, cause, "%s: template: %s", name, detail)
}

var (
	// position is how text/template begins its messages.
	position  = regexp.MustCompile(`^template: t:(\d+)(?::\d+)?: `)
	executing = regexp.MustCompile(`(?s)^executing "t" at <(.*?)>: (.*)$`)
	noEntry   = regexp.MustCompile(`map has no entry for key ("(?:[^"\\]|\\.)*")`)
)

// explain turns an error of text/template into a line and a message without values. A parser's message only
// quotes the template itself; a message of the execution may quote values, so only known ones are shown.
func explain(err error, source string) (line int, detail string) {
	text := err.Error()
	if m := position.FindStringSubmatch(text); m != nil {
		_, _ = fmt.Sscanf(m[1], "%d", &line)
		text = text[len(m[0]):]
	}
	at := ""
	if m := executing.FindStringSubmatch(text); m != nil {
		at, text = m[1], m[2]
	} else if _, running := errors.AsType[template.ExecError](err); !running {
		if errors.Is(err, errTooBig) {
			return line, errTooBig.Error()
		}
		return line, cut(text)
	}
	var missing keyError
	switch {
	case errors.As(err, &missing) && !strings.Contains(source, missing.key): // the key was a value itself
		return line, fmt.Sprintf("a key does not exist in %s", cut(at))
	case errors.As(err, &missing):
		return line, fmt.Sprintf("%s in %s", missing, cut(at))
	case noEntry.MatchString(text):
		return line, fmt.Sprintf("the key %s does not exist in %s", noEntry.FindStringSubmatch(text)[1], cut(at))
	case errors.Is(err, errTooLong), errors.Is(err, errTooBig):
		return line, errors.Unwrap(errors.Unwrap(err)).Error()
	}
	return line, fmt.Sprintf("%s cannot be evaluated: wrong kind of value", cut(at))
}

func cut(s string) string {
	if len(s) > maxDetail {
		return s[:maxDetail] + "…"
	}
	return s
}

// limitedBuffer refuses to hold more than maxText.
type limitedBuffer struct{ bytes.Buffer }

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxText {
		return 0, errTooBig
	}
	return b.Buffer.Write(p)
}
