package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const plainRelease = `apiVersion: core.convoy.kumodo.io/v1alpha1
kind: Release
metadata: {name: app}
spec:
  clusterRef: {name: east}
  source: {configMap: {name: app}}
  targetNamespace: web
  mutations:
  - {name: region, target: {kind: ConfigMap}, cel: "Object{data: Object.data{region: cluster.region}}"}
  - {name: nothing, target: {kind: Deployment}, cel: "Object{}"}
`

const eastCluster = `apiVersion: core.convoy.kumodo.io/v1alpha1
kind: Cluster
metadata: {name: east}
spec: {connectionMode: agentless, metadata: {region: eu-1}}
`

const appSource = `apiVersion: v1
kind: ConfigMap
metadata: {name: app}
data: {app.yaml: "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {text: hello}}"}
`

// rendered runs the command over files with these texts.
func rendered(t *testing.T, stdin string, args []string, texts ...string) (out, report string, err error) {
	t.Helper()
	dir := t.TempDir()
	for i, text := range texts {
		name := filepath.Join(dir, string(rune('a'+i))+".yaml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "-f", name)
	}
	var stdout, stderr bytes.Buffer
	cmd := renderCommand()
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err = cmd.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

func TestRenderPrintsTheObjectsAndSaysWhatItDid(t *testing.T) {
	out, report, err := rendered(t, eastCluster, []string{"-f", "-"}, plainRelease+"---\n"+appSource)
	if err != nil {
		t.Fatal(err)
	}
	want := "---\napiVersion: v1\ndata:\n  region: eu-1\n  text: hello\nkind: ConfigMap\nmetadata:\n  name: x\n"
	if out != want {
		t.Errorf("printed\n%s\nwant\n%s", out, want)
	}
	for _, line := range []string{"Plain of 1 objects", "digest sha256:", "mutation nothing matched nothing"} {
		if !strings.Contains(report, line) {
			t.Errorf("reported %q, want %q in it", report, line)
		}
	}
	asJSON, again, err := rendered(t, "", []string{"-o", "json"}, plainRelease, appSource, eastCluster)
	if err != nil || !strings.HasPrefix(asJSON, `{"apiVersion":"v1"`) || again != report {
		t.Errorf("as JSON: %q, %q, %v", asJSON, again, err)
	}
}

func TestRenderTakesAFolderForTheSourceAndNothingOutsideIt(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"apps/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", "outside.yaml": "x"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	release := strings.Replace(plainRelease, "configMap: {name: app}", "git: {url: 'https://git.example.test/app', path: apps}", 1)
	if out, _, err := rendered(t, eastCluster, []string{"-f", "-", "--source", dir}, release); err != nil || !strings.Contains(out, "name: a\n") || !strings.Contains(out, "region: eu-1") {
		t.Errorf("%q, %v", out, err)
	}
	climbing := strings.Replace(release, "path: apps", "path: ../apps", 1)
	if _, _, err := rendered(t, eastCluster, []string{"-f", "-", "--source", filepath.Join(dir, "apps")}, climbing); err == nil || !strings.Contains(err.Error(), "leaves the source") {
		t.Errorf("a path out of the folder, which the worker refuses: %v", err)
	}
	if err := os.Symlink("../../../etc/passwd", filepath.Join(dir, "apps", "b.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := rendered(t, eastCluster, []string{"-f", "-", "--source", dir}, release); err == nil || !strings.Contains(err.Error(), "b.yaml") || !strings.Contains(err.Error(), "leaves") {
		t.Errorf("a link out of the folder: %v", err)
	}
}

func TestRenderTellsAChartWhatItsClusterServes(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: app\nversion: 1.0.0\n",
		"templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}'}\ndata:\n  version: '{{ .Capabilities.KubeVersion }}'\n" +
			"  apps: '{{ .Capabilities.APIVersions.Has \"apps/v1\" }}'\n  widget: '{{ .Capabilities.APIVersions.Has \"example.test/v1/Widget\" }}'\n  password: '{{ .Values.password }}'\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	release := "apiVersion: core.convoy.kumodo.io/v1alpha1\nkind: Release\nmetadata: {name: app}\nspec:\n  clusterRef: {name: east}\n" +
		"  source: {helm: {url: 'https://charts.example.test', chart: app}}\n  render: {helm: {valuesFrom: [{kind: Secret, name: values}]}}\n"
	secret := "apiVersion: v1\nkind: Secret\nmetadata: {name: values}\nstringData: {values.yaml: 'password: S3NT1NEL'}\n"
	cluster := eastCluster + "status: {kubernetesVersion: v1.31.0, apiGroups: [{name: apps, versions: [v1]}, {name: core, versions: [v1]}]}\n"
	for want, args := range map[string][]string{
		"  apps: \"true\"\n  password: S3NT1NEL\n  version: v1.31.0\n  widget: \"false\"\n": nil,
		"  apps: \"true\"\n  password: S3NT1NEL\n  version: v1.30.1\n  widget: \"true\"\n":  {"--kube-version", "v1.30.1", "--api-versions", "example.test/v1/Widget"},
	} {
		out, _, err := rendered(t, "", append(args, "--source", dir), release, secret, cluster)
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%v: %q, %v", args, out, err)
		}
	}
}

func TestRenderAddsAPIVersionsToThoseThatHelmKnowsWhenNoStatusDoes(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "templates"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: app\nversion: 1.0.0\n",
		"templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  core: '{{ .Capabilities.APIVersions.Has \"v1\" }}'\n" +
			"  widget: '{{ .Capabilities.APIVersions.Has \"example.test/v1/Widget\" }}'\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	spec, _, _ := strings.Cut(plainRelease, "  targetNamespace")
	release := strings.Replace(spec, "configMap: {name: app}", "helm: {url: 'https://charts.example.test', chart: app}", 1)
	for want, args := range map[string][]string{
		"core: \"true\"\n  widget: \"false\"\n": nil,
		"core: \"true\"\n  widget: \"true\"\n":  {"--api-versions", "example.test/v1/Widget"},
	} {
		out, _, err := rendered(t, "", append(args, "--source", dir), release, eastCluster)
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%v: %q, %v", args, out, err)
		}
	}
}

func TestRenderRefusesWhatItCannotUseByName(t *testing.T) {
	cases := map[string]struct {
		args  []string
		texts []string
		want  string
	}{
		"no file":           {nil, nil, `required flag(s) "filename" not set`},
		"a missing file":    {[]string{"-f", "/no/such"}, nil, "/no/such"},
		"no Release":        {nil, []string{appSource}, "the files hold no Release"},
		"two Releases":      {nil, []string{plainRelease, strings.Replace(plainRelease, "name: app", "name: other", 1)}, "app and other"},
		"a Cluster twice":   {nil, []string{plainRelease, eastCluster, strings.Replace(eastCluster, "eu-1", "us-2", 1)}, "the files hold Cluster default/east more than once"},
		"a source twice":    {nil, []string{plainRelease, eastCluster, appSource, appSource}, "the files hold ConfigMap default/app more than once"},
		"another Cluster":   {nil, []string{plainRelease, strings.Replace(eastCluster, "east", "west", 1)}, "is for Cluster default/east, and the files hold Cluster default/west"},
		"an unknown field":  {nil, []string{strings.Replace(plainRelease, "targetNamespace", "targetNamspace", 1)}, `unknown field "spec.targetNamspace"`},
		"another kind":      {nil, []string{"apiVersion: apps/v1\nkind: Deployment\n"}, "it is a Deployment of apps/v1"},
		"no object":         {nil, []string{"hello"}, "document 1"},
		"a broken Secret":   {nil, []string{"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {a: S3NT1NEL!}\n"}, "it is no valid Secret"},
		"no source":         {nil, []string{plainRelease, eastCluster}, "ConfigMap app does not exist"},
		"another output":    {[]string{"-o", "table"}, []string{plainRelease}, `"table" is neither yaml nor json`},
		"a bad version":     {[]string{"--kube-version", "latest"}, []string{plainRelease, eastCluster, appSource}, `"latest" is no version`},
		"a loopback source": {nil, []string{strings.Replace(plainRelease, "configMap: {name: app}", "git: {url: 'https://127.0.0.1:1/app'}", 1), eastCluster}, "--allow-loopback"},
		"no metadata":       {nil, []string{plainRelease, appSource}, "region"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, _, err := rendered(t, "", tc.args, tc.texts...)
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "S3NT1NEL") {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}
