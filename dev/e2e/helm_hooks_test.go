package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
)

// chartJob is a Job of a chart that is a hook.
func chartJob(name, events, annotations, spec, pod string) string {
	return fmt.Sprintf(`---
apiVersion: batch/v1
kind: Job
metadata:
  name: %s
  annotations: {helm.sh/hook: %q%s}
spec:
  %s
  template: {spec: {restartPolicy: Never, %s containers: [{name: main, image: pause}]}}
`, name, events, annotations, spec, pod)
}

// chartObject is an object without content that is a hook of a chart.
func chartObject(kind, name, annotations string) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: %s\nmetadata: {name: %s, annotations: {%s}}\n", kind, name, annotations)
}

// ranHooks are the runs in the status of a Release, in their order.
func (s *scene) ranHooks(release string) string {
	s.Helper()
	var all []string
	for _, run := range s.getRelease(release).Status.Hooks {
		all = append(all, run.Name+"="+string(run.State))
	}
	return strings.Join(all, " ")
}

// jobsIn are the Jobs that convoy made in the scene, in their order.
func (s *scene) jobsIn() []string {
	s.Helper()
	var all []string
	for _, l := range s.recorded(alpha) {
		if l.Verb == "create" && l.ObjectRef.Resource == "jobs" && l.ObjectRef.Namespace == s.ns && l.ResponseStatus.Code < 300 {
			all = append(all, l.ObjectRef.Name)
		}
	}
	return all
}

func TestHooksOfAChartRunWhenHelmRunsThem(t *testing.T) {
	s := newScene(t)
	on, repository := s.on(alpha), s.repository()
	s.commit(repository, chart(map[string]string{"chart/templates/hooks.yaml": chartJob("migrate", "pre-install,pre-upgrade", `, helm.sh/hook-delete-policy: "before-hook-creation,hook-succeeded"`, "backoffLimit: 0", "") +
		chartObject("ServiceAccount", "migrator", `helm.sh/hook: "pre-install,pre-upgrade", helm.sh/hook-weight: "-5", helm.sh/hook-delete-policy: before-hook-creation`) +
		chartObject("Secret", "password", `helm.sh/hook: pre-install, helm.sh/hook-weight: "-9", helm.sh/resource-policy: keep`) +
		chartObject("ConfigMap", "scripts", `helm.sh/hook: "pre-delete", helm.sh/hook-weight: "-1"`) +
		chartJob("seed", "post-install", "", "ttlSecondsAfterFinished: 0", "") +
		chartJob("warm", "post-upgrade", "", "backoffLimit: 0", "") +
		chartJob("undo", "post-rollback", "", "backoffLimit: 0", "") +
		chartJob("leave", "pre-delete", "", "backoffLimit: 0", "") +
		chartJob("left", "post-delete", "", "backoffLimit: 0", "") +
		chartJob("probe", "test", "", "backoffLimit: 0", "")}))
	s.readyCluster("prod", alpha)
	r := s.release("app", "prod", "", ofChart(repository, nil), hooked(
		newHook("told", v1alpha1.HookPreApply, func(h *v1alpha1.Hook) {
			h.Check = &v1alpha1.HookCheck{Target: v1alpha1.HookCheckTarget{APIVersion: "v1", Kind: "ConfigMap", Name: "app-greeting"}, CEL: "true"}
		}),
	))
	s.awaitDelivered("app")
	expect := func(status string, jobs ...string) {
		t.Helper()
		if got := s.ranHooks("app"); got != status {
			t.Errorf("status.hooks: %s\nwant %s", got, status)
		}
		if got := s.jobsIn(); !slices.Equal(got, jobs) {
			t.Errorf("Jobs that were made: %v, want %v", got, jobs)
		}
	}
	expect("told=Succeeded pre-install.Secret.password=Succeeded pre-install.ServiceAccount.migrator=Succeeded pre-install.Job.migrate=Succeeded post-install.Job.seed=Succeeded", "migrate", "seed")
	s.awaitGone(on, &batchv1.Job{ObjectMeta: s.meta("migrate")})
	password, account := &corev1.Secret{ObjectMeta: s.meta("password")}, &corev1.ServiceAccount{ObjectMeta: s.meta("migrator")}
	for _, o := range []client.Object{password, account} {
		if !s.exists(on, o) || len(o.GetFinalizers()) != 0 {
			t.Errorf("after the installation %T is there: %v, finalizers %v", o, o.GetUID() != "", o.GetFinalizers())
		}
	}
	first := s.getRelease("app").Status.RenderRef.Digest
	kept, made := password.UID, account.UID

	s.commit(repository, chart(map[string]string{"chart/values.yaml": "text: another\nregion: r\npassword: p\n"}))
	s.awaitRollout("app", 2)
	expect("told=Succeeded pre-upgrade.ServiceAccount.migrator=Succeeded pre-upgrade.Job.migrate=Succeeded post-upgrade.Job.warm=Succeeded", "migrate", "seed", "migrate", "warm")
	if !s.exists(on, password) || password.UID != kept || !s.exists(on, account) || account.UID == made {
		t.Error("the object of a hook for installations did not stay, or that of a hook for upgrades was not made anew")
	}

	change(s, r, func(r *v1alpha1.Release) { r.Spec.PinnedRender = first })
	s.awaitRollout("app", 3)
	expect("told=Succeeded post-rollback.Job.undo=Succeeded", "migrate", "seed", "migrate", "warm", "undo")

	s.remove(r)
	s.awaitGone(s.hub, r)
	if got, want := s.jobsIn()[5:], []string{"leave", "left"}; !slices.Equal(got, want) {
		t.Errorf("Jobs of the deletion: %v, want %v", got, want)
	}
	for _, o := range []client.Object{
		account, &batchv1.Job{ObjectMeta: s.meta("leave")}, &batchv1.Job{ObjectMeta: s.meta("left")}, &batchv1.Job{ObjectMeta: s.meta("undo")},
		&corev1.ConfigMap{ObjectMeta: s.meta("scripts")},
	} {
		if s.exists(on, o) {
			t.Errorf("%T %s is left", o, o.GetName())
		}
	}
	if !s.exists(on, password) || password.UID != kept || len(password.Labels) != 0 || len(password.Finalizers) != 0 {
		t.Errorf("what the chart keeps is gone, or bears marks: %v %v", password.Labels, password.Finalizers)
	}
}

