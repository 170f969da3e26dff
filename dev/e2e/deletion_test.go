package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
)

func TestADeletedClusterLeavesItsReleasesAndTheirObjects(t *testing.T) {
	s := newScene(t)
	cluster := s.readyCluster("prod", alpha)
	s.greeting("greeting", "hello")
	s.release("app", "prod", "greeting")
	before := s.awaitDelivered("app")
	s.remove(cluster)
	s.awaitGone(hubClient, cluster)
	s.ask("app")
	after := s.awaitClosed("app")
	if after.UID != before.UID || !after.DeletionTimestamp.IsZero() {
		t.Error("the Release was deleted with its Cluster")
	}
	if got := s.text(alpha, "greeting"); got != "hello" {
		t.Errorf("text is %q", got)
	}
}

func TestPruneReleasesDeletesEachReleaseByItsOwnPolicyAndThenTheCluster(t *testing.T) {
	s := newScene(t)
	cluster := s.readyCluster("prod", alpha, func(c *v1alpha1.Cluster) { c.Spec.DeletionPolicy.PruneReleases = true })
	s.readyCluster("other", alpha)
	for _, name := range []string{"kept", "pruned", "elsewhere"} {
		s.greeting(name, name)
	}
	apart := func(r *v1alpha1.Release) { r.Spec.TargetNamespace = s.ns + "-" + r.Name } // a shared namespace would stay
	s.release("kept", "prod", "kept", apart, func(r *v1alpha1.Release) { r.Spec.DeletionPolicy.KeepWorkloads = true })
	s.release("pruned", "prod", "pruned", apart)
	elsewhere := s.release("elsewhere", "other", "elsewhere", apart)
	for _, name := range []string{"kept", "pruned", "elsewhere"} {
		s.awaitDelivered(name)
	}
	s.remove(cluster)
	s.awaitGone(hubClient, cluster)
	for _, name := range []string{"kept", "pruned"} {
		if s.exists(hubClient, &v1alpha1.Release{ObjectMeta: s.meta(name)}) {
			t.Errorf("the Cluster went before Release %s", name)
		}
	}
	target := s.on(alpha)
	if s.exists(target, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns + "-pruned", Name: "pruned"}}) {
		t.Error("the object of the pruned Release is still there")
	}
	kept := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns + "-kept", Name: "kept"}}
	s.must(target.Get(s.ctx, client.ObjectKeyFromObject(kept), kept))
	if kept.Labels[v1alpha1.LabelOwner] != "" || kept.Annotations[v1alpha1.AnnotationRelease] != "" {
		t.Errorf("the kept object still carries convoy's marks: %v %v", kept.Labels, kept.Annotations)
	}
	if !s.exists(hubClient, elsewhere) || !elsewhere.DeletionTimestamp.IsZero() {
		t.Error("a Release of another Cluster was deleted")
	}
}

func TestPruneReleasesWaitsForAReleaseThatWaitsForItsUnreachableCluster(t *testing.T) {
	s := newScene(t)
	path := newLink(t, alpha)
	cluster := s.cluster("prod", path.kubeconfig(t, "both-"+s.ns), func(c *v1alpha1.Cluster) { c.Spec.DeletionPolicy.PruneReleases = true })
	s.greeting("greeting", "hello")
	release := s.release("app", "prod", "greeting")
	s.awaitDelivered("app")
	path.cut()
	s.remove(cluster)
	s.awaitRelease("app", v1alpha1.ConditionDeleting, metav1.ConditionTrue, v1alpha1.ReasonClusterUnreachable)
	s.awaitClusterDeleting("prod", "app")
	change(s, release, func(r *v1alpha1.Release) {
		r.Spec.DeletionPolicy.BlockOnClusterUnreachable = new(bool)
		r.Spec.DeletionPolicy.Timeout = metav1.Duration{Duration: time.Second}
	})
	uid := release.UID
	s.awaitGone(hubClient, cluster)
	if s.exists(hubClient, release) {
		t.Error("the Cluster went before its Release")
	}
	s.leftBehind(uid)
}

