package connect

import "github.com/prometheus/client_golang/prometheus"

// Why a client was closed, as the metric tells it.
const (
	// evictedChanged: the spec, or what it names, is another one, or cannot be used any more.
	evictedChanged = "changed"
	// evictedUnauthorized: the server does not accept the credentials any more.
	evictedUnauthorized = "unauthorized"
	// evictedDeleted: the Cluster is gone.
	evictedDeleted = "deleted"
	// evictedIdle: nobody asked for it for long.
	evictedIdle = "idle"
)

type poolMetrics struct {
	size      *prometheus.Desc
	evictions *prometheus.CounterVec
}

func newPoolMetrics() poolMetrics {
	m := poolMetrics{
		size: prometheus.NewDesc("convoy_connections", "Clients of Clusters that this process holds.", nil, nil),
		evictions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "convoy_connection_evictions_total", Help: "Clients of Clusters that were closed, by reason.",
		}, []string{"reason"}),
	}
	for _, reason := range []string{evictedChanged, evictedUnauthorized, evictedDeleted, evictedIdle} {
		m.evictions.WithLabelValues(reason) // shown as 0 from the start
	}
	return m
}
