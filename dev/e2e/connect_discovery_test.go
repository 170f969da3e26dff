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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/dev/env"
)

// brokenService announces a group that nobody serves.
const brokenService = `apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.broken.example.test}
spec:
  group: broken.example.test
  version: v1beta1
  groupPriorityMinimum: 100
  versionPriority: 10
  insecureSkipTLSVerify: true
  service: {name: nobody, namespace: default}
`

// needsBroken is an object of that group.
const needsBroken = "apiVersion: broken.example.test/v1beta1\nkind: Gadget\nmetadata: {name: gadget}\n"

// definition is a CRD as a source has it, of a kind in a group of its own.
func definition(group, kind string, versions ...string) string {
	plural := strings.ToLower(kind) + "s"
	out := fmt.Sprintf("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: %[1]s.%[2]s}\n"+
		"spec:\n  group: %[2]s\n  scope: Namespaced\n  names: {kind: %[3]s, plural: %[1]s, singular: %[4]s}\n  versions:\n",
		plural, group, kind, strings.ToLower(kind))
	for i, v := range versions {
		out += fmt.Sprintf("  - name: %s\n    served: true\n    storage: %v\n    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {text: {type: string}}}, status: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}\n", v, i == len(versions)-1)
	}
	return out
}

func custom(group, version, kind, name, text string) string {
	return fmt.Sprintf("apiVersion: %s/%s\nkind: %s\nmetadata: {name: %s}\nspec: {text: %q}\n", group, version, kind, name, text)
}

// put creates an object on a target, as somebody else would.
func (s *scene) put(on client.Client, manifest string) *unstructured.Unstructured {
	s.Helper()
	o := &unstructured.Unstructured{}
	s.must(yaml.Unmarshal([]byte(manifest), &o.Object))
	s.must(on.Create(s.ctx, o))
	return o
}

// customText is spec.text of a custom resource in the scene's namespace.
func (s *scene) customText(on client.Client, gvk schema.GroupVersionKind, name string) (string, error) {
	s.Helper()
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(gvk)
	if err := on.Get(s.ctx, client.ObjectKey{Namespace: s.ns, Name: name}, o); err != nil {
		return "", err
	}
	text, _, err := unstructured.NestedString(o.Object, "spec", "text")
	return text, err
}

func TestABrokenAPIGroupHarmsOnlyWhoNeedsIt(t *testing.T) {
	s := newScene(t)
	target := s.ownTarget(env.ControlPlaneOptions{})
	on := s.on(target)
	s.must(on.Create(s.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.ns}}))
	// Kubernetes deletes no namespace while a group fails, so the Releases do without one of their own.
	given := func(r *v1alpha1.Release) { r.Spec.CreateNamespace = false }
	s.readyCluster("prod", target)
	source := s.configMap("sound", map[string]string{"kept.yaml": manifest("kept", "a"), "leaving.yaml": manifest("leaving", "b")})
	s.release("sound", "prod", "sound", given)
	s.awaitDelivered("sound")

	broken := s.put(on, brokenService)
	s.eventually("the failing group is listed", func(context.Context) error {
		c := s.getCluster("prod")
		if !slices.ContainsFunc(c.Status.APIGroups, func(g v1alpha1.APIGroup) bool { return g.Name == "broken.example.test" && g.Failing }) {
			return errors.New("it is not")
		}
		return nil
	})
	c := s.awaitCluster("prod", metav1.ConditionTrue, v1alpha1.ReasonReachable)
	s.wantMessage(c.Status.Conditions, v1alpha1.ConditionReady, "broken.example.test")
	if c.Status.Reachable == nil || !*c.Status.Reachable {
		t.Error("status.reachable is not true")
	}

	change(s, source, func(cm *corev1.ConfigMap) { cm.Data = map[string]string{"kept.yaml": manifest("kept", "c")} })
	s.awaitText(patience, on, "kept", "c")
	s.awaitGone(on, &corev1.ConfigMap{ObjectMeta: s.meta("leaving")})
	s.configMap("needy", map[string]string{"a.yaml": manifest("beside", "d"), "b.yaml": needsBroken})
	s.release("needy", "prod", "needy", given)
	needy := s.awaitFailedApply("needy")
	s.wantMessage(needy.Status.Conditions, v1alpha1.ConditionApplied, "Gadget", "gadget", "broken.example.test")
	s.awaitText(patience, on, "beside", "d")
	s.awaitDelivered("sound")
	if got := s.textOn(on, "kept"); got != "c" {
		t.Errorf("text of the other Release is %q", got)
	}

	// A chart that asks whether the group is served is not told no: that would prune what it has for it.
	repository := s.repository()
	s.commit(repository, chart(map[string]string{"chart/templates/greeting.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: charted}\n" +
		"data: {text: '{{ .Capabilities.APIVersions.Has \"broken.example.test/v1beta1\" }}'}\n"}))
	s.release("charted", "prod", "", ofChart(repository, nil), given)
	s.eventually("the chart waits for the group", func(context.Context) error {
		r := s.getRelease("charted")
		if err := s.compare(r.Status.Conditions, v1alpha1.ConditionRendered, metav1.ConditionFalse, v1alpha1.ReasonRenderRetrying, r.Generation); err != nil {
			return err
		}
		s.wantMessage(r.Status.Conditions, v1alpha1.ConditionRendered, "broken.example.test")
		return nil
	})

	for _, name := range []string{"sound", "needy"} {
		s.remove(s.getRelease(name))
		s.awaitGone(s.hub, &v1alpha1.Release{ObjectMeta: s.meta(name)})
	}
	for _, name := range []string{"kept", "beside"} {
		if s.exists(on, &corev1.ConfigMap{ObjectMeta: s.meta(name)}) {
			t.Errorf("ConfigMap %s is still there", name)
		}
	}
	s.must(on.Delete(s.ctx, broken))
	s.eventually("the group is not listed any more", func(context.Context) error {
		if m := readyMessage(s.getCluster("prod")); strings.Contains(m, "broken.example.test") {
			return errors.New(m)
		}
		return nil
	})
	s.awaitDelivered("charted")
	if got := s.textOn(on, "charted"); got != "false" {
		t.Errorf("the chart was told %s", got)
	}
}

