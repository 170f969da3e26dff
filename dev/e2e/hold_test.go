package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/dev/env"
)

// awaitPending waits until a render of a Release waits for a reason, and returns its digest.
func (s *scene) awaitPending(name, reason string) string {
	s.Helper()
	r := s.awaitRelease(name, v1alpha1.ConditionReady, metav1.ConditionUnknown, reason)
	if r.Status.Pending == nil || r.Status.Pending.Reason != reason {
		s.Fatalf("status.pending of Release %s is %+v", name, r.Status.Pending)
	}
	return r.Status.Pending.Digest
}

// approver is who the clients of the tests are: nobody approves in the name of another.
const approver = "admin"

func (s *scene) approve(name, digest string) *v1alpha1.Approval {
	s.Helper()
	a := &v1alpha1.Approval{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, GenerateName: name + "-"}, Spec: v1alpha1.ApprovalSpec{
		ReleaseRef: v1alpha1.ReleaseRef{Name: name}, Digest: digest, ApprovedBy: approver,
	}}
	s.create(a)
	return a
}

func (s *scene) awaitApproval(a *v1alpha1.Approval, state v1alpha1.ApprovalState) {
	s.Helper()
	s.eventually(fmt.Sprintf("Approval %s is %s", a.Name, state), func(ctx context.Context) error {
		if err := s.hub.Get(ctx, client.ObjectKeyFromObject(a), a); err != nil {
			return err
		}
		if a.Status.State != state {
			return fmt.Errorf("it is %q", a.Status.State)
		}
		return nil
	})
}

// says is the entry of a ConfigMap that manifest made, on a target; empty when there is none.
func (s *scene) says(on client.Client, name string) string {
	s.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: s.meta(name)}
	if !s.exists(on, cm) {
		return ""
	}
	return cm.Data["text"]
}

func (s *scene) wantText(target *env.ControlPlane, name, want string) {
	s.Helper()
	if got := s.says(s.on(target), name); got != want {
		s.Errorf("%s on the target says %q, want %q", name, got, want)
	}
}

func (s *scene) edit(name, text string) {
	s.Helper()
	change(s, &corev1.ConfigMap{ObjectMeta: s.meta(name)}, func(cm *corev1.ConfigMap) { cm.Data["greeting.yaml"] = manifest(name, text) })
}

func TestAManualReleaseIsRolledOutOnceItsVeryRenderIsApproved(t *testing.T) {
	s := newScene(t)
	s.readyCluster("prod", alpha)
	s.greeting("greeting", "one")
	s.release("app", "prod", "greeting", func(r *v1alpha1.Release) { r.Spec.SyncPolicy.Mode = v1alpha1.SyncManual })
	first := s.awaitPending("app", v1alpha1.ReasonAwaitingApproval)
	s.wantMessage(s.getRelease("app").Status.Conditions, v1alpha1.ConditionReady, first)
	s.wantText(alpha, "greeting", "")

	yes := s.approve("app", first)
	r := s.awaitDelivered("app")
	s.wantText(alpha, "greeting", "one")
	s.awaitApproval(yes, v1alpha1.ApprovalUsed)
	if h := r.Status.History; len(h) != 1 || h[0].Approval == nil || h[0].Approval.By != approver || h[0].Trigger != v1alpha1.TriggerCreated {
		t.Errorf("the history is %+v", h)
	}

	s.edit("greeting", "two")
	second := s.awaitPending("app", v1alpha1.ReasonAwaitingApproval)
	late := s.approve("app", first) // of a render that is not due any more
	s.awaitApproval(late, v1alpha1.ApprovalVoid)
	s.wantText(alpha, "greeting", "one")
	s.edit("greeting", "three")
	s.eventually("another render waits", func(context.Context) error {
		if p := s.getRelease("app").Status.Pending; p == nil || p.Digest == second {
			return errors.New("not yet")
		}
		return nil
	})
	s.approve("app", second) // came too late
	s.wantText(alpha, "greeting", "one")
	s.approve("app", s.awaitPending("app", v1alpha1.ReasonAwaitingApproval))
	s.wantGood(s.awaitDelivered("app"))
	s.wantText(alpha, "greeting", "three")
}

