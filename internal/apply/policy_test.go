package apply

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kumodo.io/convoy/api/v1alpha1"
)

// applyWith is apply with what the sync policy says.
func (w *world) applyWith(change func(*Request), objects ...*unstructured.Unstructured) ChangeSet {
	w.Helper()
	req := w.request(objects...)
	change(&req)
	set, err := Apply(w.ctx, w.target, w.ledger, req)
	w.check(err)
	return set
}

func annotated(o *unstructured.Unstructured, key, value string) *unstructured.Unstructured {
	out := o.DeepCopy()
	out.SetAnnotations(map[string]string{key: value})
	return out
}

func failOnConflict(req *Request) { req.Conflicts = v1alpha1.ConflictFail }

func TestFieldsOfOtherManagersAreReportedWhereThatIsAskedFor(t *testing.T) {
	w := newWorld(t)
	ours := w.configMap("cfg", map[string]string{"a": "ours", "b": "ours"})
	w.applied(ours)
	w.patch(ours, `{"data":{"a":"theirs","b":"theirs"}}`)
	set := w.applyWith(failOnConflict, ours)
	only(t, set.Failed, "cfg", `"somebody" owns .data.a, .data.b: remove them from the source`, true)
	if set.Failed[0].Reason != v1alpha1.ReasonConflict || strings.Contains(set.Failed[0].Message, "theirs") {
		t.Errorf("got %+v", set.Failed[0])
	}
	data, _, _ := unstructured.NestedStringMap(w.live(ours).Object, "data")
	if diff := cmp.Diff(map[string]string{"a": "theirs", "b": "theirs"}, data); diff != "" {
		t.Errorf("it was written: %s", diff)
	}
	w.applied(ours)
	if got, _, _ := unstructured.NestedString(w.live(ours).Object, "data", "a"); got != "ours" {
		t.Errorf("with Force it is %q", got)
	}
}

func TestOfManyConflictsTheFirstFewAreNamedAndTheOthersCounted(t *testing.T) {
	w := newWorld(t)
	ours, theirs := map[string]string{}, []string{}
	for i := range 30 {
		ours[fmt.Sprintf("key%02d", i)] = "ours"
		theirs = append(theirs, fmt.Sprintf(`"key%02d":"theirs"`, i))
	}
	o := w.configMap("cfg", ours)
	w.applied(o)
	w.patch(o, `{"data":{`+strings.Join(theirs, ",")+`}}`)
	only(t, w.applyWith(failOnConflict, o).Failed, "cfg", "; and 25 fields more belong to others: remove them", true)
}

func TestAPathOfAConflictHasNoValueOfAList(t *testing.T) {
	err := conflictOf(metav1.StatusCause{
		Type: metav1.CauseTypeFieldManagerConflict, Message: `conflict with "kubectl-edit" using v1`, Field: `.spec.set[="value"]`,
	})
	if got := foreignFields(err); got != `"kubectl-edit" owns .spec.set[]` {
		t.Error(got)
	}
}

func TestAnotherReleasesObjectIsAConflictWhateverThePolicy(t *testing.T) {
	w := newWorld(t)
	o := annotated(w.configMap("cfg", nil), v1alpha1.AnnotationAdopt, "true")
	w.applied(o)
	for _, policy := range []v1alpha1.ConflictPolicy{v1alpha1.ConflictForce, v1alpha1.ConflictFail} {
		set := w.another("second").applyWith(func(r *Request) { r.Conflicts = policy }, o)
		only(t, set.Failed, "cfg", "it belongs to Release "+w.ns+"/app", true)
	}
}

