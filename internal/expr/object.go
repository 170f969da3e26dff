package expr

import (
	"context"
	"errors"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
)

// objectCost is what one evaluation over an object may cost: a look through a list of a thousand takes a third of it. An object is looked at
// whenever it changes, so this is less than a render may spend.
const objectCost = 20_000

// OfObject is an expression over object, and nothing else, that is compiled once and evaluated with many objects. It is safe for
// concurrent use.
type OfObject struct {
	subject, text string
	program       cel.Program
}

// ObjectCondition compiles an expression that gives true or false. Errors are those of Session, with ErrExpression in them.
func ObjectCondition(subject, text string) (*OfObject, error) {
	return ofObject(forObject, subject, text)
}

// ObjectText compiles an expression that gives a text.
func ObjectText(subject, text string) (*OfObject, error) { return ofObject(forText, subject, text) }

func ofObject(purpose use, subject, text string) (*OfObject, error) {
	program, err := programs.get(programKey{purpose, text})
	if err != nil {
		return nil, celFailed(subject, compileDetail(err), errors.Join(ErrExpression, err))
	}
	return &OfObject{subject, text, program}, nil
}

// Holds reports whether a condition is true of an object, which it does not change.
func (s *Session) Holds(ctx context.Context, e *OfObject, object map[string]any) (bool, error) {
	out, err := s.run(ctx, e.program, e.subject, e.text, map[string]any{"object": object})
	return err == nil && out == types.True, err
}

// Text gives the text that an expression makes of an object.
func (s *Session) Text(ctx context.Context, e *OfObject, object map[string]any) (string, error) {
	out, err := s.run(ctx, e.program, e.subject, e.text, map[string]any{"object": object})
	if err != nil {
		return "", err
	}
	text, ok := out.(types.String)
	if !ok {
		return "", celFailed(e.subject, "it gives no text", nil)
	}
	return string(text), nil
}
