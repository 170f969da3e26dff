package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	"kumodo.io/convoy/dev/env"
)

const cleanUp = "CleanFormerClusters"

// delivered makes Release app deliver to Cluster a, on alpha through path when that is not nil, beside Cluster b on beta.
func (s *scene) delivered(path *link, changes ...func(*v1alpha1.Release)) *v1alpha1.Release {
	s.Helper()
	kubeconfig := alpha.Kubeconfig()
	if path != nil {
		kubeconfig = path.kubeconfig(s.T, "moves-"+s.ns)
	}
	s.cluster("a", kubeconfig)
	s.awaitCluster("a", metav1.ConditionTrue, v1alpha1.ReasonReachable)
	s.readyCluster("b", beta)
	s.greeting("greeting", "hello")
	s.release("app", "a", "greeting", changes...)
	return s.awaitDelivered("app")
}

// refer points a Release at a Cluster.
func (s *scene) refer(name, cluster string) {
	s.Helper()
	change(s, &v1alpha1.Release{ObjectMeta: s.meta(name)}, func(r *v1alpha1.Release) { r.Spec.ClusterRef.Name = cluster })
}

// awaitLeftovers waits until a Release tells for which reason something is left elsewhere, without an effect on Ready.
func (s *scene) awaitLeftovers(name, reason string) *v1alpha1.Release {
	s.Helper()
	r := s.awaitRelease(name, v1alpha1.ConditionLeftovers, metav1.ConditionTrue, reason)
	if !meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionReady) || len(r.Status.Leftovers) != 1 || r.Status.Leftovers[0].Cluster != "a" {
		s.Errorf("leftovers %v, conditions %v", r.Status.Leftovers, r.Status.Conditions)
	}
	return r
}

// awaitNoLeftovers waits until nothing of a Release is left elsewhere.
func (s *scene) awaitNoLeftovers(name string) *v1alpha1.Release {
	s.Helper()
	var r *v1alpha1.Release
	s.eventually("nothing is left elsewhere of Release "+name, func(context.Context) error {
		r = s.getRelease(name)
		if c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionLeftovers); c != nil || len(r.Status.Leftovers) > 0 {
			return fmt.Errorf("%v, %v", r.Status.Leftovers, c)
		}
		return nil
	})
	return r
}

// wantRecorded fails the test when the inventories of the scene are not on exactly these Clusters.
func (s *scene) wantRecorded(clusters ...string) {
	s.Helper()
	var all v1alpha1.InventoryList
	s.must(s.hub.List(s.ctx, &all, client.InNamespace(s.ns)))
	var got []string
	for i := range all.Items {
		got = append(got, all.Items[i].Cluster.Name)
	}
	slices.Sort(got)
	if !slices.Equal(got, clusters) {
		s.Errorf("inventories are on %v, want %v", got, clusters)
	}
}

// awaitNamespaceGone waits until the namespace of the scene is gone from a target, or is about to go.
func (s *scene) awaitNamespaceGone(target *env.ControlPlane) {
	s.Helper()
	s.eventually("the namespace that convoy made is gone", func(ctx context.Context) error {
		var ns corev1.Namespace
		err := s.on(target).Get(ctx, types.NamespacedName{Name: s.ns}, &ns)
		if err == nil {
			return fmt.Errorf("it is %s", ns.Status.Phase)
		}
		return client.IgnoreNotFound(err)
	})
}

func (s *scene) greetingOn() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: s.meta("greeting")}
}

