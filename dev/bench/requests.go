package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/grpc"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"kumodo.io/convoy/dev/env"
)

// counts counts things by what they are: requests such as "patch releases/status" and "PollActivityTaskQueue", or
// events of workflows.
type counts map[string]int

func (c counts) minus(o counts) counts {
	d := counts{}
	for what, n := range c {
		if n > o[what] {
			d[what] = n - o[what]
		}
	}
	return d
}

// sum adds those that keep accepts.
func (c counts) sum(keep func(kind, of string) bool) float64 {
	sum := 0.0
	for what, n := range c {
		kind, of, _ := strings.Cut(what, " ")
		if keep(kind, of) {
			sum += float64(n)
		}
	}
	return sum
}

func isRead(verb, _ string) bool { return verb == "get" || verb == "list" || verb == "watch" }

func isAny(_, _ string) bool { return true }

func isEvent(_, resource string) bool { return resource == "events" }

// isWrite is about all writes but Events, which have a budget of their own.
func isWrite(verb, resource string) bool { return !isRead(verb, resource) && !isEvent(verb, resource) }

// isAttempt is about the end of an attempt of an activity, as the Temporal server counts it.
func isAttempt(operation, _ string) bool {
	return operation == "RespondActivityTaskCompleted" || operation == "RespondActivityTaskFailed" || operation == "RespondActivityTaskCanceled"
}

// served counts the requests of convoy that a control plane has answered.
func served(c *env.ControlPlane) (counts, error) {
	events, err := c.AuditEvents()
	if err != nil {
		return nil, err
	}
	all := counts{}
	for i := range events {
		if what := request(&events[i]); what != "" {
			all[what]++
		}
	}
	return all, nil
}

// request says what a request of convoy was; "" is none of convoy's, or one that is recorded twice.
func request(e *auditv1.Event) string {
	stage := auditv1.StageResponseComplete
	if e.Verb == "watch" { // which is recorded when it begins, and again when it ends
		stage = auditv1.StageResponseStarted
	}
	if e.User.Username != user || e.Stage != stage {
		return ""
	}
	if e.ObjectRef == nil {
		path, _, _ := strings.Cut(e.RequestURI, "?")
		return e.Verb + " " + path
	}
	resource := e.ObjectRef.Resource
	if e.ObjectRef.Subresource != "" {
		resource += "/" + e.ObjectRef.Subresource
	}
	return e.Verb + " " + resource
}

// ownCalls counts the bench's own requests to Temporal, by operation.
type ownCalls struct {
	mu     sync.Mutex
	counts counts
}

// intercept is a gRPC interceptor.
func (o *ownCalls) intercept(
	ctx context.Context, method string, in, out any, conn *grpc.ClientConn, next grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	o.mu.Lock()
	o.counts[path.Base(method)]++
	o.mu.Unlock()
	return next(ctx, method, in, out, conn, options...)
}

func (o *ownCalls) snapshot() counts {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.counts)
}

// metricsLag is how long the Temporal server may take to show a request in its metrics.
const metricsLag = 2 * time.Second

// handled counts the requests that the Temporal server has had up to now, by operation, without the bench's own.
func (w *world) handled(ctx context.Context) (counts, error) {
	timer := time.NewTimer(metricsLag)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	all, err := operations(ctx, w.local.Temporal.Metrics)
	return all.minus(w.calls.snapshot()), err
}

// operations counts the requests of the frontend in the metrics of a Temporal server.
func operations(ctx context.Context, metrics string) (counts, error) {
	families, err := scrape(ctx, metrics)
	if err != nil {
		return nil, fmt.Errorf("read the metrics of Temporal: %w", err)
	}
	family := families["service_requests"]
	if family == nil {
		return nil, errors.New("the metrics of Temporal do not count its requests")
	}
	all := counts{}
	for _, m := range family.GetMetric() {
		if label(m, "service_name") == "frontend" {
			all[label(m, "operation")] += int(m.GetCounter().GetValue())
		}
	}
	return all, nil
}

// scrape reads metrics, by name. Its connection does not outlive it.
func scrape(ctx context.Context, url string) (map[string]*dto.MetricFamily, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil) //nolint:gosec // the URL is of the environment
	if err != nil {
		return nil, err
	}
	r.Close = true
	response, err := http.DefaultClient.Do(r) //nolint:gosec // the same URL
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(response.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(response.Body)
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}
