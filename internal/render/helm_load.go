package render

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/ignore"

	"kumodo.io/convoy/internal/delivery"
)

// The bounds of a chart with all that it holds.
const (
	maxChartDepth = 8         // charts within charts
	maxChartBytes = 100 << 20 // of all archives in it, unpacked
	maxCharts     = 500
)

// chartFile is the file that makes a folder a chart.
const chartFile = "Chart.yaml"

// chartLoader reads a chart and those in its folder charts. Helm's own loader would take them in no particular order, and
// bounds each archive alone.
type chartLoader struct {
	unpacked int64 // bytes of archives
	charts   int
}

// loadChart reads the chart in the root of files.
func loadChart(ctx context.Context, files map[string][]byte) (*chart.Chart, error) {
	own, err := withoutIgnored(files)
	if err != nil {
		return nil, err
	}
	c, err := new(chartLoader).load(ctx, own, "", 0)
	if err != nil {
		return nil, err
	}
	if t := c.Metadata.Type; t != "" && t != "application" {
		return nil, invalid("%s: a chart of the type %s is not one to be installed", chartFile, delivery.Short(t))
	}
	var missing []string
	for _, d := range c.Metadata.Dependencies {
		if d != nil && !slices.ContainsFunc(c.Dependencies(), func(s *chart.Chart) bool { return s.Name() == d.Name }) {
			missing = append(missing, delivery.Short(d.Name))
		}
	}
	if missing != nil {
		return nil, invalid("the chart depends on %s, which its folder charts does not hold; nothing is downloaded at a render: add it with \"helm dependency build\", or take the chart from a chart repository",
			strings.Join(missing, ", "))
	}
	return c, nil
}

// withoutIgnored leaves out what Helm leaves out of a folder, by .helmignore and by its own rule.
func withoutIgnored(files map[string][]byte) (map[string][]byte, error) {
	rules, err := ignore.Parse(bytes.NewReader(files[ignore.HelmIgnore]))
	if err != nil {
		return nil, invalid("%s: it is not valid", ignore.HelmIgnore)
	}
	rules.AddDefaults()
	own := make(map[string][]byte, len(files))
	for name, content := range files {
		if !strings.HasPrefix(name, "../") && !ignored(rules, name) {
			own[name] = content
		}
	}
	return own, nil
}

func ignored(rules *ignore.Rules, name string) bool {
	for i, r := range name {
		if r == '/' && rules.Ignore(name[:i], entry{dir: true, name: path.Base(name[:i])}) {
			return true
		}
	}
	return rules.Ignore(name, entry{name: path.Base(name)})
}

// entry is what the rules of .helmignore ask of a file.
type entry struct {
	name string
	dir  bool
}

func (e entry) Name() string     { return e.name }
func (entry) Size() int64        { return 0 }
func (entry) ModTime() time.Time { return time.Time{} }
func (e entry) IsDir() bool      { return e.dir }
func (entry) Sys() any           { return nil }

func (e entry) Mode() fs.FileMode {
	if e.dir {
		return fs.ModeDir
	}
	return 0
}

// load reads one chart; where is its path for messages, "" for the root or ending with a slash.
func (l *chartLoader) load(ctx context.Context, files map[string][]byte, where string, depth int) (*chart.Chart, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if l.charts++; l.charts > maxCharts || depth > maxChartDepth {
		return nil, invalid("%s: the chart holds too many charts: at most %d, at most %d deep", where, maxCharts, maxChartDepth)
	}
	if _, ok := files[chartFile]; !ok {
		return nil, invalid("%s is missing", where+chartFile)
	}
	own, subcharts := splitCharts(files)
	c, err := loadOwn(own, where)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(subcharts)) {
		inner := where + "charts/" + name
		if path.Ext(name) == ".tgz" {
			if subcharts[name], err = l.unpack(subcharts[name][""], inner); err != nil {
				return nil, err
			}
		}
		sub, err := l.load(ctx, subcharts[name], inner+"/", depth+1)
		if err != nil {
			return nil, err
		}
		key := sub.Name() + " " + sub.Metadata.Version
		if seen[key] {
			return nil, invalid("%s: the chart %s is there twice", where+"charts", delivery.Short(key))
		}
		seen[key] = true
		c.AddDependency(sub)
	}
	return c, nil
}

