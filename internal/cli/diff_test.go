package cli

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"kumodo.io/convoy/activities"
	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/apply"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/render"
)

// objects are those of manifests.
func manifests(t *testing.T, texts ...string) []*unstructured.Unstructured {
	t.Helper()
	out := make([]*unstructured.Unstructured, len(texts))
	for i, text := range texts {
		out[i] = &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &out[i].Object); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func configMap(name, value string) string {
	return "{apiVersion: v1, kind: ConfigMap, metadata: {name: " + name + "}, data: {text: " + value + "}}"
}

func TestObjectsAreComparedWithoutWhatAServerWritesAndWithoutValuesOfSecrets(t *testing.T) {
	before := manifests(t, `
apiVersion: v1
kind: ConfigMap
metadata: {name: a, uid: u, resourceVersion: "7", generation: 1, creationTimestamp: "2026-05-01T12:00:00Z", managedFields: []}
data: {text: old, stays: here}
status: {x: 1}
`, `
apiVersion: v1
kind: Secret
metadata: {name: s, annotations: {kubectl.kubernetes.io/last-applied-configuration: hidden-1, kept: "1"}}
data: {same: aGlkZGVuLTI=, changed: aGlkZGVuLTM=, gone: aGlkZGVuLTQ=}
`, configMap("left", "x"), configMap("same", "x"))
	after := manifests(t, configMap("same", "x"), `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {text: new, stays: here}}`, `
apiVersion: v1
kind: Secret
metadata: {name: s, annotations: {kept: "1"}}
data: {same: aGlkZGVuLTI=, changed: aGlkZGVuLTU=}
stringData: {added: hidden-6}
`, configMap("new", "x"))
	var out strings.Builder
	differ, err := compare(&out, "applied", "pending", pairs(before, after))
	if err != nil || differ != 4 {
		t.Errorf("%d differ, %v", differ, err)
	}
	printed(t, out.String(), `
--- applied ConfigMap a
+++ pending ConfigMap a
@@ -1,7 +1,7 @@
 apiVersion: v1
 data:
   stays: here
-  text: old
+  text: new
 kind: ConfigMap
 metadata:
   name: a
--- applied Secret s
+++ pending Secret s
@@ -1,10 +1,11 @@
 apiVersion: v1
 data:
-  changed: '*** (before)'
-  gone: '***'
+  changed: '*** (after)'
   same: '***'
 kind: Secret
 metadata:
   annotations:
     kept: "1"
   name: s
+stringData:
+  added: '***'
--- /dev/null
+++ pending ConfigMap new
@@ -0,0 +1,6 @@
+apiVersion: v1
+data:
+  text: x
+kind: ConfigMap
+metadata:
+  name: new
--- applied ConfigMap left
+++ /dev/null
@@ -1,6 +0,0 @@
-apiVersion: v1
-data:
-  text: x
-kind: ConfigMap
-metadata:
-  name: left
`)
	if strings.Contains(out.String(), "hidden") || strings.Contains(out.String(), "aGlkZGVu") {
		t.Error("it shows values of a Secret")
	}
	if before[0].GetUID() != "u" {
		t.Error("it changes what it compares")
	}
}

func TestASecretWithoutAMapOfValuesIsHiddenAltogether(t *testing.T) {
	var out strings.Builder
	both := manifests(t, `{apiVersion: v1, kind: Secret, metadata: {name: s}, data: hidden-1}`, `{apiVersion: v1, kind: Secret, metadata: {name: s}, data: hidden-2}`)
	if differ, err := compare(&out, "a", "b", pairs(both[:1], both[1:])); differ != 1 || err != nil || strings.Contains(out.String(), "hidden") {
		t.Errorf("%d, %v, %s", differ, err, out.String())
	}
}

// keep puts a render into the store of the hub.
func (w *world) keep(r *v1alpha1.Release, objects ...string) v1alpha1.RenderRef {
	w.Helper()
	files := map[string][]byte{"all.yaml": []byte(strings.Join(objects, "\n---\n"))}
	out, err := render.Render(w.ctx, render.Input{Files: files, TargetNamespace: w.namespace})
	w.check(err)
	kept, err := render.NewStore(w).Put(w.ctx, r, out)
	w.check(err)
	return kept
}

func TestDiffComparesKeptRendersAndTellsByItsExitCode(t *testing.T) {
	w := newWorld(t)
	r := w.release(rolled)
	first, second := w.keep(r, configMap("a", "one")), w.keep(r, configMap("a", "two"))
	w.status(func(r *v1alpha1.Release) {
		r.Status.RenderRef, r.Status.PreviousRenderRefs = &second, []v1alpha1.RenderRef{first}
		r.Status.History[0].Digest, r.Status.History[1].Digest, r.Status.Rollout.Digest = second.Digest, first.Digest, second.Digest
	})
	out, errOut, code := w.run("diff", "release", "app", "--exit-code")
	if code != 0 || out != "" || !strings.Contains(errOut, "no render waits to be rolled out") {
		t.Errorf("code %d, %q, %q", code, out, errOut)
	}
	out, _, code = w.run("diff", "app", "--to=1", "--exit-code")
	if code != 1 || !strings.Contains(out, "-  text: two\n+  text: one\n") {
		t.Errorf("code %d, %s", code, out)
	}
	third := w.keep(r, configMap("a", "two"), configMap("b", "x"))
	w.status(func(r *v1alpha1.Release) { pending(r); r.Status.Pending.RenderRef = third })
	out, errOut, code = w.run("diff", "app")
	if code != 0 || !strings.Contains(out, "+++ pending ConfigMap b\n") || strings.Contains(out, "ConfigMap a") || !strings.Contains(errOut, "1 of 2 objects differ") {
		t.Errorf("code %d, %s%s", code, out, errOut)
	}
	if _, errOut, code := w.run("diff", "app", "--to=none", "--exit-code"); code != 2 || !strings.Contains(errOut, `"none" is neither a rollout`) {
		t.Errorf("code %d, %s", code, errOut)
	}
	w.rendered = manifests(t, configMap("a", "three"))
	if out, _, _ := w.run("diff", "-f", "app"); !strings.Contains(out, "-  text: two\n+  text: three\n") {
		t.Errorf("of a file: %s", out)
	}
	if out, _, _ := w.run("diff", "-f", "unknown"); !strings.Contains(out, "--- /dev/null\n+++ rendered ConfigMap a\n") {
		t.Errorf("of a Release that is not there: %s", out)
	}
	w.refused("give either the NAME of a Release, or a file", "diff", "app", "-f", "app")
	w.refused("give either the NAME of a Release, or a file", "diff")
}

// east makes the Cluster east, which is the control plane of this package.
func (w *world) east() {
	w.Helper()
	w.check(w.Create(w.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "east"}, Data: map[string][]byte{"value": server.KubeConfig},
	}))
	c := sampleCluster()
	c.Namespace = w.namespace
	c.Status = v1alpha1.ClusterStatus{}
	w.check(w.Create(w.ctx, c))
}