// awaitClusterDeleting waits until a Cluster says that it waits for that Release.
func (s *scene) awaitClusterDeleting(name, release string) {
	s.Helper()
	c := &v1alpha1.Cluster{ObjectMeta: s.meta(name)}
	s.eventually("Cluster "+name+" waits for Release "+release, func(ctx context.Context) error {
		if err := hubClient.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil {
			return err
		}
		d := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionDeleting)
		if d == nil || d.Reason != v1alpha1.ReasonWaitingForReleases || !strings.Contains(d.Message, release) {
			return fmt.Errorf("the condition is %v", d)
		}
		return nil
	})
}

func TestAReleaseThatComesToAClusterThatIsBeingDeletedIsNotApplied(t *testing.T) {
	s := newScene(t)
	path := newLink(t, alpha)
	cluster := s.cluster("prod", path.kubeconfig(t, "late-"+s.ns))
	s.greeting("greeting", "hello")
	s.greeting("late", "hello")
	release := s.release("app", "prod", "greeting")
	s.awaitDelivered("app")
	path.cut()
	s.remove(release)
	s.awaitRelease("app", v1alpha1.ConditionDeleting, metav1.ConditionTrue, v1alpha1.ReasonClusterUnreachable)
	s.remove(cluster)
	s.awaitClusterDeleting("prod", "app") // the Cluster is needed to clean up
	s.release("late", "prod", "late")
	s.awaitClosed("late")
	path.mend(t)
	s.awaitGone(hubClient, release)
	s.awaitGone(hubClient, cluster)
	if n := scheduled(s.history(s.releaseWorkflow("late"))); n["RenderRelease"] != 0 || n["Rollout"] != 0 {
		t.Errorf("there were %d renders and %d rollouts", n["RenderRelease"], n["Rollout"])
	}
	for _, name := range []string{"greeting", "late"} {
		if s.exists(s.on(alpha), &corev1.ConfigMap{ObjectMeta: s.meta(name)}) {
			t.Errorf("ConfigMap %s is on the target", name)
		}
	}
}

func TestADeletedReleaseWaitsForItsUnreachableClusterUntilItMayGiveUp(t *testing.T) {
	s := newScene(t)
	path := newLink(t, alpha)
	s.cluster("prod", path.kubeconfig(t, "lost-"+s.ns))
	s.greeting("greeting", "hello")
	release := s.release("app", "prod", "greeting")
	s.awaitDelivered("app")
	path.cut()
	s.remove(release)
	s.awaitRelease("app", v1alpha1.ConditionDeleting, metav1.ConditionTrue, v1alpha1.ReasonClusterUnreachable)
	s.eventually("the deletion is retried", func(context.Context) error {
		if p := s.pending(s.releaseWorkflow("app"), "DeleteRelease"); p.GetAttempt() < 2 {
			return fmt.Errorf("pending: %v", p)
		}
		return nil
	})
	if !s.exists(hubClient, release) {
		t.Fatal("the Release is gone though it was to wait")
	}
	change(s, release, func(r *v1alpha1.Release) {
		r.Spec.DeletionPolicy.BlockOnClusterUnreachable = new(bool)
		r.Spec.DeletionPolicy.Timeout = metav1.Duration{Duration: time.Second}
	})
	uid := release.UID
	s.awaitGone(hubClient, release)
	if got := s.text(alpha, "greeting"); got != "hello" {
		t.Errorf("text is %q", got)
	}
	left := s.leftBehind(uid)
	if left.Data["cluster"] != "prod" || !strings.Contains(left.Data["objects"], "greeting") {
		t.Errorf("the record of what is left behind says %v", left.Data)
	}
}

// leftBehind is the record that a given-up deletion left on the hub.
func (s *scene) leftBehind(release types.UID) *corev1.ConfigMap {
	s.Helper()
	var found corev1.ConfigMapList
	s.must(s.hub.List(s.ctx, &found, client.InNamespace(s.ns), client.MatchingLabels{v1alpha1.LabelReleaseUID: string(release)}))
	if len(found.Items) != 1 {
		s.Fatalf("there are %d records of what is left behind", len(found.Items))
	}
	return &found.Items[0]
}

