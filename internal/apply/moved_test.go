package apply

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"

	"kumodo.io/convoy/api/v1alpha1"
)

// moved is the world as the Release sees it through another Cluster, which leads to the same target without anybody
// knowing.
func (w *world) moved() *world {
	out := *w
	out.cluster = &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "west", Namespace: w.ns, UID: types.UID(rand.String(12))}}
	return &out
}

func (w *world) clean(stays *Record, keepWorkloads bool) Removal {
	w.Helper()
	out, err := Delete(w.ctx, w.target, w.ledger, DeleteRequest{
		Owner: w.owner, Record: w.record(), Staying: []*Record{stays}, KeepWorkloads: keepWorkloads,
	})
	w.check(err)
	return out
}

func TestWhatTheReleaseHasByAnotherWayToTheSameTargetIsNotCleaned(t *testing.T) {
	for name, keep := range map[string]bool{"objects are deleted": false, "objects are kept": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			both, former := w.configMap("both", nil), w.configMap("former", nil)
			w.applied(both, former)
			elsewhere := w.moved()
			elsewhere.applied(both)
			out := w.clean(elsewhere.record(), keep)
			if !out.Done() || w.record().Stored() {
				t.Errorf("got %+v, record %v", out, w.record().Entries())
			}
			if live := w.live(both); live == nil || live.GetLabels()[v1alpha1.LabelOwner] != w.owner.Key() {
				t.Errorf("what is used elsewhere is %v", live)
			}
			if live := w.live(former); (live != nil) != keep {
				t.Errorf("what is not is %v", live)
			}
			if left := elsewhere.record(); left.Len() != 1 {
				t.Errorf("the other record holds %v", left.Entries())
			}
		})
	}
}

func TestANamespaceStaysWhileItHoldsWhatTheReleaseHasByAnotherWay(t *testing.T) {
	w := newWorld(t)
	home := object("v1", "Namespace", "", w.ns+"-home")
	inside := object("v1", "ConfigMap", home.GetName(), "inside")
	w.applied(home, inside)
	elsewhere := w.moved()
	elsewhere.applied(inside)
	only(t, w.clean(elsewhere.record(), false).Survivors, home.GetName(), "it still holds ConfigMap "+home.GetName()+"/inside", false)
	for _, o := range []*unstructured.Unstructured{home, inside} {
		if live := w.live(o); live == nil || live.GetDeletionTimestamp() != nil {
			t.Errorf("%s %s is %v", o.GetKind(), o.GetName(), live)
		}
	}
}
