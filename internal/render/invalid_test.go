package render

import (
	"testing"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/failure"
)

func wantInvalid(t *testing.T, err error, message string) {
	t.Helper()
	f, ok := failure.As(err)
	if !ok {
		t.Fatalf("error %v is no failure", err)
	}
	if f.Message != message || f.Reason != v1alpha1.ReasonRenderFailed || !f.Terminal {
		t.Errorf("failure is\n  %s, terminal %v: %s\nwant\n  %s, terminal true: %s", f.Reason, f.Terminal, f.Message, v1alpha1.ReasonRenderFailed, message)
	}
}
