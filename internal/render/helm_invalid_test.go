package render

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFunctionsOfTimeAndChanceAreNamed(t *testing.T) {
	const format = "web/templates/a.yaml, line 5: it calls a function that is refused: %s gives %s, and a render must be the same each time; give what is needed as a value of the chart"
	for name := range refusedFunctions {
		for place, text := range map[string]string{
			"a template": `{{ ` + name + ` "a" }}`,
			"tpl":        `{{ tpl "{{ ` + name + ` }}" . }}`,
			"include":    `{{ include "x" . }}`,
		} {
			t.Run(name+" in "+place, func(t *testing.T) {
				in := Input{Files: oneTemplate(head + text)}
				in.Files["templates/_x.tpl"] = []byte("\n\n\n\n{{ define \"x\" }}{{ " + name + " 1 2 }}{{ end }}")
				want := fmt.Sprintf(format, name, refusedFunctions[name])
				if place == "include" {
					want = strings.Replace(want, "a.yaml", "_x.tpl", 1)
				}
				_, err := Render(t.Context(), in)
				wantInvalid(t, err, want)
			})
		}
	}
	for text, what := range map[string]string{
		`{{ date "2006" "x" }}`:               "a date of something that is no time gives the time",
		`{{ htmlDate nil }}`:                  "a date of something that is no time gives the time",
		`{{ dateInZone "2006" 0 "Local" }}`:   "a date in another zone than UTC gives what the worker's machine knows of zones",
		`{{ durationRound (toDate "a" "") }}`: "durationRound of a time gives the time",
		`{{ printf "%p" .Values }}`:           "printf with %p gives an address in memory",
	} {
		t.Run(text, func(t *testing.T) {
			_, err := Render(t.Context(), Input{Files: oneTemplate(head + text)})
			wantInvalid(t, err, "web/templates/a.yaml, line 5: it calls a function that is refused: "+what+", and a render must be the same each time; give what is needed as a value of the chart")
		})
	}
}

