package apply

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/failure"
)

// within is a context for what is expected to wait in vain.
func (w *world) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(w.ctx, d)
	w.Cleanup(cancel)
	return ctx
}

func (w *world) deleteWithin(d time.Duration) (Removal, error) {
	return Delete(w.within(d), w.target, w.ledger, DeleteRequest{Owner: w.owner, Record: w.record()})
}

func TestWhatLeftTheRenderIsPrunedInReverseOrderAndForgotten(t *testing.T) {
	w := newWorld(t)
	w.applied(w.fourObjects()...)
	stays := w.configMap("one", map[string]string{"a": "1"})
	if set := w.applied(stays); set.ToPrune != 3 {
		t.Errorf("ToPrune is %d", set.ToPrune)
	}
	w.targetLog.take()
	out := w.prune(stays)
	if out.Removed != 3 || !out.Done() {
		t.Errorf("got %+v", out)
	}
	var deletes []string
	for _, l := range w.targetLog.take() {
		if strings.HasPrefix(l, "DELETE ") {
			deletes = append(deletes, l)
		}
	}
	if len(deletes) != 3 || !strings.Contains(deletes[0], "/deployments/") {
		t.Errorf("deletes: %v", deletes)
	}
	if diff := cmp.Diff([]string{"ConfigMap/one"}, names(w.record().Entries())); diff != "" {
		t.Error(diff)
	}
	w.targetLog.take()
	w.hubLog.take()
	if w.prune(stays); len(w.targetLog.take()) != 0 || writes(w.hubLog.take()) != 0 {
		t.Error("a prune of nothing makes requests")
	}
}

func TestEveryDeleteNamesTheUIDAndTheBackground(t *testing.T) {
	w := newWorld(t)
	o := w.configMap("cfg", nil)
	w.applied(o)
	uid := string(w.live(o).GetUID())
	var body string
	w.targetLog.intercept(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodDelete {
			body = w.targetLog.bodies[len(w.targetLog.bodies)-1]
		}
		return nil, nil
	})
	w.delete()
	if !strings.Contains(body, `"propagationPolicy":"Background"`) || !strings.Contains(body, `"uid":"`+uid+`"`) {
		t.Errorf("body %s", body)
	}
}

func TestAnObjectThatMovedToAnotherVersionIsNotPruned(t *testing.T) {
	w := newWorld(t)
	v1 := w.fromYAML(`{apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler, metadata: {name: web, namespace: $NS}, spec: {maxReplicas: 5, targetCPUUtilizationPercentage: 80, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}}`)
	v2 := w.fromYAML(`{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: web, namespace: $NS}, spec: {maxReplicas: 5, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}}]}}`)
	w.applied(v1)
	uid := w.live(v1).GetUID()
	w.applied(v2)
	w.prune(v2)
	if live := w.live(v2); live == nil || live.GetUID() != uid {
		t.Errorf("it is not the same object any more: %v", live)
	}
	if e := w.record().Entries(); len(e) != 1 || e[0].Version != "v2" {
		t.Errorf("entries %v", e)
	}
}

func TestAnObjectThatMovedToAnotherGroupIsForgottenUnderItsOldOneAndNotDeleted(t *testing.T) {
	w := newWorld(t)
	event := func(apiVersion string) *unstructured.Unstructured {
		o := object(apiVersion, "Event", w.ns, "e")
		if apiVersion == "v1" {
			o.Object["involvedObject"] = map[string]any{"namespace": w.ns, "name": "x"}
			return o
		}
		o.Object["regarding"] = map[string]any{"namespace": w.ns, "name": "x"}
		o.Object["eventTime"] = "2024-01-01T00:00:00.000000Z"
		o.Object["reportingController"], o.Object["reportingInstance"] = "c", "i"
		o.Object["action"], o.Object["reason"], o.Object["type"] = "a", "r", "Normal"
		return o
	}
	w.applied(event("events.k8s.io/v1"))
	live := w.live(event("events.k8s.io/v1"))
	for _, uid := range []string{string(live.GetUID()), ""} {
		// The Release had it as a core Event before, confirmed or not, and now has both identities of one object.
		before := v1alpha1.InventoryEntry{Version: "v1", Kind: "Event", Namespace: w.ns, Name: "e", UID: uid}
		w.check(w.ledger.Announce(w.ctx, w.record(), []v1alpha1.InventoryEntry{before}))
		w.prune(event("events.k8s.io/v1"))
		if w.live(event("v1")) == nil {
			t.Fatal("it was deleted")
		}
		if e := w.record().Entries(); len(e) != 1 || e[0].Group != "events.k8s.io" {
			t.Errorf("entries %v", e)
		}
	}
}

