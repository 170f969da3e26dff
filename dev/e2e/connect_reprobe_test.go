package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
)

func TestAFailingStepAsksForAProbeOfTheClusterThatNobodyElseWouldProbeForTenMinutes(t *testing.T) {
	t.Parallel()
	edit := func(s *scene) {
		change(s, &corev1.ConfigMap{ObjectMeta: s.meta("greeting")}, func(cm *corev1.ConfigMap) { cm.Data["greeting.yaml"] = manifest("greeting", "2") })
	}
	for name, step := range map[string]struct {
		lose  func(*link)
		begin func(*scene)
		limit time.Duration
	}{
		"an apply to a target that refuses":     {(*link).cut, edit, 25 * time.Second},
		"an apply to a target that is frozen":   {(*link).freeze, edit, time.Minute}, // a request and a probe run out of time
		"a deletion from a target that refuses": {(*link).cut, func(s *scene) { s.remove(s.getRelease("app")) }, 25 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			s := newCalmScene(t)
			path := newLink(t, beta)
			s.cluster("prod", path.kubeconfig(t, "suspect-"+s.ns))
			s.greeting("greeting", "1")
			s.release("app", "prod", "greeting")
			s.awaitDelivered("app")
			s.awaitIdle("app")
			step.lose(path)
			step.begin(s)
			s.within(step.limit, "the Cluster is not Ready", func(context.Context) error {
				c := s.getCluster("prod")
				return s.compare(c.Status.Conditions, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonProbeFailed, c.Generation)
			})
			path.cut() // what was frozen on the way must not arrive
			path.mend(t)
			if v := s.reprobe(); !v.Reachable {
				t.Errorf("the verdict of the mended Cluster is %+v", v)
			}
		})
	}
}

func TestAReprobeOvertakesTheProbesThatQueue(t *testing.T) {
	s := newCalmScene(t)
	kubeconfig := kubeconfigFor(t, beta, "queue-"+s.ns)
	s.secret("prod-kubeconfig", map[string]string{"kubeconfig": string(kubeconfig)})
	queue := s.queueOfProbes(20)
	last := queue[len(queue)-1]
	if v := s.reprobeOf(last); !v.Reachable {
		t.Errorf("the verdict is %+v", v)
	}
	waiting := 0
	for _, name := range queue {
		if s.getCluster(name).Status.Reachable == nil {
			waiting++
		}
	}
	if waiting < len(queue)/4 {
		t.Errorf("when the reprobe answered, only %d of the %d Clusters that had queued were still waiting", waiting, len(queue))
	}
	if c := s.getCluster(last); c.Status.Reachable == nil || !*c.Status.Reachable {
		t.Error("the reprobe answered before the status was written")
	}
}

// queueOfProbes makes Clusters faster than they are probed, until so many of them wait for their first probe, and returns
// these, the newest last. How fast a server of Temporal lets the first tasks of a queue through is its own affair.
func (s *scene) queueOfProbes(depth int) (waiting []string) {
	s.Helper()
	for made := 0; len(waiting) < depth; {
		if made == 10*depth {
			s.Fatalf("of %d Clusters only %d wait for a probe", made, len(waiting))
		}
		var batch []string
		for range depth {
			c := s.clusterOf(fmt.Sprintf("queued-%d", made))
			c.Spec.Agentless.Auth.Kubeconfig.SecretRef.Name = "prod-kubeconfig"
			s.create(c)
			batch = append(batch, c.Name)
			made++
		}
		for _, name := range batch {
			s.eventually("Cluster "+name+" is probed or waits for it", func(context.Context) error {
				if s.getCluster(name).Status.Reachable == nil && (len(s.history(s.clusterWorkflow(name))) == 0 || s.pending(s.clusterWorkflow(name), "ProbeCluster") == nil) {
					return errors.New("neither yet")
				}
				return nil
			})
		}
		waiting = slices.DeleteFunc(append(waiting, batch...), func(name string) bool { return s.getCluster(name).Status.Reachable != nil })
	}
	return waiting
}
