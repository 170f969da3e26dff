package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
)

// permit lets the service account deployer of the scene's namespace do everything with ConfigMaps there.
func (s *scene) permit(on client.Client) *rbacv1.RoleBinding {
	s.Helper()
	s.must(on.Create(s.ctx, &rbacv1.Role{ObjectMeta: s.meta("deployer"), Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"*"}},
	}}))
	binding := &rbacv1.RoleBinding{
		ObjectMeta: s.meta("deployer"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "deployer"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.ns, Name: "deployer"}},
	}
	s.must(on.Create(s.ctx, binding))
	return binding
}

func TestAReleaseActsAsItsServiceAccountUntilAnotherIsNamedForItsDeletion(t *testing.T) {
	s := newScene(t)
	target := s.on(alpha)
	s.targetNamespace(target)
	binding := s.permit(target)
	s.readyCluster("prod", alpha)
	source := s.greeting("greeting", "hello")
	r := s.release("app", "prod", "greeting", func(r *v1alpha1.Release) {
		r.Spec.CreateNamespace, r.Spec.ServiceAccountName = false, "deployer"
	})
	s.awaitDelivered("app")
	user := "system:serviceaccount:" + s.ns + ":deployer"
	writes := s.requests(alpha, func(e auditv1.Event) bool {
		return e.Verb == "patch" && e.ObjectRef != nil && e.ObjectRef.Namespace == s.ns && e.ObjectRef.Name == "greeting"
	})
	if len(writes) == 0 {
		t.Error("nothing was written")
	}
	for _, e := range writes {
		if e.ImpersonatedUser == nil || e.ImpersonatedUser.Username != user {
			t.Errorf("written as %v", e.ImpersonatedUser)
		}
	}

	change(s, source, func(c *corev1.ConfigMap) {
		c.Data["more.yaml"] = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: more}\n"
	})
	failed := s.awaitRelease("app", v1alpha1.ConditionApplied, metav1.ConditionFalse, v1alpha1.ReasonApplyFailed)
	s.wantMessage(failed.Status.Conditions, v1alpha1.ConditionApplied, "ServiceAccount "+s.ns+"/more", "service account "+s.ns+"/deployer")

	s.must(target.Delete(s.ctx, binding))
	s.remove(r)
	s.eventually("the deletion says what it lacks", func(ctx context.Context) error {
		if err := s.hub.Get(ctx, client.ObjectKeyFromObject(r), r); err != nil {
			return err
		}
		c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionDeleting)
		if c == nil || !strings.Contains(c.Message, "change spec.serviceAccountName") {
			return fmt.Errorf("Deleting is %v", c)
		}
		return nil
	})
	change(s, r, func(r *v1alpha1.Release) { r.Spec.ServiceAccountName = "" })
	s.awaitGone(s.hub, r)
	if s.exists(target, &corev1.ConfigMap{ObjectMeta: s.meta("greeting")}) {
		t.Error("the object is still on the target")
	}
}

func TestAnObjectOfAnotherToolAndAnImmutableOneAskForAChangeAndWarningsDoNot(t *testing.T) {
	s := newScene(t)
	target := s.on(alpha)
	s.targetNamespace(target)
	theirs := &corev1.ConfigMap{ObjectMeta: s.meta("cfg"), Data: map[string]string{"text": "one"}}
	theirs.Labels = map[string]string{"app.kubernetes.io/managed-by": "Helm"}
	theirs.Annotations = map[string]string{"meta.helm.sh/release-name": "old"}
	s.must(target.Create(s.ctx, theirs))
	s.readyCluster("prod", alpha)
	of := func(annotations, text string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cfg, annotations: {%s}}\nimmutable: true\ndata: {text: %s}\n", annotations, text)
	}
	source := s.configMap("source", map[string]string{
		"cfg.yaml": of("", "one"), "old.yaml": "apiVersion: v1\nkind: Endpoints\nmetadata: {name: old}\n",
	})
	r := s.release("app", "prod", "source")
	held := s.awaitRelease("app", v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonConflict)
	s.wantMessage(held.Status.Conditions, v1alpha1.ConditionApplied, "it belongs to the Helm release old", v1alpha1.AnnotationAdopt)

	change(s, source, func(c *corev1.ConfigMap) { c.Data["cfg.yaml"] = of(v1alpha1.AnnotationAdopt+`: "true"`, "one") })
	delivered := s.awaitDelivered("app")
	if w := delivered.Status.Rollout.Warnings; len(w) != 1 || !strings.Contains(w[0], "Endpoints is deprecated") {
		t.Errorf("warnings are %q", w)
	}
	change(s, source, func(c *corev1.ConfigMap) { c.Data["cfg.yaml"] = of("", "two") })
	stalled := s.awaitRelease("app", v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonApplyFailed)
	s.wantMessage(stalled.Status.Conditions, v1alpha1.ConditionApplied, "field is immutable", "syncPolicy.recreate: Immutable")

	change(s, r, func(r *v1alpha1.Release) { r.Spec.SyncPolicy.Recreate = v1alpha1.RecreateImmutable })
	s.awaitDelivered("app")
	if got := s.text(alpha, "cfg"); got != "two" {
		t.Errorf("the text is %q", got)
	}
}
