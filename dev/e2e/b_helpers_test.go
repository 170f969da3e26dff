package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	temporalclient "go.temporal.io/sdk/client"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/dev/env"
	"kumodo.io/convoy/internal/delivery"
)

// secretSentinel begins every value of a Secret that a test delivers, and manifestSentinel stands in manifests of other
// kinds. Neither may ever be seen in Temporal, in a status, in an Event or in a log: checkLeaks looks for both.
const (
	secretSentinel   = "S3NT1NEL"
	manifestSentinel = "M4N1FEST"
)

// loginManifest is the Secret login as a source has it, with one entry password.
const loginManifest = "apiVersion: v1\nkind: Secret\nmetadata: {name: login}\nstringData: {password: " + secretSentinel + "-login}\n"

// podManifest is a Pod as a source has it. On a target without Workloads it is healthy when a test says so, and not before.
func podManifest(name string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {containers: [{name: main, image: pause}]}\n", name)
}

// letPodRun says of the Pod worker what a node would say once it runs.
func (s *scene) letPodRun(on client.Client) {
	s.Helper()
	pod := &corev1.Pod{ObjectMeta: s.meta("worker")}
	s.eventually("Pod worker can be set to running", func(ctx context.Context) error {
		if err := on.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		return on.Status().Update(ctx, pod)
	})
}

// targetNamespace makes the scene's namespace on a target and waits until pods can be made in it.
func (s *scene) targetNamespace(on client.Client) {
	s.Helper()
	s.must(on.Create(s.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.ns}}))
	s.eventually("the service account of the namespace is there", func(ctx context.Context) error {
		return on.Get(ctx, types.NamespacedName{Namespace: s.ns, Name: "default"}, &corev1.ServiceAccount{})
	})
}

// repository makes a git repository of the scene.
func (s *scene) repository() *env.Repository {
	s.Helper()
	r, err := s.local.Git.Repository(s.ctx, s.ns)
	s.must(err)
	return r
}

// commit changes a repository and returns the commit's digest.
func (s *scene) commit(r *env.Repository, change env.Change) string {
	s.Helper()
	digest, err := r.Commit(s.ctx, change)
	s.must(err)
	return digest
}

// fromGit makes a Release take a folder of a branch, which is looked at each five seconds.
func fromGit(r *env.Repository, branch, path string) func(*v1alpha1.Release) {
	return func(rel *v1alpha1.Release) {
		rel.Spec.Source = v1alpha1.Source{Git: &v1alpha1.GitSource{URL: r.URL, Ref: v1alpha1.GitRef{Branch: branch}, Path: path}}
		rel.Spec.Source.PollInterval.Duration = 5 * time.Second
	}
}

// mutation makes a Release change what its target selects by a merge patch.
func mutation(name string, target v1alpha1.MutationTarget, template string) func(*v1alpha1.Release) {
	return func(rel *v1alpha1.Release) {
		rel.Spec.Mutations = append(rel.Spec.Mutations, v1alpha1.Mutation{
			Name: name, Target: target, Patch: v1alpha1.Patch{Type: v1alpha1.PatchMerge, Template: template},
		})
	}
}

// awaitText waits until the entry text of a ConfigMap in the scene's namespace of a target is as wished.
func (s *scene) awaitText(limit time.Duration, on client.Client, name, want string) {
	s.Helper()
	s.within(limit, fmt.Sprintf("ConfigMap %s says %q", name, want), func(ctx context.Context) error {
		var cm corev1.ConfigMap
		if err := on.Get(ctx, types.NamespacedName{Namespace: s.ns, Name: name}, &cm); err != nil {
			return err
		}
		if got := cm.Data["text"]; got != want {
			return fmt.Errorf("it says %q", got)
		}
		return nil
	})
}

// getRelease reads a Release.
func (s *scene) getRelease(name string) *v1alpha1.Release {
	s.Helper()
	r := &v1alpha1.Release{ObjectMeta: s.meta(name)}
	s.must(s.hub.Get(s.ctx, client.ObjectKeyFromObject(r), r))
	return r
}

// reconcile asks a Release for a reconcile through the update of that name, and returns when it has answered.
func (s *scene) reconcile(name string) {
	s.Helper()
	handle, err := s.temporal.UpdateWorkflow(s.ctx, temporalclient.UpdateWorkflowOptions{
		WorkflowID: s.releaseWorkflow(name), UpdateName: delivery.UpdateReconcile, WaitForStage: temporalclient.WorkflowUpdateStageCompleted,
	})
	s.must(err)
	s.must(handle.Get(s.ctx, nil))
}

// awaitAttempt waits until an activity of a workflow failed that often, less one, and is retried.
func (s *scene) awaitAttempt(workflowID, activity string, attempt int32) {
	s.Helper()
	s.eventually(fmt.Sprintf("attempt %d of %s in %s", attempt, activity, workflowID), func(context.Context) error {
		p := s.pending(workflowID, activity)
		if p.GetAttempt() < attempt {
			return fmt.Errorf("it is attempt %d", p.GetAttempt())
		}
		return nil
	})
}

// awaitIdle waits until the workflow of a Release has nothing to do until its interval is over.
func (s *scene) awaitIdle(name string) {
	s.Helper()
	s.eventually("the workflow of Release "+name+" is idle", func(context.Context) error {
		d := s.describe(s.releaseWorkflow(name))
		if n := len(d.GetPendingActivities()) + len(d.GetPendingChildren()); n > 0 || d.GetPendingWorkflowTask() != nil {
			return fmt.Errorf("it is at work: %v", d.GetPendingActivities())
		}
		return nil
	})
}

// wantGood fails the test when a condition of a delivered Release says that something is wrong.
func (s *scene) wantGood(r *v1alpha1.Release) {
	s.Helper()
	for _, c := range r.Status.Conditions {
		drifted := c.Type == v1alpha1.ConditionDrifted
		if drifted != (c.Status == metav1.ConditionFalse) || c.Status == metav1.ConditionUnknown || c.Type == v1alpha1.ConditionStalled || c.Type == v1alpha1.ConditionReconciling {
			s.Errorf("delivered, and still %s=%s, %s: %s", c.Type, c.Status, c.Reason, c.Message)
		}
	}
}

// wantMessage fails the test when the message of a condition does not name all of names.
func (s *scene) wantMessage(conditions []metav1.Condition, kind string, names ...string) string {
	s.Helper()
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil {
		s.Fatalf("condition %s is not there", kind)
	}
	missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return strings.Contains(c.Message, name) })
	if len(missing) > 0 {
		s.Errorf("the message of %s does not name %q: %s", kind, missing, c.Message)
	}
	return c.Message
}
