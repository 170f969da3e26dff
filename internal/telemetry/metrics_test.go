package telemetry

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
)

func TestMetricsOfTheSDKKeepTheirNamesAndLoseWhatHasNoBounds(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	handler, err := Metrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"release/team/a", "release/team/b"} {
		tagged := handler.WithTags(map[string]string{"namespace": "hub", "task_queue": "convoy", "workflow_id": id})
		tagged.Counter("temporal_request").Inc(2)
		tagged.Gauge("temporal_num_pollers").Update(3)
		tagged.Timer("temporal_activity_schedule_to_start_latency").Record(20 * time.Millisecond)
	}
	const want = `
# HELP temporal_num_pollers 
# TYPE temporal_num_pollers gauge
temporal_num_pollers{namespace="hub",task_queue="convoy"} 3
# HELP temporal_request_total 
# TYPE temporal_request_total counter
temporal_request_total{namespace="hub",task_queue="convoy"} 4
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "temporal_num_pollers", "temporal_request_total"); err != nil {
		t.Error(err)
	}
	n, err := testutil.GatherAndCount(registry)
	if err != nil || n != 3 {
		t.Errorf("%d series, %v; want one of each metric", n, err)
	}
	const bucket = `temporal_activity_schedule_to_start_latency_seconds_bucket{namespace="hub",task_queue="convoy",le="0.025"} 2`
	if text := exposition(t, registry); !strings.Contains(text, bucket) {
		t.Errorf("no line %s in\n%s", bucket, text)
	}
}

func exposition(t *testing.T, from prometheus.Gatherer) string {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			t.Fatal(err)
		}
	}
	return text.String()
}