func TestAReleaseThatMovesLeavesNothingOnItsFormerCluster(t *testing.T) {
	s := newScene(t)
	s.delivered(nil)
	s.refer("app", "b")
	r := s.awaitRollout("app", 2)
	s.awaitGone(s.on(alpha), s.greetingOn())
	s.awaitNamespaceGone(alpha)
	s.awaitNoLeftovers("app")
	s.wantRecorded("b")
	if got := s.text(beta, "greeting"); got != "hello" {
		t.Errorf("on the new Cluster the text is %q", got)
	}
	s.awaitIdle("app")
	n := scheduled(s.history(s.releaseWorkflow("app")))
	if n[cleanUp] != 1 || r.Status.Rollout.Number != 2 {
		t.Errorf("%d clean-ups, rollout %d", n[cleanUp], r.Status.Rollout.Number)
	}
	s.reconcile("app") // and the reconcile after it finds nothing to do
	if again := scheduled(s.history(s.releaseWorkflow("app"))); again[cleanUp] != 1 || again["RenderRelease"] != n["RenderRelease"] {
		t.Errorf("a reconcile that finds nothing to do scheduled %v after %v", again, n)
	}
}

func TestAFormerClusterThatIsDownHoldsNobodyUpAndIsCleanedOnceItIsMended(t *testing.T) {
	s := newScene(t)
	path := newLink(t, alpha)
	s.delivered(path)
	path.cut()
	s.refer("app", "b")
	s.awaitDelivered("app")
	r := s.awaitLeftovers("app", v1alpha1.ReasonClusterUnreachable)
	s.wantMessage(r.Status.Conditions, v1alpha1.ConditionLeftovers, `Cluster "a"`, "connection refused", "blockOnClusterUnreachable")
	if got := s.text(beta, "greeting"); got != "hello" {
		t.Errorf("on the new Cluster the text is %q", got)
	}
	// The new Cluster gets what changes, and keeps the old one's objects waiting only.
	change(s, &corev1.ConfigMap{ObjectMeta: s.meta("greeting")}, func(cm *corev1.ConfigMap) { cm.Data["greeting.yaml"] = manifest("greeting", "again") })
	s.awaitText(patience, s.on(beta), "greeting", "again")
	s.awaitSucceeded("app", 3)
	s.awaitAttempt(s.releaseWorkflow("app"), cleanUp, 2)
	before := s.awaitLeftovers("app", v1alpha1.ReasonClusterUnreachable)
	s.awaitAttempt(s.releaseWorkflow("app"), cleanUp, 3)
	if after := s.getRelease("app"); after.ResourceVersion != before.ResourceVersion {
		t.Error("a retry wrote the Release")
	}
	if got := s.text(alpha, "greeting"); got != "hello" {
		t.Errorf("on the former Cluster the text is %q", got)
	}
	path.mend(t)
	s.awaitGone(s.on(alpha), s.greetingOn())
	s.awaitNoLeftovers("app")
	s.wantRecorded("b")
}

func TestAReleaseThatMovesKeepsItsWorkloadsWithoutMarksWhenItsPolicySaysSo(t *testing.T) {
	s := newScene(t)
	s.delivered(nil, func(r *v1alpha1.Release) { r.Spec.DeletionPolicy.KeepWorkloads = true })
	s.refer("app", "b")
	s.awaitRollout("app", 2)
	s.awaitNoLeftovers("app")
	s.wantRecorded("b")
	kept := s.greetingOn()
	s.must(s.on(alpha).Get(s.ctx, client.ObjectKeyFromObject(kept), kept))
	if kept.Labels[v1alpha1.LabelOwner] != "" || kept.Annotations[v1alpha1.AnnotationRelease] != "" {
		t.Errorf("the kept object still carries convoy's marks: %v %v", kept.Labels, kept.Annotations)
	}
	var ns corev1.Namespace
	s.must(s.on(alpha).Get(s.ctx, types.NamespacedName{Name: s.ns}, &ns))
	if ns.DeletionTimestamp != nil || ns.Labels[v1alpha1.LabelOwner] != "" {
		t.Errorf("the namespace is %v", ns.ObjectMeta)
	}
}