func TestWhatIsNotMarkedAsTheReleasesIsLeftAndForgotten(t *testing.T) {
	tests := map[string]string{
		"the mark was taken off":      `{"metadata":{"labels":{"convoy.kumodo.io/owner":null}}}`,
		"another Release took it":     `{"metadata":{"labels":{"convoy.kumodo.io/owner":"somebody"}}}`,
		"it is protected from prunes": `{"metadata":{"annotations":{"convoy.kumodo.io/prune":"disabled"}}}`,
	}
	for name, patch := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			o := w.configMap("cfg", nil)
			w.applied(o)
			w.patch(o, patch)
			out := w.prune()
			if len(out.Left) != 1 || out.Removed != 0 || w.live(o) == nil {
				t.Errorf("got %+v", out)
			}
			if w.live(o).GetLabels()[v1alpha1.LabelOwner] == w.owner.Key() {
				t.Error("it is still marked, and would be a conflict for the next Release")
			}
			if w.record().Len() != 0 {
				t.Error("it is still recorded")
			}
		})
	}
}

func TestAnObjectThatSomebodyMadeAnewUnderTheSameNameIsLeft(t *testing.T) {
	w := newWorld(t)
	o := w.configMap("cfg", nil)
	w.applied(o)
	w.remove(o)
	w.create(o)
	if out := w.delete(); len(out.Left) != 1 || w.live(o) == nil {
		t.Errorf("got %+v", out)
	}
}

func TestAnObjectThatIsMadeAnewBetweenTheLookAndTheDeleteIsLeft(t *testing.T) {
	w := newWorld(t)
	o := w.configMap("cfg", nil)
	w.applied(o)
	done := false
	w.targetLog.intercept(onPath("DELETE", "/configmaps/cfg", func() {
		if !done {
			done = true
			w.remove(o)
			w.create(o)
		}
	}))
	if out := w.delete(); len(out.Left) != 1 || w.live(o) == nil {
		t.Errorf("got %+v", out)
	}
}

func TestAnEmptyRenderPrunesNothingUnlessItIsAllowed(t *testing.T) {
	w := newWorld(t)
	o := w.configMap("cfg", nil)
	w.applied(o)
	_, err := Prune(w.ctx, w.target, w.ledger, PruneRequest{Owner: w.owner, Record: w.record()})
	if f, ok := failure.As(err); !ok || f.Reason != v1alpha1.ReasonEmptyRender || !f.Terminal {
		t.Errorf("got %v", err)
	}
	if w.live(o) == nil {
		t.Fatal("it was pruned")
	}
	if out := w.prune(); out.Removed != 1 || w.live(o) != nil {
		t.Errorf("allowed: %+v", out)
	}
}

func TestAnUnknownKindInTheRenderKeepsWhatHasItsNameFromBeingPruned(t *testing.T) {
	w := newWorld(t)
	gadget := v1alpha1.InventoryEntry{Group: "nobody.example.test", Version: "v1", Kind: "Gadget", Namespace: "somewhere", Name: "g"}
	w.check(w.ledger.Announce(w.ctx, w.record(), []v1alpha1.InventoryEntry{gadget, entry("gone")}))
	// Nobody knows whether a Gadget has a namespace, so this one may be the recorded one.
	rendered := object("nobody.example.test/v1", "Gadget", "", "g")
	if set := w.apply(rendered); set.ToPrune != 1 {
		t.Errorf("ToPrune is %d", set.ToPrune)
	}
	w.prune(rendered)
	if diff := cmp.Diff([]string{"Gadget/g"}, names(w.record().Entries())); diff != "" {
		t.Error(diff)
	}
}

