package render

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

const aConfigMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"

func buildOf(files map[string]string) Input {
	in := Input{Files: map[string][]byte{}, Builds: buildsHere}
	for name, content := range files {
		in.Files[name] = []byte(content)
	}
	return in
}

func TestInvalidKustomizationsAreExplained(t *testing.T) {
	const hidden = `the kustomize build failed: run "kustomize build" on the source's folder to see why; the reason may quote values and is not shown`
	for name, tc := range map[string]struct {
		files   map[string]string
		message string
	}{
		"a field twice":                  {map[string]string{"kustomization.yaml": "configMapGenerator: []\nresources: []\nconfigMapGenerator: []\n"}, `kustomization.yaml: line 3: the key "configMapGenerator" is set twice`},
		"a field twice in other case":    {map[string]string{"kustomization.yaml": "resources: []\nResources: []\n"}, `kustomization.yaml: the key "resources" is set twice`},
		"an unknown field":               {map[string]string{"kustomization.yaml": "resource: [a.yaml]\n"}, `kustomization.yaml: unknown field "resource"`},
		"a field of the wrong type":      {map[string]string{"kustomization.yaml": "resources: a.yaml\n"}, `kustomization.yaml: cannot unmarshal string into Go struct field Kustomization.resources of type []string`},
		"an empty kustomization":         {map[string]string{"kustomization.yaml": ""}, `the kustomize build failed: kustomization.yaml is empty`},
		"two kustomizations":             {map[string]string{"kustomization.yaml": "resources: []", "Kustomization": "resources: []"}, `the kustomize build failed: Found multiple kustomization files`},
		"two documents":                  {map[string]string{"kustomization.yaml": "resources: []\n---\nresources: []\n"}, `kustomization.yaml: it has more than one document`},
		"a missing resource":             {map[string]string{"kustomization.yaml": "resources: [a.yaml]"}, `kustomization.yaml: resources[0] "a.yaml" is not a file of the source`},
		"a resource outside":             {map[string]string{"kustomization.yaml": "resources: [../../../etc/passwd]"}, `kustomization.yaml: resources[0] "../../../etc/passwd" is not a file of the source`},
		"an absolute resource":           {map[string]string{"kustomization.yaml": "resources: [/etc/passwd]"}, `kustomization.yaml: resources[0] is an absolute path; it must be relative to its kustomization`},
		"a file above its folder":        {map[string]string{"kustomization.yaml": "resources: [sub]", "a.yaml": aConfigMap, "sub/kustomization.yaml": "resources: [../a.yaml]"}, `the kustomize build failed: security; file '/a.yaml' is not in or below '/sub'`},
		"a file of a generator":          {map[string]string{"kustomization.yaml": "configMapGenerator: [{name: a, files: [k=/proc/self/environ]}]"}, `kustomization.yaml: configMapGenerator[0].files[0] is an absolute path; it must be relative to its kustomization`},
		"an env file of a generator":     {map[string]string{"kustomization.yaml": "secretGenerator: [{name: a, envs: [x.env]}]"}, `kustomization.yaml: secretGenerator[0].envs[0] "x.env" is not a file of the source`},
		"a folder without":               {map[string]string{"kustomization.yaml": "resources: [sub]", "sub/a.yaml": aConfigMap}, `sub: it has no kustomization.yaml, and a kustomization refers to it`},
		"a folder of itself":             {map[string]string{"kustomization.yaml": "resources: [sub]", "sub/kustomization.yaml": "resources: [../]"}, `the kustomize build failed: cycle detected`},
		"a duplicate key in a base":      {map[string]string{"kustomization.yaml": "resources: [sub]", "sub/kustomization.yaml": "resources: [a.yaml]", "sub/a.yaml": aConfigMap + "metadata: {name: b}\n"}, `sub/kustomization.yaml: resources[0] sub/a.yaml: line 4: the key "metadata" is set twice`},
		"a duplicate key in a patch":     {map[string]string{"kustomization.yaml": "resources: [a.yaml]\npatches:\n- patch: |\n    a: 1\n    a: 2\n", "a.yaml": aConfigMap}, `kustomization.yaml: patches[0].patch at its line 2: the key "a" is set twice`},
		"a large number in a resource":   {map[string]string{"kustomization.yaml": "resources: [a.yaml]", "a.yaml": aConfigMap + "x: 123456789012345678901234567890\n"}, `kustomization.yaml: resources[0] a.yaml: line 4: a number is too large to be kept exactly; quote it if it is a text`},
		"a resource twice":               {map[string]string{"kustomization.yaml": "resources: [a.yaml, b.yaml]", "a.yaml": aConfigMap, "b.yaml": aConfigMap}, `the kustomize build failed: may not add resource with an already registered id: ConfigMap.v1.[noGrp]/a.[noNs]`},
		"a resource without a name":      {map[string]string{"kustomization.yaml": "resources: [a.yaml]", "a.yaml": "apiVersion: v1\nkind: ConfigMap\n"}, `the kustomize build failed: missing metadata.name in object`},
		"a patch without a target":       {map[string]string{"kustomization.yaml": "resources: [a.yaml]\npatches: [{path: p.yaml}]", "a.yaml": aConfigMap, "p.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: zzz}\n"}, `the kustomize build failed: no matches for Id ConfigMap.v1.[noGrp]/zzz.[noNs]`},
		"a patch that is none":           {map[string]string{"kustomization.yaml": "resources: [a.yaml]\npatches: [{target: {kind: ConfigMap}, patch: S3NT1NEL}]", "a.yaml": aConfigMap}, `the kustomize build failed: unable to parse SM or JSON patch`},
		"a value that must not show":     {map[string]string{"kustomization.yaml": "secretGenerator: [{name: a, literals: [S3NT1NEL]}]"}, hidden},
		"helm charts":                    {map[string]string{"kustomization.yaml": "helmCharts: [{name: x, repo: 'https://127.0.0.1:1'}]"}, `kustomization.yaml: helmCharts is not supported: kustomize would run helm`},
		"the old way of helm charts":     {map[string]string{"kustomization.yaml": "helmChartInflationGenerator: [{chartName: x}]"}, `kustomization.yaml: helmCharts is not supported: kustomize would run helm`},
		"helm as a generator":            {map[string]string{"kustomization.yaml": "generators: [g.yaml]", "g.yaml": "apiVersion: builtin\nkind: HelmChartInflationGenerator\nmetadata: {name: x}\n"}, `kustomization.yaml: generators[0] is not supported: kustomize would run helm`},
		"a containerised function":       {map[string]string{"kustomization.yaml": "transformers: [g.yaml]", "g.yaml": "apiVersion: v1\nkind: X\nmetadata: {name: x, annotations: {config.kubernetes.io/function: 'container: {image: x}'}}\n"}, `the kustomize build failed: it uses a plugin or a function, and only those that are built in are supported`},
		"a folder of transformers":       {map[string]string{"kustomization.yaml": "transformers: [sub]", "sub/kustomization.yaml": "resources: []"}, `kustomization.yaml: transformers[0] "sub" is not a file of the source`},
		"a component as a resource":      {map[string]string{"kustomization.yaml": "resources: [sub]", "sub/kustomization.yaml": "kind: Component\nresources: []"}, `the kustomize build failed: expected kind != 'Component' for path '/sub'`},
		"objects that differ by version": {map[string]string{"kustomization.yaml": "resources: [a.yaml]", "a.yaml": "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}}\n---\n{apiVersion: apps/v1beta1, kind: Deployment, metadata: {name: a}}"}, `Deployment.apps a is defined twice: in the kustomize build, object 1 and in the kustomize build, object 2`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Render(t.Context(), buildOf(tc.files))
			wantInvalid(t, err, tc.message)
		})
	}
}