func TestDiffAsksTheTargetWhatARolloutWouldChange(t *testing.T) {
	w := newWorld(t)
	w.east()
	r := w.release(rolled)
	id, err := activities.HubID(w.ctx, w)
	w.check(err)
	owner := delivery.Owner{HubID: id, Namespace: w.namespace, Name: "app"}
	there := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.namespace, Name: "a", Labels: map[string]string{v1alpha1.LabelOwner: owner.Key()}, Annotations: map[string]string{v1alpha1.AnnotationRelease: owner.String()},
		},
		Data: map[string]string{"text": "one", "of-another": "kept"},
	}
	w.check(w.Create(w.ctx, there, client.FieldOwner("somebody")))
	next := w.keep(r, configMap("a", "two"), configMap("b", "x"))
	w.status(func(r *v1alpha1.Release) { pending(r); r.Status.Pending.RenderRef = next })
	out, errOut, code := w.run("diff", "app", "--live", "--exit-code")
	for _, part := range []string{"--- live ConfigMap " + w.namespace + "/a\n", "   of-another: kept\n-  text: one\n+  text: two\n", "+++ pending ConfigMap " + w.namespace + "/b\n"} {
		if code != 1 || !strings.Contains(out, part) {
			t.Errorf("code %d, printed %s%s, want %q", code, out, errOut, part)
		}
	}
	w.check(w.Get(w.ctx, client.ObjectKeyFromObject(there), there))
	if there.Data["text"] != "one" {
		t.Error("it changes the target")
	}
	w.check(client.IgnoreNotFound(w.Delete(w.ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "east"}})))
	w.refused("Cluster NS/east: ", "diff", "app", "--live")
}

