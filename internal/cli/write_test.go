package cli

import (
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
)

func TestSuspendAndResumeSetTheField(t *testing.T) {
	w := newWorld(t)
	w.release(rolled)
	w.want("Release NS/app suspended\n", "suspend", "release", "app")
	if !w.now().Spec.Suspend {
		t.Error("spec.suspend is not set")
	}
	w.want("Release NS/app was suspended already\n", "suspend", "cvr/app")
	w.want("Release NS/app resumed\n", "resume", "app")
	if w.now().Spec.Suspend {
		t.Error("spec.suspend is set")
	}
	w.want("Release NS/app was not suspended\n", "resume", "releases/app")
	w.refused("there is no Release NS/other", "suspend", "other")
}

func TestAReleaseThatIsBeingDeletedIsNotChanged(t *testing.T) {
	w := newWorld(t)
	r := newRelease(w.namespace)
	r.Finalizers = []string{v1alpha1.ReleaseFinalizer}
	w.check(w.Create(w.ctx, r))
	w.check(w.Delete(w.ctx, r))
	for _, command := range []string{"suspend", "resume", "reconcile", "approve", "rollback"} {
		w.refused("Release NS/app is being deleted", command, "app")
	}
	r = w.now()
	r.Finalizers = nil
	w.check(w.Update(w.ctx, r))
}

func TestApproveCreatesAnApprovalOfTheRenderThatWaitsInTheNameOfTheCaller(t *testing.T) {
	w := newWorld(t)
	w.release(rolled)
	w.refused("no render of it waits for an approval: Delivered", "approve", "app")
	w.status(pending)
	w.refused("the render that waits is "+digest("cc3")+", and not sha256:bb2", "approve", "app", "--digest=sha256:bb2")
	w.refused(`spec.hooks has no hook "check"; none of its hooks waits for an Approval`, "approve", "app", "--hook=check")
	_, err := w.change(w.ctx, "app", func(r *v1alpha1.Release) error {
		r.Spec.Hooks = []v1alpha1.Hook{{Name: "check", Phase: v1alpha1.HookPreApply, Approval: &v1alpha1.HookApproval{}}}
		return nil
	})
	w.check(err)
	w.status(func(r *v1alpha1.Release) { r.Status.ObservedGeneration = r.Generation })
	w.refused("no rollout of it is under way, so hook check waits for nothing", "approve", "app", "--hook=check")
	if all := w.approvals(); len(all) != 0 {
		t.Fatalf("a refusal left %v", all)
	}
	out, errOut, code := w.run("approve", "release", "app", "--digest=cc3", "--as=jo", "--as-group=system:masters")
	all := w.approvals()
	if code != 0 || len(all) != 1 {
		t.Fatalf("code %d, %s, %d Approvals", code, errOut, len(all))
	}
	want := v1alpha1.ApprovalSpec{ReleaseRef: v1alpha1.ReleaseRef{Name: "app"}, Digest: digest("cc3"), ApprovedBy: "jo"}
	if all[0].Spec != want || !strings.HasPrefix(all[0].Name, "app-") {
		t.Errorf("Approval %s: %+v, want %+v", all[0].Name, all[0].Spec, want)
	}
	if line := "approved render " + digest("cc3") + " of Release " + w.namespace + "/app as jo, by Approval " + all[0].Name + "\n"; out != line {
		t.Errorf("printed %q, want %q", out, line)
	}
	w.status(func(r *v1alpha1.Release) { r.Status.Rollout.Phase = v1alpha1.RolloutRunning })
	if _, errOut, code := w.run("approve", "app", "--hook=check"); code != 0 {
		t.Fatal(errOut)
	}
	for _, a := range w.approvals() {
		if a.Spec.Hook == "check" && a.Spec.Digest == digest("bb2") {
			return
		}
	}
	t.Errorf("no Approval of the hook for the render of the rollout: %+v", w.approvals())
}

func (w *world) approvals() []v1alpha1.Approval {
	w.Helper()
	var all v1alpha1.ApprovalList
	w.check(w.List(w.ctx, &all, client.InNamespace(w.namespace)))
	return all.Items
}

