package apply

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kumodo.io/convoy/api/v1alpha1"
)

// finalize does what the namespace controller would do with a namespace that is being deleted.
func (w *world) finalize(namespace *unstructured.Unstructured) {
	w.eventually("the namespace is being deleted", func() bool {
		live := w.live(namespace)
		return live == nil || live.GetDeletionTimestamp() != nil
	})
	live := w.live(namespace)
	if live == nil {
		return
	}
	unstructured.RemoveNestedField(live.Object, "spec", "finalizers")
	_, err := w.client(live).Update(w.ctx, live, metav1.UpdateOptions{}, "finalize")
	w.check(err)
}

func TestCustomResourcesAreGoneBeforeTheirOperatorAndTheirDefinition(t *testing.T) {
	w := newWorld(t)
	home := object("v1", "Namespace", "", w.ns+"-home")
	crd, widget, operator := w.definition("v1"), w.widget("v1", "w"), w.deployment("op")
	widget.SetNamespace(home.GetName())
	operator.SetNamespace(home.GetName())
	w.applied(crd, widget, operator, home)
	w.patch(widget, `{"metadata":{"finalizers":["example.test/op"]}}`)
	operate := func() { // an operator: it lets the resource go while it runs
		w.eventually("the widget is being deleted", func() bool { return w.live(widget).GetDeletionTimestamp() != nil })
		if w.live(operator) == nil || w.live(crd).GetDeletionTimestamp() != nil || w.live(home).GetDeletionTimestamp() != nil {
			t.Error("something else went first")
		}
		w.patch(widget, `{"metadata":{"finalizers":null}}`)
		w.finalize(home)
	}
	done := make(chan struct{})
	go func() { defer close(done); operate() }()
	out := w.delete()
	<-done
	if out.Removed != 4 || !out.Done() || w.record().Stored() {
		t.Errorf("got %+v", out)
	}
}

func TestANamespaceThatHoldsSomethingElseSurvivesAndIsNamed(t *testing.T) {
	w := newWorld(t)
	home := object("v1", "Namespace", "", w.ns+"-home")
	ours, theirs := object("v1", "ConfigMap", home.GetName(), "ours"), object("v1", "Secret", home.GetName(), "theirs")
	w.applied(home, ours)
	w.create(theirs)
	out := w.delete()
	only(t, out.Survivors, home.GetName(), "it still holds Secret "+home.GetName()+"/theirs", false)
	if w.live(home).GetDeletionTimestamp() != nil || out.Removed != 1 {
		t.Errorf("got %+v", out)
	}
	if diff := cmp.Diff([]string{"Namespace/" + home.GetName()}, names(w.record().Entries())); diff != "" {
		t.Error(diff)
	}
	w.remove(theirs)
	go w.finalize(home)
	if out := w.delete(); !out.Done() || w.live(home) != nil {
		t.Errorf("once empty: %+v", out)
	}
}

func TestANamespaceThatIsToBeSparedStaysWithoutMarksWhenItHoldsSomethingElse(t *testing.T) {
	w := newWorld(t)
	home := object("v1", "Namespace", "", w.ns+"-home")
	ours, theirs := object("v1", "ConfigMap", home.GetName(), "ours"), object("v1", "Secret", home.GetName(), "theirs")
	w.applied(home, ours)
	w.create(theirs)
	out, err := Delete(w.ctx, w.target, w.ledger, DeleteRequest{Owner: w.owner, Record: w.record(), SpareNamespace: home.GetName()})
	w.check(err)
	live := w.live(home)
	if !out.Done() || out.Removed != 1 || len(out.Left) != 1 || live.GetDeletionTimestamp() != nil || live.GetLabels()[v1alpha1.LabelOwner] != "" {
		t.Errorf("got %+v, labels %v", out, live.GetLabels())
	}
	if w.record().Stored() {
		t.Error("the record stays though nothing is left to do")
	}
}

