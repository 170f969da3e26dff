package render

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func FuzzYAML(f *testing.F) {
	for _, seed := range []string{
		"a: b", "a: &x [1, *x]", "- <<: {a: b}\n  a: c\n", "{1: 0x1F, 2: 1e3, ? [a] : b}", "a: |\n  x\n---\nb: >-\n  y\n", "[-0, -0.0, -.0, -1e-999]", "\"\\ud83d\": 2024-01-01",
		"a: !!str 1\nb: yes\nc: 0644\nd: 9223372036854775807\ne: ~", "%YAML 1.1\n---\n", "\ufeffa: 'x'", bomb(),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		docs, err := parseYAML(data)
		if err != nil {
			return
		}
		for _, d := range docs {
			text, err := json.Marshal(d.value)
			if err != nil {
				t.Fatalf("document %d is no JSON: %v", d.index, err)
			}
			// What was read is exactly what JSON says, so nothing changes on the way to the canonical form.
			again, err := parseJSON(text)
			if err != nil || len(again) != 1 {
				t.Fatalf("document %d cannot be read back from %s: %v", d.index, text, err)
			}
			back, err := json.Marshal(again[0].value)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(text, back) {
				t.Errorf("document %d: %s became %s", d.index, text, back)
			}
		}
	})
}

func FuzzJSON(f *testing.F) {
	for _, seed := range []string{`{"a": [1, 2.5, -3e2, true, null, "\u00e9"]} {}`, `{"a":1,"a":2}`, `[[[`, `]`, `{"a" 1}`, "\ufeff1", `1e999`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		docs, err := parseJSON(data)
		if err != nil {
			return
		}
		for _, d := range docs {
			if _, err := json.Marshal(d.value); err != nil {
				t.Errorf("document %d is no JSON: %v", d.index, err)
			}
		}
	})
}

func FuzzPlain(f *testing.F) {
	f.Add([]byte("{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {x: y}}}]}"))
	f.Add([]byte("apiVersion: a/v1\nkind: XList\nitems: [{metadata: {name: b}, status: 1, spec: {metadata: {creationTimestamp: null}}}]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		in := Input{Files: map[string][]byte{"a.yaml": data}, Context: inContext(), Mutations: someMutations[1:2]}
		out, err := Render(t.Context(), in)
		if err != nil {
			return
		}
		decoded, err := Decode(out.Canonical)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(out.Objects, decoded); diff != "" {
			t.Errorf("objects and canonical form differ:\n%s", diff)
		}
		again, err := Render(t.Context(), in)
		if err != nil || again.Digest != out.Digest {
			t.Errorf("a second render differs: %v", err)
		}
	})
}

func FuzzKustomization(f *testing.F) {
	f.Setenv("PATH", "") // whatever gets past the inspection finds no git
	f.Add([]byte("resources: [a.yaml]\npatches: [{path: p.yaml}]\n"), []byte(aConfigMap), []byte(aConfigMap+"data: {x: y}\n"))
	f.Add([]byte("configMapGenerator: [{name: a, files: [a.yaml], literals: [x=y]}]\nnamePrefix: x-\n"), []byte("a"), []byte("b"))
	f.Add([]byte("resources: [a.yaml]\ntransformers: [p.yaml]\n"), []byte(aConfigMap), []byte("apiVersion: builtin\nkind: LabelTransformer\nmetadata: {name: l}\nlabels: {a: b}\n"))
	f.Fuzz(func(t *testing.T, kustomization, a, p []byte) {
		if bytes.Contains(kustomization, []byte("openapi")) {
			return // reading the schema anew each time is too slow to fuzz
		}
		_, _ = Render(t.Context(), Input{Files: map[string][]byte{"kustomization.yaml": kustomization, "a.yaml": a, "p.yaml": p}})
	})
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("{\"format\":\"convoy.kumodo.io/render.v1\",\"targetNamespace\":\"\"}\n{\"kind\":\"X\"}\n"))
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		objects, err := Decode(data)
		for _, o := range objects {
			if err == nil && o.Object == nil {
				t.Error("an object is nil")
			}
		}
	})
}
