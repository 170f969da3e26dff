package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/dev/env"
)

func TestAKustomizedFolderOfABranchIsDeliveredAndANewCommitAtTheNextPoll(t *testing.T) {
	s := newScene(t)
	repository := s.repository()
	overlay := func(text string) map[string]string {
		return map[string]string{
			"base/kustomization.yaml":      "resources: [greeting.yaml]\n",
			"base/greeting.yaml":           manifest("greeting", "base"),
			"apps/prod/kustomization.yaml": "resources: [../../base, secret.yaml]\npatches: [{path: patch.yaml}]\n",
			"apps/prod/patch.yaml":         manifest("greeting", text),
			"apps/prod/secret.yaml":        loginManifest,
			"apps/prod/unused.yaml":        manifest("unused", "not named by the kustomization"),
			"apps/test/other.yaml":         manifest("other", "of another folder"),
		}
	}
	s.commit(repository, env.Change{Files: overlay("of the branch main")})
	first := s.commit(repository, env.Change{Branch: "stable", Files: overlay("first")})

	s.readyCluster("prod", beta)
	s.release("app", "prod", "", fromGit(repository, "stable", "apps/prod"))
	r := s.awaitDelivered("app")
	if got, want := r.Status.Source.Revision, "stable@sha1:"+first; got != want {
		t.Errorf("revision %s, want %s", got, want)
	}
	if got := r.Status.Render.Type; got != v1alpha1.RenderKustomize {
		t.Errorf("rendered as %s", got)
	}
	on := s.on(beta)
	s.awaitText(time.Second, on, "greeting", "first")
	var login corev1.Secret
	s.must(on.Get(s.ctx, types.NamespacedName{Namespace: s.ns, Name: "login"}, &login))
	if got := string(login.Data["password"]); got != secretSentinel+"-login" {
		t.Errorf("the Secret holds %q", got)
	}
	for _, name := range []string{"unused", "other"} {
		if s.exists(on, &corev1.ConfigMap{ObjectMeta: s.meta(name)}) {
			t.Errorf("ConfigMap %s was delivered, which is not part of the kustomization", name)
		}
	}

	second := s.commit(repository, env.Change{Branch: "stable", Files: overlay("second")})
	s.awaitText(patience, on, "greeting", "second")
	r = s.awaitRevision("app", "stable@sha1:"+second)
	if r.Status.Rollout.Number != 2 {
		t.Errorf("two commits made %d rollouts", r.Status.Rollout.Number)
	}
	s.wantGood(r)
}

// awaitRevision waits until a Release delivered a revision.
func (s *scene) awaitRevision(name, revision string) *v1alpha1.Release {
	s.Helper()
	s.eventually("revision "+revision+" is delivered", func(context.Context) error {
		r := s.getRelease(name)
		if r.Status.Source == nil || r.Status.Source.Revision != revision {
			return fmt.Errorf("it is %v", r.Status.Source)
		}
		return nil
	})
	return s.awaitDelivered(name)
}

func TestAnEditOfAConfigMapIsDeliveredAtOnce(t *testing.T) {
	s := newScene(t)
	s.readyCluster("prod", beta)
	source := s.greeting("greeting", "first")
	s.release("app", "prod", "greeting") // its interval is an hour
	s.awaitDelivered("app")
	change(s, source, func(cm *corev1.ConfigMap) { cm.Data["greeting.yaml"] = manifest("greeting", "second") })
	s.awaitText(patience, s.on(beta), "greeting", "second")
	s.eventually("the second rollout succeeded", func(context.Context) error {
		r := s.getRelease("app")
		if r.Status.Rollout.Number != 2 || r.Status.Rollout.Phase != v1alpha1.RolloutSucceeded {
			return fmt.Errorf("rollout %d is %s", r.Status.Rollout.Number, r.Status.Rollout.Phase)
		}
		return nil
	})
}