func TestATargetNamespaceThatAnotherReleaseMakesAtTheSameTimeIsUsedAndNotOwned(t *testing.T) {
	w := newWorld(t)
	home := object("v1", "Namespace", "", w.ns+"-home")
	home.SetLabels(map[string]string{v1alpha1.LabelOwner: "another"})
	var once sync.Once
	w.targetLog.intercept(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/namespaces/"+home.GetName()) {
			once.Do(func() { w.create(home) })
		}
		return nil, nil
	})
	req := w.request(object("v1", "ConfigMap", "", "cfg"))
	req.TargetNamespace, req.CreateNamespace = home.GetName(), true
	set, err := Apply(w.ctx, w.target, w.ledger, req)
	w.check(err)
	if len(set.Failed) > 0 || set.Applied != 1 || w.live(home).GetLabels()[v1alpha1.LabelOwner] != "another" {
		t.Errorf("got %+v, labels %v", set, w.live(home).GetLabels())
	}
	if out := w.delete(); !out.Done() || w.live(home).GetDeletionTimestamp() != nil {
		t.Errorf("the deletion: %+v", out)
	}
}

func TestWhatAClusterPutsIntoANamespaceByItselfDoesNotKeepIt(t *testing.T) {
	w := newWorld(t)
	home := object("v1", "Namespace", "", w.ns+"-home")
	w.applied(home)
	root := object("v1", "ConfigMap", home.GetName(), "kube-root-ca.crt")
	account := object("v1", "ServiceAccount", home.GetName(), "default")
	event := object("v1", "Event", home.GetName(), "e")
	event.Object["involvedObject"] = map[string]any{"namespace": home.GetName()}
	made := object("v1", "ConfigMap", home.GetName(), "made")
	yes := true
	made.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "1", Controller: &yes}})
	for _, o := range []*unstructured.Unstructured{root, account, event, made} {
		w.create(o)
	}
	go w.finalize(home)
	if out := w.delete(); !out.Done() {
		t.Errorf("got %+v", out)
	}
}

func TestANamespaceThatLeavesTheRenderStaysWhileObjectsOfTheReleaseAreInIt(t *testing.T) {
	w := newWorld(t)
	home, inside := object("v1", "Namespace", "", w.ns+"-home"), object("v1", "ConfigMap", w.ns+"-home", "cfg")
	w.applied(home, inside)
	only(t, w.prune(inside).Survivors, home.GetName(), "it still holds ConfigMap "+home.GetName()+"/cfg", false)
	if w.live(inside) == nil || w.live(home).GetDeletionTimestamp() != nil {
		t.Error("it was deleted")
	}
}

func TestADefinitionWithCustomResourcesOfOthersSurvivesAndIsNamed(t *testing.T) {
	w := newWorld(t)
	crd := w.definition("v1")
	w.applied(crd, w.widget("v1", "ours"))
	w.create(w.widget("v1", "theirs"))
	out := w.delete()
	only(t, out.Survivors, crd.GetName(), "/theirs", false)
	if w.live(w.widget("v1", "ours")) != nil || w.live(crd).GetDeletionTimestamp() != nil {
		t.Error("the wrong one went")
	}
	w.remove(w.widget("v1", "theirs"))
	if out := w.delete(); !out.Done() || w.live(crd) != nil {
		t.Errorf("once empty: %+v", out)
	}
}

func TestCustomResourcesGoWithADefinitionThatSomebodyDeleted(t *testing.T) {
	w := newWorld(t)
	cfg := w.configMap("cfg", nil)
	w.applied(w.definition("v1"), w.widget("v1", "w"), cfg)
	crd := w.definition("v1")
	w.remove(crd)
	w.eventually("the definition is gone", func() bool { return w.live(crd) == nil })
	out := w.delete() // with a connection whose discovery still has the kind
	if out.Removed != 3 || !out.Done() || w.live(cfg) != nil {
		t.Errorf("got %+v", out)
	}
}
