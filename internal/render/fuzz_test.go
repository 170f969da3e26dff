package render

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kumodo.io/convoy/internal/failure"
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
		if diff := cmp.Diff(out.Content, decoded); diff != "" {
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
		_, _ = Render(t.Context(), Input{Builds: buildsHere, Files: map[string][]byte{"kustomization.yaml": kustomization, "a.yaml": a, "p.yaml": p}})
	})
}

func FuzzOverlay(f *testing.F) {
	f.Setenv("PATH", "") // whatever gets past the inspection finds no git
	f.Add([]byte("resources: [../../base]\npatches: [{path: p.yaml}]\n"), []byte("resources: [a.yaml]\nnamePrefix: x-\n"), []byte(aConfigMap), []byte(aConfigMap+"data: {x: y}\n"))
	f.Add([]byte("resources: [../../base, p.yaml]\nreplacements: [{source: {kind: ConfigMap}, targets: [{select: {kind: Deployment}, fieldPaths: [spec.replicas]}]}]\n"),
		[]byte("configMapGenerator: [{name: b, files: [k=a.yaml]}]\n"), []byte("a"), []byte(aDeployment))
	f.Add([]byte("components: [../../base]\nresources: [p.yaml]\nbases: [../..]\n"), []byte("apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nimages: [{name: a, newTag: b}]\n"), []byte(""), []byte(aDeployment))
	f.Fuzz(func(t *testing.T, overlay, base, a, p []byte) {
		if bytes.Contains(overlay, []byte("openapi")) || bytes.Contains(base, []byte("openapi")) {
			return // reading the schema anew each time is too slow to fuzz
		}
		in := Input{Builds: buildsHere, Path: "overlays/prod", Files: map[string][]byte{
			"kustomization.yaml": overlay, "p.yaml": p, "../../base/kustomization.yaml": base, "../../base/a.yaml": a,
		}}
		out, err := Render(t.Context(), in)
		if _, known := failure.As(err); err != nil && !known {
			t.Fatalf("it is not said what is wrong: %v", err)
		}
		if err != nil {
			return
		}
		again, err := Render(t.Context(), in)
		if err != nil || again.Digest != out.Digest {
			t.Errorf("a second render differs: %v", err)
		}
	})
}

func FuzzValues(f *testing.F) {
	f.Add([]byte("a: {b: 1}\nc: [1, 2]\n"), []byte("a: {d: null}\n---\na: {b: 1e3}\n"))
	f.Add([]byte(`{"a": 9007199254740993, "b": {}}`), []byte("b: text\na: 0x1F\n"))
	f.Add([]byte("password"), []byte("- x"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		layers := []ValuesLayer{{Name: "a", Content: a, Secret: true}, {Name: "b", Content: b, Secret: true}}
		merged, err := MergeValues(layers)
		if err != nil {
			if text := regexp.MustCompile(`line \d+: `).ReplaceAllString(err.Error(), ""); !slices.Contains(secretLayerErrors, text) {
				t.Errorf("the error %q may hold a part of the Secret", text)
			}
			return
		}
		if _, err := json.Marshal(merged); err != nil {
			t.Fatalf("the values are no JSON: %v", err)
		}
		again, err := MergeValues(slices.Concat(layers, layers[1:]))
		if diff := cmp.Diff(merged, again); err != nil || diff != "" {
			t.Errorf("the last layer once more changes the values: %v\n%s", err, diff)
		}
	})
}

// secretLayerErrors are all that may be said of values in a Secret, besides a line.
var secretLayerErrors = func() (all []string) {
	for _, name := range []string{"a", "b"} {
		all = append(all, "values of "+name+": it is not valid: see what a strict YAML parser says of it")
	}
	return all
}()

func FuzzDecode(f *testing.F) {
	f.Add([]byte("{\"format\":\"convoy.kumodo.io/render.v1\",\"targetNamespace\":\"\"}\n{\"kind\":\"X\"}\n"))
	f.Add([]byte("{\"format\":\"convoy.kumodo.io/render.v2\",\"targetNamespace\":\"\",\"hooks\":1}\n{\"kind\":\"X\"}\n{\"hook\":{\"name\":\"X.a\",\"events\":[\"pre-install\"]},\"object\":{\"kind\":\"X\"}}\n"))
	f.Add([]byte("{\"format\":\"convoy.kumodo.io/render.v2\",\"targetNamespace\":\"\",\"hooks\":2}\n{}\n"))
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		content, err := Decode(data)
		for _, o := range content.All() {
			if err == nil && o.Object == nil {
				t.Error("an object is nil")
			}
		}
	})
}