func TestAHookOfAChartThatFailsFailsTheRolloutAndHoldsTheDeletionUntilHooksAreDisabled(t *testing.T) {
	s := newScene(t)
	on, repository := s.on(alpha), s.repository()
	failing := func(name, events, policy string) string {
		return chartJob(name, events, ", helm.sh/hook-delete-policy: "+policy, "activeDeadlineSeconds: 1", s.waiting()+",")
	}
	s.commit(repository, chart(map[string]string{"chart/templates/hooks.yaml": failing("check", "post-install", "hook-failed") +
		chartObject("ServiceAccount", "checker", `helm.sh/hook: "post-install", helm.sh/hook-weight: "-5", helm.sh/hook-delete-policy: hook-succeeded`) +
		failing("leave", "pre-delete", "hook-succeeded")}))
	s.readyCluster("prod", alpha)
	r := s.release("app", "prod", "", ofChart(repository, nil))
	s.awaitRelease("app", v1alpha1.ConditionHealthy, metav1.ConditionFalse, v1alpha1.ReasonHookFailed)
	s.wantMessage(s.getRelease("app").Status.Conditions, v1alpha1.ConditionStalled, "hook post-install.Job.check (PostApply)", "it failed")
	if got := s.text(alpha, "app-greeting"); got == "" {
		t.Error("what was applied did not stay")
	}
	s.awaitGone(on, &batchv1.Job{ObjectMeta: s.meta("check")})
	s.awaitGone(on, &corev1.ServiceAccount{ObjectMeta: s.meta("checker")})

	s.remove(r)
	s.awaitRelease("app", v1alpha1.ConditionDeleting, metav1.ConditionTrue, v1alpha1.ReasonHookFailed)
	s.wantMessage(s.getRelease("app").Status.Conditions, v1alpha1.ConditionDeleting, "hook pre-delete.Job.leave (PreDelete) failed", "spec.render.helm.disableHooks")
	if s.text(alpha, "app-greeting") == "" {
		t.Error("it was removed all the same")
	}
	change(s, r, func(r *v1alpha1.Release) { r.Spec.Render.Helm = &v1alpha1.HelmRender{DisableHooks: true} })
	s.awaitGone(s.hub, r)
	if n := s.count(s.ctx, on); n != 0 {
		t.Errorf("%d objects are left", n)
	}
}

func TestAHookOfAChartDoesNotHoldTheDeletionOnAClusterThatIsGone(t *testing.T) {
	s := newScene(t)
	path, repository := newLink(t, beta), s.repository()
	s.commit(repository, chart(map[string]string{"chart/templates/hooks.yaml": chartJob("leave", "pre-delete", "", "backoffLimit: 0", "")}))
	s.cluster("prod", path.kubeconfig(t, "gone-"+s.ns))
	r := s.release("app", "prod", "", ofChart(repository, nil), func(r *v1alpha1.Release) {
		r.Spec.SyncPolicy.Timeout.Duration = time.Second // the hook's
		r.Spec.DeletionPolicy.BlockOnClusterUnreachable, r.Spec.DeletionPolicy.Timeout.Duration = new(false), 10*time.Second
	})
	s.awaitDelivered("app")
	path.cut()
	s.remove(r)
	s.awaitGone(s.hub, r)
}
