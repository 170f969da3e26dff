package activities

import (
	"github.com/prometheus/client_golang/prometheus"

	"kumodo.io/convoy/internal/delivery"
)

// observerMetrics are about the Clusters that this process observes.
type observerMetrics struct {
	watches, objects, bytes *prometheus.GaugeVec
	kicks, handovers        *prometheus.CounterVec
	lag                     prometheus.Histogram
}

func newObserverMetrics() observerMetrics {
	cluster := []string{"namespace", "cluster"}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, cluster)
	}
	return observerMetrics{
		watches: gauge("convoy_observer_watches", "Kinds of a Cluster that this process watches; no series for a Cluster that another one observes."),
		objects: gauge("convoy_observer_objects", "Objects of a Cluster that this process keeps account of."),
		bytes:   gauge("convoy_observer_object_bytes", "What is kept of these objects; sets of fields that objects share are counted for each."),
		kicks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "convoy_observer_kicks_total", Help: "How often a Release was told that objects on a Cluster drifted and are to be corrected.",
		}, cluster),
		handovers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "convoy_observer_handovers_total", Help: "Clusters that this process has handed over to another, because it stops or after its tenure.",
		}, []string{"reason"}),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "convoy_observer_lag_seconds", Help: "Time from a change of an object, as heard from its Cluster, to the verdict about its Release.",
			Buckets: []float64{.05, .1, .25, .5, 1, 1.5, 2, 5, 10, 30},
		}),
	}
}

func (m *observerMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.watches, m.objects, m.bytes, m.kicks, m.handovers, m.lag}
}

func (m *observerMetrics) sees(k delivery.Key, watches, objects, bytes int) {
	m.watches.WithLabelValues(k.Namespace, k.Name).Set(float64(watches))
	m.objects.WithLabelValues(k.Namespace, k.Name).Set(float64(objects))
	m.bytes.WithLabelValues(k.Namespace, k.Name).Set(float64(bytes))
}

// forget drops the series of a Cluster that this process observes no more.
func (m *observerMetrics) forget(k delivery.Key) {
	labels := prometheus.Labels{"namespace": k.Namespace, "cluster": k.Name}
	m.watches.DeletePartialMatch(labels)
	m.objects.DeletePartialMatch(labels)
	m.bytes.DeletePartialMatch(labels)
	m.kicks.DeletePartialMatch(labels)
}
