package apply

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kumodo.io/convoy/api/v1alpha1"
)

func (w *world) preview(objects ...*unstructured.Unstructured) Preview {
	w.Helper()
	out, err := DryRun(w.ctx, w.target, w.request(objects...))
	w.check(err)
	return out
}

// changed sums a preview up: + is new, ~ changes, = stays, - would be pruned.
func changed(p Preview) []string {
	var out []string
	for _, c := range p.Changes {
		mark := "~"
		switch {
		case c.Next == nil:
			mark = "-"
		case c.Live == nil:
			mark = "+"
		case equality.Semantic.DeepEqual(unmanaged(c.Live), unmanaged(c.Next)):
			mark = "="
		}
		out = append(out, mark+c.Ref.Name)
	}
	return out
}

// unmanaged is an object without the times at which it was written.
func unmanaged(o *unstructured.Unstructured) *unstructured.Unstructured {
	o = o.DeepCopy()
	o.SetManagedFields(nil)
	return o
}

func TestADryRunSaysWhatAnApplyAndAPruneWouldDoAndDoesNothing(t *testing.T) {
	w := newWorld(t)
	text := func(name, value string) *unstructured.Unstructured {
		o := object("v1", "ConfigMap", "", name)
		o.Object["data"] = map[string]any{"text": value}
		return o
	}
	spared := text("spared", "x")
	spared.SetAnnotations(map[string]string{v1alpha1.AnnotationPrune: "disabled"})
	w.applied(text("stays", "x"), text("changes", "x"), text("leaves", "x"), spared)
	w.hubLog.take()
	w.targetLog.take()
	p := w.preview(text("stays", "x"), text("changes", "y"), text("new", "x"))
	if got, want := changed(p), []string{"=stays", "~changes", "+new", "-leaves"}; !slices.Equal(got, want) || len(p.Failed) > 0 {
		t.Errorf("got %v and %v, want %v", got, p.Failed, want)
	}
	if value, _, _ := unstructured.NestedString(p.Changes[1].Next.Object, "data", "text"); value != "y" {
		t.Errorf("changes would become %v", p.Changes[1].Next.Object)
	}
	if n := writes(w.hubLog.take()); n != 0 {
		t.Errorf("%d writes to the hub", n)
	}
	for _, name := range []string{"stays", "leaves", "spared"} {
		o := text(name, "")
		o.SetNamespace(w.ns)
		if w.live(o) == nil {
			t.Errorf("%s is gone", name)
		}
	}
	added, kept := text("new", ""), text("changes", "")
	added.SetNamespace(w.ns)
	kept.SetNamespace(w.ns)
	if w.live(added) != nil {
		t.Error("new is there")
	}
	if value, _, _ := unstructured.NestedString(w.live(kept).Object, "data", "text"); value != "x" {
		t.Errorf("changes has become %q", value)
	}
}

func TestADryRunNamesWhatWouldBeRefusedAndWhatCannotBeTried(t *testing.T) {
	w := newWorld(t)
	other := w.another("other")
	shared := object("v1", "ConfigMap", "", "shared")
	other.applied(shared)
	taken := object("v1", "ConfigMap", "", "foreign")
	taken.SetNamespace(w.ns)
	taken.Object["data"] = map[string]any{"text": "of somebody"}
	w.create(taken)
	wish := object("v1", "ConfigMap", "", "foreign")
	wish.Object["data"] = map[string]any{"text": "ours"}
	unfit := object("v1", "ConfigMap", "", "unfit")
	unfit.Object["data"] = map[string]any{"number": int64(1)}
	ns := w.ns + "-new"
	later := object("v1", "ConfigMap", ns, "later")
	p := w.preview(shared, wish, unfit, object("example.test/v1", "Nothing", "", "unknown"), object("v1", "Namespace", "", ns), later)
	if got, want := changed(p), []string{"~foreign", "+" + ns, "+later"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if len(p.Guessed) != 1 || p.Guessed[0].Name != "later" {
		t.Errorf("guessed %v", p.Guessed)
	}
	messages := map[string]string{
		"shared": "it belongs to Release " + w.ns + "/other", "unfit": "", "unknown": "is not served by the cluster",
	}
	for _, failed := range p.Failed {
		want, known := messages[failed.Ref.Name]
		if !known || !failed.Terminal || !strings.Contains(failed.Message, want) {
			t.Errorf("refused %s", failed)
		}
		delete(messages, failed.Ref.Name)
	}
	if len(messages) > 0 {
		t.Errorf("not refused: %v", messages)
	}
}