func TestAReleaseThatNeverAppliedAnythingIsDeletedThoughItsClusterIsUnreachable(t *testing.T) {
	s := newScene(t)
	path := newLink(t, alpha)
	path.cut()
	s.cluster("prod", path.kubeconfig(t, "never-"+s.ns))
	s.greeting("greeting", "hello")
	release := s.release("app", "prod", "greeting")
	s.awaitClosed("app")
	s.remove(release)
	s.awaitGone(hubClient, release)
	s.eventually("the workflow has ended", func(context.Context) error {
		if state := s.describe(s.releaseWorkflow("app")).GetWorkflowExecutionInfo().GetStatus(); state.String() != "Completed" {
			return fmt.Errorf("it is %s", state)
		}
		return nil
	})
	for _, e := range s.history(s.releaseWorkflow("app")) {
		if a := e.GetActivityTaskStartedEventAttributes(); a.GetAttempt() > 1 {
			f := a.GetLastFailure().GetApplicationFailureInfo().GetType()
			if f != v1alpha1.ReasonClusterNotReady {
				t.Errorf("the deletion was tried %d times: %s", a.GetAttempt(), f)
			}
		}
	}
}

func TestADeletedReleaseTakesItsObjectsAndNamespaceWithIt(t *testing.T) {
	s := newScene(t)
	s.readyCluster("prod", alpha)
	s.greeting("greeting", "hello")
	release := s.release("app", "prod", "greeting")
	s.awaitDelivered("app")
	s.remove(release)
	s.awaitGone(hubClient, release)
	var ns corev1.Namespace
	if err := s.on(alpha).Get(s.ctx, types.NamespacedName{Name: s.ns}, &ns); !apierrors.IsNotFound(err) {
		t.Errorf("the namespace that convoy made is still there (%v)", err)
	}
	var inventories v1alpha1.InventoryList
	s.must(hubClient.List(s.ctx, &inventories, client.InNamespace(s.ns)))
	if len(inventories.Items) != 0 {
		t.Errorf("%d Inventories are left", len(inventories.Items))
	}
	var secrets corev1.SecretList
	s.must(hubClient.List(s.ctx, &secrets, client.InNamespace(s.ns)))
	for _, o := range secrets.Items {
		if o.Type == "convoy.kumodo.io/render" {
			t.Errorf("render %s is left", o.Name)
		}
	}
}

func TestTheSameNameIsANewLifeAfterADeletion(t *testing.T) {
	s := newScene(t)
	cluster := s.readyCluster("prod", alpha)
	s.greeting("first", "hello")
	s.greeting("second", "good evening")
	s.release("app", "prod", "first")
	first := s.awaitDelivered("app")
	if _, err := s.kubectl("delete", "releases.core.convoy.kumodo.io/app", "clusters.core.convoy.kumodo.io/prod", "--timeout=120s"); err != nil {
		t.Fatal(err)
	}
	uid := cluster.UID
	cluster = s.clusterOf("prod")
	s.create(cluster)
	release := s.release("app", "prod", "second")
	second := s.awaitDelivered("app")
	if second.UID == first.UID || cluster.UID == uid || release.UID != second.UID {
		t.Fatal("the objects were not made again")
	}
	if second.Status.Rollout.Number != 1 || len(second.Status.PreviousRenderRefs) != 0 {
		t.Errorf("the new life begins with rollout %d and %d earlier renders", second.Status.Rollout.Number, len(second.Status.PreviousRenderRefs))
	}
	if !strings.HasPrefix(second.Status.Rollout.Cluster, string(cluster.UID)) {
		t.Error("the rollout went to the Cluster's former life")
	}
	if got := s.text(alpha, "second"); got != "good evening" {
		t.Errorf("text is %q", got)
	}
	if s.exists(s.on(alpha), &corev1.ConfigMap{ObjectMeta: s.meta("first")}) {
		t.Error("the object of the former life is still there")
	}
}
