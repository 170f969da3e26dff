// Package failure gives errors their class: a reason code, and whether waiting may heal them. It never
// retries, logs or knows who does; domain packages create failures, and only activities translate them for
// Temporal.
package failure

import (
	"errors"
	"fmt"
	"time"
)

// Error is an error with a reason code of api/v1alpha1 and a class.
//
// Message is what may be shown to anyone: it is built from names and classes, is stable from one attempt to the next
// (no time, address, port or request ID), and never holds a secret, a manifest or text of the far side
// that was not cut and scrubbed. Cause is for the log of a developer's debugger only: it is not shown.
type Error struct {
	Reason   string
	Message  string
	Terminal bool
	// RetryAfter is what the far side asked for, 0 when it did not.
	RetryAfter time.Duration
	Cause      error
}

func (e *Error) Error() string { return e.Message }

// Unwrap gives the cause, for errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Cause }

// Transient is a failure that waiting may heal.
func Transient(reason string, cause error, format string, args ...any) *Error {
	return &Error{Reason: reason, Message: fmt.Sprintf(format, args...), Cause: cause}
}

// Terminal is a failure that only a change by somebody heals.
func Terminal(reason string, cause error, format string, args ...any) *Error {
	return &Error{Reason: reason, Message: fmt.Sprintf(format, args...), Terminal: true, Cause: cause}
}

// As finds the failure in an error.
func As(err error) (*Error, bool) {
	var f *Error
	ok := errors.As(err, &f)
	return f, ok
}