// splitCharts sets the charts in the folder charts apart, by their file or folder, as Helm does.
func splitCharts(files map[string][]byte) (own map[string][]byte, subcharts map[string]map[string][]byte) {
	own, subcharts = map[string][]byte{}, map[string]map[string][]byte{}
	for name, content := range files {
		inner, ok := strings.CutPrefix(name, "charts/")
		if !ok || path.Ext(name) == ".prov" {
			own[name] = content
			continue
		}
		chartName, file, isFolder := strings.Cut(inner, "/")
		switch {
		case strings.IndexAny(chartName, "_.") == 0:
		case !isFolder && path.Ext(chartName) != ".tgz": // a README or the like
		default:
			if subcharts[chartName] == nil {
				subcharts[chartName] = map[string][]byte{}
			}
			subcharts[chartName][file] = content
		}
	}
	return own, subcharts
}

// unpack reads an archive of a chart. All of it counts, also headers: they may be many.
func (l *chartLoader) unpack(packed []byte, where string) (map[string][]byte, error) {
	plain, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, invalid("%s: it is not a valid archive of a chart", where)
	}
	size, err := io.Copy(io.Discard, io.LimitReader(plain, maxChartBytes-l.unpacked+1))
	if err != nil {
		return nil, invalid("%s: it is not a valid archive of a chart", where)
	}
	if l.unpacked += size; l.unpacked > maxChartBytes {
		return nil, invalid("%s: the archives of the chart are too large unpacked: at most %d MiB", where, maxChartBytes>>20)
	}
	entries, err := archive.LoadArchiveFiles(bytes.NewReader(packed))
	if err != nil {
		return nil, invalid("%s: it is not a valid archive of a chart", where)
	}
	files := make(map[string][]byte, len(entries))
	for _, f := range entries {
		files[f.Name] = f.Data
	}
	return files, nil
}

// loadOwn reads a chart without those in its folder charts.
func loadOwn(files map[string][]byte, where string) (c *chart.Chart, err error) {
	defer func() {
		if p := recover(); p != nil { // the files are untrusted
			c, err = nil, invalid("%s: the chart cannot be read", where+chartFile)
		}
	}()
	var buffered []*archive.BufferedFile
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if name == "values.yaml" {
			continue // read below, with exact numbers
		}
		buffered = append(buffered, &archive.BufferedFile{Name: name, Data: bytes.TrimPrefix(files[name], []byte("\xef\xbb\xbf"))})
	}
	if c, err = loader.LoadFiles(buffered); err != nil {
		return nil, invalid("%s", where+explainLoad(files, err))
	}
	if c.Values, err = chartValues(files["values.yaml"]); err != nil {
		return nil, invalid("%svalues.yaml: %v", where, err)
	}
	return c, nil
}

// explainLoad makes a message of an error of Helm's loader. An error of its validation names fields only.
func explainLoad(files map[string][]byte, err error) string {
	if v, ok := errors.AsType[chart.ValidationError](err); ok {
		return chartFile + ": " + delivery.Short(strings.TrimPrefix(v.Error(), "validation: "))
	}
	for _, name := range []string{chartFile, "Chart.lock", "requirements.yaml", "requirements.lock"} {
		if _, err := parseYAML(files[name]); err != nil {
			return name + ": " + err.Error()
		}
	}
	return chartFile + ": a field has not the type that it must have"
}

// checkKubernetes compares the version of the target with what the chart asks for.
func checkKubernetes(c *chart.Chart, version string) error {
	if want := c.Metadata.KubeVersion; want != "" && !chartutil.IsCompatibleRange(want, version) {
		return invalid("the chart needs Kubernetes %s, and the target has %s", delivery.Short(want), version)
	}
	return nil
}
