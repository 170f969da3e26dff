package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	temporalworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
)

// TestHooksOfEachKindRunOnceInTheirPhases also has a Job that is taken away as soon as it has completed.
func TestHooksOfEachKindRunOnceInTheirPhases(t *testing.T) {
	s := newScene(t)
	l, on := s.listen(), s.on(alpha)
	s.serveWorkflows(func(workflow.Context, map[string]any) error { return nil })
	s.readyCluster("prod", alpha, regional("eu-1"))
	s.greeting("greeting", "hello")
	r := s.release("app", "prod", "greeting", hooked(
		l.hook("told-after", v1alpha1.HookPostApply),
		jobHook("migrate", v1alpha1.HookPreApply, "ttlSecondsAfterFinished: 0", ""),
		l.hook("told-before", v1alpha1.HookPreApply),
		l.hook("skipped", v1alpha1.HookPostApply, func(h *v1alpha1.Hook) { h.When = "cluster.region == 'us-1'" }),
		newHook("check", v1alpha1.HookPostApply, func(h *v1alpha1.Hook) {
			h.Check = &v1alpha1.HookCheck{
				Target: v1alpha1.HookCheckTarget{APIVersion: "v1", Kind: "ConfigMap", Name: "greeting"}, CEL: "objects.all(o, o.data.text == 'hello')",
			}
		}),
		newHook("flow", v1alpha1.HookPostApply, func(h *v1alpha1.Hook) {
			h.Workflow = &v1alpha1.HookWorkflow{Type: hookedWorkflow, TaskQueue: hookedQueue, Input: `{"region": {{ quote .cluster.region }}}`}
		}),
		l.hook("leaving", v1alpha1.HookPreDelete), jobHook("last", v1alpha1.HookPostDelete, "", ""), l.hook("left", v1alpha1.HookPostDelete),
		l.hook("never", v1alpha1.HookOnFailure),
	))
	done := s.awaitDelivered("app")
	s.wantGood(done)
	var states []string
	for _, run := range done.Status.Hooks {
		states = append(states, run.Name+"="+string(run.State))
	}
	want := "migrate=Succeeded told-before=Succeeded told-after=Succeeded skipped=Skipped check=Succeeded flow=Succeeded"
	if got := strings.Join(states, " "); got != want {
		t.Errorf("status.hooks: %s\nwant %s", got, want)
	}
	if n := s.jobsMade(alpha); n != 1 {
		t.Errorf("%d Jobs were made", n)
	}
	s.awaitGone(on, &batchv1.Job{ObjectMeta: s.meta("migrate")}) // by its TTL, as its finalizer is off
	s.save("rollout-hooks", fmt.Sprintf("rollout/%s/app/1", s.ns))
	s.request("app")
	if got := l.told(); !slices.Equal(got, []string{"told-before PreApply", "told-after PostApply"}) {
		t.Errorf("told: %q", got)
	}
	s.remove(r)
	s.awaitGone(s.hub, r)
	if got := l.told()[2:]; !slices.Equal(got, []string{"leaving PreDelete", "left PostDelete"}) {
		t.Errorf("told: %q", got)
	}
	s.save("release-hooks", s.releaseWorkflow("app"))
	if n := s.jobsMade(alpha); n != 2 || s.exists(on, &batchv1.Job{ObjectMeta: s.meta("last")}) {
		t.Errorf("%d Jobs were made, and the last one is left: %v", n, n == 2)
	}
}

// serveWorkflows runs the workflows of hooks for the time of the test.
func (s *scene) serveWorkflows(run func(workflow.Context, map[string]any) error) {
	s.Helper()
	w := temporalworker.New(s.temporal, hookedQueue, temporalworker.Options{DisableRegistrationAliasing: true})
	w.RegisterWorkflowWithOptions(run, workflow.RegisterOptions{Name: hookedWorkflow})
	s.must(w.Start())
	s.Cleanup(w.Stop)
}

