package golden

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	helmrelease "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/render"
)

// input is something public that is rendered.
type input struct {
	name   string
	in     func(*testing.T) render.Input
	digest string
	count  int
}

const (
	namespace  = "apps"
	kubernetes = "v1.37.2"
)

func values(text string) *render.HelmInput {
	merged, err := render.MergeValues([]render.ValuesLayer{{Name: "the test", Content: []byte(text)}})
	if err != nil {
		panic(err) // the tests write them
	}
	return &render.HelmInput{ReleaseName: "app", Namespace: namespace, Values: merged, IncludeCRDs: true, Capabilities: render.Capabilities{KubernetesVersion: kubernetes}}
}

var inputs = []input{
	{"podinfo, kustomize", func(t *testing.T) render.Input {
		t.Helper()
		return render.Input{Files: podinfo.files(t, "kustomize")}
	}, "sha256:e6697416bb772cc60deacbaea6c09c98dfb43289186cc07eb77ab290d5657c5f", 3},
	{"podinfo, an overlay", func(t *testing.T) render.Input {
		t.Helper()
		files := map[string][]byte{}
		for name, content := range podinfo.files(t, "deploy") {
			files["../../"+name] = content
			if inside, ok := strings.CutPrefix(name, "overlays/dev/"); ok {
				files[inside] = content
				delete(files, "../../"+name)
			}
		}
		return render.Input{Files: files, Path: "overlays/dev"}
	}, "sha256:e7116b63b25d2649538157b368aa46354b9b35c4c38dcddc8f96a003f4a7d6cf", 10},
	{"podinfo, chart", func(t *testing.T) render.Input {
		t.Helper()
		return render.Input{Files: podinfo.files(t, "charts/podinfo"), Helm: values("")}
	}, "sha256:7c2561fc33407c8acd00b45460ca7f68f8bc656035cc44cf4487611fcb4fa580", 2},
	{"podinfo, chart with values", func(t *testing.T) render.Input {
		t.Helper()
		return render.Input{Files: podinfo.files(t, "charts/podinfo"), Helm: values(`
replicaCount: 3
hpa: {enabled: true, maxReplicas: 5}
redis: {enabled: true}
ingress: {enabled: true, className: nginx, hosts: [{host: podinfo.example.test, paths: [{path: /, pathType: Prefix}]}]}
serviceAccount: {enabled: true}
serviceMonitor: {enabled: true}
ui: {message: "1e3", color: "#34577c"}
`)}
	}, "sha256:c8ba7f644b7cde4c4ef9b451f59ec8092dd211ee79ccabf68f46aaccee1e6845", 9},
	{"cert-manager, chart", func(t *testing.T) render.Input {
		t.Helper()
		return render.Input{Files: certManagerChart(t), Helm: values("crds: {enabled: true}\n")}
	}, "sha256:8748740bc911cc476b75db254f9951a0a54daca1a537711fe2d3d8fa487fd724", 48},
	{"prometheus-operator, plain", func(t *testing.T) render.Input {
		t.Helper()
		return render.Input{Files: only(prometheusOperator.files(t, "."), "bundle.yaml")}
	}, "sha256:2fa3580341b9713a9bca120c7ce394718958a571378a493cc286088db780a3f9", 15},
	{"gateway-api, kustomize", func(t *testing.T) render.Input {
		t.Helper()
		return render.Input{Files: gatewayAPI.files(t, "config/crd")}
	}, "sha256:d1420a1e613964558df10ae80164f873f1d7d9a70436c4243186ed20ce668ffa", 12},
	{"gateway-api, plain", func(t *testing.T) render.Input {
		t.Helper()
		return render.Input{Files: gatewayAPI.files(t, "config/crd/experimental")}
	}, "sha256:9f3ac103201c4e44ba2451ee6e80c106415a6a75d66b593b3d4bd17f60f8b387", 15},
}

