package watcher

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"kumodo.io/convoy/activities"
	"kumodo.io/convoy/internal/connect"
	"kumodo.io/convoy/internal/dial"
)

// The description of a metric shows its name and labels only as text.
var described = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)

func TestTheDocumentedMetricsAreThoseThatThereAre(t *testing.T) {
	pool := connect.NewPool(stateOf(t).hub, dial.New(dial.Policy{}), connect.Options{})
	defer pool.Close()
	is := map[string][]string{}
	for _, c := range []prometheus.Collector{stateOf(t), newReceiver("", nil, nil, nil).count, pool, activities.NewMetrics()} {
		all := make(chan *prometheus.Desc)
		go func() {
			defer close(all)
			c.Describe(all)
		}()
		for d := range all {
			found := described.FindStringSubmatch(d.String())
			if found == nil {
				t.Fatalf("cannot read %s", d)
			}
			labels := slices.DeleteFunc(strings.Split(found[2], ","), func(l string) bool { return l == "" })
			slices.Sort(labels)
			is[found[1]] = labels
		}
	}
	text, err := os.ReadFile("../docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	told := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(convoy_[a-z_]+)` \\|([^|]*)\\|").FindAllStringSubmatch(string(text), -1) {
		labels := []string{}
		for _, l := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(row[2], -1) {
			labels = append(labels, l[1])
		}
		slices.Sort(labels)
		told[row[1]] = labels
	}
	if diff := cmp.Diff(is, told); diff != "" || len(is) < 20 {
		t.Errorf("docs/monitoring.md and the metrics differ (-is +told):\n%s", diff)
	}
}
