package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/failure"
)

func (w *world) deployment(name string) *unstructured.Unstructured {
	o := w.fromYAML(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: $NS}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: example.test/web:1}]}
`)
	o.SetName(name)
	return o
}

func (w *world) fourObjects() []*unstructured.Unstructured {
	service := w.fromYAML(`{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {selector: {app: web}, ports: [{port: 80}]}}`)
	return []*unstructured.Unstructured{
		w.deployment("web"), service, w.configMap("one", map[string]string{"a": "1"}), w.configMap("two", nil),
	}
}

func TestAColdApplyIsOnePatchForEachObjectAndReadsNothing(t *testing.T) {
	w := newWorld(t)
	set := w.applied(w.fourObjects()...)
	lines := w.targetLog.take()
	if count(lines, "PATCH ") != 4 || len(lines) != 4 {
		t.Errorf("requests to the target: %v", lines)
	}
	if len(set.Pending) != 1 || set.Pending[0].String() != "Deployment.apps "+w.ns+"/web" {
		t.Errorf("pending: %v", set.Pending)
	}
	if set.Applied != 4 || set.ToPrune != 0 {
		t.Errorf("got %+v", set)
	}
}

func TestAFirstRolloutWritesTheHubTwiceAndARepetitionNotAtAll(t *testing.T) {
	w := newWorld(t)
	w.applied(w.fourObjects()...)
	if lines := w.hubLog.take(); writes(lines) != 2 {
		t.Errorf("first rollout: %v", lines)
	}
	w.applied(w.fourObjects()...)
	if lines := w.hubLog.take(); writes(lines) != 0 {
		t.Errorf("repetition: %v", lines)
	}
	for _, e := range w.record().Entries() {
		if e.UID == "" {
			t.Errorf("%s has no UID in the inventory", RefOf(e))
		}
	}
}

func TestEveryObjectCarriesBothMarksAndTheRenderStaysAsItWas(t *testing.T) {
	w := newWorld(t)
	o := object("v1", "ConfigMap", "", "plain")
	before := o.DeepCopy()
	w.applied(o)
	if diff := cmp.Diff(before.Object, o.Object); diff != "" {
		t.Errorf("the render changed: %s", diff)
	}
	live := w.live(w.configMap("plain", nil))
	if live == nil {
		t.Fatal("an object without a namespace is not in the target namespace")
	}
	if live.GetLabels()[v1alpha1.LabelOwner] != w.owner.Key() || live.GetAnnotations()[v1alpha1.AnnotationRelease] != w.owner.String() {
		t.Errorf("marks are missing: %v %v", live.GetLabels(), live.GetAnnotations())
	}
}

func TestANamespacedObjectGoesToDefaultWhenThereIsNoTargetNamespace(t *testing.T) {
	w := newWorld(t)
	o := object("v1", "ConfigMap", "", w.ns)
	req := w.request(o)
	req.TargetNamespace = ""
	if _, err := Apply(w.ctx, w.target, w.ledger, req); err != nil {
		t.Fatal(err)
	}
	o.SetNamespace("default")
	if w.live(o) == nil {
		t.Error("it is not in default")
	}
	w.delete()
	if w.live(o) != nil {
		t.Error("it is still there")
	}
}

func TestServersOwnMetadataOfASourceIsNotSent(t *testing.T) {
	w := newWorld(t)
	o := w.configMap("exported", map[string]string{"a": "1"})
	o.SetUID("7d9d3a3e-0000-0000-0000-000000000000")
	o.SetResourceVersion("12")
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "x", Operation: "Update"}})
	o.Object["metadata"].(map[string]any)["creationTimestamp"] = nil
	w.applied(o)
}

func TestAnObjectThatIsRenderedTwiceStopsEverythingBeforeAnyWrite(t *testing.T) {
	w := newWorld(t)
	implicit := object("v1", "ConfigMap", "", "cfg")
	_, err := Apply(w.ctx, w.target, w.ledger, w.request(w.configMap("cfg", nil), implicit))
	if f, ok := failure.As(err); !ok || !f.Terminal || !strings.Contains(err.Error(), w.ns+"/cfg") {
		t.Errorf("got %v", err)
	}
	if n := writes(w.hubLog.take()) + writes(w.targetLog.take()); n != 0 {
		t.Errorf("%d writes", n)
	}
}

func TestObjectsThatCannotBeAppliedAreNamedAndStopNoOther(t *testing.T) {
	tests := map[string]struct {
		object   string
		message  string
		terminal bool
	}{
		"a field that the schema does not have": {
			`{apiVersion: apps/v1, kind: Deployment, metadata: {name: bad}, spec: {replics: 2, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}`,
			".spec.replics", true,
		},
		"a list with the same key twice": {
			`{apiVersion: v1, kind: Pod, metadata: {name: bad}, spec: {containers: [{name: c, image: i, env: [{name: A, value: "1"}, {name: A, value: "2"}]}]}}`,
			"env", true,
		},
		"a value that is not valid":                {`{apiVersion: v1, kind: Service, metadata: {name: bad}, spec: {ports: [{port: 99999999}]}}`, "spec.ports[0].port", true},
		"a name that is not valid":                 {`{apiVersion: v1, kind: ConfigMap, metadata: {name: BAD}}`, "Invalid value", true},
		"a name that is no part of a URL":          {`{apiVersion: v1, kind: ConfigMap, metadata: {name: a/b}}`, "rename it", true},
		"no name":                                  {`{apiVersion: v1, kind: ConfigMap, metadata: {generateName: x-}}`, "no metadata.name", true},
		"a kind that nobody serves":                {`{apiVersion: nobody.example.test/v1, kind: Gadget, metadata: {name: bad}}`, "kind Gadget in version nobody.example.test/v1 is not served", true},
		"a version that nobody serves":             {`{apiVersion: apps/v7, kind: Deployment, metadata: {name: bad}}`, "kind Deployment in version apps/v7 is not served", true},
		"a cluster-scoped object with a namespace": {`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: bad, namespace: x}}`, "cluster-scoped", true},
		"a namespace that does not exist":          {`{apiVersion: v1, kind: ConfigMap, metadata: {name: bad, namespace: nowhere-at-all}}`, "namespace nowhere-at-all does not exist", false},
		"more than fits":                           {`{apiVersion: v1, kind: ConfigMap, metadata: {name: bad}, data: {big: "$BIG"}}`, "1048576", true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			bad := w.fromYAML(strings.ReplaceAll(tc.object, "$BIG", strings.Repeat("x", 1600<<10)))
			good := w.configMap("good", nil)
			set := w.apply(bad, good)
			only(t, set.Failed, bad.GetName(), tc.message, tc.terminal)
			if len(set.Failed[0].Message) > longestShown {
				t.Errorf("the message has %d bytes", len(set.Failed[0].Message))
			}
			if set.Retry() == tc.terminal {
				t.Errorf("Retry is %v", set.Retry())
			}
			if w.live(good) == nil {
				t.Error("the other object was not applied")
			}
			again := w.apply(bad, good)
			if diff := cmp.Diff(set.Failed, again.Failed); diff != "" {
				t.Errorf("the message is not stable: %s", diff)
			}
		})
	}
}

func TestEverythingOfASourceGoesInOnePassWhateverItsOrder(t *testing.T) {
	w := newWorld(t)
	inside := w.ns + "-inside"
	webhook := w.fromYAML(`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: $NS}}`)
	binding := w.fromYAML(`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: b}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}, subjects: [{kind: ServiceAccount, name: s, namespace: $NS}]}`)
	objects := []*unstructured.Unstructured{
		webhook, w.widget("v1", "w"), w.deployment("web"), binding,
		object("v1", "ServiceAccount", "", "s"), w.definition("v1"), object("v1", "Namespace", "", inside),
	}
	for _, i := range []int{1, 2, 3, 4} {
		objects[i].SetNamespace(inside)
	}
	w.applied(objects...)
	var kinds []string
	for _, l := range w.targetLog.take() {
		if strings.HasPrefix(l, "PATCH ") {
			parts := strings.Split(l, "/")
			kinds = append(kinds, parts[len(parts)-2])
		}
	}
	at := func(kind string) int { return slices.Index(kinds, kind) }
	if at("validatingwebhookconfigurations") != len(kinds)-1 || at("namespaces") > 1 || at("customresourcedefinitions") > 1 ||
		at("deployments") < at("rolebindings") || at("widgets") < at("serviceaccounts") {
		t.Errorf("order: %v", kinds)
	}
	w.remove(webhook)
}

func TestACustomResourceFollowsItsDefinitionToANewVersion(t *testing.T) {
	w := newWorld(t)
	w.applied(w.widget("v1", "w"), w.definition("v1"))
	uid := w.live(w.widget("v1", "w")).GetUID()
	crd := w.definition("v1", "v1beta2")
	w.applied(w.widget("v1beta2", "w"), crd)
	w.targetLog.take()
	out := w.prune(w.widget("v1beta2", "w"), crd)
	if lines := w.targetLog.take(); count(lines, "DELETE") != 0 || out.Removed != 0 {
		t.Errorf("something was deleted: %v", lines)
	}
	if got := w.live(w.widget("v1beta2", "w")).GetUID(); got != uid {
		t.Errorf("the UID changed from %s to %s", uid, got)
	}
	w.applied(w.widget("v1beta2", "w"), crd)
	if lines := w.targetLog.take(); len(lines) != 2 {
		t.Errorf("a definition that is established costs more than its patch: %v", lines)
	}
}

func TestANewFieldOfADefinitionMayBeUsedInTheSameRevision(t *testing.T) {
	w := newWorld(t)
	crd := w.definition("v1")
	w.applied(crd, w.widget("v1", "w"))
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	w.check(unstructured.SetNestedField(versions[0].(map[string]any), map[string]any{"type": "string"},
		"schema", "openAPIV3Schema", "properties", "spec", "properties", "colour"))
	w.check(unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"))
	widget := w.widget("v1", "w")
	w.check(unstructured.SetNestedField(widget.Object, "red", "spec", "colour"))
	w.applied(widget, crd)
}

func TestATerminatingNamespaceHoldsUpOnlyWhatIsInIt(t *testing.T) {
	w := newWorld(t)
	jane := object("v1", "Namespace", "", w.ns+"-jane")
	w.create(jane)
	held := w.configMap("held", nil)
	held.SetNamespace(jane.GetName())
	held.SetFinalizers([]string{"example.test/hold"})
	w.create(held)
	w.remove(jane)
	inJane := object("v1", "ConfigMap", jane.GetName(), "cfg")
	inJohn := w.configMap("cfg", nil)
	set := w.apply(inJane, inJohn)
	only(t, set.Failed, "cfg", "namespace "+jane.GetName()+" is being deleted", false)
	if w.live(inJohn) == nil {
		t.Error("the other namespace was held up")
	}
}

func TestAnObjectThatIsBeingDeletedIsTriedAgain(t *testing.T) {
	w := newWorld(t)
	o := w.configMap("cfg", nil)
	w.applied(o)
	w.patch(o, `{"metadata":{"finalizers":["example.test/hold"]}}`)
	w.remove(o)
	only(t, w.apply(o).Failed, "cfg", "it is being deleted", false)
	w.patch(o, `{"metadata":{"finalizers":null}}`)
	w.applied(o)
	if w.live(o) == nil {
		t.Error("it is not there")
	}
}

func TestTheTargetNamespaceIsCreatedRecordedAndKept(t *testing.T) {
	w := newWorld(t)
	made := w.ns + "-made"
	ask := func() ChangeSet {
		req := w.request(object("v1", "ConfigMap", "", "cfg"))
		req.TargetNamespace, req.CreateNamespace = made, true
		set, err := Apply(w.ctx, w.target, w.ledger, req)
		w.check(err)
		return set
	}
	want := []string{"ConfigMap/cfg", "Namespace/" + made}
	for range 2 {
		set := ask()
		if len(set.Failed) > 0 || set.ToPrune > 0 || set.Applied != 2 {
			t.Errorf("got %+v", set)
		}
		if diff := cmp.Diff(want, names(w.record().Entries())); diff != "" {
			t.Error(diff)
		}
	}
	live := w.live(object("v1", "Namespace", "", made))
	if live == nil || live.GetLabels()[v1alpha1.LabelOwner] != w.owner.Key() {
		t.Errorf("the namespace is not marked: %v", live)
	}
}

func TestATargetNamespaceOfSomebodyElseIsNeitherTouchedNorRecorded(t *testing.T) {
	w := newWorld(t)
	before := w.live(object("v1", "Namespace", "", w.ns))
	req := w.request(w.configMap("cfg", nil))
	req.CreateNamespace = true
	_, err := Apply(w.ctx, w.target, w.ledger, req)
	w.check(err)
	if diff := cmp.Diff(before.Object, w.live(before).Object); diff != "" {
		t.Errorf("it was touched: %s", diff)
	}
	if diff := cmp.Diff([]string{"ConfigMap/cfg"}, names(w.record().Entries())); diff != "" {
		t.Error(diff)
	}
}

func TestACancelledApplyEndsAtOnceAndSaysSo(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(w.ctx)
	var objects []*unstructured.Unstructured
	for i := range 300 {
		objects = append(objects, w.configMap(fmt.Sprintf("c-%d", i), nil))
	}
	req := w.request(objects...)
	var last Progress
	req.Progress = func(p Progress) {
		last = p
		if p.Done == 20 {
			cancel()
		}
	}
	begin := time.Now()
	_, err := Apply(ctx, w.target, w.ledger, req)
	if !errors.Is(err, context.Canceled) || time.Since(begin) > 10*time.Second {
		t.Errorf("got %v after %s", err, time.Since(begin))
	}
	if last.Done > 60 || last.Of != 300 || last.Stage != delivery.StageConfig.String() {
		t.Errorf("progress %+v", last)
	}
	if n := w.record().Len(); n != 300 {
		t.Errorf("%d objects are announced", n)
	}
}

func TestThreeThousandObjectsFitTheInventory(t *testing.T) {
	w := newWorld(t)
	var objects []*unstructured.Unstructured
	for i := range 3000 {
		objects = append(objects, w.configMap(fmt.Sprintf("c-%04d", i), map[string]string{"n": fmt.Sprint(i)}))
	}
	set := w.applied(objects...)
	if set.Applied != 3000 || len(set.Pending) != 0 {
		t.Errorf("applied %d, pending %d", set.Applied, len(set.Pending))
	}
	if lines := w.hubLog.take(); writes(lines) != 4 {
		t.Errorf("the hub was written %d times, want two for each of two shards", writes(lines))
	}
	if out := w.prune(objects[:10]...); out.Removed != 2990 {
		t.Errorf("removed %d", out.Removed)
	}
	if rec := w.record(); rec.Len() != 10 || len(rec.shards) != 1 {
		t.Errorf("%d entries in %d shards are left", rec.Len(), len(rec.shards))
	}
}