func TestMain(m *testing.M) {
	render.ServeBuilds()
	os.Exit(m.Run())
}

func rendered(t *testing.T, in render.Input) *render.Output {
	t.Helper()
	in.TargetNamespace, in.Builds = namespace, render.NewBuilds(render.DefaultBuildLimits())
	out, err := render.Render(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// firsts are the first renders of the inputs, by name.
var firsts = map[string]*render.Output{}

// first is the first render of an input, which is not to be changed: large ones take long, and most tests need no other.
func (i input) first(t *testing.T) *render.Output {
	t.Helper()
	if firsts[i.name] == nil {
		firsts[i.name] = rendered(t, i.in(t))
	}
	return firsts[i.name]
}

func TestPublicInputsRenderToWhatTheyAlwaysDid(t *testing.T) {
	for _, input := range inputs {
		t.Run(input.name, func(t *testing.T) {
			out := input.first(t)
			if out.Digest != input.digest || len(out.Objects) != input.count {
				t.Errorf("%d objects with digest %s, want %d with %s", len(out.Objects), out.Digest, input.count, input.digest)
			}
		})
	}
}

func TestPublicInputsRenderAsHelmKustomizeAndADecoderDo(t *testing.T) {
	for _, input := range inputs {
		t.Run(input.name, func(t *testing.T) {
			in, out := input.in(t), input.first(t)
			var want []*unstructured.Unstructured
			switch out.Type {
			case v1alpha1.RenderHelm:
				want = byHelm(t, in)
			case v1alpha1.RenderKustomize:
				want = byKustomize(t, in)
			default:
				for _, name := range slices.Sorted(maps.Keys(in.Files)) {
					if filepath.Ext(name) == ".yaml" && !strings.HasPrefix(filepath.Base(name), "kustomization") {
						want = append(want, decoded(t, in.Files[name])...)
					}
				}
			}
			if diff := cmp.Diff(byName(t, want), byName(t, out.All())); diff != "" {
				t.Errorf("objects (-theirs +ours):\n%.4000s", diff)
			}
		})
	}
}

// byName indexes objects by what they are.
func byName(t *testing.T, objects []*unstructured.Unstructured) map[string]any {
	t.Helper()
	out := map[string]any{}
	for _, o := range objects {
		id := o.GetAPIVersion() + " " + o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
		if _, twice := out[id]; twice {
			t.Errorf("%s is there twice", id)
		}
		text, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		var v map[string]any
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		normalize(v)
		out[id] = v
	}
	return out
}

// normalize takes away what convoy takes away and says so: timestamps of creation that are null.
func normalize(v any) {
	switch v := v.(type) {
	case map[string]any:
		if metadata, ok := v["metadata"].(map[string]any); ok && metadata["creationTimestamp"] == nil {
			delete(metadata, "creationTimestamp")
		}
		for _, child := range v {
			normalize(child)
		}
	case []any:
		for _, child := range v {
			normalize(child)
		}
	}
}

func decoded(t *testing.T, text []byte) (objects []*unstructured.Unstructured) {
	t.Helper()
	for d := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 1<<16); ; {
		o := &unstructured.Unstructured{}
		err := d.Decode(o)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
}

// byHelm is what "helm template --include-crds" prints, its hooks too, without tests.
func byHelm(t *testing.T, in render.Input) []*unstructured.Unstructured {
	t.Helper()
	var buffered []*archive.BufferedFile
	for name, content := range in.Files {
		buffered = append(buffered, &archive.BufferedFile{Name: name, Data: content})
	}
	c, err := loader.LoadFiles(buffered)
	if err != nil {
		t.Fatal(err)
	}
	install := action.NewInstall(&action.Configuration{})
	install.DryRunStrategy = action.DryRunClient
	install.ReleaseName, install.Namespace, install.IncludeCRDs, install.Replace = in.Helm.ReleaseName, in.Helm.Namespace, true, true
	if install.KubeVersion, err = common.ParseKubeVersion(kubernetes); err != nil {
		t.Fatal(err)
	}
	releaser, err := install.RunWithContext(t.Context(), c, in.Helm.Values)
	if err != nil {
		t.Fatal(err)
	}
	release, ok := releaser.(*helmrelease.Release)
	if !ok {
		t.Fatalf("Helm gives a %T", releaser)
	}
	objects := decoded(t, []byte(release.Manifest))
	for _, h := range release.Hooks {
		if !slices.Contains(h.Events, helmrelease.HookTest) {
			objects = append(objects, decoded(t, []byte(h.Manifest))...)
		}
	}
	for _, o := range objects { // convoy keeps what Helm keeps, by its own annotation
		if annotations := o.GetAnnotations(); annotations["helm.sh/resource-policy"] == "keep" {
			annotations["convoy.kumodo.io/prune"] = "disabled"
			o.SetAnnotations(annotations)
		}
	}
	return objects
}

// byKustomize is what "kustomize build" prints.
func byKustomize(t *testing.T, in render.Input) []*unstructured.Unstructured {
	t.Helper()
	root := t.TempDir()
	for name, content := range in.Files {
		file := filepath.Join(root, in.Path, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(root, in.Path))
	if err != nil {
		t.Fatal(err)
	}
	text, err := built.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return decoded(t, text)
}

// permuted is the same input with its maps made in another order.
func permuted(in render.Input) render.Input {
	files := make(map[string][]byte, len(in.Files))
	for name, content := range in.Files {
		files[name] = slices.Clone(content)
	}
	in.Files = files
	return in
}

func TestTheSameInputsGiveTheSameDigestEachTimeAndInAnotherProcess(t *testing.T) {
	const env = "CONVOY_GOLDEN_DIGESTS"
	var digests strings.Builder
	for _, input := range inputs {
		in, want := input.in(t), input.first(t).Digest
		runs := 100
		if len(in.Files) > 30 || strings.Contains(input.name, "gateway") || strings.Contains(input.name, "operator") {
			runs = 4 // megabytes each
		}
		if os.Getenv(env) != "" {
			runs = 0
		}
		t.Run(input.name, func(t *testing.T) { // which waits for those below it
			for i := range runs {
				t.Run(strconv.Itoa(i), func(t *testing.T) {
					t.Parallel()
					if got := rendered(t, permuted(in)).Digest; got != want {
						t.Errorf("digest %s, then %s", want, got)
					}
				})
			}
		})
		digests.WriteString(want + "\n")
	}
	if file := os.Getenv(env); file != "" {
		if err := os.WriteFile(file, []byte(digests.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	file := filepath.Join(t.TempDir(), "digests")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTheSameInputsGiveTheSameDigestEachTimeAndInAnotherProcess$")
	cmd.Env = append(os.Environ(), env+"="+file, "TZ=Pacific/Apia", "LANG=tr_TR.UTF-8")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	there, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(digests.String(), string(there)); diff != "" {
		t.Errorf("digests here and in another process:\n%s", diff)
	}
}

func TestHooksOfAPublicChartAreKeptApart(t *testing.T) {
	out := rendered(t, render.Input{Files: certManagerChart(t), Helm: values("crds: {enabled: true}\n")})
	var hooks []string
	for _, h := range out.For("post-install") {
		hooks = append(hooks, fmt.Sprintf("%d %s", h.Weight, h.Name))
	}
	if got, want := strings.Join(hooks, "\n"), strings.Join([]string{
		"-5 ServiceAccount.app-cert-manager-startupapicheck", "-5 Role.app-cert-manager-startupapicheck:create-cert",
		"-5 RoleBinding.app-cert-manager-startupapicheck:create-cert", "1 Job.app-cert-manager-startupapicheck",
	}, "\n"); got != want {
		t.Errorf("post-install runs\n%s", got)
	}
}