func TestAHookThatFailsFailsItsRolloutUnlessItMay(t *testing.T) {
	s := newScene(t)
	l := s.listen()
	s.readyCluster("prod", alpha)
	s.greeting("greeting", "hello")
	// A Job that is taken away as soon as it has failed.
	failing := func(changes ...func(*v1alpha1.Hook)) v1alpha1.Hook {
		return jobHook("migrate", v1alpha1.HookPreApply, "ttlSecondsAfterFinished: 0\n  activeDeadlineSeconds: 1", s.waiting(), changes...)
	}
	r := s.release("app", "prod", "greeting", hooked(failing(), l.hook("alarm", v1alpha1.HookOnFailure), l.hook("after", v1alpha1.HookPostApply)))
	s.awaitRelease("app", v1alpha1.ConditionApplied, metav1.ConditionFalse, v1alpha1.ReasonHookFailed)
	s.wantMessage(s.getRelease("app").Status.Conditions, v1alpha1.ConditionStalled, "hook migrate (PreApply)", "it failed")
	s.awaitHook("app", "alarm", v1alpha1.HookSucceeded)
	if n := s.count(s.ctx, s.on(alpha)); n != 0 {
		t.Errorf("%d objects were applied", n)
	}
	change(s, r, hooked(failing(func(h *v1alpha1.Hook) { h.OnFailure = v1alpha1.HookContinue }), l.hook("alarm", v1alpha1.HookOnFailure), l.hook("after", v1alpha1.HookPostApply)))
	done := s.awaitDelivered("app")
	s.awaitHook("app", "migrate", v1alpha1.HookFailed)
	if done.Status.Rollout.Number != 2 {
		t.Errorf("it took %d rollouts", done.Status.Rollout.Number)
	}
	if got := l.told(); !slices.Equal(got, []string{"alarm OnFailure", "after PostApply"}) {
		t.Errorf("told: %q", got)
	}
}

func TestAJobThatIsDeletedByHandHasFailed(t *testing.T) {
	s := newScene(t)
	on := s.on(alpha)
	s.readyCluster("prod", alpha)
	s.greeting("greeting", "hello")
	s.release("app", "prod", "greeting", hooked(jobHook("migrate", v1alpha1.HookPreApply, "", s.waiting())))
	job := s.awaitJob(on, "migrate")
	s.awaitHook("app", "migrate", v1alpha1.HookRunning)
	s.must(on.Delete(s.ctx, job))
	r := s.awaitRelease("app", v1alpha1.ConditionApplied, metav1.ConditionFalse, v1alpha1.ReasonHookFailed)
	s.wantMessage(r.Status.Conditions, v1alpha1.ConditionApplied, "deleted before it had ended")
	s.awaitGone(on, job)
}

func TestANewerRenderADeletionAndATimeoutStopARunningHook(t *testing.T) {
	s := newScene(t)
	on := s.on(alpha)
	s.readyCluster("prod", alpha)
	source := s.greeting("greeting", "hello")
	r := s.release("app", "prod", "greeting", hooked(jobHook("migrate", v1alpha1.HookPreApply, "", s.waiting())))
	first := s.awaitJob(on, "migrate")
	change(s, source, func(cm *corev1.ConfigMap) { cm.Data["greeting.yaml"] = manifest("greeting", "newer") })
	const soon = 30 * time.Second // 10 s besides the look at the source and the render, on a machine that others use too
	s.within(soon, "another Job runs for the newer render", func(ctx context.Context) error {
		job := &batchv1.Job{ObjectMeta: s.meta("migrate")}
		if err := on.Get(ctx, client.ObjectKeyFromObject(job), job); err != nil {
			return err
		}
		if job.UID == first.UID {
			return errors.New("it is still the first one")
		}
		return nil
	})
	if run := s.awaitHook("app", "migrate", v1alpha1.HookRunning); run.Rollout != 2 {
		t.Errorf("the run is of rollout %d", run.Rollout)
	}
	s.remove(r)
	s.within(soon, "the Job and the Release are gone", func(context.Context) error {
		if s.exists(on, &batchv1.Job{ObjectMeta: s.meta("migrate")}) || s.exists(s.hub, r) {
			return errors.New("one of them is still there")
		}
		return nil
	})
	s.release("late", "prod", "greeting", hooked(jobHook("late", v1alpha1.HookPreApply, "", s.waiting(), func(h *v1alpha1.Hook) { h.Timeout.Duration = 2 * time.Second })))
	late := s.awaitRelease("late", v1alpha1.ConditionApplied, metav1.ConditionFalse, v1alpha1.ReasonHookFailed)
	s.wantMessage(late.Status.Conditions, v1alpha1.ConditionApplied, "not done after 2s")
	s.awaitGone(on, &batchv1.Job{ObjectMeta: s.meta("late")})
}