func TestWhatLeavesTheSourceIsPrunedUnlessItIsProtected(t *testing.T) {
	s := newScene(t)
	s.readyCluster("prod", beta)
	protected := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: protected, annotations: {convoy.kumodo.io/prune: disabled}}\n"
	source := s.configMap("source", map[string]string{
		"kept.yaml": manifest("kept", "a"), "leaving.yaml": manifest("leaving", "b"), "protected.yaml": protected, "secret.yaml": loginManifest,
	})
	s.release("app", "prod", "source")
	s.awaitDelivered("app")
	on := s.on(beta)
	foreign := &corev1.ConfigMap{ObjectMeta: s.meta("foreign")}
	s.must(on.Create(s.ctx, foreign))

	change(s, source, func(cm *corev1.ConfigMap) { cm.Data = map[string]string{"kept.yaml": manifest("kept", "a")} })
	s.awaitGone(on, &corev1.ConfigMap{ObjectMeta: s.meta("leaving")})
	s.awaitGone(on, &corev1.Secret{ObjectMeta: s.meta("login")})
	s.awaitIdle("app")
	r := s.awaitDelivered("app")
	for _, name := range []string{"kept", "protected", "foreign"} {
		if !s.exists(on, &corev1.ConfigMap{ObjectMeta: s.meta(name)}) {
			t.Errorf("ConfigMap %s was pruned", name)
		}
	}
	if r.Status.Rollout.Number != 2 {
		t.Errorf("it took %d rollouts", r.Status.Rollout.Number)
	}
	s.wantGood(r)
}

func TestAMutationChangesWhatItTargetsAndNothingElse(t *testing.T) {
	s := newScene(t)
	s.readyCluster("prod", beta, func(c *v1alpha1.Cluster) {
		c.Spec.Metadata = map[string]v1alpha1.MetadataValue{"region": "eu-west-1"}
	})
	s.configMap("source", map[string]string{
		"web-a.yaml": manifest("web-a", "a"), "web-b.yaml": manifest("web-b", "b"), "db.yaml": manifest("db", "c"),
		"account.yaml": "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: web-a}\n",
	})
	s.release("app", "prod", "source", mutation("region", v1alpha1.MutationTarget{Kind: "ConfigMap", Name: "web-*"},
		"metadata: {labels: {region: '{{ .cluster.region }}'}}\ndata: {text: null, from: '{{ .release.name }} on {{ .cluster.name }}'}\n"))
	s.awaitDelivered("app")
	on := s.on(beta)
	for name, want := range map[string]map[string]string{
		"web-a": {"from": "app on prod"}, "web-b": {"from": "app on prod"}, "db": {"text": "c"},
	} {
		var cm corev1.ConfigMap
		s.must(on.Get(s.ctx, types.NamespacedName{Namespace: s.ns, Name: name}, &cm))
		if fmt.Sprint(cm.Data) != fmt.Sprint(want) {
			t.Errorf("ConfigMap %s holds %v, want %v", name, cm.Data, want)
		}
		if got := cm.Labels["region"]; (got == "eu-west-1") != (name != "db") {
			t.Errorf("ConfigMap %s has the region %q", name, got)
		}
	}
	var account corev1.ServiceAccount
	s.must(on.Get(s.ctx, types.NamespacedName{Namespace: s.ns, Name: "web-a"}, &account))
	if got, has := account.Labels["region"]; has {
		t.Errorf("the ServiceAccount of the same name has the region %q", got)
	}
}

func TestObjectsWithoutANamespaceGoToTheTargetNamespaceWhichIsCreated(t *testing.T) {
	s := newScene(t)
	s.readyCluster("prod", beta)
	other := s.ns + "-other"
	s.configMap("source", map[string]string{
		"plain.yaml":     manifest("plain", "a"),
		"named.yaml":     fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: named, namespace: %s}\n", other),
		"namespace.yaml": fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", other),
		"pod.yaml":       podManifest("worker"), // needs the service account that comes a moment after its namespace
	})
	s.release("app", "prod", "source")
	on := s.on(beta)
	s.letPodRun(on)
	s.awaitDelivered("app")
	s.awaitText(time.Second, on, "plain", "a")
	if !s.exists(on, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "named"}}) {
		t.Errorf("the object that names namespace %s is not there", other)
	}
}

func TestWithoutCreateNamespaceTheRolloutWaitsUntilTheNamespaceIsThere(t *testing.T) {
	s := newScene(t)
	s.readyCluster("prod", beta)
	s.greeting("greeting", "hello")
	s.release("app", "prod", "greeting", func(r *v1alpha1.Release) { r.Spec.CreateNamespace = false })
	r := s.awaitRelease("app", v1alpha1.ConditionApplied, metav1.ConditionFalse, v1alpha1.ReasonApplyRetrying)
	s.wantMessage(r.Status.Conditions, v1alpha1.ConditionApplied, "namespace "+s.ns+" does not exist", "greeting")
	s.must(s.on(beta).Create(s.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.ns}}))
	if r := s.awaitDelivered("app"); r.Status.Rollout.Number != 1 {
		t.Errorf("it took %d rollouts", r.Status.Rollout.Number)
	}
}
