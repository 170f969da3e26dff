package render

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"kumodo.io/convoy/api/v1alpha1"
)

// shuffler writes the same things in another way each time: the order of keys, of documents and of files, the names of
// files, and the notation are all up to chance. Its seed makes chance repeat.
type shuffler struct{ *rand.Rand }

func seeded(seed uint64) shuffler { return shuffler{rand.New(rand.NewPCG(seed, 20))} }

// texts are those that a careless reader takes for something else.
var texts = []string{"", "text", "yes", "null", "~", "1e3", "0x1F", "0644", "1_000", "2024-01-01", "a: b", "- x", "#", "é\u2028\t", "{{ x }}", " ", "\r\n", "!!str x", "\U0001F6A2"}

// value is something that an object may hold, the same for the same state of chance.
func (s shuffler) value(depth int) any {
	switch n := s.IntN(10); {
	case n < 3 && depth > 0:
		m := map[string]any{}
		for range s.IntN(4) {
			m[fmt.Sprintf("k%d", s.IntN(20))] = s.value(depth - 1)
		}
		return m
	case n < 5 && depth > 0:
		list := make([]any, s.IntN(4))
		for i := range list {
			list[i] = s.value(depth - 1)
		}
		return list
	case n < 7:
		return json.Number([]string{"0", "-1", "9007199254740993", "9223372036854775807", "0.5", "-2.25", "65536"}[s.IntN(7)])
	case n < 8:
		return s.IntN(2) == 0
	}
	return texts[s.IntN(len(texts))]
}

// objects are different ones of several kinds, of which some name a namespace.
func (s shuffler) objects(n int) []any {
	out := make([]any, n)
	for i := range out {
		metadata := map[string]any{"name": fmt.Sprintf("o-%d", i), "labels": map[string]any{"a": "b", "n": fmt.Sprint(i)}}
		if s.IntN(2) == 0 {
			metadata["namespace"] = []string{"shop", "team"}[s.IntN(2)]
		}
		object := map[string]any{"metadata": metadata}
		switch s.IntN(3) {
		case 0:
			object["apiVersion"], object["kind"], object["data"] = "v1", "ConfigMap", map[string]any{"a": texts[s.IntN(len(texts))], "b": "c"}
		case 1:
			object["apiVersion"], object["kind"] = "v1", "Service"
			object["spec"] = map[string]any{"ports": []any{map[string]any{"port": json.Number("80"), "name": "http"}}, "selector": map[string]any{"a": "b", "c": "d"}}
		default:
			object["apiVersion"], object["kind"], object["spec"] = "example.test/v1", "Thing", map[string]any{"x": s.value(4), "y": s.value(4)}
		}
		out[i] = object
	}
	return out
}

func quoted(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // everything here comes from value
	}
	return string(text)
}

func (s shuffler) keys(m map[string]any) []string {
	keys := slices.Sorted(maps.Keys(m))
	s.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys
}