func TestAServerThatHangsOrSendsElsewhereIsAFailure(t *testing.T) {
	s := newScene(t)
	l := s.listen()
	s.readyCluster("prod", beta)
	s.targetNamespace(s.on(beta))
	s.greeting("greeting", "hello")
	l.answering(func(_ http.ResponseWriter, req *http.Request) {
		select {
		case <-req.Context().Done():
		case <-s.ctx.Done():
		}
	})
	s.release("hanging", "prod", "greeting", intoNamespace(s.ns), hooked(l.hook("tell", v1alpha1.HookPreApply, func(h *v1alpha1.Hook) { h.Timeout.Duration = 2 * time.Second })))
	r := s.awaitRelease("hanging", v1alpha1.ConditionApplied, metav1.ConditionFalse, v1alpha1.ReasonHookFailed)
	s.wantMessage(r.Status.Conditions, v1alpha1.ConditionApplied, "not done after 2s", "did not answer in time")
	l.answering(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/elsewhere" {
			t.Error("a redirect was followed")
		}
		http.Redirect(w, req, "/elsewhere", http.StatusTemporaryRedirect)
	})
	s.release("elsewhere", "prod", "greeting", intoNamespace(s.ns), hooked(l.hook("tell", v1alpha1.HookPreApply)))
	r = s.awaitRelease("elsewhere", v1alpha1.ConditionApplied, metav1.ConditionFalse, v1alpha1.ReasonHookFailed)
	s.wantMessage(r.Status.Conditions, v1alpha1.ConditionApplied, "redirect", "307")
	n := 0
	l.answering(func(w http.ResponseWriter, _ *http.Request) {
		if n++; n == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	before := len(l.told())
	s.release("again", "prod", "greeting", intoNamespace(s.ns), hooked(l.hook("tell", v1alpha1.HookPreApply)))
	s.awaitHook("again", "tell", v1alpha1.HookSucceeded)
	l.mu.Lock()
	ids := l.ids[before:]
	l.mu.Unlock()
	if len(ids) != 2 || ids[0] != ids[1] || ids[0] == "" {
		t.Errorf("it was sent with the IDs %q", ids)
	}
}

func TestOnlyPermittedWorkflowsAreRunByHooks(t *testing.T) {
	s := newScene(t)
	s.readyCluster("prod", beta)
	s.greeting("greeting", "hello")
	for name, queue := range map[string]string{"own": "convoy-apply", "other": "elsewhere"} {
		s.release(name, "prod", "greeting", hooked(newHook("flow", v1alpha1.HookPreApply, func(h *v1alpha1.Hook) {
			h.Workflow = &v1alpha1.HookWorkflow{Type: hookedWorkflow, TaskQueue: queue}
		})))
	}
	for name, says := range map[string]string{"own": "convoy's own", "other": "--allow-hook-workflow=" + s.ns + "/" + hookedWorkflow + "@elsewhere"} {
		r := s.awaitRelease(name, v1alpha1.ConditionApplied, metav1.ConditionFalse, v1alpha1.ReasonHookFailed)
		s.wantMessage(r.Status.Conditions, v1alpha1.ConditionApplied, says)
	}
}

func TestADeletionIsHeldByAHookThatFailedUntilItIsMended(t *testing.T) {
	s := newScene(t)
	l := s.listen()
	s.readyCluster("prod", beta)
	s.greeting("greeting", "hello")
	r := s.release("app", "prod", "greeting", hooked(l.hook("leaving", v1alpha1.HookPreDelete)))
	s.awaitDelivered("app")
	l.answering(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusConflict) })
	s.remove(r)
	held := s.awaitRelease("app", v1alpha1.ConditionDeleting, metav1.ConditionTrue, v1alpha1.ReasonHookFailed)
	s.wantMessage(held.Status.Conditions, v1alpha1.ConditionDeleting, "hook leaving (PreDelete)", "status 409", v1alpha1.AnnotationRequestedAt, "onFailure")
	if got := s.text(beta, "greeting"); got != "hello" {
		t.Errorf("text is %q", got)
	}
	l.answering(nil)
	s.ask("app")
	s.awaitGone(s.hub, r)
	if got := len(l.told()); got != 2 {
		t.Errorf("it was sent %d times", got)
	}
}

