package apply

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kumodo.io/convoy/api/v1alpha1"
)

func TestAnObjectOfAnotherReleaseIsAConflictThatNamesItAndIsNotWritten(t *testing.T) {
	w := newWorld(t)
	shared := w.configMap("cfg", map[string]string{"a": "1"})
	w.applied(shared)
	before := w.live(shared)
	second := w.another("second")
	w.targetLog.take()
	set := second.apply(shared)
	only(t, set.Failed, "cfg", "it belongs to Release "+w.ns+"/app", true)
	if set.Failed[0].Reason != v1alpha1.ReasonConflict {
		t.Errorf("reason %s", set.Failed[0].Reason)
	}
	if diff := cmp.Diff(before.Object, w.live(shared).Object); diff != "" {
		t.Errorf("it was written: %s", diff)
	}
	if out := second.delete(); !out.Done() || w.live(shared) == nil {
		t.Errorf("deleting the second Release: %+v, object %v", out, w.live(shared))
	}
	if len(second.record().Entries()) != 0 {
		t.Error("the second Release still has entries")
	}
}

func TestAnObjectOfTheSameReleaseOfAnotherHubIsAConflict(t *testing.T) {
	w := newWorld(t)
	w.applied(w.configMap("cfg", nil))
	other := w.another("app")
	other.owner.HubID = "hub-2"
	only(t, other.apply(w.configMap("cfg", nil)).Failed, "cfg", w.ns+"/app of another hub", true)
}

func TestFieldsOfOtherManagersAreTakenOver(t *testing.T) {
	w := newWorld(t)
	o := w.configMap("cfg", map[string]string{"a": "theirs", "b": "theirs"})
	w.create(o)
	w.applied(w.configMap("cfg", map[string]string{"a": "ours"}))
	data, _, _ := unstructured.NestedStringMap(w.live(o).Object, "data")
	if diff := cmp.Diff(map[string]string{"a": "ours", "b": "theirs"}, data); diff != "" {
		t.Error(diff)
	}
}

func TestAnObjectThatClientSideApplyMadeIsAdoptedWithAllItsFields(t *testing.T) {
	w := newWorld(t)
	o := w.configMap("cfg", map[string]string{"a": "1", "b": "2", "c": "3"})
	o.SetAnnotations(map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}"})
	_, err := w.client(o).Create(w.ctx, o, metav1.CreateOptions{FieldManager: clientSideManager})
	w.check(err)
	w.patch(o, `{"data":{"d":"somebody"}}`)
	w.applied(w.configMap("cfg", map[string]string{"a": "1", "b": "2"}))
	w.applied(w.configMap("cfg", map[string]string{"a": "1"}))
	data, _, _ := unstructured.NestedStringMap(w.live(o).Object, "data")
	if diff := cmp.Diff(map[string]string{"a": "1", "d": "somebody"}, data); diff != "" {
		t.Error(diff)
	}
	w.targetLog.take()
	w.applied(w.configMap("cfg", map[string]string{"a": "1"}))
	if lines := w.targetLog.take(); len(lines) != 1 {
		t.Errorf("after the adoption: %v", lines)
	}
}

func TestAUserCannotSmuggleAnObjectOfAnotherReleaseInByALabel(t *testing.T) {
	w := newWorld(t)
	o := w.configMap("cfg", nil)
	o.SetLabels(map[string]string{v1alpha1.LabelOwner: "0123"})
	o.SetAnnotations(map[string]string{v1alpha1.AnnotationRelease: "kube-system/other"})
	w.applied(o)
	live := w.live(o)
	if live.GetLabels()[v1alpha1.LabelOwner] != w.owner.Key() || live.GetAnnotations()[v1alpha1.AnnotationRelease] != w.owner.String() {
		t.Errorf("%v %v", live.GetLabels(), live.GetAnnotations())
	}
}

func TestATakeOverHoldsOnlyForTheObjectThatWasRead(t *testing.T) {
	w := newWorld(t)
	o := w.configMap("cfg", map[string]string{"a": "theirs"})
	w.create(o)
	rival := w.another("rival")
	rival.connect()
	// The first look sees no owner. Before the forced patch arrives, the rival takes the object.
	forced := 0
	w.targetLog.intercept(onPath("PATCH", "/configmaps/cfg", func() {
		if forced++; forced == 2 {
			rival.applied(w.configMap("cfg", map[string]string{"a": "rival"}))
		}
	}))
	only(t, w.apply(w.configMap("cfg", map[string]string{"a": "ours"})).Failed, "cfg", "it belongs to Release "+w.ns+"/rival", true)
	if got, _, _ := unstructured.NestedString(w.live(o).Object, "data", "a"); got != "rival" {
		t.Errorf("data is %q", got)
	}
}