// noticeNetwork makes git a program that leaves a mark, and starts a server that counts requests.
func noticeNetwork(t *testing.T) (url string, noticed func() bool) {
	t.Helper()
	bin, mark := t.TempDir(), filepath.Join(t.TempDir(), "mark")
	if err := os.WriteFile(filepath.Join(bin, "git"), []byte("#!/bin/sh\necho x > "+mark+"\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		http.NotFound(w, nil)
	}))
	t.Cleanup(server.Close)
	return server.URL, func() bool {
		_, err := os.Stat(mark)
		return err == nil || requests.Load() > 0
	}
}

// remoteKustomizations would make kustomize run git or fetch URL. Folders of the same names are in the tree, so
// that an entry is not refused for being absent.
var remoteKustomizations = []string{
	"resources: ['URL/x?private_token=S3NT1NEL&ref=main']",
	"resources: ['URL/x.yaml']",
	"resources: [github.com/org/repo]",
	"resources: [GitHub.com/org/repo]",
	"resources: ['github.com:org/repo']",
	"resources: ['git@127.0.0.1:org/repo']",
	"resources: ['user@127.0.0.1/org/repo']",
	"resources: ['git::URL/org/repo']",
	"resources: ['ssh://127.0.0.1/org/repo']",
	"resources: ['file:///org/repo']",
	"bases: ['URL/org/repo']",
	"components: ['URL/org/repo']",
	"components: [github.com/org/repo]",
	"Resources: ['URL/x.yaml']",
	"configurations: ['URL/x.yaml']",
	"crds: ['URL/x.yaml']",
	"openapi: {path: 'URL/x.json'}",
	"patches: [{path: 'URL/x.yaml'}]",
	"patchesStrategicMerge: ['URL/x.yaml']",
	"patchesJson6902: [{path: 'URL/x.yaml', target: {version: v1, kind: ConfigMap, name: a}}]",
	"replacements: [{path: 'URL/x.yaml'}]",
	"configMapGenerator: [{name: a, files: ['URL/x']}]",
	"configMapGenerator: [{name: a, files: ['k=URL/x']}]",
	"configMapGenerator: [{name: a, env: 'URL/x'}]",
	"secretGenerator: [{name: a, envs: ['URL/x']}]",
	"generators: ['URL/x.yaml']",
	"transformers: ['URL/x.yaml']",
	"validators: ['URL/x.yaml']",
	"generators: [\"URL/x\\n\"]",
	"transformers: [\"URL/x: {a: b}\\n\"]",
	"validators: [\"github.com/org/repo\\n\"]",
	"transformers: [\"git::URL/x: {a: b}\\n\"]",
	"transformers:\n- |\n  apiVersion: builtin\n  kind: PatchTransformer\n  metadata: {name: x}\n  path: URL/x.yaml\n",
	"transformers:\n- |\n  apiVersion: builtin\n  kind: PatchStrategicMergeTransformer\n  metadata: {name: x}\n  Paths: [URL/x.yaml]\n",
	"generators:\n- |\n  apiVersion: builtin\n  kind: ConfigMapGenerator\n  metadata: {name: x}\n  name: x\n  FILES: [k=URL/x]\n",
	"transformers: [remote.yaml]",
	"resources: [sub]",
}

