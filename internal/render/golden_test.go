package render

import (
	"context"
	"errors"
	"flag"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

var update = flag.Bool("update", false, "write the golden files anew")

// filesBelow reads a folder of testdata as a bundle would hold it, relative to the source's folder in it.
func filesBelow(t *testing.T, root, source string) map[string][]byte {
	t.Helper()
	up := strings.Repeat("../", strings.Count(source, "/")+1)
	if source == "" {
		up = ""
	}
	files := map[string][]byte{}
	tree := os.DirFS(root)
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(tree, name)
		if below, ok := strings.CutPrefix(name, source+"/"); ok {
			files[below] = content
		} else {
			files[up+name] = content
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func inContext() delivery.Context {
	return delivery.Context{
		Cluster: map[string]string{"name": "eu-1", "region": "eu-west-1", "topology.kubernetes.io/zone": "a"},
		Release: delivery.ReleaseContext{Name: "shop", Namespace: "team", Labels: map[string]string{"tier": "gold"}, Annotations: map[string]string{}},
	}
}

func merge(name string, target v1alpha1.MutationTarget, template string) v1alpha1.Mutation {
	return v1alpha1.Mutation{Name: name, Target: target, Patch: v1alpha1.Patch{Type: v1alpha1.PatchMerge, Template: template}}
}

var someMutations = []v1alpha1.Mutation{
	merge("replicas", v1alpha1.MutationTarget{Group: "apps", Kind: "Deployment", Name: "w?b", Namespace: "shop"}, "spec: {replicas: {{ if eq .cluster.region \"eu-west-1\" }}5{{ else }}1{{ end }}, paused: null}\n"),
	merge("everything", v1alpha1.MutationTarget{}, "metadata:\n  labels:\n    zone: {{ index .cluster \"topology.kubernetes.io/zone\" }}\n    tier: {{ quote .release.labels.tier }}\n"),
	merge("nothing", v1alpha1.MutationTarget{Kind: "ConfigMap", Name: "o*"}, "{{ if hasKey .cluster \"nope\" }}data: {x: y}{{ end }}"),
	merge("data", v1alpha1.MutationTarget{Kind: "ConfigMap", Name: "o*"}, "data:\n  region: {{ .cluster.region }}\n  a: null\n  big: \"9007199254740993\"\n"),
	merge("other group", v1alpha1.MutationTarget{Kind: "Deployment"}, "spec: {replicas: 99}"),
	merge("matches nothing", v1alpha1.MutationTarget{Kind: "Pod"}, "{{ .cluster.nope }}"),
}

func TestRendersMatchTheGoldenFiles(t *testing.T) {
	for name, in := range map[string]Input{
		"plain":   {Type: v1alpha1.RenderPlain, Files: filesBelow(t, "testdata/plain", ""), TargetNamespace: "apps"},
		"overlay": {Files: filesBelow(t, "testdata/overlay", "overlays/prod"), Path: "overlays/prod", Builds: builds},
		"mutated": {Type: v1alpha1.RenderPlain, Files: filesBelow(t, "testdata/plain", ""), TargetNamespace: "apps", Mutations: someMutations, Context: inContext()},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := Render(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			matchGolden(t, name, out.Canonical)
			decoded, err := Decode(out.Canonical)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(out.Content, decoded); diff != "" {
				t.Errorf("objects and canonical form differ:\n%s", diff)
			}
		})
	}
}

func TestSkippedFilesAreNamed(t *testing.T) {
	out, err := Render(t.Context(), Input{Type: v1alpha1.RenderPlain, Files: filesBelow(t, "testdata/plain", "")})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"Chart.yaml", "kustomizeconfig.yaml", "sub/empty.yaml", "sub/list.json", "values.yaml", ".github/ci.yml", ".gitlab-ci.yml", "sub/.hidden/t.yaml"}
	if diff := cmp.Diff(want, out.Skipped); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
	many := map[string][]byte{}
	for _, c := range "abcdefghijklmn" {
		many[string(c)+".yaml"] = []byte("x: y")
	}
	out, err = Render(t.Context(), Input{Files: many})
	if err != nil || len(out.Skipped) != 10 || len(out.Objects) != 0 {
		t.Errorf("%v, %v", out, err)
	}
}

func TestARenderRepeatedGivesTheSameBytes(t *testing.T) {
	plainFiles, overlayFiles := filesBelow(t, "testdata/plain", ""), filesBelow(t, "testdata/overlay", "overlays/prod")
	render := func() string {
		t.Helper()
		// Maps are rebuilt, so that their order of iteration differs from run to run.
		a, err := Render(t.Context(), Input{Type: v1alpha1.RenderPlain, Files: maps.Clone(plainFiles), Mutations: slices.Clone(someMutations), Context: inContext()})
		if err != nil {
			t.Fatal(err)
		}
		b, err := Render(t.Context(), Input{Files: maps.Clone(overlayFiles), Path: "overlays/prod", Builds: buildsHere})
		if err != nil {
			t.Fatal(err)
		}
		return a.Digest + string(a.Canonical) + b.Digest + string(b.Canonical)
	}
	first := render()
	for range 49 {
		if diff := cmp.Diff(first, render()); diff != "" {
			t.Fatalf("two renders differ:\n%s", diff)
		}
	}
}

func TestTheDigestCoversWhatIsDelivered(t *testing.T) {
	digest := func(in Input) string {
		t.Helper()
		out, err := Render(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		return out.Digest
	}
	one := map[string][]byte{"a.yaml": []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n")}
	other := map[string][]byte{
		"z.yaml": []byte("# comment\n{apiVersion: v1, kind: ConfigMap, data: {k: \"v\"}, metadata: {name: a, creationTimestamp: null}}"),
		"y.json": []byte(`{"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "b"}, "status": {}}`),
		"x.md":   []byte("x"),
	}
	if a, b := digest(Input{Files: one}), digest(Input{Files: other}); a != b {
		t.Errorf("the same objects have the digests %s and %s", a, b)
	}
	if a, b := digest(Input{Files: one}), digest(Input{Files: one, TargetNamespace: "x"}); a == b {
		t.Error("another target namespace has the same digest")
	}
}

func TestTheTypeIsFoundOutAndKept(t *testing.T) {
	plainTree := map[string][]byte{"a.yaml": []byte("x: y"), "sub/kustomization.yaml": []byte("resources: []")}
	for name, tc := range map[string]struct {
		in      Input
		want    v1alpha1.RenderType
		message string
	}{
		"a tree without a kustomization is plain":        {Input{Files: plainTree}, v1alpha1.RenderPlain, ""},
		"kustomization.yaml":                             {Input{Files: map[string][]byte{"kustomization.yaml": []byte("resources: []")}}, v1alpha1.RenderKustomize, ""},
		"Kustomization":                                  {Input{Files: map[string][]byte{"Kustomization": []byte("resources: []")}}, v1alpha1.RenderKustomize, ""},
		"a type that is asked for wins":                  {Input{Files: map[string][]byte{"kustomization.yaml": []byte("resources: []")}, Type: v1alpha1.RenderPlain, Kept: v1alpha1.RenderKustomize}, v1alpha1.RenderPlain, ""},
		"a tree that is as before":                       {Input{Files: plainTree, Kept: v1alpha1.RenderPlain}, v1alpha1.RenderPlain, ""},
		"a kustomization that is gone does not flip":     {Input{Files: plainTree, Kept: v1alpha1.RenderKustomize}, "", "the source was rendered as Kustomize before and looks like Plain now; set spec.render.type if that is meant"},
		"a kustomization that came up does not flip":     {Input{Files: map[string][]byte{"kustomization.yml": nil}, Kept: v1alpha1.RenderPlain}, "", "the source was rendered as Plain before and looks like Kustomize now; set spec.render.type if that is meant"},
		"Kustomize without a kustomization":              {Input{Files: plainTree, Type: v1alpha1.RenderKustomize}, "", "the source's folder has no kustomization.yaml, and spec.render.type is Kustomize"},
		"a type of a later version":                      {Input{Files: plainTree, Type: "Later"}, "", "spec.render.type Later is not supported; use Kustomize, Helm or Plain"},
		"Helm without a chart":                           {Input{Files: plainTree, Type: v1alpha1.RenderHelm}, "", "the source's folder has no Chart.yaml, and spec.render.type is Helm"},
		"a chart":                                        {Input{Files: aChart(nil)}, v1alpha1.RenderHelm, ""},
		"a chart that is asked for as plain":             {Input{Files: aChart(nil), Type: v1alpha1.RenderPlain}, v1alpha1.RenderPlain, ""},
		"a chart that came up does not flip":             {Input{Files: aChart(nil), Kept: v1alpha1.RenderPlain}, "", "the source was rendered as Plain before and looks like Helm now; set spec.render.type if that is meant"},
		"a chart with a kustomization":                   {Input{Files: aChart(map[string]string{"kustomization.yaml": "resources: []"})}, "", "the source's folder has both a kustomization.yaml and a Chart.yaml; set spec.render.type to Kustomize or Helm"},
		"a chart that got a kustomization stays one":     {Input{Files: aChart(map[string]string{"kustomization.yaml": "resources: []"}), Kept: v1alpha1.RenderHelm}, v1alpha1.RenderHelm, ""},
		"an empty tree is a plain one without an object": {Input{}, v1alpha1.RenderPlain, ""},
	} {
		t.Run(name, func(t *testing.T) {
			tc.in.Builds = buildsHere
			out, err := Render(t.Context(), tc.in)
			if tc.message != "" {
				wantInvalid(t, err, tc.message)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if out.Type != tc.want || len(out.Objects) != 0 {
				t.Errorf("type %s with %d objects", out.Type, len(out.Objects))
			}
		})
	}
}

func TestRenderEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, in := range []Input{
		{Type: v1alpha1.RenderPlain, Files: filesBelow(t, "testdata/plain", "")},
		{Files: filesBelow(t, "testdata/chart", "")},
		{Files: filesBelow(t, "testdata/overlay", "overlays/prod"), Path: "overlays/prod", Builds: builds},
	} {
		if _, err := Render(ctx, in); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	}
}

// matchGolden compares a canonical form with the file of that name, which -update writes.
func matchGolden(t *testing.T, name string, canonical []byte) {
	t.Helper()
	golden := path.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(golden, canonical, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(canonical)); diff != "" {
		t.Errorf("canonical form (-want +got):\n%s", diff)
	}
}
