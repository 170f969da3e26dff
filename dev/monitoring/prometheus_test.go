package monitoring

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/template"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
	"sigs.k8s.io/yaml"
)

// interval is how often series have a sample and rules are evaluated.
const interval = time.Minute

// rule is an alert of deploy/monitoring/alerts.yaml.
type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func rules(t *testing.T) []rule {
	t.Helper()
	text, err := os.ReadFile("../../deploy/monitoring/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string `json:"name"`
			Rules []rule `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		t.Fatal(err)
	}
	var all []rule
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// samples is a store of series, each with one sample a minute from the beginning of time.
type samples []*storage.SeriesEntry

// read makes series of lines in the notation of promtool's tests, such as `up{job="a"} 1x10 _x5 0+1x3`.
func read(t *testing.T, lines string) samples {
	t.Helper()
	var all samples
	for line := range strings.Lines(lines) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		name, values, err := parser.ParseSeriesDesc(strings.TrimSpace(line))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		var points []chunks.Sample
		for i, v := range values {
			if !v.Omitted {
				points = append(points, point{int64(i) * interval.Milliseconds(), v.Value})
			}
		}
		all = append(all, storage.NewListSeries(name, points))
	}
	return all
}

// Querier gives all series that match, whatever the time: the engine takes the samples that it wants.
func (s samples) Querier(int64, int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		found := &set{at: -1}
		for _, series := range s {
			unfit := func(m *labels.Matcher) bool { return !m.Matches(series.Lset.Get(m.Name)) }
			if !slices.ContainsFunc(matchers, unfit) {
				found.series = append(found.series, series)
			}
		}
		return found
	}}, nil
}

// set walks through series.
type set struct {
	series []*storage.SeriesEntry
	at     int
}

func (s *set) Next() bool                        { s.at++; return s.at < len(s.series) }
func (s *set) At() storage.Series                { return s.series[s.at] }
func (s *set) Err() error                        { return nil }
func (s *set) Warnings() annotations.Annotations { return nil }

// point is one sample of a series.
type point struct {
	at    int64
	value float64
}

func (p point) T() int64                      { return p.at }
func (p point) ST() int64                     { return 0 }
func (p point) F() float64                    { return p.value }
func (p point) H() *histogram.Histogram       { return nil }
func (p point) FH() *histogram.FloatHistogram { return nil }
func (p point) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (p point) Copy() chunks.Sample           { return p }

// engine evaluates queries as a Prometheus with its own settings does.
func engine(t *testing.T) *promql.Engine {
	t.Helper()
	e := promql.NewEngine(promql.EngineOpts{MaxSamples: 1_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute})
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// firing is what a rule tells of one series.
type firing struct {
	labels               map[string]string
	summary, description string
}

// fired evaluates a rule each minute, and gives the alerts that have been active for as long as it wants at the end.
func (r rule) fired(t *testing.T, over samples, end time.Duration) []firing {
	t.Helper()
	wait, err := model.ParseDuration(r.For)
	if err != nil {
		t.Fatalf("%s: for: %v", r.Alert, err)
	}
	e := engine(t)
	since := map[uint64]time.Duration{}
	var firings []firing
	for at := time.Duration(0); at <= end; at += interval {
		firings = nil
		active := map[uint64]bool{}
		for _, s := range query(t, e, over, r.Expr, at) {
			id := s.Metric.Hash()
			active[id] = true
			if _, was := since[id]; !was {
				since[id] = at
			}
			if at-since[id] >= time.Duration(wait) {
				firings = append(firings, r.tell(t, s))
			}
		}
		for id := range since {
			if !active[id] {
				delete(since, id)
			}
		}
	}
	return firings
}

func query(t *testing.T, e *promql.Engine, over samples, text string, at time.Duration) promql.Vector {
	t.Helper()
	q, err := e.NewInstantQuery(t.Context(), over, nil, text, time.Unix(0, 0).Add(at))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	defer q.Close()
	result := q.Exec(t.Context())
	if result.Err != nil {
		t.Fatalf("%s: %v", text, result.Err)
	}
	if len(result.Warnings) > 0 {
		t.Fatalf("%s: %v", text, result.Warnings)
	}
	vector, err := result.Vector()
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return slices.Clone(vector) // Close gives it back
}

// tell makes of one series what Prometheus sends.
func (r rule) tell(t *testing.T, s promql.Sample) firing {
	t.Helper()
	data := template.AlertTemplateData(s.Metric.Map(), nil, "", s)
	expand := func(text string) string {
		const names = `{{$labels := .Labels}}{{$value := .Value}}`
		out, err := template.NewTemplateExpander(t.Context(), names+text, r.Alert, data, 0, nil, nil, nil).Expand()
		if err != nil {
			t.Fatalf("%s: %v", r.Alert, err)
		}
		return out
	}
	f := firing{labels: s.Metric.Map(), summary: expand(r.Annotations["summary"]), description: expand(r.Annotations["description"])}
	delete(f.labels, model.MetricNameLabel)
	for name, value := range r.Labels {
		f.labels[name] = expand(value)
	}
	return f
}
