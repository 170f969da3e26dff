package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/dev/env"
)

// awaitRetriedGate waits until a Release reports a closed gate and has asked at least twice.
func (s *scene) awaitRetriedGate(name string) {
	s.Helper()
	s.awaitClosed(name)
	s.eventually("the gate of "+name+" is retried", func(context.Context) error {
		if p := s.pending(s.releaseWorkflow(name), "CheckCluster"); p.GetAttempt() < 2 {
			return fmt.Errorf("pending: %v", p)
		}
		return nil
	})
}

// assertUntouched fails when anything of a Release that never passed the gate was rendered or applied.
func (s *scene) assertUntouched(name string) {
	s.Helper()
	n := scheduled(s.history(s.releaseWorkflow(name)))
	if n["FetchSource"] == 0 || n["CheckCluster"] == 0 {
		s.Errorf("the source was fetched %d times and the Cluster read %d times", n["FetchSource"], n["CheckCluster"])
	}
	if n["RenderRelease"] != 0 || n["Rollout"] != 0 {
		s.Errorf("with a closed gate there were %d renders and %d rollouts", n["RenderRelease"], n["Rollout"])
	}
	var secrets corev1.SecretList
	s.must(hubClient.List(s.ctx, &secrets, client.InNamespace(s.ns)))
	for _, o := range secrets.Items {
		if o.Type == "convoy.kumodo.io/render" {
			s.Errorf("there is a render: Secret %s", o.Name)
		}
	}
	var ns corev1.Namespace
	if err := s.on(alpha).Get(s.ctx, types.NamespacedName{Name: s.ns}, &ns); !apierrors.IsNotFound(err) {
		s.Errorf("the target has the namespace of the Release (%v)", err)
	}
}

func TestAReleaseWaitsForAClusterThatDoesNotExistAndStartsByItself(t *testing.T) {
	s := newScene(t)
	s.greeting("greeting", "hello")
	s.release("app", "prod", "greeting")
	s.awaitRetriedGate("app")
	s.assertUntouched("app")
	s.cluster("prod", alpha.Kubeconfig())
	s.awaitDelivered("app")
	if got := s.text(alpha, "greeting"); got != "hello" {
		t.Errorf("text is %q", got)
	}
}

func TestAReleaseWaitsForAClusterThatIsNotReachableAndStartsByItself(t *testing.T) {
	s := newScene(t)
	path := newLink(t, alpha)
	path.cut()
	user := "gate-" + s.ns
	s.cluster("prod", path.kubeconfig(t, user))
	s.awaitCluster("prod", metav1.ConditionFalse, v1alpha1.ReasonProbeFailed)
	s.greeting("greeting", "hello")
	s.release("app", "prod", "greeting")
	s.awaitRetriedGate("app")
	s.assertUntouched("app")
	path.mend(t)
	s.awaitDelivered("app")
	if got := s.text(alpha, "greeting"); got != "hello" {
		t.Errorf("text is %q", got)
	}
}

func TestAReleaseOfAnUnsupportedClusterIsNotTouched(t *testing.T) {
	s := newScene(t)
	s.cluster("prod", alpha.Kubeconfig(), func(c *v1alpha1.Cluster) { c.Spec.Agentless.Auth.Type = "oidc" })
	s.awaitCluster("prod", metav1.ConditionFalse, v1alpha1.ReasonUnsupported)
	s.greeting("greeting", "hello")
	s.release("app", "prod", "greeting")
	s.awaitRetriedGate("app")
	s.assertUntouched("app")
}

func TestTheObjectsOfTheLastApplyStayWhileTheClusterIsUnreachable(t *testing.T) {
	s := newScene(t)
	path := newLink(t, alpha)
	user := "stay-" + s.ns
	s.cluster("prod", path.kubeconfig(t, user))
	source := s.greeting("greeting", "hello")
	s.release("app", "prod", "greeting")
	before := s.awaitDelivered("app")
	var applied, found corev1.ConfigMap
	key := types.NamespacedName{Namespace: s.ns, Name: "greeting"}
	s.must(s.on(alpha).Get(s.ctx, key, &applied))

	path.cut()
	s.awaitCluster("prod", metav1.ConditionFalse, v1alpha1.ReasonProbeFailed)
	change(s, source, func(cm *corev1.ConfigMap) { cm.Data["greeting.yaml"] = manifest("greeting", "good evening") })
	closed := s.awaitClosed("app")
	if err := s.compare(closed.Status.Conditions, v1alpha1.ConditionHealthy, metav1.ConditionUnknown, v1alpha1.ReasonClusterNotReady, closed.Generation); err != nil {
		t.Error(err)
	}
	if closed.Status.RenderRef == nil || *closed.Status.RenderRef != *before.Status.RenderRef {
		t.Errorf("renderRef moved from %v to %v", before.Status.RenderRef, closed.Status.RenderRef)
	}
	s.must(s.on(alpha).Get(s.ctx, key, &found))
	if found.UID != applied.UID || found.ResourceVersion != applied.ResourceVersion {
		t.Error("the object was touched while its Cluster was unreachable")
	}

	path.mend(t)
	s.eventually("the newest source is delivered", func(context.Context) error {
		if got := s.text(alpha, "greeting"); got != "good evening" {
			return fmt.Errorf("text is %q", got)
		}
		return nil
	})
	if after := s.awaitDelivered("app"); after.Status.Rollout.Number != before.Status.Rollout.Number+1 {
		t.Errorf("rollout went from %d to %d", before.Status.Rollout.Number, after.Status.Rollout.Number)
	}
}