func TestAMoveFromADeadClusterGivesUpAfterTheTimeoutWhenItsPolicySaysSo(t *testing.T) {
	s := newScene(t)
	path := newLink(t, alpha)
	s.delivered(path)
	path.cut()
	s.refer("app", "b")
	r := s.awaitLeftovers("app", v1alpha1.ReasonClusterUnreachable)
	s.wantRecorded("a", "b")
	change(s, r, func(r *v1alpha1.Release) {
		r.Spec.DeletionPolicy.BlockOnClusterUnreachable = new(bool)
		r.Spec.DeletionPolicy.Timeout = metav1.Duration{Duration: time.Second}
	})
	s.awaitNoLeftovers("app")
	s.wantRecorded("b")
	left := s.leftBehind(r.UID)
	if left.Data["cluster"] != "a" || !strings.Contains(left.Data["objects"], "greeting") || !strings.Contains(left.Data["reason"], "refused") {
		t.Errorf("the record of what is left behind says %v", left.Data)
	}
	s.eventually("an Event tells of it", func(ctx context.Context) error {
		var events corev1.EventList
		if err := s.hub.List(ctx, &events, client.InNamespace(s.ns)); err != nil {
			return err
		}
		for i := range events.Items {
			if e := &events.Items[i]; e.Reason == "LeftBehind" && strings.Contains(e.Message, left.Name) {
				return nil
			}
		}
		return errors.New("there is none")
	})
	s.awaitDelivered("app")
	if got := s.text(alpha, "greeting"); got != "hello" {
		t.Errorf("on the former Cluster the text is %q", got)
	}
	for _, e := range s.events() {
		if strings.Contains(e, " Moved: ") {
			t.Errorf("though it was given up, an Event says that nothing is left: %s", e)
		}
	}
}

func TestAReleaseThatMovesThereAndBackLosesNothing(t *testing.T) {
	s := newScene(t)
	path := newLink(t, alpha)
	s.delivered(path)
	uid := func() types.UID {
		cm := s.greetingOn()
		s.must(s.on(alpha).Get(s.ctx, client.ObjectKeyFromObject(cm), cm))
		return cm.UID
	}
	before := uid()
	path.cut() // so that the clean-up is under way when the Release returns
	s.refer("app", "b")
	s.awaitLeftovers("app", v1alpha1.ReasonClusterUnreachable)
	s.refer("app", "a")
	s.awaitLookedAt("app")
	path.mend(t)
	s.awaitText(patience, s.on(alpha), "greeting", "hello")
	s.awaitDelivered("app")
	s.awaitGone(s.on(beta), s.greetingOn())
	s.awaitNoLeftovers("app")
	s.wantRecorded("a")
	if after := uid(); after != before {
		t.Error("the object was deleted in between and made again")
	}
	// As fast as an editor can, with both up: in the end it is at one place, and there all of it.
	for _, cluster := range []string{"b", "a", "b", "a"} {
		s.refer("app", cluster)
	}
	s.awaitDelivered("app")
	s.awaitNoLeftovers("app")
	s.awaitIdle("app")
	s.wantRecorded("a")
	if got := s.text(alpha, "greeting"); got != "hello" {
		t.Errorf("text is %q", got)
	}
	if err := s.on(beta).Get(s.ctx, client.ObjectKeyFromObject(s.greetingOn()), s.greetingOn()); !apierrors.IsNotFound(err) {
		t.Errorf("on the other Cluster: %v", err)
	}
}

// awaitLookedAt waits until a Release was looked at as it is now.
func (s *scene) awaitLookedAt(name string) {
	s.Helper()
	s.eventually("Release "+name+" was looked at", func(context.Context) error {
		if r := s.getRelease(name); r.Status.ObservedGeneration != r.Generation {
			return fmt.Errorf("generation %d of %d", r.Status.ObservedGeneration, r.Generation)
		}
		return nil
	})
}

func TestADeletionAfterAMoveCleansBothClusters(t *testing.T) {
	s := newScene(t)
	path := newLink(t, alpha)
	s.delivered(path)
	path.cut()
	s.refer("app", "b")
	r := s.awaitLeftovers("app", v1alpha1.ReasonClusterUnreachable)
	s.remove(r)
	s.awaitRelease("app", v1alpha1.ConditionDeleting, metav1.ConditionTrue, v1alpha1.ReasonClusterUnreachable)
	s.awaitGone(s.on(beta), s.greetingOn())
	if p := s.pending(s.releaseWorkflow("app"), cleanUp); p != nil {
		t.Errorf("the clean-up of the move goes on beside the deletion: %v", p)
	}
	path.mend(t)
	s.awaitGone(hubClient, r)
	s.awaitGone(s.on(alpha), s.greetingOn())
	s.wantRecorded()
	s.save("release-moved-then-deleted", s.releaseWorkflow("app"))
}