// What is on the target stays what was applied, and so does what is looked at: a render that waits is in another place.
func TestAnotherTargetNamespaceIsNeitherWrittenToNorMissedBeforeItIsApproved(t *testing.T) {
	s := newScene(t)
	on, next := s.on(alpha), s.ns+"-next"
	s.readyCluster("prod", alpha)
	s.greeting("greeting", "one")
	r := s.release("app", "prod", "greeting", func(r *v1alpha1.Release) { r.Spec.SyncPolicy.Mode = v1alpha1.SyncManual })
	s.approve("app", s.awaitPending("app", v1alpha1.ReasonAwaitingApproval))
	s.awaitDelivered("app")
	s.awaitObserver("prod")
	s.awaitDrift("app", metav1.ConditionFalse)

	change(s, r, func(r *v1alpha1.Release) { r.Spec.TargetNamespace = next })
	digest := s.awaitPending("app", v1alpha1.ReasonAwaitingApproval)
	greeting := &corev1.ConfigMap{ObjectMeta: s.meta("greeting")}
	s.tamper(on, greeting, `{"data":{"text":"of somebody's own"}}`)
	s.awaitText(patience, on, "greeting", "one") // by the observer, which has looked at the Release as it is now
	s.awaitDrift("app", metav1.ConditionFalse)
	for _, e := range s.events() {
		if strings.Contains(e, next+"/") {
			t.Errorf("an Event tells of what is not applied: %s", e)
		}
	}
	if s.exists(on, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: next}}) {
		t.Error("the namespace was made without an Approval")
	}
	s.awaitRelease("app", v1alpha1.ConditionHealthy, metav1.ConditionTrue, v1alpha1.ReasonHealthy)

	s.approve("app", digest)
	s.awaitRollout("app", 2)
	there := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: next, Name: "greeting"}}
	if !s.exists(on, there) || s.exists(on, greeting) {
		t.Error("once it is approved, the Release has not moved")
	}
	s.remove(r)
	s.awaitGone(on, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: next}})
}

func TestAManualReleaseThatComesBackToWhatIsDeliveredWaitsForNothing(t *testing.T) {
	s := newScene(t)
	s.readyCluster("prod", alpha)
	s.greeting("greeting", "one")
	s.release("app", "prod", "greeting", func(r *v1alpha1.Release) { r.Spec.SyncPolicy.Mode = v1alpha1.SyncManual })
	s.approve("app", s.awaitPending("app", v1alpha1.ReasonAwaitingApproval))
	s.awaitDelivered("app")
	s.edit("greeting", "two")
	void := s.approve("app", "sha256:"+strings.Repeat("0", 64))
	s.awaitPending("app", v1alpha1.ReasonAwaitingApproval)
	s.awaitApproval(void, v1alpha1.ApprovalVoid)
	s.edit("greeting", "one")
	if r := s.awaitDelivered("app"); r.Status.Pending != nil || r.Status.Rollout.Number != 1 {
		t.Errorf("it waits for %+v, rollout %d", r.Status.Pending, r.Status.Rollout.Number)
	}
}

func TestAPruneThatHasToBeConfirmedWaitsAndNothingElseDoes(t *testing.T) {
	s := newScene(t)
	s.readyCluster("prod", alpha)
	on := s.on(alpha)
	source := s.configMap("source", map[string]string{"a.yaml": manifest("a", "1"), "b.yaml": manifest("b", "1")})
	s.release("app", "prod", "source", func(r *v1alpha1.Release) { r.Spec.SyncPolicy.Prune = v1alpha1.PruneConfirm })
	s.awaitDelivered("app")
	change(s, source, func(cm *corev1.ConfigMap) { cm.Data["a.yaml"] = manifest("a", "2") })
	s.eventually("a change that removes nothing is delivered", func(context.Context) error {
		if s.says(on, "a") != "2" {
			return errors.New("not yet")
		}
		return nil
	})
	s.awaitDelivered("app")
	change(s, source, func(cm *corev1.ConfigMap) { delete(cm.Data, "b.yaml"); cm.Data["a.yaml"] = manifest("a", "3") })
	digest := s.awaitPending("app", v1alpha1.ReasonAwaitingApproval)
	s.wantMessage(s.getRelease("app").Status.Conditions, v1alpha1.ConditionReady, "remove 1 object")
	if s.says(on, "a") != "2" || s.says(on, "b") != "1" {
		t.Error("something was done before it was approved")
	}
	s.approve("app", digest)
	r := s.awaitDelivered("app")
	if s.says(on, "b") != "" || s.says(on, "a") != "3" || r.Status.History[0].Pruned != 1 {
		t.Errorf("b says %q, a says %q, the history %+v", s.says(on, "b"), s.says(on, "a"), r.Status.History[0])
	}
}