func TestAReleaseIsReadyAgainWithoutARolloutAfterItsAPIServerWasStopped(t *testing.T) {
	s := newScene(t)
	target := s.ownTarget(env.ControlPlaneOptions{Audit: true})
	s.readyCluster("prod", target)
	s.greeting("greeting", "hello")
	s.release("app", "prod", "greeting")
	before := s.awaitDelivered("app")
	var applied, found corev1.ConfigMap
	key := types.NamespacedName{Namespace: s.ns, Name: "greeting"}
	s.must(s.on(target).Get(s.ctx, key, &applied))

	s.must(target.Stop())
	s.awaitCluster("prod", metav1.ConditionFalse, v1alpha1.ReasonProbeFailed)
	s.ask("app")
	s.awaitClosed("app")

	s.must(target.Start(s.ctx))
	after := s.awaitDelivered("app")
	if after.Status.Rollout.Number != before.Status.Rollout.Number {
		t.Errorf("rollout went from %d to %d", before.Status.Rollout.Number, after.Status.Rollout.Number)
	}
	s.must(s.on(target).Get(s.ctx, key, &found))
	if found.UID != applied.UID || found.ResourceVersion != applied.ResourceVersion {
		t.Error("the object was written again")
	}
	writes := s.requests(target, func(e auditv1.Event) bool {
		return e.ObjectRef != nil && e.ObjectRef.Name == "greeting" && (e.Verb == "patch" || e.Verb == "create" || e.Verb == "update" || e.Verb == "delete")
	})
	if len(writes) != 1 {
		t.Errorf("the object was written %d times, not once", len(writes))
	}
}

// located is a mutation that shows two keys of the Cluster's metadata.
func located(r *v1alpha1.Release) {
	r.Spec.Mutations = []v1alpha1.Mutation{{
		Name: "where", Target: v1alpha1.MutationTarget{Kind: "ConfigMap"},
		Patch: v1alpha1.Patch{Type: v1alpha1.PatchMerge, Template: "data: {text: '{{ .cluster.name }} in {{ .cluster.region }}'}"},
	}}
}

func TestAChangeOfAClusterStartsNoReconcileAndIsSeenAtTheNextOne(t *testing.T) {
	s := newScene(t)
	cluster := s.readyCluster("prod", alpha, func(c *v1alpha1.Cluster) {
		c.Spec.Metadata = map[string]v1alpha1.MetadataValue{"region": "eu-west-1", "name": "impostor"}
	})
	s.greeting("greeting", "hello")
	s.greeting("marker", "hello")
	s.release("app", "prod", "greeting", located)
	before := s.awaitDelivered("app")
	if got := s.text(alpha, "greeting"); got != "prod in eu-west-1" { // cluster.name is no metadata key
		t.Errorf("text is %q", got)
	}
	s.request("app") // so that nothing is left to do
	length := len(s.settled(s.releaseWorkflow("app")))

	change(s, cluster, func(c *v1alpha1.Cluster) { c.Spec.Metadata["region"] = "us-east-1" })
	s.awaitCluster("prod", metav1.ConditionTrue, v1alpha1.ReasonReachable)
	s.release("marker", "prod", "marker", located)
	s.awaitDelivered("marker")
	if got := s.text(alpha, "marker"); got != "prod in us-east-1" {
		t.Errorf("a later Release sees %q", got)
	}
	if now := s.history(s.releaseWorkflow("app")); len(now) != length {
		t.Errorf("with the change of the Cluster, the history went from %d to %d events", length, len(now))
	}
	if got := s.text(alpha, "greeting"); got != "prod in eu-west-1" {
		t.Errorf("without a reconcile, text became %q", got)
	}

	s.request("app")
	after := s.awaitDelivered("app")
	if after.Status.RenderRef.Digest == before.Status.RenderRef.Digest {
		t.Error("renderRef is the same")
	}
	if after.Status.Rollout.Number != before.Status.Rollout.Number+1 {
		t.Errorf("rollout went from %d to %d", before.Status.Rollout.Number, after.Status.Rollout.Number)
	}
	if got := s.text(alpha, "greeting"); got != "prod in us-east-1" {
		t.Errorf("after the reconcile, text is %q", got)
	}
}