func TestADeletedClusterWaitsUntilAReleaseThatMovedAwayHasLeftIt(t *testing.T) {
	s := newScene(t)
	path := newLink(t, alpha)
	s.delivered(path)
	path.cut()
	s.refer("app", "b")
	s.awaitLeftovers("app", v1alpha1.ReasonClusterUnreachable)
	former := s.getCluster("a")
	s.remove(former)
	s.awaitClusterDeleting("a", "app")
	path.mend(t)
	s.awaitGone(hubClient, former)
	s.awaitGone(s.on(alpha), s.greetingOn())
	s.awaitNoLeftovers("app")
	s.awaitDelivered("app")
}

func TestAnAcceptedClusterTakesThePlaceOfOneWhoseObjectsAreListed(t *testing.T) {
	s := newScene(t)
	before := s.delivered(nil)
	change(s, &corev1.Secret{ObjectMeta: s.meta("a-kubeconfig")}, func(secret *corev1.Secret) {
		secret.Data = map[string][]byte{"kubeconfig": beta.Kubeconfig()}
	})
	s.awaitCluster("a", metav1.ConditionFalse, v1alpha1.ReasonClusterIdentityChanged)
	change(s, s.getCluster("a"), func(c *v1alpha1.Cluster) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1alpha1.AnnotationAcceptClusterID, s.getCluster("b").Status.ClusterID)
	})
	s.awaitCluster("a", metav1.ConditionTrue, v1alpha1.ReasonReachable)
	s.request("app")
	s.awaitRollout("app", 2)
	s.awaitNoLeftovers("app")
	left := s.leftBehind(before.UID)
	if left.Data["cluster"] != "a" || !strings.Contains(left.Data["objects"], "greeting") || !strings.Contains(left.Data["reason"], "accepted") {
		t.Errorf("the record of what is left behind says %v", left.Data)
	}
	for _, target := range []*env.ControlPlane{alpha, beta} {
		if got := s.text(target, "greeting"); got != "hello" {
			t.Errorf("on %s the text is %q", target.Name, got)
		}
	}
	s.wantRecorded("a")
}

func TestACleanUpOutlivesTheProcessThatBeganIt(t *testing.T) {
	s := newSerialScene(t)
	path := newLink(t, alpha)
	s.delivered(path)
	path.freeze() // the attempt is in the middle of a request when its process is killed
	s.refer("app", "b")
	s.awaitSucceeded("app", 2)
	s.eventually("the clean-up is at work", func(context.Context) error {
		if p := s.pending(s.releaseWorkflow("app"), cleanUp); p.GetState().String() != "Started" {
			return fmt.Errorf("it is %v", p)
		}
		return nil
	})
	s.must(s.convoy.kill())
	path.close()
	path.mend(t)
	s.must(s.convoy.start(s.ctx))
	s.awaitGone(s.on(alpha), s.greetingOn())
	s.awaitNoLeftovers("app")
	s.wantRecorded("b")
}

func TestACleanUpWhoseWorkflowSomebodyEndedIsFoundByTheStatus(t *testing.T) {
	s := newScene(t)
	path := newLink(t, alpha)
	s.delivered(path)
	path.cut()
	s.refer("app", "b")
	s.awaitLeftovers("app", v1alpha1.ReasonClusterUnreachable)
	s.must(s.temporal.TerminateWorkflow(s.ctx, s.releaseWorkflow("app"), "", "by a person"))
	path.mend(t)
	s.awaitGone(s.on(alpha), s.greetingOn())
	s.awaitNoLeftovers("app")
	s.wantRecorded("b")
	if got := s.getRelease("app").Status.Rollout.Number; got != 2 {
		t.Errorf("rollout %d, want no other than the second", got)
	}
}
