package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/dev/env"
)

func TestAReleaseIsReadyOnlyOnceItsDeploymentIs(t *testing.T) {
	s := newScene(t)
	s.readyCluster("prod", alpha)
	s.configMap("source", map[string]string{"web.yaml": fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeSelector: {%s: "true"}
      containers: [{name: main, image: pause}]
`, s.ns)})
	s.release("app", "prod", "source")
	r := s.awaitRelease("app", v1alpha1.ConditionApplied, metav1.ConditionTrue, v1alpha1.ReasonApplied)
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionHealthy} {
		if err := s.compare(r.Status.Conditions, kind, metav1.ConditionUnknown, v1alpha1.ReasonProgressing, r.Generation); err != nil {
			t.Errorf("applied, with pods that cannot run: %v", err)
		}
	}
	on := s.on(alpha)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: env.NodeName}}
	label := fmt.Appendf(nil, `{"metadata":{"labels":{%q:"true"}}}`, s.ns)
	s.must(on.Patch(s.ctx, node, client.RawPatch(types.MergePatchType, label)))
	s.wantGood(s.awaitDelivered("app"))
	var web appsv1.Deployment
	s.must(on.Get(s.ctx, types.NamespacedName{Namespace: s.ns, Name: "web"}, &web))
	if web.Status.AvailableReplicas != 2 {
		t.Errorf("the Release is Ready with %d of 2 replicas available", web.Status.AvailableReplicas)
	}
}

func TestARolloutGoesOnByItselfAfterItsTargetWasStoppedInTheMiddle(t *testing.T) {
	s := newScene(t)
	target := s.ownTarget(env.ControlPlaneOptions{Controllers: true})
	on := s.on(target)
	s.targetNamespace(on)
	s.readyCluster("prod", target)
	s.configMap("source", map[string]string{"greeting.yaml": manifest("greeting", "hello"), "pod.yaml": podManifest("worker")})
	s.release("app", "prod", "source")
	s.awaitRelease("app", v1alpha1.ConditionApplied, metav1.ConditionTrue, v1alpha1.ReasonApplied)
	s.must(target.Stop())
	r := s.awaitRelease("app", v1alpha1.ConditionReady, metav1.ConditionFalse, "")
	s.wantMessage(r.Status.Conditions, v1alpha1.ConditionReady, `"prod"`)
	s.must(target.Start(s.ctx))
	s.letPodRun(on)
	r = s.awaitDelivered("app")
	if r.Status.Rollout.Number != 1 {
		t.Errorf("it took %d rollouts", r.Status.Rollout.Number)
	}
	s.wantGood(r)
}

// manyObjects is how many objects the rollout applies that is killed in the middle.
const manyObjects = 1000

func TestConvoyThatIsKilledInTheMiddleOfARolloutFinishesItAfterItsRestart(t *testing.T) {
	s := newSerialScene(t)
	on := s.on(beta)
	s.targetNamespace(on)
	s.readyCluster("prod", beta)
	var objects strings.Builder
	for i := range manyObjects {
		fmt.Fprintf(&objects, "%s---\n", manifest(fmt.Sprintf("object-%d", i), manifestSentinel))
	}
	s.configMap("many", map[string]string{"objects.yaml": objects.String()})
	s.configMap("slow", map[string]string{"pod.yaml": podManifest("worker"), "secret.yaml": loginManifest})
	s.release("slow", "prod", "slow")
	s.awaitRelease("slow", v1alpha1.ConditionApplied, metav1.ConditionTrue, v1alpha1.ReasonApplied)
	s.release("many", "prod", "many")
	s.eventually("some objects are on the target", func(ctx context.Context) error {
		if n := s.count(ctx, on); n < 10 {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
	s.must(shared.kill())
	for _, name := range []string{"many", "slow"} {
		if r := s.getRelease(name); r.Status.Rollout.Phase != v1alpha1.RolloutRunning {
			t.Errorf("convoy was killed too late: rollout of %s is %s", name, r.Status.Rollout.Phase)
		}
	}
	s.letPodRun(on)
	s.must(shared.start(s.ctx))
	for _, name := range []string{"many", "slow"} {
		r := s.awaitDelivered(name)
		if r.Status.Rollout.Number != 1 {
			t.Errorf("Release %s took %d rollouts", name, r.Status.Rollout.Number)
		}
		s.wantGood(r)
		if n := scheduled(s.history(s.releaseWorkflow(name)))["Rollout"]; n != 1 {
			t.Errorf("Release %s started %d rollout workflows", name, n)
		}
	}
	if n := s.count(s.ctx, on); n != manyObjects {
		t.Errorf("%d of %d objects are on the target", n, manyObjects)
	}
}

// count is how many objects with an owner are in the scene's namespace of a target.
func (s *scene) count(ctx context.Context, on client.Client) int {
	s.Helper()
	list := metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	s.must(on.List(ctx, &list, client.InNamespace(s.ns), client.HasLabels{v1alpha1.LabelOwner}))
	return len(list.Items)
}
