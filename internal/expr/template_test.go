package expr

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/failure"
)

var values = map[string]any{
	"cluster": map[string]any{"name": "eu-1", "region": "eu-west-1", "topology.kubernetes.io/zone": "a", "empty": ""},
	"release": map[string]any{"name": "shop", "labels": map[string]any{"in": "x", "tier": "gold"}},
}

func TestTemplateProducesText(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"a value by its path":                {"{{ .cluster.region }}", "eu-west-1"},
		"a key that is no identifier":        {`{{ index .cluster "topology.kubernetes.io/zone" }}`, "a"},
		"a key that is a keyword elsewhere":  {`{{ .release.labels.in }}`, "x"},
		"a nested key by index":              {`{{ index . "release" "labels" "tier" }}`, "gold"},
		"hasKey of a key that exists":        {`{{ if hasKey .cluster "region" }}y{{ end }}`, "y"},
		"hasKey of a key that does not":      {`{{ if hasKey .cluster "nope" }}y{{ else }}n{{ end }}`, "n"},
		"a default for a missing key":        {`{{ get .cluster "nope" | default "d" }}`, "d"},
		"a default that is not needed":       {`{{ get .cluster "region" | default "d" }}`, "eu-west-1"},
		"a default for an empty value":       {`{{ .cluster.empty | default "d" }}`, "d"},
		"quoting":                            {`{{ quote "a\"b: c" }}`, `"a\"b: c"`},
		"case, trim and replace":             {`{{ " Ab-C " | trim | lower | replace "-" "_" | upper }}`, "AB_C"},
		"JSON with sorted keys":              {`{{ toJson .release.labels }}`, `{"in":"x","tier":"gold"}`},
		"printf":                             {`{{ printf "%s-%05d" .cluster.name 7 }}`, "eu-1-00007"},
		"range over a map in order of keys":  {`{{ range $k, $v := .release.labels }}{{ $k }}={{ $v }};{{ end }}`, "in=x;tier=gold;"},
		"range with break, continue, else":   {`{{ range 5 }}{{ if eq . 1 }}{{ continue }}{{ end }}{{ if eq . 3 }}{{ break }}{{ end }}{{ . }}{{ else }}none{{ end }}`, "02"},
		"with and comparison and len":        {`{{ with .cluster }}{{ if and (eq .name "eu-1") (gt (len .) 2) }}ok{{ end }}{{ end }}`, "ok"},
		"no action at all":                   {"a: b\n", "a: b\n"},
		"nothing":                            {"", ""},
		"a comment only":                     {"{{/* nothing */}}", ""},
		"a value that looks like a template": {`{{ "{{ .x }}" }}`, "{{ .x }}"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Template("mutation m", tc.text, values)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTemplateErrorsNameTemplateLineAndKey(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"a missing key":                 {"a: b\nc: {{ .cluster.zone }}", `mutation m: template line 2: the key "zone" does not exist in .cluster.zone`},
		"a missing key by index":        {`{{ index .cluster "a/b" }}`, `mutation m: template line 1: the key "a/b" does not exist in index .cluster "a/b"`},
		"a missing first key":           {"{{ .Values.x }}", `mutation m: template line 1: the key "Values" does not exist in .Values.x`},
		"a key of a text":               {"{{ .cluster.region.x }}", `mutation m: template line 1: .cluster.region.x cannot be evaluated: wrong kind of value`},
		"a broken template":             {"\n{{ if }}", `mutation m: template line 2: missing value for if`},
		"an unknown function":           {`{{ env "HOME" }}`, `mutation m: template line 1: function "env" not defined`},
		"no time":                       {`{{ now }}`, `mutation m: template line 1: function "now" not defined`},
		"no call":                       {`{{ call .cluster }}`, `mutation m: template: the function call is not available`},
		"no print, also in parentheses": {`{{ if (print "x") }}{{ end }}`, `mutation m: template: the function print is not available`},
		"no templates of its own":       {`{{ define "x" }}{{ template "x" }}{{ end }}`, `mutation m: template: define, block and template are not available`},
		"no unknown template":           {`{{ template "x" }}`, `mutation m: template: define, block and template are not available`},
		"too much output":               {`{{ range 200000 }}aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa{{ end }}`, `mutation m: template: it produces more than 1 MiB of text`},
		"doubling":                      {`{{ $x := "xxxxxxxxxxxxxxxx" }}` + strings.Repeat(`{{ $x = printf "%s%s" $x $x }}`, 40), `mutation m: template line 1: it produces more than 1 MiB of text`},
		"padding":                       {`{{ printf "%99999999d" 1 }}`, `mutation m: template line 1: it produces more than 1 MiB of text`},
		"a range without end":           {`{{ range 1000000000 }}{{ range 1000000000 }}{{ end }}{{ end }}`, `mutation m: template line 1: it takes too many steps`},
		"a text that is too long":       {strings.Repeat("a", maxText+1), `mutation m: template: it is longer than 1 MiB`},
	} {
		t.Run(name, func(t *testing.T) {
			started := time.Now()
			_, err := Template("mutation m", tc.text, values)
			f, ok := failure.As(err)
			if !ok {
				t.Fatalf("error %v is no failure", err)
			}
			if !f.Terminal || f.Reason != v1alpha1.ReasonRenderFailed {
				t.Errorf("terminal %v, reason %s", f.Terminal, f.Reason)
			}
			if diff := cmp.Diff(tc.want, f.Message); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
			if took := time.Since(started); took > 4*maxTime {
				t.Errorf("took %s", took)
			}
		})
	}
}

func TestTemplateErrorsNeverHoldAValue(t *testing.T) {
	secret := map[string]any{"a": "S3NT1NEL", "m": map[string]any{"S3NT1NEL": "S3NT1NEL"}}
	for _, text := range []string{
		`{{ .a.b }}`, `{{ index .a "b" }}`, `{{ lower .m }}`, `{{ slice .a 100 }}`, `{{ eq .a 1 }}`, `{{ lt .a 1 }}`,
		`{{ replace .a }}`, `{{ range .a }}{{ .x }}{{ end }}`, `{{ printf .a .a | index .m }}`, `{{ len 3 }}`, `{{ index .m .a "x" }}`,
	} {
		if _, err := Template("t", text, secret); err != nil && strings.Contains(err.Error(), "S3NT1NEL") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{
		"{{ .cluster.region }}", `{{ range $k, $v := .cluster }}{{ $k | quote }}{{ end }}`, `{{ printf "%[1]*d" 9 9 }}`,
		`{{ range 99999 }}{{ break }}{{ end }}`, "{{ if", `{{ with $x := .release }}{{ $x.name }}{{ end }}`, `{{ slice "abc" 1 2 }}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		out, err := Template("fuzz", text, values)
		if len(out) > maxText {
			t.Errorf("%d bytes of output", len(out))
		}
		again, errAgain := Template("fuzz", text, values)
		if err == nil && errAgain == nil && out != again {
			t.Errorf("two results of one template: %q and %q", out, again)
		}
	})
}