// made starts a hook that makes a ConfigMap on the target.
func (w *world) made(r *v1alpha1.Release, name string) {
	w.Helper()
	id, err := activities.HubID(w.ctx, w)
	w.check(err)
	c, err := w.cluster(w.ctx, "east")
	w.check(err)
	s := w.settings()
	target, done, err := s.target(w.ctx, &w.hub, c, r)
	w.check(err)
	defer done()
	_, err = apply.StartHook(w.ctx, target, apply.NewLedger(w), apply.HookRequest{
		Owner: delivery.Owner{HubID: id, Namespace: w.namespace, Name: "app"}, Object: manifests(w.T, configMap(name, "x"))[0],
		Run: string(r.UID) + "/2/" + name, Entry: "2/" + name, TargetNamespace: w.namespace, Record: apply.NewRecord(r, c), Until: time.Now().Add(time.Hour),
	})
	w.check(err)
}

func TestDiffShowsAnObjectOfAHookOnceTheHookIsGone(t *testing.T) {
	w := newWorld(t)
	w.east()
	r := w.release(rolled)
	applied := w.keep(r, configMap("a", "one"))
	w.status(func(r *v1alpha1.Release) { r.Status.RenderRef = &applied })
	_, err := w.change(w.ctx, "app", func(r *v1alpha1.Release) error {
		r.Spec.Hooks = []v1alpha1.Hook{{Name: "migrate", Phase: v1alpha1.HookPreApply, Job: &v1alpha1.HookJob{Template: configMap("migrate", "x")}}}
		return nil
	})
	w.check(err)
	w.made(w.now(), "migrate")
	pruned := "--- live ConfigMap " + w.namespace + "/migrate\n+++ /dev/null\n"
	if out, errOut, code := w.run("diff", "app", "--live"); code != 0 || strings.Contains(out, "migrate") {
		t.Errorf("with the hook: code %d, %s%s", code, out, errOut)
	}
	_, err = w.change(w.ctx, "app", func(r *v1alpha1.Release) error {
		r.Spec.Hooks = nil
		return nil
	})
	w.check(err)
	if out, errOut, code := w.run("diff", "app", "--live"); code != 0 || !strings.Contains(out, pruned) {
		t.Errorf("without it: code %d, %s%s", code, out, errOut)
	}
}

func TestDiffActsAsTheServiceAccountThatTheOperatorNames(t *testing.T) {
	w := newWorld(t)
	w.east()
	r := w.release(rolled)
	applied := w.keep(r, configMap("a", "one"))
	w.status(func(r *v1alpha1.Release) { r.Status.RenderRef = &applied })
	w.accounts.Default = "deployer" // which may do nothing
	w.refused("convoy acts as service account NS/deployer there", "diff", "app", "--live")
	w.accounts = delivery.ServiceAccounts{Required: true}
	w.refused("Release NS/app acts as no service account: name one in spec.serviceAccountName", "diff", "app", "--live")
	w.accounts = delivery.ServiceAccounts{}
	if _, errOut, code := w.run("diff", "app", "--live"); code != 0 {
		t.Error(errOut)
	}
}
