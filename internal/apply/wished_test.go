package apply

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestStringDataIsTakenBackFromOthersAndForgottenWhenItLeavesTheRender(t *testing.T) {
	w := newWorld(t)
	secret := object("v1", "Secret", w.ns, "plain")
	secret.Object["stringData"] = map[string]any{"a": "1", "b": "2"}
	secret.Object["data"] = map[string]any{"a": "MA==", "c": "Mw=="}
	w.applied(secret)
	holds := func(want map[string]any) {
		t.Helper()
		got, _, _ := unstructured.NestedMap(w.live(secret).Object, "data")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("data (-want +got):\n%s", diff)
		}
	}
	holds(map[string]any{"a": "MQ==", "b": "Mg==", "c": "Mw=="})
	w.patch(secret, `{"stringData":{"b":"of somebody"}}`)
	w.applied(secret)
	holds(map[string]any{"a": "MQ==", "b": "Mg==", "c": "Mw=="})
	secret.Object["stringData"] = map[string]any{"a": "1"}
	w.applied(secret)
	holds(map[string]any{"a": "MQ==", "c": "Mw=="})
	if _, changed := secret.Object["stringData"]; !changed {
		t.Error("the render was changed")
	}
}

func TestWhatIsWishedOfAnObjectIsWhatAnApplySends(t *testing.T) {
	owner := newWorld(t).owner
	annotated := func(ssa string) *unstructured.Unstructured {
		o := object("v1", "ConfigMap", "", "a")
		if ssa != "" {
			o.SetAnnotations(map[string]string{"convoy.kumodo.io/ssa": ssa})
		}
		return o
	}
	for ssa, want := range map[string][2]bool{"": {true, true}, "Merge": {true, true}, "IfNotPresent": {true, false}, "Ignore": {}, "Misspelt": {}} {
		applied, presence, all := Wished(annotated(ssa), "shop", owner)
		if got := [2]bool{presence, all}; got != want {
			t.Errorf("%q: %v, want %v", ssa, got, want)
		}
		if presence && (applied.GetNamespace() != "shop" || applied.GetLabels()["convoy.kumodo.io/owner"] != owner.Key()) {
			t.Errorf("%q: it is %v", ssa, applied.Object)
		}
	}
}
