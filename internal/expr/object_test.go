package expr

import (
	"errors"
	"strings"
	"testing"

	"kumodo.io/convoy/internal/failure"
)

func TestExpressionsOverAnObject(t *testing.T) {
	object := map[string]any{"status": map[string]any{
		"phase": "Running", "ready": true, "conditions": []any{map[string]any{"type": "Ready", "status": "True"}},
	}}
	for text, want := range map[string]bool{
		"object.status.phase == 'Running'":                                                true,
		"object.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')":     true,
		"object.status.ready == true":                                                     true,
		"has(object.status.failed)":                                                       false,
		"object.?status.failed.orValue('') != ''":                                         false,
		"object.status.conditions.filter(c, c.type == 'Synced').all(c, c.status == 'No')": true,
	} {
		e, err := ObjectCondition("healthChecks[0].current", text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := new(Session).Holds(t.Context(), e, object); err != nil || got != want {
			t.Errorf("%s is %t, %v", text, got, err)
		}
	}
	e, err := ObjectText("healthChecks[0].message", "'it is ' + object.status.phase")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := new(Session).Text(t.Context(), e, object); got != "it is Running" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestExpressionsOverAnObjectThatAreNotValidSaySo(t *testing.T) {
	for text, want := range map[string]string{
		"cluster.name == 'x'":  "x: the expression is not valid: line 1, column 1: undeclared reference to 'cluster' (in container '')",
		"object.status":        "x: the expression is not valid: wrong type of result: true or false is needed, and this gives dyn",
		"object.status.phase ": "x: the expression is not valid: wrong type of result: true or false is needed, and this gives dyn",
	} {
		_, err := ObjectCondition("x", text)
		wantFailure(t, err, want)
		if f, _ := failure.As(err); !errors.Is(err, ErrExpression) || !f.Terminal {
			t.Errorf("%s: %v", text, err)
		}
	}
	_, err := ObjectText("x", "1 + 1")
	wantFailure(t, err, "x: the expression is not valid: wrong type of result: a text is needed, and this gives int")
}

func TestEvaluationsThatFailShowNothingOfTheObject(t *testing.T) {
	const secret = "S3CR3T"
	long := make([]any, 2000)
	for i := range long {
		long[i] = secret
	}
	object := map[string]any{"status": map[string]any{"text": secret, "long": long}}
	for text, want := range map[string]string{
		"object.status.phase == 'x'":                                   `x: the key "phase" does not exist; ask for it with 'key' in map, or take map[?'key'].orValue('')`,
		"int(object.status.text) > 1":                                  "x: it cannot be evaluated with these values",
		"object.status[object.status.text] == 1":                       "x: a key does not exist; ask for it with 'key' in map, or take map[?'key'].orValue('')",
		"object.status.long.all(a, object.status.long.all(b, a == b))": "x: the expression costs too much",
		"object.status.text.ready == true":                             `x: the key "ready" does not exist; ask for it with 'key' in map, or take map[?'key'].orValue('')`,
	} {
		e, err := ObjectCondition("x", text)
		if err != nil {
			t.Fatal(err)
		}
		_, err = new(Session).Holds(t.Context(), e, object)
		if err == nil || err.Error() != want || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	e, err := ObjectText("x", "object.status.long")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := new(Session).Text(t.Context(), e, object); err == nil || err.Error() != "x: it gives no text" {
		t.Error(err)
	}
}
