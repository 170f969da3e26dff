package activities

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"kumodo.io/convoy/internal/delivery"
)

// Metrics are about the probes that this process made, the rollouts that it concluded, and the Clusters that it observes. It is a prometheus.Collector.
type Metrics struct {
	probes   *prometheus.CounterVec
	failures *prometheus.GaugeVec
	duration *prometheus.HistogramVec
	rollouts *prometheus.HistogramVec
	observer observerMetrics

	mu   sync.Mutex
	seen map[names]time.Time
}

// names are those of a Cluster.
type names struct{ namespace, cluster string }

// forgottenAfter is how long the series of a Cluster are shown that this process did not probe any more: another one does,
// or it is gone.
const forgottenAfter = time.Hour

// NewMetrics returns metrics that count nothing yet.
func NewMetrics() *Metrics {
	return &Metrics{
		probes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "convoy_cluster_probes_total", Help: "Probes of a Cluster, by the reason of their verdict.",
		}, []string{"namespace", "cluster", "result"}),
		failures: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "convoy_cluster_probe_consecutive_failures",
			Help: "Probes of a Cluster that failed in a row, as the process knows that probed it last.",
		}, []string{"namespace", "cluster"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "convoy_cluster_probe_duration_seconds", Help: "Duration of probes, by the reason of their verdict.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60},
		}, []string{"result"}),
		rollouts: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "convoy_rollout_duration_seconds", Help: "Time from the begin of a rollout to its end, by the phase that it ended in and the reason.",
			Buckets: []float64{1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 14400, 86400},
		}, []string{"phase", "reason"}),
		observer: newObserverMetrics(),
		seen:     map[names]time.Time{},
	}
}

// probed counts one probe. failures is how many failed in a row by now.
func (m *Metrics) probed(k delivery.Key, result string, took time.Duration, failures int) {
	m.probes.WithLabelValues(k.Namespace, k.Name, result).Inc()
	m.failures.WithLabelValues(k.Namespace, k.Name).Set(float64(failures))
	m.duration.WithLabelValues(result).Observe(took.Seconds())
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen[names{k.Namespace, k.Name}] = time.Now()
}

// concluded counts a rollout that has ended.
func (m *Metrics) concluded(out StepResult, took time.Duration) {
	m.rollouts.WithLabelValues(string(out.Phase), out.Reason).Observe(took.Seconds())
}

// forget drops the series of a Cluster that is gone.
func (m *Metrics) forget(k delivery.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropLocked(names{k.Namespace, k.Name})
}

func (m *Metrics) dropLocked(n names) {
	delete(m.seen, n)
	labels := prometheus.Labels{"namespace": n.namespace, "cluster": n.cluster}
	m.probes.DeletePartialMatch(labels)
	m.failures.DeletePartialMatch(labels)
}

// sweep drops the series of Clusters that were last probed before a time.
func (m *Metrics) sweep(before time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for n, at := range m.seen {
		if at.Before(before) {
			m.dropLocked(n)
		}
	}
}

// Describe is that of a prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	m.probes.Describe(to)
	m.failures.Describe(to)
	m.duration.Describe(to)
	m.rollouts.Describe(to)
	for _, c := range m.observer.all() {
		c.Describe(to)
	}
}

// Collect is that of a prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.sweep(time.Now().Add(-forgottenAfter))
	m.probes.Collect(to)
	m.failures.Collect(to)
	m.duration.Collect(to)
	m.rollouts.Collect(to)
	for _, c := range m.observer.all() {
		c.Collect(to)
	}
}
