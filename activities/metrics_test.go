package activities

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"kumodo.io/convoy/internal/connect"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/dial"
)

func TestWhatIsObservedIsCountedUntilAnotherObservesIt(t *testing.T) {
	m := NewMetrics()
	east, west := delivery.Key{Namespace: "a", Name: "east"}, delivery.Key{Namespace: "a", Name: "west"}
	m.observer.sees(east, 3, 40, 8000)
	m.observer.sees(west, 1, 1, 200)
	m.observer.kicks.WithLabelValues("a", "west").Inc()
	m.observer.handovers.WithLabelValues("tenure").Inc()
	m.observer.lag.Observe(.2)
	m.observer.forget(west)
	const want = `
# HELP convoy_observer_objects Objects of a Cluster that this process keeps account of.
# TYPE convoy_observer_objects gauge
convoy_observer_objects{cluster="east",namespace="a"} 40
`
	if err := testutil.CollectAndCompare(m, strings.NewReader(want), "convoy_observer_objects", "convoy_observer_kicks_total"); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.CollectAndLint(m); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

func TestProbesAreCountedAndForgottenWithTheirCluster(t *testing.T) {
	m := NewMetrics()
	east, west := delivery.Key{Namespace: "a", Name: "east"}, delivery.Key{Namespace: "a", Name: "west"}
	m.probed(east, "ProbeFailed", time.Second, 1)
	m.probed(east, "ProbeFailed", time.Second, 2)
	m.probed(east, "Reachable", time.Millisecond, 0)
	m.probed(west, "ProbeFailed", time.Second, 7)
	const want = `
# HELP convoy_cluster_probe_consecutive_failures Probes of a Cluster that failed in a row, as the process knows that probed it last.
# TYPE convoy_cluster_probe_consecutive_failures gauge
convoy_cluster_probe_consecutive_failures{cluster="east",namespace="a"} 0
convoy_cluster_probe_consecutive_failures{cluster="west",namespace="a"} 7
# HELP convoy_cluster_probes_total Probes of a Cluster, by the reason of their verdict.
# TYPE convoy_cluster_probes_total counter
convoy_cluster_probes_total{cluster="east",namespace="a",result="ProbeFailed"} 2
convoy_cluster_probes_total{cluster="east",namespace="a",result="Reachable"} 1
convoy_cluster_probes_total{cluster="west",namespace="a",result="ProbeFailed"} 1
`
	names := []string{"convoy_cluster_probes_total", "convoy_cluster_probe_consecutive_failures"}
	if err := testutil.CollectAndCompare(m, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.CollectAndLint(m); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
	m.forget(west)
	if n := testutil.CollectAndCount(m, names...); n != 3 {
		t.Errorf("%d series are left after a Cluster is gone, want 3", n)
	}
	m.sweep(time.Now().Add(time.Minute))
	if n := testutil.CollectAndCount(m, names...); n != 0 {
		t.Errorf("%d series are left of Clusters that nobody here probes any more", n)
	}
}

func TestRolloutsAreMeasuredByHowTheyEnded(t *testing.T) {
	m := NewMetrics()
	m.concluded(StepResult{Phase: PhaseFailed, Reason: "HealthTimeout", Message: "S3NT1NEL"}, 301*time.Second)
	m.concluded(StepResult{Phase: "Succeeded", Reason: "Delivered"}, time.Second)
	m.concluded(StepResult{Phase: "Succeeded", Reason: "Delivered"}, time.Minute)
	if n := testutil.CollectAndCount(m, "convoy_rollout_duration_seconds"); n != 2 {
		t.Errorf("%d series of rollouts, want one for each way to end", n)
	}
	if problems, err := testutil.CollectAndLint(m); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

func TestAWaitEndsWhenItsClientIsReplaced(t *testing.T) {
	c, token := registered()
	pool := connect.NewPool(hubWith(t, interceptor.Funcs{}, c, token), dial.New(dial.Policy{}), connect.Options{})
	defer pool.Close()
	conn, err := pool.Client(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	waiting, stop := untilRenewed(t.Context(), conn)
	defer stop(nil)
	if waiting.Err() != nil {
		t.Fatal("the wait is over before it began")
	}
	pool.Evict(types.UID("c-1"))
	<-waiting.Done()
}
