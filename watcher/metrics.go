package watcher

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	hubclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kumodo.io/convoy/api/v1alpha1"
)

// scrapeLimit bounds one look into the cache, which only waits while the cache is filled for the first time.
const scrapeLimit = 5 * time.Second

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("convoy_"+name, help, labels, nil)
}

// What the leading watcher tells of each object. There is one series for each object, or for each of its conditions.
var (
	descLeading = describe("watcher_leading", "1 for the watcher that leads, 0 for one that stands by.")
	descWaiting = describe("watcher_handovers_waiting",
		"Changes that could not be handed over to Temporal at the last try, and are tried again.", "controller")
	descCluster = describe("cluster_condition", "1 for each condition of a Cluster, with its status and reason.",
		"namespace", "cluster", "condition", "status", "reason")
	descInfo = describe("release_info", "1 for each Release, with what its sync policy says.",
		"namespace", "release", "cluster", "mode", "drift", "suspended")
	descRelease = describe("release_condition", "1 for each condition of a Release, with its status and reason.",
		"namespace", "release", "cluster", "condition", "status", "reason")
	descRollout = describe("release_rollout_start_timestamp_seconds",
		"When the rollout began that is under way; none while the Release is suspended or being deleted, or a hook waits for an Approval.",
		"namespace", "release", "cluster")
	descDrifted  = describe("release_drifted_objects", "Objects of a Release that are not as they were applied.", "namespace", "release", "cluster")
	descDeletion = describe("deletion_timestamp_seconds", "When the deletion of an object was asked for that is still there.",
		"kind", "namespace", "name")
	descUnanswered = describe("object_unanswered",
		"1 for an object whose spec is newer than what its status tells of; none while its rollout is under way.", "kind", "namespace", "name")
)

// state tells Prometheus how the objects of the hub are, as the cache of the leading watcher has them.
type state struct {
	hub     hubclient.Reader
	elected <-chan struct{}

	mu      sync.Mutex
	waiting map[string]map[request]bool
}

func newState(hub hubclient.Reader, elected <-chan struct{}) *state {
	return &state{hub: hub, elected: elected, waiting: map[string]map[request]bool{}}
}

// counting notes which handovers of a controller wait for another try.
func (s *state) counting(controller string, do reconcile.TypedFunc[request]) reconcile.TypedFunc[request] {
	s.waiting[controller] = map[request]bool{}
	return func(ctx context.Context, req request) (reconcile.Result, error) {
		result, err := do(ctx, req)
		s.mu.Lock()
		defer s.mu.Unlock()
		if errors.Is(err, errNotTaken) {
			s.waiting[controller][req] = true
		} else {
			delete(s.waiting[controller], req)
		}
		return result, err
	}
}

// Describe is that of a prometheus.Collector.
func (s *state) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descLeading, descWaiting, descCluster, descInfo, descRelease, descRollout, descDrifted, descDeletion, descUnanswered,
	} {
		to <- d
	}
}

// Collect is that of a prometheus.Collector. Watchers that stand by tell of no object, so that each is told of once.
func (s *state) Collect(to chan<- prometheus.Metric) {
	tell := gauges(to)
	select {
	case <-s.elected:
		tell(descLeading, 1)
	default:
		tell(descLeading, 0)
		return
	}
	s.collectWaiting(tell)
	ctx, cancel := context.WithTimeout(context.Background(), scrapeLimit) //nolint:forbidigo // a scrape has no context
	defer cancel()
	var clusters v1alpha1.ClusterList
	if err := s.hub.List(ctx, &clusters, hubclient.UnsafeDisableDeepCopy); err == nil {
		for i := range clusters.Items {
			tell.cluster(&clusters.Items[i])
		}
	}
	var releases v1alpha1.ReleaseList
	if err := s.hub.List(ctx, &releases, hubclient.UnsafeDisableDeepCopy); err == nil {
		for i := range releases.Items {
			tell.release(&releases.Items[i])
		}
	}
}

func (s *state) collectWaiting(tell teller) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for controller, waiting := range s.waiting {
		tell(descWaiting, float64(len(waiting)), controller)
	}
}

// teller sends one series.
type teller func(d *prometheus.Desc, value float64, labels ...string)

func gauges(to chan<- prometheus.Metric) teller {
	return func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
}

func (tell teller) cluster(c *v1alpha1.Cluster) {
	for _, is := range c.Status.Conditions {
		tell(descCluster, 1, c.Namespace, c.Name, is.Type, string(is.Status), is.Reason)
	}
	tell.life("Cluster", c, c.Status.ObservedGeneration, false)
}

func (tell teller) release(r *v1alpha1.Release) {
	cluster, policy := r.Spec.ClusterRef.Name, r.Spec.SyncPolicy
	tell(descInfo, 1, r.Namespace, r.Name, cluster, string(policy.Mode), string(policy.Drift), strconv.FormatBool(r.Spec.Suspend))
	for _, is := range r.Status.Conditions {
		tell(descRelease, 1, r.Namespace, r.Name, cluster, is.Type, string(is.Status), is.Reason)
	}
	if drift := r.Status.Drift; drift != nil {
		tell(descDrifted, float64(drift.Count), r.Namespace, r.Name, cluster)
	}
	running := r.Status.Rollout != nil && r.Status.Rollout.Phase == v1alpha1.RolloutRunning
	if running && !r.Spec.Suspend && r.DeletionTimestamp.IsZero() && !awaitsSomebody(r) {
		tell(descRollout, seconds(r.Status.Rollout.StartTime), r.Namespace, r.Name, cluster)
	}
	tell.life("Release", r, r.Status.ObservedGeneration, running)
}

// life tells what is the same of both kinds: how long a deletion takes, and whether convoy has answered the last change.
func (tell teller) life(kind string, o hubclient.Object, observed int64, busy bool) {
	switch deleted := o.GetDeletionTimestamp(); {
	case !deleted.IsZero():
		tell(descDeletion, seconds(*deleted), kind, o.GetNamespace(), o.GetName())
	case observed < o.GetGeneration() && !busy:
		tell(descUnanswered, 1, kind, o.GetNamespace(), o.GetName())
	}
}

// awaitsSomebody reports whether a hook of the rollout waits for an Approval, which may take as long as people do.
func awaitsSomebody(r *v1alpha1.Release) bool {
	for _, run := range r.Status.Hooks {
		if run.State != v1alpha1.HookRunning || run.Rollout != r.Status.Rollout.Number {
			continue
		}
		for i := range r.Spec.Hooks {
			if h := &r.Spec.Hooks[i]; h.Name == run.Name && h.Approval != nil {
				return true
			}
		}
	}
	return false
}

func seconds(t metav1.Time) float64 { return float64(t.Unix()) }
