// Package telemetry decides what of Temporal's SDK is measured and traced: which labels its metrics keep, what belongs to
// one trace, and what a span may say. It knows nothing of what is delivered; cmd/convoy gives it to the client of Temporal.
package telemetry

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/opentelemetry"
)

// labels are those that metrics of the SDK may have: each has few values, and none is the name or ID of anything that
// users make. What the SDK may add one day is left out until it is listed here.
var labels = attribute.NewAllowKeysFilter(
	"namespace", "task_queue", "workflow_type", "activity_type", "worker_type", "poller_type", "operation", "status_code", "failure_reason",
)

// buckets go from what an idle Temporal takes to what is a queue that nobody serves, in seconds.
var buckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}

// Metrics registers those of Temporal's SDK, and returns what it hands them to.
func Metrics(registry prometheus.Registerer) (client.MetricsHandler, error) {
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo())
	if err != nil {
		return nil, fmt.Errorf("metrics of Temporal's SDK: %w", err)
	}
	all := metric.NewView(metric.Instrument{Name: "temporal_*"}, metric.Stream{AttributeFilter: labels})
	times := metric.NewView(metric.Instrument{Name: "temporal_*", Kind: metric.InstrumentKindHistogram}, metric.Stream{
		AttributeFilter: labels, Aggregation: metric.AggregationExplicitBucketHistogram{Boundaries: buckets, NoMinMax: true},
	})
	provider := metric.NewMeterProvider(metric.WithReader(reader), metric.WithView(func(i metric.Instrument) (metric.Stream, bool) {
		if stream, is := times(i); is { // the first view that knows it, not each of them
			return stream, true
		}
		return all(i)
	}))
	return opentelemetry.NewMetricsHandler(opentelemetry.MetricsHandlerOptions{
		Meter: provider.Meter("temporal-sdk-go"), UseMonotonicCounters: true,
		OnError: func(error) {}, // an instrument that cannot be made counts nothing, and no step fails for it
	}), nil
}
