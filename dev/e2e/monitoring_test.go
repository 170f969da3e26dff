package e2e

import (
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestMetricsOfOthersAreServedAsDocumented looks at those that convoy does not make itself, by which alerts and the dashboard
// go too; those that it makes are compared where they are made.
func TestMetricsOfOthersAreServedAsDocumented(t *testing.T) {
	s := newScene(t)
	s.readyCluster("prod", alpha)
	s.greeting("source", "hello")
	s.release("app", "prod", "source")
	s.awaitDelivered("app")
	text, err := os.ReadFile(folder(t, "docs", "monitoring.md"))
	s.must(err)
	rows := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|([^|]*)\\|").FindAllStringSubmatch(string(text), -1)
	others := 0
	for _, row := range rows {
		if strings.HasPrefix(row[1], "convoy_") {
			continue
		}
		others++
		documented := []string{}
		for _, label := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(row[2], -1) {
			documented = append(documented, label[1])
		}
		slices.Sort(documented)
		s.eventually(row[1]+" is served", func(ctx context.Context) error {
			served, err := readMetrics(ctx)
			if _, is := labelsOf(served, row[1]); err == nil && !is {
				err = errors.New("it is not there")
			}
			return err
		})
		if labels, _ := labelsOf(sharedMetrics(t), row[1]); !slices.Equal(labels, documented) {
			t.Errorf("%s has the labels %v, and documented are %v", row[1], labels, documented)
		}
	}
	if others < 8 {
		t.Errorf("docs/monitoring.md has %d metrics of others", others)
	}
	for _, own := range []string{"convoy_release_condition", "convoy_cluster_condition", "convoy_rollout_duration_seconds", "convoy_watcher_leading"} {
		if _, is := labelsOf(sharedMetrics(t), own); !is {
			t.Errorf("%s is not served", own)
		}
	}
}

// labelsOf are all labels that series of a metric have, sorted; those of histograms without le.
func labelsOf(served, metric string) (labels []string, is bool) {
	series := regexp.MustCompile(`(?m)^` + metric + `(?:_bucket|_sum|_count)?(?:\{([^}]*)\})? `)
	labels = []string{}
	for _, found := range series.FindAllStringSubmatch(served, -1) {
		is = true
		for _, label := range regexp.MustCompile(`([a-z_]+)="`).FindAllStringSubmatch(found[1], -1) {
			if !slices.Contains(labels, label[1]) && label[1] != "le" {
				labels = append(labels, label[1])
			}
		}
	}
	slices.Sort(labels)
	return labels, is
}
