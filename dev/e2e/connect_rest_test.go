package e2e

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
)

// These flags make the test of rest a long one.
var (
	restReleases   = flag.Int("rest.releases", 10, "how many Releases TestAtRest… has, two of five of them on Clusters that cannot be worked with")
	restDead       = flag.Int("rest.dead", 1, "how many dead Clusters it has besides")
	restHeartbeats = flag.Int("rest.heartbeats", 3, "how many heartbeats of a Cluster it lasts: one for each resync")
)

func TestAtRestNothingIsWrittenButOneHeartbeatOfEachClusterPerResync(t *testing.T) {
	s := newScene(t)
	states := s.recordClusters()
	dead := newLink(t, beta)
	dead.cut()
	clusters := map[string][]byte{
		"one": kubeconfigFor(t, alpha, "rest-"+s.ns), "two": alpha.Kubeconfig(), "broken": []byte("null"), "dead": dead.kubeconfig(t, "rest-"+s.ns),
	}
	for i := range *restDead - 1 {
		clusters[fmt.Sprintf("dead-%d", i)] = dead.kubeconfig(t, "rest-"+s.ns)
	}
	for name, kubeconfig := range clusters {
		s.cluster(name, kubeconfig)
	}
	s.greeting("greeting", "hello")
	for i := range *restReleases {
		cluster := []string{"one", "two", "one", "dead", "broken"}[i%5]
		s.release(fmt.Sprintf("app-%d", i), cluster, "greeting", func(r *v1alpha1.Release) {
			r.Spec.TargetNamespace = fmt.Sprintf("%s-%d", s.ns, i)
		})
	}
	for i := range *restReleases {
		name := fmt.Sprintf("app-%d", i)
		if i%5 < 3 {
			s.awaitDelivered(name)
			s.awaitIdle(name)
			continue
		}
		s.awaitRetriedGate(name)
	}
	s.awaitHeartbeats(states, "one", 1)
	before, told := len(s.hubWrites()), s.events()
	s.within(time.Hour, "it has rested", func(context.Context) error { return heartbeats(states, "one", *restHeartbeats) })
	if writes := s.hubWrites(); len(writes) > before {
		t.Errorf("%d writes at rest: %v", len(writes)-before, writes[before:])
	}
	if now := s.events(); len(now) > len(told) {
		t.Errorf("at rest there were Events: %v", now)
	}
	for name := range clusters {
		states.wantOnlyHeartbeats(s, name)
	}
}

// awaitHeartbeats waits until lastProbeTime of a Cluster has moved n times.
func (s *scene) awaitHeartbeats(states *recorder, cluster string, n int) {
	s.Helper()
	s.eventually(fmt.Sprintf("Cluster %s had %d heartbeats", cluster, n), func(context.Context) error { return heartbeats(states, cluster, n) })
}

// heartbeats is nil once lastProbeTime of a Cluster has moved n times.
func heartbeats(states *recorder, cluster string, n int) error {
	var times []metav1.Time
	for _, c := range states.seen(cluster) {
		if c.Status.LastProbeTime != nil {
			times = append(times, *c.Status.LastProbeTime)
		}
	}
	if moved := len(slices.CompactFunc(times, func(a, b metav1.Time) bool { return a.Equal(&b) })) - 1; moved < n {
		return fmt.Errorf("there were %d", moved)
	}
	return nil
}

// events are the Events of the scene's namespace, each with how often it was seen.
func (s *scene) events() []string {
	s.Helper()
	var list corev1.EventList
	s.must(s.hub.List(s.ctx, &list, client.InNamespace(s.ns)))
	var out []string
	for i := range list.Items {
		e := &list.Items[i]
		n := e.Count
		if e.Series != nil {
			n = e.Series.Count
		}
		out = append(out, fmt.Sprintf("%s %s %s: %s (%d)", e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Reason, e.Message, n))
	}
	return out
}

// It runs alone: it counts what convoy holds.
func TestClustersThatAreGoneLeaveNoGoroutineAndNoSocket(t *testing.T) {
	s := newSerialScene(t)
	nobody, err := freeAddress()
	s.must(err)
	ca, err := beta.CA()
	s.must(err)
	s.secret("alive", map[string]string{"kubeconfig": string(kubeconfigFor(t, beta, "many-"+s.ns))})
	s.secret("dead", map[string]string{"kubeconfig": string(tokenKubeconfig(t, "https://"+nobody, ca, secretToken("many")))})
	s.comeAndGo(2) // what is made once and kept is there now
	goroutines, err := readMetric(s.ctx, "go_goroutines")
	s.must(err)
	files := openFiles(t, shared.pid())
	s.comeAndGo(40)
	const noise = 15
	s.eventually("convoy holds no more than before", func(ctx context.Context) error {
		g, err := readMetric(ctx, "go_goroutines")
		if f := openFiles(t, shared.pid()); err == nil && (g > goroutines+noise || f > files+noise/3) {
			err = fmt.Errorf("goroutines went from %v to %v, open files from %d to %d", goroutines, g, files, f)
		}
		return err
	})
	for line := range strings.Lines(sharedMetrics(t)) {
		if strings.HasPrefix(line, "convoy_") && strings.Contains(line, s.ns) {
			t.Errorf("a metric is left of a Cluster that is gone: %s", line)
		}
	}
}

// comeAndGo makes that many Clusters, half of them unreachable, waits for all verdicts and deletes them.
func (s *scene) comeAndGo(n int) {
	s.Helper()
	name := func(i int) string { return fmt.Sprintf("many-%d", i) }
	for i := range n {
		c := s.clusterOf(name(i))
		c.Spec.Agentless.Auth.Kubeconfig.SecretRef.Name = []string{"alive", "dead"}[i%2]
		s.create(c)
	}
	for i := range n {
		if i%2 == 0 {
			s.awaitCluster(name(i), metav1.ConditionTrue, v1alpha1.ReasonReachable)
			continue
		}
		s.awaitCluster(name(i), metav1.ConditionFalse, v1alpha1.ReasonProbeFailed)
	}
	s.must(s.hub.DeleteAllOf(s.ctx, &v1alpha1.Cluster{}, client.InNamespace(s.ns)))
	for i := range n {
		s.awaitGone(s.hub, &v1alpha1.Cluster{ObjectMeta: s.meta(name(i))})
		s.awaitEnd(s.clusterWorkflow(name(i)))
	}
}

// awaitEnd waits until a workflow has ended.
func (s *scene) awaitEnd(workflowID string) {
	s.Helper()
	s.eventually(workflowID+" ends", func(context.Context) error {
		if state := s.describe(workflowID).GetWorkflowExecutionInfo().GetStatus(); state.String() == "Running" {
			return fmt.Errorf("it is %s", state)
		}
		return nil
	})
}
