package render

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Masterminds/sprig/v3"
	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"

	"kumodo.io/convoy/internal/failure"
)

// aChart is a small chart with more files, or other ones.
func aChart(more map[string]string) map[string][]byte {
	files := map[string][]byte{"Chart.yaml": []byte("apiVersion: v2\nname: web\nversion: 1.0.0\n")}
	for name, content := range more {
		files[name] = []byte(content)
	}
	return files
}

// oneTemplate is a chart of one template.
func oneTemplate(text string) map[string][]byte {
	return aChart(map[string]string{"templates/a.yaml": text})
}

const head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  x: "

// dataOf renders a chart and returns the data of its one ConfigMap.
func dataOf(t *testing.T, in Input) string {
	t.Helper()
	out, err := Render(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Objects) != 1 {
		t.Fatalf("%d objects", len(out.Objects))
	}
	data, _ := out.Objects[0].Object["data"].(map[string]any)
	text, err := json.Marshal(data["x"])
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func chartInput(t *testing.T) Input {
	t.Helper()
	return Input{Files: filesBelow(t, "testdata/chart", ""), TargetNamespace: "apps", Helm: &HelmInput{
		ReleaseName: "shop", Namespace: "apps", IncludeCRDs: true,
		Values:       map[string]any{"replicas": int64(3), "cache": map[string]any{"size": json.Number("4")}, "removed": map[string]any{"a": nil}},
		Capabilities: Capabilities{KubernetesVersion: "v1.34.1", APIVersions: []string{"apps/v1", "v1"}},
	}}
}

func TestAChartMatchesItsGoldenFile(t *testing.T) {
	out, err := Render(t.Context(), chartInput(t))
	if err != nil {
		t.Fatal(err)
	}
	matchGolden(t, "chart", out.Canonical)
	if diff := cmp.Diff([]string{"shop/templates/test.yaml, document 1: test Pod probe"}, out.Skipped); diff != "" {
		t.Errorf("skipped:\n%s", diff)
	}
}

// helmSays is what Helm's own engine makes of a chart.
func helmSays(t *testing.T, in Input) map[string]string {
	t.Helper()
	var files []*archive.BufferedFile
	for name, content := range in.Files {
		if !strings.HasSuffix(name, ".bak") {
			files = append(files, &archive.BufferedFile{Name: name, Data: content})
		}
	}
	c, err := loader.LoadFiles(files)
	if err != nil {
		t.Fatal(err)
	}
	given, _ := forTemplate(in.Helm.Values).(map[string]any)
	if err := chartutil.ProcessDependencies(c, given); err != nil {
		t.Fatal(err)
	}
	caps, err := capabilitiesOf(in.Helm.Capabilities)
	if err != nil {
		t.Fatal(err)
	}
	options := common.ReleaseOptions{Name: in.Helm.ReleaseName, Namespace: in.Helm.Namespace, Revision: 1, IsInstall: true}
	values, err := util.ToRenderValues(c, given, options, caps)
	if err != nil {
		t.Fatal(err)
	}
	texts, err := engine.Render(c, values)
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

// weSay is what this package makes of a chart.
func weSay(t *testing.T, in Input) map[string]string {
	t.Helper()
	c, err := loadChart(t.Context(), in.Files)
	if err != nil {
		t.Fatal(err)
	}
	texts, err := renderChart(t.Context(), c, *in.Helm, nil)
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

func TestTemplatesGiveWhatHelmsEngineGives(t *testing.T) {
	in := chartInput(t)
	if diff := cmp.Diff(helmSays(t, in), weSay(t, in)); diff != "" {
		t.Errorf("(-helm +convoy):\n%s", diff)
	}
}

func TestFunctionsGiveWhatHelmsGive(t *testing.T) {
	for _, expression := range []string{
		`toYaml .Values`, `toYamlPretty .Values`, `mustToYaml .Values.m`, `toJson .Values`, `toPrettyJson .Values`, `toRawJson "<a>"`, `mustToJson .Values.l`,
		`toToml .Values.m`, `mustToToml .Values.m`, `fromToml "a = 1\n[b]\nc = \"d\""`, `fromToml "["`,
		`fromYaml "a: 1\nb: [1.5, x, null]"`, `fromYaml "["`, `fromYaml "- a"`, `fromYaml ""`, `fromYamlArray "- 1\n- a"`, `fromYamlArray "a: b"`,
		`fromJson "{\"a\": [1, 2.5]}"`, `fromJson "["`, `fromJson "null"`, `fromJsonArray "[1, null]"`, `fromJsonArray "{"`, `mustFromJson "[1]"`,
		`durationSeconds "1h2m"`, `durationMinutes 90`, `durationHours "1.5"`, `durationDays "48h"`, `durationWeeks "x"`, `mustToDuration "3s"`, `durationRoundTo "2h13m" "1h"`,
		`durationTruncateTo "2h43m" "1h"`, `durationMilliseconds 1.5`, `durationNanoseconds "1us"`, `durationMicroseconds nil`, `durationRoundTo "2h" "x"`,
		`durationRound "2h10m"`, `durationRound "2400h"`, `durationRound "x"`, `durationRound "-2h"`, `duration "95"`,
		`date "2006-01-02T15:04" (toDate "2006-01-02" "2024-03-04")`, `dateInZone "15:04" (int64 3600) "UTC"`, `htmlDateInZone (int64 86400) "UTC"`, `unixEpoch (toDate "2006-01-02" "2024-03-04")`,
		`dateModify "1h" (toDate "2006-01-02" "2024-03-04") | date "15:04"`, `must_date_modify "1h" (toDate "2006-01-02" "2024-03-04") | unixEpoch`,
		`print 1 "a" 2 3`, `println "a"`, `printf "%s-%v-%q-%05.1f-%d" "a" .Values.num "q" 1.5 7`, `printf "%d" (int64 5)`, `printf "%v" .Values.l`,
		`until 3`, `until -2`, `untilStep 1 10 3`, `untilStep 10 1 -4`, `untilStep 1 10 0`, `seq 3`, `seq 2 5`, `seq 1 2 7`, `repeat 3 "ab"`, `indent 2 "a\nb"`, `nindent 2 "a\n"`,
		`keys .Values.m | sortAlpha`, `values .Values.m | sortAlpha`, `set .Values.m "new" "v"`, `merge .Values.m (dict "x" 1)`, `mergeOverwrite (dict "x" 1) (dict "x" 2 "y" 3)`, `mustMerge (dict) (dict "a" (dict "b" 1))`,
		`has 1.0 .Values.l`, `has "x" (list "x")`, `mustHas 1 nil`, `has "v1" .Capabilities.APIVersions`, `required "x" .Values.num`, `lookup "a" "b" "c" "d"`, `default "d" .Values.nope`, `.Values.nope`, `coalesce nil "" "a"`,
		`eq .Values.num 3.0`, `kindOf .Values.num`, `typeOf .Values.num`, `int .Values.num | add 1`, `.Values.num | mul 2`, `len .Values.l`, `index .Values.l 1`, `dig "a" "b" "d" .Values.m`, `semverCompare ">=1.0" "1.2"`, `b64enc "a" | b64dec`,
		`regexReplaceAll "a(b)" "ab" "$1"`, `splitList "," "a,b"`, `tuple 1 "a" | first`, `ternary 1 2 true`, `derivePassword 1 "long" "p" "u" "s"`, `urlParse "http://a/b?c"`, `tpl "{{ .Values.num }}{{ define \"in\" }}x{{ end }}{{ include \"in\" . }}" .`, `tpl "a <no value> {{ .Values.nope }}" .`,
	} {
		t.Run(expression, func(t *testing.T) {
			in := Input{Files: aChart(map[string]string{
				"values.yaml":      "num: 3\nf: 2.5\nl: [1, two, null]\nm: {a: {b: c}, z: \"1\", e: 1e3}\n",
				"templates/a.yaml": "{{ " + expression + " }}",
			}), Helm: &HelmInput{ReleaseName: "r", Namespace: "n"}}
			if diff := cmp.Diff(helmSays(t, in), weSay(t, in)); diff != "" {
				t.Errorf("(-helm +convoy):\n%s", diff)
			}
		})
	}
}

// named finds the functions in the source of Helm's engine, which exports no list of them.
var named = regexp.MustCompile(`(?m)^\s*(?:funcMap\[)?"([a-z][A-Za-z0-9]+)"(?:: |\] = )`)

func TestEveryFunctionOfHelmIsKnown(t *testing.T) {
	ours := (&templates{}).allFunctions()
	known := func(name string) bool {
		_, ok := ours[name]
		return ok || slices.Contains([]string{"include", "tpl", "env", "expandenv"}, name)
	}
	for name := range sprig.TxtFuncMap() {
		if !known(name) {
			t.Errorf("sprig has %s, and no list says whether charts may call it", name)
		}
	}
	source := engineSource(t)
	found := 0
	for _, m := range named.FindAllSubmatch(source, -1) {
		found++
		if !known(string(m[1])) {
			t.Errorf("Helm has %s, and no list says whether charts may call it", m[1])
		}
	}
	if found < 25 {
		t.Errorf("only %d functions were found in Helm's engine", found)
	}
}

// engineSource is the source of the functions of Helm's engine.
func engineSource(t *testing.T) []byte {
	t.Helper()
	pc := reflect.ValueOf(engine.Render).Pointer()
	file, _ := runtime.FuncForPC(pc).FileLine(pc)
	dir := file[:strings.LastIndex(file, "/")+1]
	var source []byte
	for _, name := range []string{"funcs.go", "engine.go"} {
		content, err := os.ReadFile(dir + name)
		if err != nil {
			t.Fatal(err)
		}
		source = append(source, content...)
	}
	return source
}

func TestAChartRenderedAHundredTimesGivesTheSameBytes(t *testing.T) {
	in := chartInput(t)
	in.Files["templates/keys.yaml"] = []byte(head + `{{ keys .Values | join "," }}{{ values .Values.limits | join "," }}` + "\n")
	first, err := Render(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	names := slices.Collect(maps.Keys(in.Files))
	for range 99 {
		rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		again := in
		again.Files = map[string][]byte{}
		for _, name := range names {
			again.Files[name] = in.Files[name]
		}
		out, err := Render(t.Context(), again)
		if err != nil {
			t.Fatal(err)
		}
		if out.Digest != first.Digest {
			t.Fatalf("two renders differ:\n%s", cmp.Diff(string(first.Canonical), string(out.Canonical)))
		}
	}
}

func TestNumbersOfValuesSurvive(t *testing.T) {
	for name, tc := range map[string]struct{ template, want string }{
		"a large integer printed":        {`{{ .Values.big }}`, `1234567890`},
		"a large integer of the chart":   {`{{ .Values.own }}`, `9007199254740993`},
		"a large integer as YAML":        {`{{ toYaml .Values.exact }}`, `9007199254740993`},
		"a large integer quoted":         {`{{ .Values.big | quote }}`, `"1234567890"`},
		"a large integer as a float":     {`{{ printf "%.0f" .Values.big | quote }}`, `"1234567890"`},
		"a large integer as a decimal":   {`{{ printf "%d" .Values.big | quote }}`, `"1234567890"`},
		"a large integer computed with":  {`{{ add .Values.big 1 }}`, `1234567891`},
		"a large integer through YAML":   {`{{ (toYaml .Values | fromYaml).exact }}`, `9007199254740993`},
		"a large integer through JSON":   {`{{ (toJson .Values | fromJson).exact }}`, `9007199254740993`},
		"a small integer is as for Helm": {`{{ kindOf .Values.small }} {{ .Values.small }}`, `"float64 80"`},
		"a quoted number":                {`{{ toYaml .Values.quoted }}`, `"0123"`},
		"a fraction":                     {`{{ .Values.fraction }}`, `0.25`},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{Files: oneTemplate(head + tc.template), Helm: &HelmInput{Values: map[string]any{
				"big": json.Number("1234567890"), "exact": int64(9007199254740993), "small": 80, "quoted": "0123", "fraction": 0.25,
			}}}
			in.Files["values.yaml"] = []byte("own: 9007199254740993")
			if got := dataOf(t, in); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestAChartWithoutSettingsTakesThoseOfTheRelease(t *testing.T) {
	in := Input{Files: oneTemplate(head + `{{ .Release.Name }} {{ .Release.Namespace }}`), TargetNamespace: "apps", Context: inContext()}
	if got := dataOf(t, in); got != `"shop apps"` {
		t.Error(got)
	}
	in.Files = aChart(map[string]string{"crds/a.yaml": head + "crd"})
	if got := dataOf(t, in); got != `"crd"` {
		t.Error(got)
	}
}

func TestDatesDoNotDependOnTheZoneOfTheMachine(t *testing.T) {
	was := time.Local
	time.Local = time.FixedZone("far", 9*3600)
	t.Cleanup(func() { time.Local = was })
	in := Input{Files: oneTemplate(head + `{{ date "2006-01-02 15:04" 0 }} {{ toDate "2006-01-02" "2024-03-04" | unixEpoch }}{{ htmlDate 0 }}`)}
	if got := dataOf(t, in); got != `"1970-01-01 00:00 17095104001970-01-01"` {
		t.Error(got)
	}
}

func TestWhatIsWrongWithAChartIsNamed(t *testing.T) {
	dependsOn := "apiVersion: v2\nname: web\nversion: 1.0.0\ndependencies: [{name: db, version: 1.x, repository: \"https://S3NT1NEL\"}]\n"
	bomb := string(packed(t, map[string]string{"db/Chart.yaml": "x", "db/zero": strings.Repeat("0", maxChartBytes+1)}))
	for name, tc := range map[string]struct {
		files   map[string]string
		message string
	}{
		"a dependency":                {map[string]string{"Chart.yaml": dependsOn}, `the chart depends on db, which its folder charts does not hold; nothing is downloaded at a render: add it with "helm dependency build", or take the chart from a chart repository`},
		"a chart without a name":      {map[string]string{"Chart.yaml": "apiVersion: v2\nversion: 1.0.0"}, "Chart.yaml: chart.metadata.name is required"},
		"a chart that is no YAML":     {map[string]string{"Chart.yaml": "a: ["}, "Chart.yaml: line 1: it is not valid YAML: did not find expected node content"},
		"a chart of the wrong type":   {map[string]string{"Chart.yaml": "apiVersion: v2\nname: [S3NT1NEL]\nversion: 1.0.0"}, "Chart.yaml: a field has not the type that it must have"},
		"a library":                   {map[string]string{"Chart.yaml": "apiVersion: v2\nname: a\nversion: 1.0.0\ntype: library"}, "Chart.yaml: a chart of the type library is not one to be installed"},
		"values that are no map":      {map[string]string{"values.yaml": "[S3NT1NEL]"}, "values.yaml: it is not a map"},
		"a later Kubernetes":          {map[string]string{"Chart.yaml": "apiVersion: v2\nname: a\nversion: 1.0.0\nkubeVersion: \">=1.99\""}, "the chart needs Kubernetes >=1.99, and the target has v1.20.0"},
		"an archive that is broken":   {map[string]string{"charts/db.tgz": "x"}, "charts/db.tgz: it is not a valid archive of a chart"},
		"an archive that is a bomb":   {map[string]string{"charts/db.tgz": bomb}, "charts/db.tgz: the archives of the chart are too large unpacked: at most 100 MiB"},
		"a subchart that is none":     {map[string]string{"charts/db/values.yaml": "a: b"}, "charts/db/Chart.yaml is missing"},
		"a chart that is there twice": {map[string]string{"charts/a/Chart.yaml": "apiVersion: v2\nname: db\nversion: 1.0.0", "charts/b/Chart.yaml": "apiVersion: v2\nname: db\nversion: 1.0.0"}, "charts: the chart db 1.0.0 is there twice"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Render(t.Context(), Input{Files: aChart(tc.files)})
			wantInvalid(t, err, tc.message)
		})
	}
}

func packed(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	w := tar.NewWriter(zip)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(files[name])); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), zip.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestAChartInAnArchiveIsRead(t *testing.T) {
	in := Input{Files: aChart(map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\ndependencies: [{name: db, version: 1.x, alias: store}]\n",
		"charts/db-1.0.0.tgz": string(packed(t, map[string]string{
			"db/Chart.yaml": "apiVersion: v2\nname: db\nversion: 1.0.0", "db/values.yaml": "x: 1",
			"db/templates/a.yaml": head + "{{ .Values.x }}{{ .Chart.Name }}",
		})),
		"charts/README.md": "x",
	}), Helm: &HelmInput{Values: map[string]any{"store": map[string]any{"x": "v"}}}}
	if got := dataOf(t, in); got != `"vstore"` {
		t.Error(got)
	}
}

func TestRenderingAChartEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	in := oneTemplate(head + `{{ $l := until 50000 }}{{ range $l }}{{ range $l }}{{ end }}{{ end }}`)
	if _, err := Render(ctx, Input{Files: in}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

func TestAFailingAPIGroupIsAsGoodAsUnknown(t *testing.T) {
	const message = "the chart asks which versions of the API group metrics.k8s.io the target has, and the target does not say at the moment: is the API service behind it available?"
	for name, tc := range map[string]struct{ template, want string }{
		"it is asked for":               {`{{ if .Capabilities.APIVersions.Has "metrics.k8s.io/v1" }}a{{ end }}`, ""},
		"a kind of it is asked for":     {`{{ .Capabilities.APIVersions.Has "metrics.k8s.io/v1/Pod" }}`, ""},
		"it is asked for by has":        {`{{ has "metrics.k8s.io/v1" .Capabilities.APIVersions }}`, ""},
		"all are gone through":          {`{{ range .Capabilities.APIVersions }}x{{ end }}`, ""},
		"all are printed":               {`{{ .Capabilities.APIVersions }}`, ""},
		"all are written":               {`{{ toYaml .Capabilities.APIVersions }}`, ""},
		"another that is there":         {`{{ .Capabilities.APIVersions.Has "apps/v1" }}`, `true`},
		"another that is not there":     {`{{ .Capabilities.APIVersions.Has "batch/v1" }}`, `false`},
		"the core group":                {`{{ .Capabilities.APIVersions.Has "v2" }}`, `false`},
		"a version of it that is there": {`{{ .Capabilities.APIVersions.Has "metrics.k8s.io/v1beta1" }}`, `true`},
		"the version of Kubernetes":     {`{{ .Capabilities.KubeVersion.Version }} {{ .Capabilities.KubeVersion.Minor }} {{ .Capabilities.KubeVersion }}`, `"v1.34.1-eks 34 v1.34.1"`},
		"the version of Helm":           {`{{ semverCompare ">=3.0" .Capabilities.HelmVersion.Version }}`, `true`},
		"not at all":                    {`{{ .Release.IsInstall }}`, `true`},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{Files: oneTemplate(head + tc.template), Helm: &HelmInput{Capabilities: Capabilities{
				KubernetesVersion: "v1.34.1-eks", APIVersions: []string{"apps/v1", "metrics.k8s.io/v1beta1", "v1"}, FailingGroups: []string{"metrics.k8s.io"},
			}}}
			if tc.want != "" {
				if got := dataOf(t, in); got != tc.want {
					t.Errorf("got %s, want %s", got, tc.want)
				}
				return
			}
			_, err := Render(t.Context(), in)
			f, ok := failure.As(err)
			if !ok || f.Terminal || f.Message != message {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestVersionsCanBeGoneThroughWhenAllAreKnown(t *testing.T) {
	in := Input{Files: oneTemplate(head + `{{ range .Capabilities.APIVersions }}{{ . }} {{ end }}`), Helm: &HelmInput{Capabilities: Capabilities{APIVersions: []string{"apps/v1", "v1"}}}}
	if got := dataOf(t, in); got != `"apps/v1 v1"` {
		t.Error(got)
	}
}
