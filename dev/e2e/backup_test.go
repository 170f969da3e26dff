package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	temporalclient "go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/dev/env"
)

// backup exports a namespace of the hub as docs/backup.md says, without what a hub gives to objects itself.
func (s *scene) backup() string {
	s.Helper()
	var all unstructured.UnstructuredList
	all.SetAPIVersion("v1")
	all.SetKind("List")
	for _, args := range [][]string{
		{"secrets", "--field-selector=type!=convoy.kumodo.io/render,type!=convoy.kumodo.io/credentials"},
		{"configmaps", "--field-selector=metadata.name!=kube-root-ca.crt"},
		{"clusters.core.convoy.kumodo.io"},
		{"releases.core.convoy.kumodo.io"},
	} {
		out := kubectlAt(s.T, s.site, "", append([]string{"get", "--namespace=" + s.ns, "--output=json"}, args...)...)
		var found unstructured.UnstructuredList
		s.must(json.Unmarshal([]byte(out), &found))
		for _, o := range found.Items {
			for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "ownerReferences"} {
				unstructured.RemoveNestedField(o.Object, "metadata", field)
			}
			delete(o.Object, "status")
			all.Items = append(all.Items, o)
		}
	}
	content, err := all.MarshalJSON()
	s.must(err)
	return string(content)
}