func TestHooksOfADeletionRunOnlyWhereSomethingWasAppliedHoweverLongItsRemovalTakes(t *testing.T) {
	s := newScene(t)
	l := s.listen()
	on := s.on(alpha)
	s.readyCluster("prod", alpha)
	s.greeting("greeting", "hello")
	leaving := []v1alpha1.Hook{l.hook("leaving", v1alpha1.HookPreDelete), l.hook("left", v1alpha1.HookPostDelete)}

	waits := jobHook("wait", v1alpha1.HookPreApply, "suspend: true", "")
	r := s.release("none", "prod", "greeting", hooked(append(leaving, waits)...))
	s.awaitJob(on, "wait")
	s.remove(r)
	s.awaitGone(s.hub, r)
	if got := l.told(); len(got) > 0 {
		t.Errorf("nothing was applied, and it told %q", got)
	}

	r = s.release("app", "prod", "greeting", hooked(leaving...))
	s.awaitDelivered("app")
	other := &corev1.ConfigMap{ObjectMeta: s.meta("of-others")} // which keeps the namespace
	s.must(on.Create(s.ctx, other))
	s.remove(r)
	s.awaitGone(on, s.greetingOn())
	s.awaitRelease("app", v1alpha1.ConditionDeleting, metav1.ConditionTrue, v1alpha1.ReasonPruning)
	s.must(on.Delete(s.ctx, other))
	s.awaitGone(s.hub, r)
	if got := l.told(); !slices.Equal(got, []string{"leaving PreDelete", "left PostDelete"}) {
		t.Errorf("told: %q", got)
	}
}

func TestALabelDoesNotInterruptAHookOfADeletion(t *testing.T) {
	s := newScene(t)
	l := s.listen()
	s.readyCluster("prod", beta)
	s.greeting("greeting", "hello")
	r := s.release("app", "prod", "greeting", hooked(l.hook("leaving", v1alpha1.HookPreDelete)))
	s.awaitDelivered("app")
	const slow = 8 * time.Second // longer than a step that is interrupted may still take
	l.answering(func(_ http.ResponseWriter, req *http.Request) {
		select {
		case <-req.Context().Done():
		case <-time.After(slow):
		}
	})
	s.remove(r)
	s.within(patience, "the hook is sent", func(context.Context) error {
		if len(l.told()) == 0 {
			return errors.New("it is not")
		}
		return nil
	})
	change(s, r, func(r *v1alpha1.Release) { metav1.SetMetaDataLabel(&r.ObjectMeta, "touched", "true") })
	s.awaitGone(s.hub, r)
	if got := l.told(); !slices.Equal(got, []string{"leaving PreDelete"}) {
		t.Errorf("told: %q", got)
	}
	s.save("release-hook-goes-on", s.releaseWorkflow("app"))
}

