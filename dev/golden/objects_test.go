package golden

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"kumodo.io/convoy/internal/render"
)

var update = flag.Bool("update", false, "write the digests of single objects anew; those of whole renders are in the tests")

const objectsFile = "testdata/objects.txt"

// objectLines has a line for each object of a render: the input, what the object is, and its digest.
func objectLines(t *testing.T, name string, out *render.Output) (lines []string) {
	t.Helper()
	for _, o := range out.Objects {
		text, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%s: %s %s %s/%s %x", name, o.GetAPIVersion(), o.GetKind(), o.GetNamespace(), o.GetName(), sha256.Sum256(text)))
	}
	return lines
}

// TestEachObjectOfAPublicInputIsWhatItAlwaysWas says which object differs when a digest of a whole render does.
func TestEachObjectOfAPublicInputIsWhatItAlwaysWas(t *testing.T) {
	var lines []string
	for _, input := range inputs {
		lines = append(lines, objectLines(t, input.name, input.first(t))...)
	}
	got := strings.Join(lines, "\n") + "\n"
	if *update {
		if err := os.WriteFile(objectsFile, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(objectsFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

// shuffled writes a value as JSON with the keys of its maps in any order.
func shuffled(t *testing.T, r *rand.Rand, v any) string {
	t.Helper()
	var parts []string
	switch v := v.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(v))
		r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		for _, k := range keys {
			parts = append(parts, shuffled(t, r, k)+": "+shuffled(t, r, v[k]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		for _, one := range v {
			parts = append(parts, shuffled(t, r, one))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// rewritten is a YAML file with its documents, and the keys of all their maps, in any order.
func rewritten(t *testing.T, r *rand.Rand, text []byte) []byte {
	t.Helper()
	var docs []string
	for d := utilyaml.NewYAMLToJSONDecoder(bytes.NewReader(text)); ; {
		var raw json.RawMessage
		err := d.Decode(&raw)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		var v any
		exact := json.NewDecoder(bytes.NewReader(raw))
		exact.UseNumber()
		if err := exact.Decode(&v); err != nil {
			t.Fatal(err)
		}
		docs = append(docs, shuffled(t, r, v)+"\n")
	}
	r.Shuffle(len(docs), func(i, j int) { docs[i], docs[j] = docs[j], docs[i] })
	return []byte(strings.Join(docs, "---\n"))
}

func TestPublicInputsHaveTheirDigestInWhateverOrderTheyAreWritten(t *testing.T) {
	for _, input := range inputs {
		t.Run(input.name, func(t *testing.T) {
			for seed := range uint64(3) {
				r := rand.New(rand.NewPCG(seed, 20))
				in := input.in(t)
				files := map[string][]byte{}
				for _, name := range slices.Sorted(maps.Keys(in.Files)) {
					content := in.Files[name]
					if ext := filepath.Ext(name); (ext == ".yaml" || ext == ".yml") && !strings.HasPrefix(name, "templates/") {
						content = rewritten(t, r, content)
					}
					files[name] = content
				}
				in.Files = files
				if in.Helm != nil {
					in.Helm = values(shuffled(t, r, in.Helm.Values))
				}
				out := rendered(t, in)
				if out.Digest != input.digest {
					t.Fatalf("seed %d: the digest is %s, want %s", seed, out.Digest, input.digest)
				}
			}
		})
	}
}
