// Package monitoring judges the alerts and the dashboard of deploy/monitoring as Prometheus does: it evaluates their queries
// over series of its own. Its tests are all there is.
package monitoring