func TestASuspensionBetweenTwoAttemptsOfAHookIsRecorded(t *testing.T) {
	s := newScene(t)
	l := s.listen()
	s.readyCluster("prod", beta)
	s.greeting("greeting", "hello")
	l.answering(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	r := s.release("app", "prod", "greeting", hooked(l.hook("tell", v1alpha1.HookPreApply)))
	s.within(patience, "the hook waits for its next attempt", func(context.Context) error {
		if runs := s.getRelease("app").Status.Hooks; len(runs) == 0 || !strings.Contains(runs[0].Message, "500") {
			return fmt.Errorf("status.hooks is %+v", runs)
		}
		return nil
	})
	first := s.awaitHook("app", "tell", v1alpha1.HookRunning)
	change(s, r, func(r *v1alpha1.Release) { r.Spec.Suspend = true })
	s.within(patience, "no hook runs", func(context.Context) error {
		if runs := s.getRelease("app").Status.Hooks; len(runs) > 0 {
			return fmt.Errorf("status.hooks is %+v", runs)
		}
		return nil
	})
	l.answering(nil)
	change(s, r, func(r *v1alpha1.Release) { r.Spec.Suspend = false })
	s.wantGood(s.awaitDelivered("app"))
	if run := s.awaitHook("app", "tell", v1alpha1.HookSucceeded); !first.StartTime.Before(&run.StartTime) {
		t.Errorf("it began at %s and at %s", first.StartTime, run.StartTime)
	}
}

func TestAJobWhoseHookBecomesAnApprovalIsStopped(t *testing.T) {
	s := newScene(t)
	on := s.on(alpha)
	s.readyCluster("prod", alpha)
	s.greeting("greeting", "hello")
	r := s.release("app", "prod", "greeting", hooked(jobHook("migrate", v1alpha1.HookPreApply, "", s.waiting())))
	job := s.awaitJob(on, "migrate")
	s.awaitHook("app", "migrate", v1alpha1.HookRunning)
	change(s, r, hooked(newHook("migrate", v1alpha1.HookPreApply, func(h *v1alpha1.Hook) { h.Approval = &v1alpha1.HookApproval{} })))
	s.awaitGone(on, job)
	if run := s.awaitHook("app", "migrate", v1alpha1.HookRunning); run.Rollout != 1 {
		t.Errorf("it is of rollout %d", run.Rollout)
	}
}

func TestARolloutWaitsForTheApprovalOfItsHookAndASuspensionStopsOne(t *testing.T) {
	s := newScene(t)
	on := s.on(alpha)
	s.readyCluster("prod", alpha)
	s.greeting("greeting", "hello")
	r := s.release("app", "prod", "greeting", hooked(
		jobHook("migrate", v1alpha1.HookPreApply, "", s.waiting()),
		newHook("sign", v1alpha1.HookPostApply, func(h *v1alpha1.Hook) { h.Approval = &v1alpha1.HookApproval{Message: "look at {{ .cluster.name }}"} }),
	))
	job := s.awaitJob(on, "migrate")
	s.awaitHook("app", "migrate", v1alpha1.HookRunning)
	change(s, r, func(r *v1alpha1.Release) { r.Spec.Suspend = true })
	s.awaitGone(on, job)
	s.letJobsRun(on)
	change(s, r, func(r *v1alpha1.Release) { r.Spec.Suspend = false })
	s.awaitHook("app", "migrate", v1alpha1.HookSucceeded)
	run := s.awaitHook("app", "sign", v1alpha1.HookRunning)
	waits := s.getRelease("app")
	if !strings.Contains(run.Message, "look at prod") || waits.Status.Rollout.Number != 1 {
		t.Errorf("it says %q in rollout %d", run.Message, waits.Status.Rollout.Number)
	}
	s.create(&v1alpha1.Approval{ObjectMeta: s.meta("signed"), Spec: v1alpha1.ApprovalSpec{
		ReleaseRef: v1alpha1.ReleaseRef{Name: "app"}, Digest: waits.Status.Rollout.Digest, Hook: "sign", ApprovedBy: "jo",
	}})
	s.wantGood(s.awaitDelivered("app"))
	if run := s.awaitHook("app", "sign", v1alpha1.HookSucceeded); run.Message != "approved by jo" {
		t.Errorf("it says %q", run.Message)
	}
}

func TestConvoyThatIsKilledWhileAHookRunsGoesOnWithIt(t *testing.T) {
	s := newSerialScene(t)
	on := s.on(alpha)
	s.readyCluster("prod", alpha)
	s.greeting("greeting", "hello")
	s.release("app", "prod", "greeting", hooked(jobHook("migrate", v1alpha1.HookPreApply, "", s.waiting())))
	job := s.awaitJob(on, "migrate")
	s.must(shared.kill())
	s.letJobsRun(on)
	s.must(shared.start(s.ctx))
	r := s.awaitDelivered("app")
	if n := s.jobsMade(alpha); n != 1 || r.Status.Rollout.Number != 1 {
		t.Errorf("%d Jobs were made in %d rollouts", n, r.Status.Rollout.Number)
	}
	if now := s.awaitJob(on, "migrate"); now.UID != job.UID || len(now.Finalizers) > 0 {
		t.Errorf("the Job is %s with finalizers %v, and was %s", now.UID, now.Finalizers, job.UID)
	}
}