func TestWhatAnotherToolOwnsIsTakenOnlyWithTheAnnotation(t *testing.T) {
	tests := map[string]struct{ labels, annotations, names string }{
		"Helm": {
			`{app.kubernetes.io/managed-by: Helm}`, `{meta.helm.sh/release-name: pod, meta.helm.sh/release-namespace: web}`,
			"the Helm release web/pod",
		},
		"Flux": {
			`{kustomize.toolkit.fluxcd.io/name: apps, kustomize.toolkit.fluxcd.io/namespace: flux-system}`, `{}`,
			"the Flux Kustomization flux-system/apps",
		},
		"Flux through Helm": {
			`{helm.toolkit.fluxcd.io/name: pod, helm.toolkit.fluxcd.io/namespace: web, app.kubernetes.io/managed-by: Helm}`,
			`{meta.helm.sh/release-name: pod, meta.helm.sh/release-namespace: web}`, "the Flux HelmRelease web/pod",
		},
		"Argo CD":            {`{}`, `{argocd.argoproj.io/tracking-id: "guestbook:/ConfigMap:web/cfg"}`, "the Argo CD application guestbook"},
		"Argo CD by a label": {`{argocd.argoproj.io/instance: guestbook}`, `{}`, "the Argo CD application guestbook"},
		"an ApplySet":        {`{applyset.kubernetes.io/part-of: applyset-1-v1}`, `{}`, "the ApplySet applyset-1-v1"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			theirs := w.fromYAML(fmt.Sprintf(
				"{apiVersion: v1, kind: ConfigMap, metadata: {name: cfg, namespace: $NS, labels: %s, annotations: %s}, data: {a: same}}", tc.labels, tc.annotations))
			before := w.create(theirs)
			ours := w.configMap("cfg", map[string]string{"a": "same"}) // nothing that the server would call a conflict
			set := w.apply(ours)
			only(t, set.Failed, "cfg", "it belongs to "+tc.names+`: remove it there, or set the annotation convoy.kumodo.io/adopt: "true"`, true)
			if diff := cmp.Diff(before.Object, w.live(ours).Object); diff != "" || set.Failed[0].Reason != v1alpha1.ReasonConflict {
				t.Errorf("reason %s, written: %s", set.Failed[0].Reason, diff)
			}
			w.applied(annotated(ours, v1alpha1.AnnotationAdopt, "true"))
			w.applied(ours) // once it is the Release's, the annotation is not needed any more
			if w.live(ours).GetLabels()[v1alpha1.LabelOwner] != w.owner.Key() {
				t.Error("it was not taken over")
			}
		})
	}
}

func TestWhatTheSourceItselfMarksAsAnothersIsConvoysOnceItWasMade(t *testing.T) {
	w := newWorld(t)
	o := annotated(w.configMap("cfg", nil), "argocd.argoproj.io/tracking-id", "guestbook:/ConfigMap:web/cfg")
	w.applied(o)
	w.targetLog.take()
	w.applied(o)
	if lines := w.targetLog.take(); len(lines) != 1 {
		t.Errorf("a repetition asks %v", lines)
	}
	// As if the worker had died before it noted what it had applied.
	set, err := Apply(w.ctx, w.target, w.ledger, Request{
		Owner: w.owner, Objects: []*unstructured.Unstructured{o}, Record: NewRecord(w.another("copy").release, w.cluster),
	})
	w.check(err)
	if len(set.Failed) > 0 {
		t.Errorf("failed: %v", set.Failed)
	}
}

func TestAnObjectThatAnotherToolMadeAnewIsNoticed(t *testing.T) {
	w := newWorld(t)
	ours := w.configMap("cfg", map[string]string{"a": "1"})
	w.applied(ours)
	w.remove(ours)
	w.create(annotated(ours, "argocd.argoproj.io/tracking-id", "guestbook:/ConfigMap:web/cfg"))
	only(t, w.apply(ours).Failed, "cfg", "it belongs to the Argo CD application guestbook", true)
	w.remove(ours)
	w.applied(ours)
	if w.live(ours) == nil {
		t.Error("it was not created anew")
	}
}

func TestAnnotationsThatMeanNothingAreErrorsThatNameThem(t *testing.T) {
	w := newWorld(t)
	good := w.configMap("good", nil)
	w.applied(good)
	for annotation, want := range map[string]string{
		v1alpha1.AnnotationSSA: "Merge, IfNotPresent or Ignore", v1alpha1.AnnotationRecreate: "true or false", v1alpha1.AnnotationAdopt: "true or false",
	} {
		set := w.apply(annotated(good, annotation, "ignore"), w.configMap("other", nil))
		only(t, set.Failed, "good", fmt.Sprintf("its annotation %s is \"ignore\": make it %s", annotation, want), true)
		if set.ToPrune != 0 {
			t.Error("what is misspelt would be pruned")
		}
	}
}