func TestAPruneWaitsForFinalizersAndNamesThem(t *testing.T) {
	w := newWorld(t)
	o := w.configMap("cfg", nil)
	w.applied(o)
	w.patch(o, `{"metadata":{"finalizers":["example.test/hold"]}}`)
	out, err := w.deleteWithin(time.Second)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("err %v", err)
	}
	only(t, out.Waiting, "cfg", "it waits for the finalizer example.test/hold", false)
	if w.record().Len() != 1 {
		t.Error("it was forgotten before it was gone")
	}
	w.patch(o, `{"metadata":{"finalizers":null}}`)
	if out := w.delete(); out.Removed != 1 || w.record().Stored() {
		t.Errorf("got %+v", out)
	}
}

func TestKeptWorkloadsLoseTheirMarksAndCanBeTakenOverByAnybody(t *testing.T) {
	w := newWorld(t)
	objects := w.fourObjects()
	w.applied(objects...)
	dropped := objects[3]
	if out := w.prune(objects[:3]...); out.Removed != 1 || w.live(dropped) != nil {
		t.Errorf("a prune while it lives: %+v", out)
	}
	out, err := Delete(w.ctx, w.target, w.ledger, DeleteRequest{Owner: w.owner, Record: w.record(), KeepWorkloads: true})
	w.check(err)
	if len(out.Left) != 3 || !out.Done() || w.record().Stored() {
		t.Errorf("got %+v", out)
	}
	live := w.live(w.deployment("web"))
	if len(live.GetLabels()) != 0 || live.GetAnnotations()[v1alpha1.AnnotationRelease] != "" {
		t.Errorf("marks are left: %v %v", live.GetLabels(), live.GetAnnotations())
	}
	if slices.ContainsFunc(live.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool { return f.Manager == w.owner.FieldManager() }) {
		t.Error("fields are still claimed")
	}
	changed := w.configMap("one", map[string]string{"a": "2"})
	w.another("second").applied(objects[0], objects[1], changed)
	if got, _, _ := unstructured.NestedString(w.live(changed).Object, "data", "a"); got != "2" {
		t.Errorf("data is %q", got)
	}
}

func TestAnEmptyRecordIsRemovedWithoutAWordToTheTarget(t *testing.T) {
	w := newWorld(t)
	w.applied(w.configMap("cfg", nil))
	w.prune()
	w.targetLog.take()
	if out := w.delete(); !out.Done() || w.record().Stored() || len(w.targetLog.take()) != 0 {
		t.Errorf("got %+v", out)
	}
	never := w.another("never")
	if out := never.delete(); !out.Done() || len(w.targetLog.take()) != 0 {
		t.Errorf("never applied: %+v", out)
	}
}

func TestARefusedDeleteHoldsBackWhatComesAfterIt(t *testing.T) {
	w := newWorld(t)
	w.applied(w.deployment("web"), w.configMap("cfg", nil))
	w.targetLog.intercept(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/deployments/") {
			return reply(r, 403, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"S3NT1NEL"}`), nil
		}
		return nil, nil
	})
	out := w.delete()
	only(t, out.Failed, "web", "the cluster does not let convoy delete it (Forbidden)", true)
	only(t, out.Waiting, "cfg", "it stays until Deployment.apps "+w.ns+"/web is gone", false)
	if w.record().Len() != 2 || w.live(w.configMap("cfg", nil)) == nil {
		t.Error("something was forgotten")
	}
}

func TestAReleaseThatMovedHasARecordForEachClusterUntilTheOldOneIsClean(t *testing.T) {
	w := newWorld(t)
	o := w.configMap("cfg", nil)
	w.applied(o)
	old := w.record()
	moved := *w
	moved.cluster = &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "west", UID: "west-uid"}}
	moved.applied(w.configMap("other", nil))
	records, err := w.ledger.Load(w.ctx, w.release)
	w.check(err)
	if len(records) != 2 || records[0].ClusterName() != "east" || records[1].ClusterName() != "west" {
		t.Fatalf("records %v", records)
	}
	out, err := Delete(w.ctx, w.target, w.ledger, DeleteRequest{Owner: w.owner, Record: old})
	w.check(err)
	if !out.Done() || w.live(o) != nil || w.live(w.configMap("other", nil)) == nil {
		t.Errorf("got %+v", out)
	}
	if records, err = w.ledger.Load(w.ctx, w.release); err != nil || len(records) != 1 {
		t.Errorf("%d records are left, %v", len(records), err)
	}
}