func TestRollbackPinsAndUnpins(t *testing.T) {
	w := newWorld(t)
	w.release(rolled)
	w.want("Release NS/app is pinned to render "+digest("aa1")+"\n", "rollback", "release", "app")
	if got := w.now().Spec.PinnedRender; got != digest("aa1") {
		t.Errorf("pinned to %s", got)
	}
	w.refused("it is pinned to render sha256:aa1000000000 already", "rollback", "app")
	w.want("Release NS/app is pinned to render "+digest("bb2")+"\n", "rollback", "app", "--to=2")
	w.want("Release NS/app is pinned to render "+digest("aa1")+"\n", "rollback", "app", "--to=sha256:aa")
	w.refused(`"dd" is neither a rollout in the history nor the beginning of the digest of a kept render; kept are sha256:bb2000000000 (rollout 2), sha256:aa1000000000 (rollout 1)`, "rollback", "app", "--to=dd")
	w.want("Release NS/app is unpinned: what the source holds is delivered\n", "rollback", "app", "--undo")
	if got := w.now().Spec.PinnedRender; got != "" {
		t.Errorf("pinned to %s", got)
	}
	w.refused("Release NS/app: it is not pinned to a render", "rollback", "app", "--undo")
	w.refused("[to undo]", "rollback", "app", "--undo", "--to=1")
}

func TestWhoMayOnlyReadIsToldWhatIsMissing(t *testing.T) {
	w := newWorld(t)
	w.release(func(r *v1alpha1.Release) { rolled(r); pending(r) })
	reader := metav1.ObjectMeta{Namespace: w.namespace, Name: "reader"}
	w.check(w.Create(w.ctx, &rbacv1.Role{ObjectMeta: reader, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"releases"}, Verbs: []string{"get"}},
	}}))
	w.check(w.Create(w.ctx, &rbacv1.RoleBinding{
		ObjectMeta: reader, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "kim"}},
	}))
	for command, message := range map[string]string{
		"suspend":   `User "kim" cannot patch resource "releases"`,
		"reconcile": `User "kim" cannot patch resource "releases"`,
		"rollback":  `User "kim" cannot patch resource "releases"`,
		"approve":   `User "kim" cannot create resource "approvals"`,
		"get":       `User "kim" cannot list resource "releases"`,
	} {
		args := []string{command, "release", "app", "--as=kim"}
		w.refused(message, args...)
	}
	if out, errOut, code := w.run("history", "app", "--as=kim"); code != 0 || !strings.Contains(out, "sha256:bb2") {
		t.Errorf("history: code %d, %s%s", code, out, errOut)
	}
}

// convoy acts as the controller on the Release app once it sees what it waits for.
func (w *world) convoy(sees func(*v1alpha1.Release) bool, status ...func(*v1alpha1.Release)) (ended func()) {
	done := make(chan error, 1)
	go func() {
		err := w.follow(w.ctx, "app", sees)
		for _, change := range status {
			if err == nil {
				r := &v1alpha1.Release{}
				if err = w.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: "app"}, r); err == nil {
					before := r.DeepCopy()
					change(r)
					err = w.Status().Patch(w.ctx, r, client.MergeFrom(before))
				}
			}
		}
		done <- err
	}()
	return func() {
		w.Helper()
		w.check(<-done)
	}
}

func requested(r *v1alpha1.Release) bool { return r.Annotations[v1alpha1.AnnotationRequestedAt] != "" }

func handled(r *v1alpha1.Release) {
	r.Status.LastHandledReconcileAt = r.Annotations[v1alpha1.AnnotationRequestedAt]
	ready(r, metav1.ConditionUnknown, v1alpha1.ReasonProgressing, "rollout 3 is under way")
}

func TestReconcileWaitsForTheAnswerAndForReadiness(t *testing.T) {
	w := newWorld(t)
	w.release(rolled)
	ended := w.convoy(requested, handled, func(r *v1alpha1.Release) {
		ready(r, metav1.ConditionTrue, v1alpha1.ReasonDelivered, "rollout 3 applied 1 object")
	})
	out, errOut, code := w.run("reconcile", "release", "app", "--wait", "--timeout=1m")
	ended()
	if code != 0 || out != "Release "+w.namespace+"/app is asked to reconcile\n" {
		t.Errorf("code %d, %q", code, out)
	}
	if !strings.HasSuffix(errOut, "Delivered: rollout 3 applied 1 object\n") || strings.Contains(errOut, "rollout 2") {
		t.Errorf("it said %q", errOut)
	}
	stamp := w.now().Annotations[v1alpha1.AnnotationRequestedAt]
	if _, err := time.Parse(time.RFC3339Nano, stamp); err != nil {
		t.Error(err)
	}
}