func TestErrorsOfTemplatesNameThePlaceAndNoValue(t *testing.T) {
	for name, tc := range map[string]struct{ text, message string }{
		"a function that is not there":   {"a: {{ nope }}", `web/templates/a.yaml, line 1: function "nope" not defined`},
		"env":                            {"a: {{ env \"HOME\" }}", `web/templates/a.yaml, line 1: function "env" not defined`},
		"a template that is not there":   {"\n{{ include \"nope\" . }}", `web/templates/a.yaml, line 2: no template "nope"`},
		"a field of nothing":             {"\n\n{{ .Values.a.b.c }}", `web/templates/a.yaml, line 3: nil pointer evaluating interface {}.b`},
		"a field of a secret":            {"{{ .Values.secret.x }}", `web/templates/a.yaml, line 1: can't evaluate field x in type interface {}`},
		"an argument of the wrong type":  {"{{ upper .Values.map }}", `web/templates/a.yaml, line 1: wrong type for value; expected string; got map[string]interface {}`},
		"a range over a secret":          {"{{ range .Values.secret }}{{ end }}", `web/templates/a.yaml, line 1: range can't iterate over`},
		"a template that does not end":   {"{{ if true }}", `web/templates/a.yaml, line 1: unexpected EOF`},
		"fail":                           {"{{ fail \"set  replicas\\nplease\" }}", `web/templates/a.yaml, line 1: the template refuses the values: set replicas please`},
		"fail with a secret":             {"{{ fail (print \"no \" .Values.secret) }}", `web/templates/a.yaml, line 1: the template refuses the values; what it says may hold one of them and is not shown`},
		"fail with an encoded secret":    {"{{ fail (b64enc .Values.secret) }}", `web/templates/a.yaml, line 1: the template refuses the values; what it says may hold one of them and is not shown`},
		"fail with a short secret":       {"{{ fail (print \"pin \" .Values.pin) }}", `web/templates/a.yaml, line 1: the template refuses the values; what it says may hold one of them and is not shown`},
		"required":                       {"{{ required \"host is needed\" .Values.host }}", `web/templates/a.yaml, line 1: the template refuses the values: host is needed`},
		"required within a value":        {"{{ tpl .Values.required . }}", `web/templates/a.yaml, line 1: the template refuses the values: needed`},
		"tpl of a secret":                {"{{ tpl (print \"{{\" .Values.secret) . }}", `web/templates/a.yaml, line 1: it cannot be rendered`},
		"a panic":                        {"{{ div 1 0 }}", `web/templates/a.yaml, line 1: error calling div`},
		"what is no object":              {"- {{ .Values.secret }}", `web/templates/a.yaml, document 1: it is not an object: apiVersion and kind are missing`},
		"what is a text":                 {"{{ .Values.secret }}", `web/templates/a.yaml, document 1: it is not an object: apiVersion and kind are missing`},
		"an object that lost its kind":   {"a: b\n---\nmetadata: {name: x}", `web/templates/a.yaml, document 1: it is not an object: apiVersion and kind are missing`},
		"a key that is set twice":        {head + "1\n  x: 2", `web/templates/a.yaml, document 1: line 6: the key "x" is set twice`},
		"a secret that is no YAML":       {head + "*{{ .Values.secret }}", `web/templates/a.yaml, document 1: it is not valid YAML`},
		"a secret that is a tag":         {head + "!{{ .Values.secret }} a", `web/templates/a.yaml, document 1: line 5: it is not valid YAML`},
		"a number that would be changed": {head + "{{ print .Values.huge }}", `web/templates/a.yaml, document 1: line 5: a number is too large to be kept exactly; quote it if it is a text`},
		"a name that is generated":       {"{apiVersion: v1, kind: Pod, metadata: {generateName: x}}", `web/templates/a.yaml, document 1: Pod: metadata.generateName would make a new object at each apply; set metadata.name instead`},
		"one object twice":               {head + "a\n---\n" + head + "b", `ConfigMap a is defined twice: in web/templates/a.yaml, document 1 and in web/templates/a.yaml, document 2`},
		"a map that holds itself":        {"{{ $d := dict }}{{ $_ := set $d \"a\" (list $d) }}{{ $d }}", `web/templates/a.yaml, line 1: the chart is too much to render: a map would hold itself`},
		"a map merged with itself":       {"{{ $d := dict \"a\" (dict) }}{{ $_ := merge $d.a (dict \"x\" $d) }}{{ $d }}", `web/templates/a.yaml, line 1: the chart is too much to render: a map would hold itself`},
		"tpl without end":                {`{{ tpl .Values.loop . }}`, `web/templates/a.yaml, line 1: the chart is too much to render: its templates call each other without end`},
		"include without end":            {`{{ define "a" }}{{ include "a" . }}{{ end }}{{ include "a" . }}`, `web/templates/a.yaml, line 1: the chart is too much to render: its templates call each other without end`},
		"template without end":           {`{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}`, `web/templates/a.yaml, line 1: the chart is too much to render: its templates call each other without end`},
		"a loop of loops within a value": {`{{ tpl "{{ $l := until 99999 }}{{ range $l }}{{ range $l }}{{ end }}{{ end }}" . }}`, `web/templates/a.yaml, line 1: the chart is too much to render: its loops take too many turns: at most 2000000 turns and calls in all`},
		"a long range":                   {`{{ until 1000000000 }}`, `web/templates/a.yaml, line 1: the chart is too much to render: a range of numbers is too long: at most 100000`},
		"a text that doubles":            {`{{ $s := "xxxxxxxx" }}{{ range until 40 }}{{ $s = print $s $s }}{{ end }}`, `web/templates/a.yaml, line 1: the chart is too much to render: a text that it makes is too large`},
		"a text that is repeated":        {`{{ repeat 2000000000 "xx" }}`, `web/templates/a.yaml, line 1: the chart is too much to render: repeat makes a text that is too large`},
		"an output that is too large":    {`{{ $s := repeat 1000000 "xx" }}{{ range until 50 }}{{ $s }}{{ end }}`, `the chart's templates: the chart is too much to render: its templates write too much`},
		"blocks in blocks":               {strings.Repeat("{{ if true }}", 300) + strings.Repeat("{{ end }}", 300), `the chart's templates: the chart is too much to render: blocks of a template are nested too deeply`},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{Files: oneTemplate(tc.text), Helm: &HelmInput{Values: map[string]any{
				"secret": "S3NT1NEL", "pin": "17", "map": map[string]any{}, "huge": "99999999999999999999", "required": `{{ required "needed" nil }}`, "loop": "{{ tpl .Values.loop . }}",
			}}}
			_, err := Render(t.Context(), in)
			wantInvalid(t, err, tc.message)
		})
	}
}

func TestATestMayHaveARandomNameAndNothingElseMay(t *testing.T) {
	pod := func(hook string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata:\n  name: t-{{ randAlphaNum 5 | lower }}\n  annotations: {helm.sh/hook: " + hook + "}\n"
	}
	out, err := Render(t.Context(), Input{Files: oneTemplate(pod("test-success"))})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"web/templates/a.yaml, document 1: test Pod t-random"}, out.Skipped); diff != "" || len(out.Objects) != 0 {
		t.Errorf("%d objects, skipped:\n%s", len(out.Objects), diff)
	}
	const message = "web/templates/a.yaml, line 4: it calls a function that is refused: randAlphaNum gives something random, and a render must be the same each time; give what is needed as a value of the chart"
	for _, text := range []string{pod("pre-install"), pod("test") + "---\n" + head + "a"} {
		_, err := Render(t.Context(), Input{Files: oneTemplate(text)})
		wantInvalid(t, err, message)
	}
}