// flow writes a value as JSON, which is YAML as well.
func (s shuffler) flow(v any) string {
	var parts []string
	switch v := v.(type) {
	case map[string]any:
		for _, k := range s.keys(v) {
			parts = append(parts, quoted(k)+": "+s.flow(v[k]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		for _, one := range v {
			parts = append(parts, s.flow(one))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return quoted(v)
}

// block writes a map as YAML with a line for each key.
func (s shuffler) block(m map[string]any, indent string) string {
	var out strings.Builder
	for _, k := range s.keys(m) {
		below, isMap := m[k].(map[string]any)
		if isMap && len(below) > 0 && s.IntN(4) > 0 {
			fmt.Fprintf(&out, "%s%s:\n%s", indent, quoted(k), s.block(below, indent+"  "))
			continue
		}
		fmt.Fprintf(&out, "%s%s: %s\n", indent, quoted(k), s.flow(m[k]))
	}
	return out.String()
}

// document writes an object in any way.
func (s shuffler) document(object any) string {
	m, isMap := object.(map[string]any)
	switch n := s.IntN(4); {
	case n == 0 || !isMap:
		return s.flow(object) + "\n"
	case n == 1:
		return "# a comment\n" + s.block(m, "")
	case n == 2:
		return s.block(map[string]any{"apiVersion": "v1", "kind": "List", "items": []any{object}}, "")
	}
	return s.block(m, "")
}

// files spreads objects over files of any names, in any order.
func (s shuffler) files(objects []any) map[string][]byte {
	objects = slices.Clone(objects)
	s.Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
	files := map[string][]byte{}
	for len(objects) > 0 {
		n := 1 + s.IntN(len(objects))
		var docs []string
		for _, o := range objects[:n] {
			docs = append(docs, s.document(o))
		}
		objects = objects[n:]
		name := fmt.Sprintf("%c/%x.%s", 'a'+rune(s.IntN(26)), s.Uint64(), []string{"yaml", "yml"}[s.IntN(2)])
		files[name] = []byte(strings.Join(docs, "---\n"))
	}
	return files
}

// oneDigest renders an input many times, made anew by change each time, and wants one digest.
func oneDigest(t *testing.T, times int, change func(shuffler) Input) {
	t.Helper()
	var first *Output
	for seed := range uint64(times) {
		in := change(seeded(seed))
		out, err := Render(t.Context(), in)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if first == nil {
			first = out
		}
		if out.Digest != first.Digest {
			t.Fatalf("seed %d: %s became\n%s", seed, first.Canonical, out.Canonical)
		}
	}
}

func TestTheDigestIsThatOfTheObjectsHoweverTheyAreWritten(t *testing.T) {
	for set := range uint64(20) {
		objects := seeded(1000 + set).objects(1 + int(set))
		oneDigest(t, 20, func(s shuffler) Input { return Input{Files: s.files(objects), TargetNamespace: "apps"} })
	}
}

func TestTheDigestOfMutatedObjectsIsTheSameHoweverTheyAreWritten(t *testing.T) {
	objects := seeded(1).objects(12)
	mutations := []v1alpha1.Mutation{
		merge("zone", v1alpha1.MutationTarget{}, "metadata: {labels: {zone: {{ index .cluster \"topology.kubernetes.io/zone\" }}}}"),
		{Name: "name", CEL: "Object{metadata: Object.metadata{labels: Object.metadata.labels{of: object.metadata.name}}}"},
	}
	oneDigest(t, 50, func(s shuffler) Input {
		return Input{Files: s.files(objects), Context: inContext(), Mutations: mutations}
	})
}

func TestTheDigestOfAKustomizationDoesNotDependOnTheOrderOfItsResources(t *testing.T) {
	objects := seeded(2).objects(10)
	oneDigest(t, 50, func(s shuffler) Input {
		files := s.files(objects)
		resources := []any{}
		for _, name := range slices.Sorted(maps.Keys(files)) {
			resources = append(resources, name)
		}
		s.Shuffle(len(resources), func(i, j int) { resources[i], resources[j] = resources[j], resources[i] })
		files["kustomization.yaml"] = []byte(s.block(map[string]any{
			"namePrefix": "x-", "resources": resources, "commonAnnotations": map[string]any{"a": "1", "b": "2", "c": "3"},
			"configMapGenerator": []any{map[string]any{"name": "made", "literals": []any{"a=b", "c=d"}}},
		}, ""))
		return Input{Files: files, Builds: buildsHere}
	})
}

func TestTheDigestOfAChartDoesNotDependOnTheOrderOfItsFilesAndValues(t *testing.T) {
	values := map[string]any{"more": map[string]any{}}
	for i := range 8 {
		values[fmt.Sprintf("v%d", i)] = seeded(uint64(i)).value(3)
	}
	for i, text := range texts {
		values["more"].(map[string]any)[fmt.Sprintf("t%d", i)] = text
	}
	const template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %[1]s}\ndata:\n{{- range $k, $v := .Values.more }}\n  {{ $k }}: {{ quote $v }}\n{{- end }}\n" +
		"  json: {{ .Values.%[1]s | toJson | quote }}\n  yaml: {{ .Values.%[1]s | toYaml | quote }}\n  keys: {{ keys .Values.more | sortAlpha | join \",\" | quote }}\n"
	oneDigest(t, 50, func(s shuffler) Input {
		files := map[string]string{"values.yaml": s.block(values, "")}
		for i := range 8 {
			files[fmt.Sprintf("templates/%x.yaml", s.Uint64())] = fmt.Sprintf(template, fmt.Sprintf("v%d", i))
		}
		merged, err := MergeValues([]ValuesLayer{{Name: "one", Content: []byte(s.flow(values))}, {Name: "other", Content: []byte(s.block(values, ""))}})
		if err != nil {
			t.Fatal(err)
		}
		return Input{Files: aChart(files), Helm: &HelmInput{ReleaseName: "app", Namespace: "apps", Values: merged}}
	})
}

func TestAZeroHasNoSign(t *testing.T) {
	zeros := []string{"0", "0.0", "-0", "-0.0", "-.0", "-1e-999"}
	const thing = "{apiVersion: example.test/v1, kind: Thing, metadata: {name: a}, spec: {x: %s}}"
	oneDigest(t, len(zeros), func(shuffler) Input {
		zero := zeros[0]
		zeros = zeros[1:]
		return Input{Files: map[string][]byte{"a.yaml": fmt.Appendf(nil, thing, zero)}}
	})
	out, err := Render(t.Context(), Input{
		Files:     map[string][]byte{"a.json": []byte(`{"apiVersion": "example.test/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"x": -0.0}}`)},
		Mutations: []v1alpha1.Mutation{{Name: "zero", CEL: "Object{spec: Object.spec{y: -0.0, z: -1.0 * 0.0}}"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(out.Canonical), `{"x":0,"y":0,"z":0}`) {
		t.Errorf("rendered %s", out.Canonical)
	}
}