func TestWhatLeftTheRenderStaysWithThePolicyNeverAndGoesWithTheRelease(t *testing.T) {
	s := newScene(t)
	s.readyCluster("prod", alpha)
	on := s.on(alpha)
	source := s.configMap("source", map[string]string{"a.yaml": manifest("a", "1"), "b.yaml": manifest("b", "1")})
	app := s.release("app", "prod", "source", func(r *v1alpha1.Release) { r.Spec.SyncPolicy.Prune = v1alpha1.PruneNever })
	s.awaitDelivered("app")
	change(s, source, func(cm *corev1.ConfigMap) { delete(cm.Data, "b.yaml"); cm.Data["a.yaml"] = manifest("a", "2") })
	s.eventually("the change is delivered", func(context.Context) error {
		if s.says(on, "a") != "2" {
			return errors.New("not yet")
		}
		return nil
	})
	r := s.awaitDelivered("app")
	if s.says(on, "b") != "1" || r.Status.Inventory.Objects != 3 { // with the namespace
		t.Errorf("b says %q, the inventory holds %d objects", s.says(on, "b"), r.Status.Inventory.Objects)
	}
	s.remove(app)
	s.awaitGone(s.hub, app)
	if s.says(on, "b") != "" {
		t.Error("the deletion left it behind")
	}
}

func TestASuspendedReleaseRestsInTheMiddleOfARolloutAndGoesOnWithIt(t *testing.T) {
	s := newScene(t)
	on := s.on(alpha)
	s.targetNamespace(on)
	s.readyCluster("prod", alpha)
	s.configMap("source", map[string]string{"greeting.yaml": manifest("greeting", "one"), "pod.yaml": podManifest("worker")})
	app := s.release("app", "prod", "source")
	s.awaitRelease("app", v1alpha1.ConditionApplied, metav1.ConditionTrue, v1alpha1.ReasonApplied)
	change(s, app, func(r *v1alpha1.Release) { r.Spec.Suspend = true })
	s.within(15*time.Second, "the Release is suspended and its rollout stops", func(ctx context.Context) error {
		r := s.getRelease("app")
		if err := s.compare(r.Status.Conditions, v1alpha1.ConditionReady, metav1.ConditionUnknown, v1alpha1.ReasonSuspended, r.Generation); err != nil {
			return err
		}
		if n := len(s.describe(s.releaseWorkflow("app")).GetPendingChildren()); n > 0 {
			return fmt.Errorf("%d rollouts are under way", n)
		}
		return nil
	})
	change(s, &corev1.ConfigMap{ObjectMeta: s.meta("source")}, func(cm *corev1.ConfigMap) { cm.Data["more.yaml"] = manifest("more", "one") })
	s.request("app") // is answered, and changes nothing
	s.letPodRun(on)
	if s.says(on, "more") != "" {
		t.Error("a suspended Release was delivered")
	}
	change(s, app, func(r *v1alpha1.Release) { r.Spec.Suspend = false })
	s.wantGood(s.awaitDelivered("app"))
	if s.says(on, "more") != "one" {
		t.Error("what had changed meanwhile was not delivered")
	}
}

func TestADeletionBeatsSuspensionWindowsAndManualMode(t *testing.T) {
	s := newScene(t)
	s.readyCluster("prod", alpha)
	s.greeting("greeting", "one")
	app := s.release("app", "prod", "greeting")
	s.awaitDelivered("app")
	change(s, app, func(r *v1alpha1.Release) {
		r.Spec.Suspend, r.Spec.SyncPolicy.Mode = true, v1alpha1.SyncManual
		r.Spec.SyncPolicy.Windows = []v1alpha1.SyncWindow{{Schedule: "0 0 31 11 *", Duration: metav1.Duration{Duration: time.Hour}}}
	})
	s.awaitRelease("app", v1alpha1.ConditionReady, metav1.ConditionUnknown, v1alpha1.ReasonSuspended)
	s.remove(app)
	s.awaitGone(s.hub, app)
	s.wantText(alpha, "greeting", "")
}