func remoteTree(kustomization, url string) Input {
	fill := func(s string) string { return strings.ReplaceAll(s, "URL", url) }
	return buildOf(map[string]string{
		"kustomization.yaml":                           fill(kustomization),
		"github.com/org/repo/kustomization.yaml":       "kind: Kustomization\nresources: []",
		"GitHub.com/org/repo/kustomization.yaml":       "resources: []",
		"github.com:org/repo/kustomization.yaml":       "resources: []",
		"git@127.0.0.1:org/repo/kustomization.yaml":    "resources: []",
		"user@127.0.0.1/org/repo/kustomization.yaml":   "resources: []",
		strings.Replace(url, "//", "/", 1) + "/x.yaml": aConfigMap,
		strings.Replace(url, "//", "/", 1) + "/x":      "a=b",
		"remote.yaml":            fill("apiVersion: builtin\nkind: ReplacementTransformer\nmetadata: {name: x}\nreplacements: [{path: URL/x.yaml}]\n"),
		"sub/kustomization.yaml": fill("resources: [URL/x.yaml]"),
	})
}

func TestABuildNeverLeavesTheTree(t *testing.T) {
	url, noticed := noticeNetwork(t)
	for _, k := range remoteKustomizations {
		_, err := Render(t.Context(), remoteTree(k, url))
		if err == nil {
			t.Errorf("%s: it renders", k)
			continue
		}
		if noticed() {
			t.Fatalf("%s: it reached out", k)
		}
		if strings.Contains(err.Error(), "S3NT1NEL") || strings.Contains(err.Error(), url) {
			t.Errorf("%s: the message shows the address: %v", k, err)
		}
	}
}

