package monitoring

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

// dashboard is what a test has to know of Grafana's format.
type dashboard struct {
	Title, UID string
	Templating struct {
		List []struct{ Name string }
	}
	Panels []panel
}

type panel struct {
	Type, Title string
	Targets     []struct{ RefID, Expr, LegendFormat string }
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	text, err := os.ReadFile("../../deploy/monitoring/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// grafana fills in what Grafana would.
var grafana = strings.NewReplacer("$__rate_interval", "5m", "$namespace", ".*")

// selectors are those of a query.
func selectors(t *testing.T, text string) []*parser.VectorSelector {
	t.Helper()
	query, err := parser.ParseExpr(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	var all []*parser.VectorSelector
	parser.Inspect(query, func(n parser.Node, _ []parser.Node) error {
		if s, is := n.(*parser.VectorSelector); is {
			all = append(all, s)
		}
		return nil
	})
	return all
}

// documented are the labels of each metric that docs/monitoring.md lists.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|([^|]*)\\|").FindAllStringSubmatch(string(text), -1) {
		for _, label := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(row[2], -1) {
			all[row[1]] = append(all[row[1]], label[1])
		}
		if all[row[1]] == nil {
			all[row[1]] = []string{}
		}
	}
	return all
}

// of is the metric that a series belongs to: those of a histogram end in what they count.
func of(series string, known map[string][]string) string {
	for _, suffix := range []string{"_bucket", "_count", "_sum"} {
		if name, is := strings.CutSuffix(series, suffix); is && known[name] != nil {
			return name
		}
	}
	return series
}

func TestThePanelsAskForMetricsThatThereAre(t *testing.T) {
	d, known, variables := readDashboard(t), documented(t), regexp.MustCompile(`\$\w+`)
	asked := 0
	for _, p := range d.Panels {
		if p.Type == "row" {
			continue
		}
		if p.Title == "" || len(p.Targets) == 0 {
			t.Errorf("a panel %q asks for nothing", p.Title)
		}
		for _, target := range p.Targets {
			asked++
			text := grafana.Replace(target.Expr)
			if v := variables.FindString(text); v != "" {
				t.Errorf("%s: nothing fills in %s", p.Title, v)
			}
			checkNames(t, p.Title, text, known)
		}
	}
	if asked < 30 || d.UID != "convoy" {
		t.Errorf("%d queries on dashboard %q", asked, d.UID)
	}
}

func TestTheAlertsAskForMetricsThatThereAre(t *testing.T) {
	known := documented(t)
	for _, r := range rules(t) {
		checkNames(t, r.Alert, r.Expr, known)
	}
}

// checkNames finds metrics and labels that are not documented.
func checkNames(t *testing.T, where, query string, known map[string][]string) {
	t.Helper()
	for _, s := range selectors(t, query) {
		name := of(s.Name, known)
		has, is := known[name]
		if !is {
			t.Errorf("%s asks for %s, which docs/monitoring.md does not know", where, s.Name)
		}
		for _, m := range s.LabelMatchers {
			if m.Name != model.MetricNameLabel && !slices.Contains(has, m.Name) {
				t.Errorf("%s asks for the label %s of %s, which has %v", where, m.Name, s.Name, has)
			}
		}
	}
}

// Every query is evaluated, over one series of each metric: what parses may still be of no type that Grafana can draw.
func TestThePanelsCanBeEvaluated(t *testing.T) {
	var lines strings.Builder
	for name, has := range documented(t) {
		var labelled []string
		for _, l := range has {
			labelled = append(labelled, l+`="a"`)
		}
		for _, series := range []string{name, name + "_count", name + "_sum"} {
			lines.WriteString(series + "{" + strings.Join(labelled, ",") + "} 0+1x10\n")
		}
		for _, le := range []string{"1", "+Inf"} {
			lines.WriteString(name + "_bucket{" + strings.Join(append(labelled, `le="`+le+`"`), ",") + "} 0+1x10\n")
		}
	}
	over, e := read(t, lines.String()), engine(t)
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			query(t, e, over, grafana.Replace(target.Expr), 10*interval)
		}
	}
}