func TestValuesAreValidatedAndNothingIsFetched(t *testing.T) {
	for name, tc := range map[string]struct{ schema, message string }{
		"a value of the wrong type":  {`{"properties": {"a": {"type": "integer"}}}`, "chart web: the values do not fit values.schema.json: values.a is of the type string, and must be integer"},
		"a value that is not listed": {`{"properties": {"a": {"enum": ["x"]}}}`, "chart web: the values do not fit values.schema.json: values.a does not fit the schema's enum"},
		"a value that lacks":         {`{"required": ["b"]}`, "chart web: the values do not fit values.schema.json: values lacks b"},
		"a value too many":           {`{"additionalProperties": false}`, "chart web: the values do not fit values.schema.json: values must not have a"},
		"http":                       {`{"$ref": "http://127.0.0.1:1/x"}`, `chart web: values.schema.json refers to "http://127.0.0.1:1/x", and nothing is fetched at a render; copy what it refers to into the schema`},
		"https":                      {`{"properties": {"z": {"$ref": "https://127.0.0.1:1/x"}}}`, `chart web: values.schema.json refers to "https://127.0.0.1:1/x", and nothing is fetched at a render; copy what it refers to into the schema`},
		"a file":                     {`{"$ref": "file:///etc/passwd"}`, `chart web: values.schema.json refers to "etc/passwd", and nothing is fetched at a render; copy what it refers to into the schema`},
		"a file beside it":           {`{"$ref": "other.json"}`, `chart web: values.schema.json refers to "other.json", and nothing is fetched at a render; copy what it refers to into the schema`},
		"a language of its own":      {`{"$schema": "https://127.0.0.1:1/schema"}`, `chart web: values.schema.json refers to "https://127.0.0.1:1/schema", and nothing is fetched at a render; copy what it refers to into the schema`},
		"no JSON":                    {`{`, "chart web: values.schema.json is not valid JSON"},
		"no schema":                  {`{"type": 1}`, "chart web: values.schema.json is not a valid schema"},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{Files: aChart(map[string]string{"values.schema.json": tc.schema}), Helm: &HelmInput{Values: map[string]any{"a": "S3NT1NEL"}}}
			_, err := Render(t.Context(), in)
			wantInvalid(t, err, tc.message)
		})
	}
}

func TestLayersOfValuesAreMergedStrictly(t *testing.T) {
	merged, err := MergeValues([]ValuesLayer{
		{Name: "one", Content: []byte("a: {b: 1, c: [1]}\nd: x\n---\nd: 9007199254740993\n")},
		{Name: "two", Content: []byte(`{"a": {"c": [2], "e": null}}`)},
		{Name: "three"},
	})
	if err != nil || fmt.Sprint(merged) != "map[a:map[b:1 c:[2] e:<nil>] d:9007199254740993]" {
		t.Errorf("%v, %v", merged, err)
	}
	if _, ok := merged["d"].(int64); !ok {
		t.Errorf("d is %T", merged["d"])
	}
	for name, tc := range map[string]struct {
		layer   ValuesLayer
		message string
	}{
		"a twin key":             {ValuesLayer{Name: "ConfigMap v, key a", Content: []byte("a: 1\na: S3NT1NEL")}, `values of ConfigMap v, key a: line 2: the key "a" is set twice`},
		"a twin key of a Secret": {ValuesLayer{Name: "Secret v, key a", Content: []byte("S3NT1NEL: 1\nS3NT1NEL: 2"), Secret: true}, `values of Secret v, key a: line 2: it is not valid: see what a strict YAML parser says of it`},
		"a list":                 {ValuesLayer{Name: "spec.render.helm.values", Content: []byte("[1]")}, `values of spec.render.helm.values: the values are not a map`},
		"a number":               {ValuesLayer{Name: "x", Content: []byte("a: 99999999999999999999")}, `values of x: line 1: a number is too large to be kept exactly; quote it if it is a text`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := MergeValues([]ValuesLayer{tc.layer})
			wantInvalid(t, err, tc.message)
		})
	}
}

func FuzzChart(f *testing.F) {
	f.Add([]byte("apiVersion: v2\nname: a\nversion: 1.0.0\n"), []byte("a: {b: 1}"), []byte(head+"{{ .Values.a.b }}"), []byte("a: {c: \"{{ tpl .Values.a.c . }}\"}"))
	f.Add([]byte("apiVersion: v1\nname: a\nversion: 1.0.0\n"), []byte("l: [1, 2]"), []byte("{{ range .Values.l }}{{ tpl (toYaml .) $ }}{{ end }}"), []byte("{}"))
	f.Add([]byte("apiVersion: v2\nname: a\nversion: 1.0.0\n"), []byte(""), []byte("{{ define \"x\" }}{{ template \"x\" }}{{ end }}{{ $d := dict }}{{ $_ := set $d \"a\" $d }}{{ include \"x\" $d }}"), []byte(""))
	f.Fuzz(func(t *testing.T, chartYAML, defaults, template, given []byte) {
		values, err := MergeValues([]ValuesLayer{{Name: "given", Content: given}})
		if err != nil {
			return
		}
		in := Input{Files: map[string][]byte{"Chart.yaml": chartYAML, "values.yaml": defaults, "templates/a.yaml": template}, Helm: &HelmInput{Values: values, IncludeCRDs: true}}
		first, err := Render(t.Context(), in)
		second, again := Render(t.Context(), in)
		if fmt.Sprint(err) != fmt.Sprint(again) || err == nil && first.Digest != second.Digest {
			t.Errorf("two renders differ: %v, %v", err, again)
		}
	})
}