func TestKustomizeItselfWouldLeaveTheTree(t *testing.T) {
	// The test above proves something only if its fixtures would notice.
	for _, k := range []string{"resources: ['URL/org/repo?ref=x']", "configMapGenerator: [{name: a, files: ['URL/x']}]", "transformers: [\"URL/x/y: {a: b}\\n\"]"} {
		url, noticed := noticeNetwork(t)
		files := filesys.MakeFsInMemory()
		if err := files.WriteFile("/kustomization.yaml", []byte(strings.ReplaceAll(k, "URL", url))); err != nil {
			t.Fatal(err)
		}
		if _, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, "/"); err == nil || !noticed() {
			t.Errorf("%s: it did not reach out: %v", k, err)
		}
	}
}

func TestASchemaOfOneSourceDoesNotShapeTheBuildOfAnother(t *testing.T) {
	patched := map[string]string{
		"kustomization.yaml": "resources: [a.yaml]\npatches: [{path: p.yaml}]\n",
		"a.yaml":             "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {template: {spec: {containers: [{name: a, image: a}, {name: b, image: b}]}}}\n",
		"p.yaml":             "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {template: {spec: {containers: [{name: a, image: z}]}}}\n",
	}
	inProcesses := func(files map[string]string) Input {
		in := buildOf(files)
		in.Builds = builds
		return in
	}
	before, err := Render(t.Context(), inProcesses(patched))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Render(t.Context(), inProcesses(map[string]string{
		"kustomization.yaml": "resources: [a.yaml]\npatches: [{path: p.yaml}]\nopenapi: {path: schema.json}\n",
		"a.yaml":             patched["a.yaml"], "p.yaml": patched["p.yaml"], "schema.json": `{"definitions": {}}`,
	})); err != nil {
		t.Fatal(err)
	}
	after, err := Render(t.Context(), inProcesses(patched))
	if err != nil {
		t.Fatal(err)
	}
	if before.Digest != after.Digest {
		t.Errorf("before:\n%s\nafter:\n%s", before.Canonical, after.Canonical)
	}
	_, err = Render(t.Context(), inProcesses(map[string]string{
		"kustomization.yaml": "resources: [a.yaml]\npatches: [{path: p.yaml}]\nopenapi: {path: schema.json}\n",
		"a.yaml":             patched["a.yaml"], "p.yaml": patched["p.yaml"], "schema.json": `{"definitions": []}`,
	}))
	wantInvalid(t, err, "the kustomize build failed inside kustomize")
}

func TestBuildsAtTheSameTimeDoNotDisturbEachOther(t *testing.T) {
	in := Input{Files: filesBelow(t, "testdata/overlay", "overlays/prod"), Path: "overlays/prod", Builds: builds}
	want, err := Render(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			got, err := Render(t.Context(), in)
			if err != nil || got.Digest != want.Digest {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
	wg.Wait()
}

func TestFilesWithAnyNameAreNoObstacle(t *testing.T) {
	in := buildOf(map[string]string{
		"kustomization.yaml": "resources: ['a b+ü.yaml']\nconfigMapGenerator: [{name: g, files: ['x..y.conf']}]", "a b+ü.yaml": aConfigMap,
		"x..y.conf": "x", "weird@name/f": "x", "..a": "y",
	})
	out, err := Render(t.Context(), in)
	if err != nil || len(out.Objects) != 2 {
		t.Errorf("%v, %v", out, err)
	}
}

func TestFilesOutsideTheRepositoryAreAMistakeOfTheCaller(t *testing.T) {
	in := buildOf(map[string]string{"kustomization.yaml": "resources: [../base]", "../base/kustomization.yaml": "resources: []"})
	if _, err := Render(t.Context(), in); err == nil {
		t.Error("files above the root were taken")
	}
	in.Path = "overlay"
	if _, err := Render(t.Context(), in); err != nil {
		t.Error(err)
	}
}
