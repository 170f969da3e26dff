package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
)

// recorder keeps every state that the Clusters of a scene have from its start on.
type recorder struct {
	mu     sync.Mutex
	states map[string][]v1alpha1.Cluster
}

// recordClusters begins to record, and ends with the test.
func (s *scene) recordClusters() *recorder {
	s.Helper()
	c, err := client.NewWithWatch(s.local.Hub.Config(), client.Options{Scheme: scheme})
	s.must(err)
	w, err := c.Watch(s.ctx, &v1alpha1.ClusterList{}, client.InNamespace(s.ns))
	s.must(err)
	r := &recorder{states: map[string][]v1alpha1.Cluster{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range w.ResultChan() {
			r.add(e)
		}
	}()
	s.Cleanup(func() { w.Stop(); <-done })
	return r
}

func (r *recorder) add(e watch.Event) {
	c, ok := e.Object.(*v1alpha1.Cluster)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.states[c.Name] = append(r.states[c.Name], *c)
}

// seen returns the states of a Cluster that have come so far, oldest first.
func (r *recorder) seen(name string) []v1alpha1.Cluster {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]v1alpha1.Cluster(nil), r.states[name]...)
}

// of returns the states of a Cluster so far, oldest first, up to the one that the hub has now.
func (r *recorder) of(s *scene, name string) []v1alpha1.Cluster {
	s.Helper()
	now := &v1alpha1.Cluster{ObjectMeta: s.meta(name)}
	s.must(s.hub.Get(s.ctx, client.ObjectKeyFromObject(now), now))
	var states []v1alpha1.Cluster
	s.eventually("the states of Cluster "+name+" are recorded", func(context.Context) error {
		states = r.seen(name)
		for i := range states {
			if states[i].ResourceVersion == now.ResourceVersion {
				return nil
			}
		}
		return fmt.Errorf("%d are", len(states))
	})
	return states
}

// wantOnlyHeartbeats fails the test when, after the first verdict about the newest generation, anything was written but
// lastProbeTime and lastReachableTime, or these more than once per resync period.
func (r *recorder) wantOnlyHeartbeats(s *scene, name string) {
	s.Helper()
	states := r.of(s, name)
	newest := states[len(states)-1].Generation
	var last *v1alpha1.Cluster
	for i := range states {
		is := &states[i]
		if is.Status.ObservedGeneration != newest || is.Status.LastProbeTime == nil {
			continue
		}
		if last != nil {
			s.wantHeartbeat(last, is)
		}
		last = is
	}
	if last == nil {
		s.Errorf("Cluster %s has no verdict", name)
	}
}

func (s *scene) wantHeartbeat(was, is *v1alpha1.Cluster) {
	s.Helper()
	if passed := is.Status.LastProbeTime.Sub(was.Status.LastProbeTime.Time); passed < resync {
		s.Errorf("Cluster %s was written again %s after its last heartbeat:\n%s\n%s", is.Name, passed, encoded(was.Status), encoded(is.Status))
	}
	then, now := was.Status.DeepCopy(), is.Status.DeepCopy()
	for _, status := range []*v1alpha1.ClusterStatus{then, now} {
		status.LastProbeTime, status.LastReachableTime = nil, nil
	}
	if encoded(then) != encoded(now) {
		s.Errorf("the status of Cluster %s went from\n%s to\n%s", is.Name, encoded(then), encoded(now))
	}
}

// wantAlwaysReady fails the test when a Cluster was anything but Ready after it was Ready once.
func (r *recorder) wantAlwaysReady(s *scene, name string) {
	s.Helper()
	been := false
	for _, c := range r.of(s, name) {
		ready := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionReady)
		is := ready != nil && ready.Status == metav1.ConditionTrue
		if been && (!is || c.Status.Reachable == nil || !*c.Status.Reachable) {
			s.Errorf("Cluster %s left Ready: %s", name, encoded(c.Status.Conditions))
			return
		}
		been = been || is
	}
	if !been {
		s.Errorf("Cluster %s was never Ready", name)
	}
}

func encoded(v any) string {
	content, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(content)
}