func TestAWaitThatEndsBadlyIsAnError(t *testing.T) {
	w := newWorld(t)
	w.release(rolled)
	ended := w.convoy(requested, handled, func(r *v1alpha1.Release) {
		ready(r, metav1.ConditionFalse, v1alpha1.ReasonApplyFailed, "1 of 2 objects failed")
		r.Status.Conditions = append(r.Status.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonApplyFailed, LastTransitionTime: metav1.Now(),
		})
	})
	_, errOut, code := w.run("reconcile", "app", "--wait")
	ended()
	if last := "convoy: Release " + w.namespace + "/app is not ready: ApplyFailed: 1 of 2 objects failed\n"; code != 1 || !strings.HasSuffix(errOut, last) {
		t.Errorf("code %d, %q", code, errOut)
	}
	_, errOut, code = w.run("rollback", "app", "--wait", "--timeout=100ms")
	if code != 1 || !strings.Contains(errOut, "Release "+w.namespace+"/app is not ready after 100ms: Changed: convoy has not told yet what became of generation 2") {
		t.Errorf("code %d, %q", code, errOut)
	}
	w.status(func(r *v1alpha1.Release) { ready(r, metav1.ConditionTrue, v1alpha1.ReasonDelivered, "rollout 4") })
	ended = w.convoy(func(r *v1alpha1.Release) bool { return r.Spec.PinnedRender == "" }, func(r *v1alpha1.Release) {
		ready(r, metav1.ConditionUnknown, v1alpha1.ReasonOutsideWindow, "the next one opens at noon")
	})
	_, errOut, code = w.run("rollback", "app", "--undo", "--wait")
	ended()
	if code != 1 || !strings.Contains(errOut, "is not ready: OutsideWindow: the next one opens at noon") {
		t.Errorf("code %d, %q", code, errOut)
	}
}

func TestAWaitSaysWhatIsRetriedAlsoBeforeTheAnswer(t *testing.T) {
	w := newWorld(t)
	w.release(func(r *v1alpha1.Release) {
		ready(r, metav1.ConditionFalse, v1alpha1.ReasonClusterNotReady, "the gate is closed")
	})
	_, errOut, code := w.run("reconcile", "app", "--wait", "--timeout=100ms")
	if code != 1 || !strings.Contains(errOut, "is not ready after 100ms: ClusterNotReady: the gate is closed") {
		t.Errorf("code %d, %q", code, errOut)
	}
}

func TestAWaitEndsWhenTheReleaseIsGone(t *testing.T) {
	w := newWorld(t)
	r := w.release(rolled)
	done := make(chan error, 1)
	go func() {
		err := w.follow(w.ctx, "app", requested)
		if err == nil {
			err = w.Delete(w.ctx, r)
		}
		done <- err
	}()
	_, errOut, code := w.run("reconcile", "app", "--wait")
	w.check(<-done)
	if code != 1 || !strings.Contains(errOut, "Release "+w.namespace+"/app does not exist any more") {
		t.Errorf("code %d, %q", code, errOut)
	}
}

func TestApproveWaitsForTheRolloutItLetBegin(t *testing.T) {
	w := newWorld(t)
	w.release(func(r *v1alpha1.Release) { rolled(r); pending(r) })
	done := make(chan error, 1)
	go func() { // what convoy does once there is an Approval
		watcher, err := w.Watch(w.ctx, &v1alpha1.ApprovalList{}, client.InNamespace(w.namespace))
		if err == nil {
			defer watcher.Stop()
			<-watcher.ResultChan()
			r := &v1alpha1.Release{}
			err = w.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: "app"}, r)
			before := r.DeepCopy()
			r.Status.Pending = nil
			ready(r, metav1.ConditionTrue, v1alpha1.ReasonDelivered, "rollout 3 applied 1 object")
			if err == nil {
				err = w.Status().Patch(w.ctx, r, client.MergeFrom(before))
			}
		}
		done <- err
	}()
	_, errOut, code := w.run("approve", "app", "--wait")
	w.check(<-done)
	if code != 0 || !strings.HasSuffix(errOut, "Delivered: rollout 3 applied 1 object\n") {
		t.Errorf("code %d, %q", code, errOut)
	}
}