// awaitFailedApply waits until a Release says that objects could not be applied, for now or for good.
func (s *scene) awaitFailedApply(name string) *v1alpha1.Release {
	s.Helper()
	var r *v1alpha1.Release
	s.eventually("Release "+name+" could not be applied", func(context.Context) error {
		r = s.getRelease(name)
		retrying := s.compare(r.Status.Conditions, v1alpha1.ConditionApplied, metav1.ConditionFalse, v1alpha1.ReasonApplyRetrying, r.Generation)
		if retrying == nil {
			return nil
		}
		return s.compare(r.Status.Conditions, v1alpha1.ConditionApplied, metav1.ConditionFalse, v1alpha1.ReasonApplyFailed, r.Generation)
	})
	return r
}

// textOn is the entry text of a ConfigMap in the scene's namespace of a target.
func (s *scene) textOn(on client.Client, name string) string {
	s.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: s.meta(name)}
	s.must(on.Get(s.ctx, client.ObjectKeyFromObject(cm), cm))
	return cm.Data["text"]
}

// uniqueGroup is an API group that only this scene uses. Kinds are defined on beta only: what alpha serves stays the same.
func (s *scene) uniqueGroup() string { return s.ns + ".example.test" }

func TestADefinitionAndItsObjectsInOneSourceAreDeliveredInOneGo(t *testing.T) {
	s := newScene(t)
	group := s.uniqueGroup()
	s.readyCluster("prod", beta)
	object := custom(group, "v1beta1", "Widget", "one", "first")
	source := s.configMap("widgets", map[string]string{"all.yaml": object + "---\n" + definition(group, "Widget", "v1beta1")})
	s.release("app", "prod", "widgets")
	first := s.awaitDelivered("app")
	if first.Status.Rollout.Number != 1 {
		t.Errorf("it took %d rollouts", first.Status.Rollout.Number)
	}
	on := s.on(beta)
	if got, err := s.customText(on, schema.GroupVersionKind{Group: group, Version: "v1beta1", Kind: "Widget"}, "one"); err != nil || got != "first" {
		t.Errorf("the object says %q (%v)", got, err)
	}
	// A version that comes with the object that needs it.
	moved := custom(group, "v1beta2", "Widget", "one", "second")
	change(s, source, func(cm *corev1.ConfigMap) {
		cm.Data["all.yaml"] = moved + "---\n" + definition(group, "Widget", "v1beta1", "v1beta2")
	})
	s.eventually("the object has moved", func(context.Context) error {
		got, err := s.customText(on, schema.GroupVersionKind{Group: group, Version: "v1beta2", Kind: "Widget"}, "one")
		if err == nil && got != "second" {
			err = fmt.Errorf("it says %q", got)
		}
		return err
	})
	if r := s.awaitDelivered("app"); r.Status.Rollout.Number != 2 {
		t.Errorf("it took %d rollouts", r.Status.Rollout.Number)
	}
}

func TestAKindThatSomebodyDefinesLaterIsFoundWithoutARestart(t *testing.T) {
	s := newScene(t)
	group := s.uniqueGroup()
	s.readyCluster("prod", beta)
	s.configMap("widgets", map[string]string{"one.yaml": custom(group, "v1", "Widget", "one", "late")})
	s.release("app", "prod", "widgets", func(r *v1alpha1.Release) { r.Spec.SyncPolicy.Interval.Duration = 5 * time.Second })
	failed := s.awaitFailedApply("app")
	s.wantMessage(failed.Status.Conditions, v1alpha1.ConditionApplied, "Widget", "one", group)
	on := s.on(beta)
	s.put(on, definition(group, "Widget", "v1"))
	s.awaitDelivered("app")
	if got, err := s.customText(on, schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Widget"}, "one"); err != nil || got != "late" {
		t.Errorf("the object says %q (%v)", got, err)
	}
}