func TestARolloutWaitsForItsWindow(t *testing.T) {
	s := newScene(t)
	s.readyCluster("prod", alpha)
	s.greeting("greeting", "one")
	later := time.Now().UTC().Add(12 * time.Hour)
	app := s.release("app", "prod", "greeting", func(r *v1alpha1.Release) {
		r.Spec.SyncPolicy.Windows = []v1alpha1.SyncWindow{{
			Schedule: fmt.Sprintf("%d %d * * *", later.Minute(), later.Hour()), Duration: metav1.Duration{Duration: time.Hour}, TimeZone: "UTC",
		}}
	})
	s.awaitPending("app", v1alpha1.ReasonOutsideWindow)
	s.wantMessage(s.getRelease("app").Status.Conditions, v1alpha1.ConditionReady, later.Format("2006-01-02T15:04"))
	s.wantText(alpha, "greeting", "")
	change(s, app, func(r *v1alpha1.Release) { r.Spec.SyncPolicy.Windows[0].Schedule = "0 25 * * *" })
	s.awaitRelease("app", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonSyncPolicyInvalid)
	s.wantMessage(s.getRelease("app").Status.Conditions, v1alpha1.ConditionStalled, "windows[0]")
	change(s, app, func(r *v1alpha1.Release) { r.Spec.SyncPolicy.Windows[0].Schedule = "* * * * *" })
	s.wantGood(s.awaitDelivered("app"))
}

func TestARollbackAppliesAKeptRenderAndHoldsThereWithoutItsSource(t *testing.T) {
	s := newScene(t)
	s.readyCluster("prod", alpha)
	on := s.on(alpha)
	source := s.configMap("source", map[string]string{"a.yaml": manifest("a", "1")})
	app := s.release("app", "prod", "source")
	first := s.awaitDelivered("app").Status.RenderRef.Digest
	change(s, source, func(cm *corev1.ConfigMap) {
		cm.Data["a.yaml"], cm.Data["b.yaml"] = manifest("a", "2"), manifest("b", "2")
	})
	s.eventually("the second render is delivered", func(context.Context) error {
		if s.says(on, "b") != "2" {
			return errors.New("not yet")
		}
		return nil
	})
	s.awaitDelivered("app")
	change(s, app, func(r *v1alpha1.Release) { r.Spec.PinnedRender = first })
	r := s.awaitDelivered("app")
	if s.says(on, "a") != "1" || s.says(on, "b") != "" {
		t.Errorf("after the rollback a says %q, b %q", s.says(on, "a"), s.says(on, "b"))
	}
	if h := r.Status.History[0]; h.Number != 3 || h.Trigger != v1alpha1.TriggerPinned || h.Digest != first || h.Pruned != 1 || h.Revision == "" {
		t.Errorf("the history says %+v", h)
	}
	s.remove(source)
	s.request("app")
	s.wantGood(s.awaitDelivered("app")) // it needs no source
	change(s, app, func(r *v1alpha1.Release) { r.Spec.PinnedRender = "sha256:" + strings.Repeat("0", 64) })
	s.awaitRelease("app", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonPinnedRenderMissing)
	s.wantText(alpha, "a", "1")
	s.configMap("source", map[string]string{"a.yaml": manifest("a", "3")})
	change(s, app, func(r *v1alpha1.Release) { r.Spec.PinnedRender = "" })
	s.awaitDelivered("app")
	s.wantText(alpha, "a", "3")
}

func TestTheSyncPolicySetsThePaceOfRetries(t *testing.T) {
	s := newScene(t)
	s.greeting("greeting", "one")
	s.release("app", "nowhere", "greeting", func(r *v1alpha1.Release) {
		r.Spec.SyncPolicy.Retry = &v1alpha1.RetryPolicy{
			MinInterval: metav1.Duration{Duration: time.Second}, MaxInterval: metav1.Duration{Duration: time.Second},
		}
	})
	s.within(30*time.Second, "the gate was tried five times", func(context.Context) error {
		if len(s.history(s.releaseWorkflow("app"))) == 0 {
			return errors.New("there is no workflow yet")
		}
		if p := s.pending(s.releaseWorkflow("app"), "CheckCluster"); p == nil || p.GetAttempt() < 5 {
			return errors.New("not yet") // by default it would take more than a minute
		}
		return nil
	})
}

func TestAnApprovalThatNothingWaitedForIsVoidOnceAnotherRenderIsDelivered(t *testing.T) {
	s := newScene(t)
	s.readyCluster("prod", alpha)
	s.greeting("greeting", "one")
	r := s.release("app", "prod", "greeting")
	early := s.approve("app", s.awaitDelivered("app").Status.Rollout.Digest)
	s.edit("greeting", "two")
	s.awaitApproval(early, v1alpha1.ApprovalVoid)
	s.awaitRollout("app", 2) // it is voided when that begins
	change(s, r, func(r *v1alpha1.Release) { r.Spec.SyncPolicy.Mode = v1alpha1.SyncManual })
	s.edit("greeting", "one")
	s.awaitPending("app", v1alpha1.ReasonAwaitingApproval)
	s.wantText(alpha, "greeting", "two")
}
