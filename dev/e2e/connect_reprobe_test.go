package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	const queued = 20
	kubeconfig := kubeconfigFor(t, beta, "queue-"+s.ns)
	s.secret("prod-kubeconfig", map[string]string{"kubeconfig": string(kubeconfig)})
	for i := range queued {
		c := s.clusterOf(fmt.Sprintf("queued-%d", i))
		c.Spec.Agentless.Auth.Kubeconfig.SecretRef.Name = "prod-kubeconfig"
		s.create(c)
	}
	s.create(s.clusterOf("prod")) // behind all of them
	s.eventually("the probe of the last Cluster queues", func(context.Context) error {
		if len(s.history(s.clusterWorkflow("prod"))) == 0 || s.pending(s.clusterWorkflow("prod"), "ProbeCluster") == nil {
			return errors.New("it does not yet")
		}
		return nil
	})
	if v := s.reprobe(); !v.Reachable {
		t.Errorf("the verdict is %+v", v)
	}
	waiting := 0
	var all v1alpha1.ClusterList
	s.must(s.hub.List(s.ctx, &all, client.InNamespace(s.ns)))
	for i := range all.Items {
		if all.Items[i].Status.Reachable == nil {
			waiting++
		}
	}
	if waiting < queued/4 {
		t.Errorf("when the reprobe answered, only %d of %d Clusters were still waiting", waiting, queued)
	}
	if c := s.getCluster("prod"); c.Status.Reachable == nil || !*c.Status.Reachable {
		t.Error("the reprobe answered before the status was written")
	}
}