func TestWhatIsToBeCreatedOnceIsLeftAloneAfterwards(t *testing.T) {
	w := newWorld(t)
	seed := annotated(w.configMap("seed", map[string]string{"a": "first"}), v1alpha1.AnnotationSSA, "IfNotPresent")
	w.applied(seed)
	w.patch(seed, `{"data":{"a":"theirs"}}`)
	w.targetLog.take()
	w.applied(annotated(w.configMap("seed", map[string]string{"a": "second"}), v1alpha1.AnnotationSSA, "IfNotPresent"))
	if lines := w.targetLog.take(); writes(lines) != 0 || len(lines) != 1 {
		t.Errorf("requests: %v", lines)
	}
	if got, _, _ := unstructured.NestedString(w.live(seed).Object, "data", "a"); got != "theirs" {
		t.Errorf("it holds %q", got)
	}
	w.remove(seed)
	w.applied(seed)
	if got, _, _ := unstructured.NestedString(w.live(seed).Object, "data", "a"); got != "first" {
		t.Errorf("made anew it holds %q", got)
	}
	if out := w.prune(); out.Removed != 1 || w.live(seed) != nil {
		t.Errorf("the prune: %+v", out)
	}
}

func TestWhatIsThereAlreadyAndIsToBeCreatedOnceIsNeitherTakenNorDeleted(t *testing.T) {
	w := newWorld(t)
	before := w.create(w.configMap("seed", map[string]string{"a": "theirs"}))
	seed := annotated(w.configMap("seed", map[string]string{"a": "ours"}), v1alpha1.AnnotationSSA, "IfNotPresent")
	for range 2 {
		if set := w.applied(seed); set.Applied != 1 {
			t.Errorf("got %+v", set)
		}
	}
	if out := w.delete(); !out.Done() || len(out.Left) != 1 {
		t.Errorf("the deletion: %+v", out)
	}
	if diff := cmp.Diff(before.Object, w.live(seed).Object); diff != "" {
		t.Errorf("it was written: %s", diff)
	}
}

func TestWhatIsIgnoredIsNeitherWrittenNorRecorded(t *testing.T) {
	w := newWorld(t)
	ignored := annotated(w.configMap("ignored", nil), v1alpha1.AnnotationSSA, "Ignore")
	unknown := annotated(object("nobody.example.test/v1", "Thing", w.ns, "x"), v1alpha1.AnnotationSSA, "Ignore")
	set := w.applied(ignored, unknown, w.configMap("cfg", nil))
	if set.Applied != 1 || w.live(ignored) != nil {
		t.Errorf("got %+v", set)
	}
	if diff := cmp.Diff([]string{"ConfigMap/cfg"}, names(w.record().Entries())); diff != "" {
		t.Error(diff)
	}
}

func TestWhatWasAppliedAndIsIgnoredNowIsGivenUpAndStays(t *testing.T) {
	w := newWorld(t)
	cfg := w.configMap("cfg", map[string]string{"a": "1"})
	w.applied(cfg)
	ignored := annotated(cfg, v1alpha1.AnnotationSSA, "Ignore")
	if set := w.applied(ignored); set.ToPrune != 1 {
		t.Errorf("got %+v", set)
	}
	out := w.prune(ignored)
	if live := w.live(cfg); len(out.Left) != 1 || live == nil || live.GetLabels()[v1alpha1.LabelOwner] != "" {
		t.Errorf("got %+v, object %v", out, w.live(cfg))
	}
	if set := w.applied(ignored); set.ToPrune != 0 || w.record().Len() != 0 {
		t.Errorf("afterwards: %+v, %d entries", set, w.record().Len())
	}
}

func TestADefinitionThatIsIgnoredDefinesNothing(t *testing.T) {
	w := newWorld(t)
	set := w.apply(annotated(w.definition("v1"), v1alpha1.AnnotationSSA, "Ignore"), w.widget("v1", "w"))
	only(t, set.Failed, "w", "is not served by the cluster", true)
}
