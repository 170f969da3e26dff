package apply

import (
	"encoding/base64"
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func secretOf(field string, value any) []*unstructured.Unstructured {
	o := object("v1", "Secret", "ns", "s")
	o.Object[field] = map[string]any{"key": value}
	return []*unstructured.Unstructured{o}
}

func TestEverySpellingOfASecretValueIsTakenOut(t *testing.T) {
	value := "pa\"ss\nw0rd-line"
	encoded := base64.StdEncoding.EncodeToString([]byte(value))
	tests := map[string]struct {
		objects []*unstructured.Unstructured
		message string
	}{
		"plain":                   {secretOf("stringData", value), "got " + value},
		"encoded by the server":   {secretOf("stringData", value), "got " + encoded},
		"decoded by the server":   {secretOf("data", encoded), "got " + value},
		"as it was written":       {secretOf("data", encoded), "got " + encoded},
		"quoted":                  {secretOf("stringData", value), `got "pa\"ss\nw0rd-line"`},
		"one of its lines":        {secretOf("data", encoded), "got w0rd-line"},
		"a number":                {secretOf("stringData", int64(8675309)), "got 8675309"},
		"with a line break after": {secretOf("data", base64.StdEncoding.EncodeToString([]byte("hunter22\n"))), "got hunter22"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := (&scrubber{objects: tc.objects}).line(tc.message)
			for _, leak := range []string{"w0rd", encoded, "8675309", "hunter22"} {
				if strings.Contains(got, leak) {
					t.Errorf("%q holds %q", got, leak)
				}
			}
			if !strings.HasPrefix(got, "got ") {
				t.Errorf("%q has lost what was no secret", got)
			}
		})
	}
}

func TestShortValuesAndOtherKindsDoNotBlankOutMessages(t *testing.T) {
	objects := append(secretOf("stringData", "yes"), object("v1", "ConfigMap", "ns", "c"))
	objects[1].Object["data"] = map[string]any{"key": "visible"}
	if got := (&scrubber{objects: objects}).line("yes, visible"); got != "yes, visible" {
		t.Errorf("got %q", got)
	}
}

func FuzzAMessageIsOneShortLineWithoutTheSecret(f *testing.F) {
	f.Add("S3NT1NEL", "it holds S3NT1NEL\n\tand more")
	f.Add("äöüß", strings.Repeat("äöüß ", 200))
	f.Add("****", "*****")
	const scrubbed = "***..."
	f.Fuzz(func(t *testing.T, secret, message string) {
		got := (&scrubber{objects: secretOf("stringData", secret)}).line(message + secret)
		if len(got) > longestShown || strings.ContainsAny(got, "\n\r\t") || !utf8.ValidString(got) {
			t.Errorf("%q", got)
		}
		if len(secret) >= shortestSecret && !strings.Contains(scrubbed, secret) && !strings.Contains(message, "*") &&
			!strings.Contains(secret, "*") && strings.Contains(got, secret) {
			t.Errorf("%q holds %q", got, secret)
		}
	})
}