// restored is the scene on another hub, into which a backup was put, with a namespace of Temporal of its own. No convoy runs there.
func (s *scene) restored(backup, hubID string) *scene {
	s.Helper()
	plane, err := s.local.AddTarget(s.ctx, env.ControlPlaneOptions{Name: "restored", Controllers: true})
	s.must(err)
	other := *s
	other.hubFile = filepath.Join(s.local.Dir(), "restored.kubeconfig")
	s.must(os.WriteFile(other.hubFile, plane.Kubeconfig(), 0o600))
	other.hub, err = clientOf(plane)
	s.must(err)
	if out, err := s.temporalCommand("operator", "namespace", "create", "restored"); err != nil {
		s.Fatal(err, out)
	}
	s.eventually("the namespace of Temporal is known", func(context.Context) error {
		out, err := s.temporalCommand("workflow", "list", "--namespace", "restored")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	other.temporal, err = temporalclient.Dial(temporalclient.Options{
		HostPort: s.local.Temporal.Address, Namespace: "restored", Logger: sdklog.NewStructuredLogger(slog.New(slog.NewTextHandler(io.Discard, nil))),
	})
	s.must(err)
	s.Cleanup(other.temporal.Close)
	kubectlAt(s.T, other.site, "", "apply", "--server-side", "-f", folder(s.T, "deploy", "crd"))
	kubectlAt(s.T, other.site, "", "wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
	kubectlAt(s.T, other.site, "", "annotate", "namespace", "kube-system", v1alpha1.AnnotationHubID+"="+hubID)
	kubectlAt(s.T, other.site, "", "create", "namespace", s.ns)
	kubectlAt(s.T, other.site, backup, "apply", "--server-side", "--force-conflicts", "-f", "-")
	return &other
}

// delivered are the objects that bear the marks of Releases in the scene's namespace of a target, by kind and name.
func (s *scene) marked(on client.Client) map[string]string {
	s.Helper()
	found := map[string]string{}
	for _, list := range []client.ObjectList{&corev1.ConfigMapList{}, &corev1.SecretList{}} {
		s.must(on.List(s.ctx, list, client.InNamespace(s.ns), client.HasLabels{v1alpha1.LabelOwner}))
		switch all := list.(type) {
		case *corev1.ConfigMapList:
			for i := range all.Items {
				found["ConfigMap/"+all.Items[i].Name] = string(all.Items[i].UID) + " " + all.Items[i].Labels[v1alpha1.LabelOwner]
			}
		case *corev1.SecretList:
			for i := range all.Items {
				found["Secret/"+all.Items[i].Name] = string(all.Items[i].UID) + " " + all.Items[i].Labels[v1alpha1.LabelOwner]
			}
		}
	}
	return found
}

// inventoryOf are the names of all that convoy remembers of a Release.
func (s *scene) inventoryOf(r *v1alpha1.Release) (names []string) {
	s.Helper()
	var all v1alpha1.InventoryList
	s.must(s.hub.List(s.ctx, &all, client.InNamespace(s.ns), client.MatchingLabels{v1alpha1.LabelReleaseUID: string(r.UID)}))
	for i := range all.Items {
		for _, e := range all.Items[i].Objects {
			names = append(names, e.Kind+"/"+e.Name)
		}
	}
	slices.Sort(names)
	return names
}

// TestAHubThatIsRestoredFromABackupFindsItsObjectsAndRemovesNone loses a hub, with its Temporal, after something was delivered that the
// backup does not know.
func TestAHubThatIsRestoredFromABackupFindsItsObjectsAndRemovesNone(t *testing.T) {
	t.Parallel()
	at := newHub(t, "lost-hub")
	at.convoy = startedOn(t, at, "lost")
	s := newSceneAt(t, at)
	s.targetNamespace(s.on(beta))
	s.readyCluster("prod", beta)
	source := s.configMap("source", map[string]string{"kept.yaml": manifest("kept", "one"), "leaving.yaml": manifest("leaving", "b"), "login.yaml": loginManifest})
	s.release("app", "prod", "source", intoNamespace(s.ns))
	s.greeting("greeting", "hello")
	s.release("manual", "prod", "greeting", intoNamespace(s.ns), func(r *v1alpha1.Release) { r.Spec.SyncPolicy.Mode = v1alpha1.SyncManual })
	s.approve("manual", s.awaitPending("manual", v1alpha1.ReasonAwaitingApproval))
	s.awaitDelivered("app")
	s.awaitDelivered("manual")
	backup, hubID := s.backup(), s.kubeSystem(s.hub)
	for _, not := range []string{"convoy.kumodo.io/render", "resourceVersion"} {
		if strings.Contains(backup, not) {
			t.Errorf("the backup holds %s", not)
		}
	}
	change(s, source, func(cm *corev1.ConfigMap) { cm.Data["later.yaml"] = manifest("later", "after the backup") })
	s.awaitRollout("app", 2)
	s.must(at.convoy.stop())
	before := s.marked(s.on(beta))
	removals := s.removals(beta)

	r := s.restored(backup, hubID)
	r.convoy = startedOn(t, r.site, "restored", "--temporal-namespace=restored")
	r.awaitRollout("app", 1)
	r.awaitDelivered("app")
	r.awaitPending("manual", v1alpha1.ReasonAwaitingApproval)
	if diff := cmp.Diff(before, r.marked(r.on(beta))); diff != "" {
		t.Errorf("what is on the target was replaced, removed or given to another (-before +after):\n%s", diff)
	}
	if n := r.removals(beta) - removals; n != 0 {
		t.Errorf("%d objects were removed", n)
	}
	app := r.getRelease("app")
	if got, want := r.inventoryOf(app), []string{"ConfigMap/kept", "ConfigMap/later", "ConfigMap/leaving", "Secret/login"}; !slices.Equal(got, want) {
		t.Errorf("the inventory has %v, want %v", got, want)
	}
	if w := fmt.Sprint(app.Status.Rollout.Warnings); !strings.Contains(w, "restored from a backup: what is on the target and not in the render stays until a rollout has succeeded; that is 1 object") {
		t.Errorf("it is not told what is not in the render: %s", w)
	}
	r.goOnAfterTheRestore(source)
}

// goOnAfterTheRestore changes, approves and deletes as if nothing had happened.
func (s *scene) goOnAfterTheRestore(source *corev1.ConfigMap) {
	s.Helper()
	on := s.on(beta)
	s.approve("manual", s.awaitPending("manual", v1alpha1.ReasonAwaitingApproval))
	s.awaitDelivered("manual")
	change(s, &corev1.ConfigMap{ObjectMeta: s.meta(source.Name)}, func(cm *corev1.ConfigMap) { delete(cm.Data, "leaving.yaml") })
	s.awaitRollout("app", 2)
	for name, want := range map[string]bool{"kept": true, "leaving": false, "later": false} {
		if is := s.exists(on, &corev1.ConfigMap{ObjectMeta: s.meta(name)}); is != want {
			s.Errorf("ConfigMap %s is there: %v, want %v", name, is, want)
		}
	}
	for _, name := range []string{"app", "manual"} {
		rel := s.getRelease(name)
		s.remove(rel)
		s.awaitGone(s.hub, rel)
	}
	if left := s.marked(on); len(left) > 0 {
		s.Errorf("after the deletions, the target still has %v", left)
	}
}

// TestAHubWithoutTheIdentityOfTheOneBeforeTouchesNothing restores a backup and forgets whose place the hub takes.
func TestAHubWithoutTheIdentityOfTheOneBeforeTouchesNothing(t *testing.T) {
	t.Parallel()
	at := newHub(t, "first-hub")
	at.convoy = startedOn(t, at, "first")
	s := newSceneAt(t, at)
	s.targetNamespace(s.on(beta))
	s.readyCluster("prod", beta)
	for _, name := range []string{"app", "left"} {
		s.greeting(name, "one")
		s.release(name, "prod", name, intoNamespace(s.ns))
	}
	s.awaitDelivered("app")
	s.awaitDelivered("left")
	s.must(at.convoy.stop())
	before := s.marked(s.on(beta))
	r := s.restored(s.backup(), "somebody-else")
	r.convoy = startedOn(t, r.site, "forgetful", "--temporal-namespace=restored")
	refused := r.awaitRelease("app", v1alpha1.ConditionApplied, metav1.ConditionFalse, v1alpha1.ReasonConflict)
	r.wantMessage(refused.Status.Conditions, v1alpha1.ConditionApplied, "of another hub", v1alpha1.AnnotationHubID)
	left := r.getRelease("left")
	r.remove(left)
	r.awaitGone(r.hub, left)
	on := r.on(beta)
	if diff := cmp.Diff(before, r.marked(on)); diff != "" {
		t.Errorf("what is on the target was touched (-before +after):\n%s", diff)
	}
	freed := &corev1.ConfigMap{ObjectMeta: r.meta("app")}
	r.must(on.Patch(r.ctx, freed, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+v1alpha1.LabelOwner+`":null}}}`))))
	r.ask("app")
	r.awaitDelivered("app")
	if is := r.marked(on)["ConfigMap/app"]; is == "" || is == before["ConfigMap/app"] || !strings.HasPrefix(is, string(freed.UID)) {
		t.Errorf("an object without an owner became %q, and was %q", is, before["ConfigMap/app"])
	}
}

// removals is how many objects of the scene's namespace a target was asked to remove.
func (s *scene) removals(target *env.ControlPlane) (n int) {
	s.Helper()
	for _, l := range s.recorded(target) {
		if strings.HasPrefix(l.Verb, "delete") && l.ObjectRef.Namespace == s.ns {
			n++
		}
	}
	return n
}

// startedOn starts a convoy of a site, which ends with the test.
func startedOn(t *testing.T, at site, name string, flags ...string) *convoy {
	t.Helper()
	c, err := newConvoy(name, append([]string{"--kubeconfig=" + at.hubFile, "--temporal-address=" + at.local.Temporal.Address, "--resync-period=10m"}, flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.stop(), c.keep(), c.check()); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c.start(ctx); err != nil {
		t.Fatal(err)
	}
	return c
}
