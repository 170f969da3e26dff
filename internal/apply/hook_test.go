package apply

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/failure"
)

// hookJob is a Job that no controller runs.
func (w *world) hookJob(name string) *unstructured.Unstructured {
	w.Helper()
	return w.fromYAML(`{apiVersion: batch/v1, kind: Job, metadata: {name: ` + name + `, namespace: $NS}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: pause}]}}}}`)
}

func (w *world) hookRequest(number string, o *unstructured.Unstructured) HookRequest {
	w.Helper()
	return HookRequest{
		Owner: w.owner, Object: o, Run: string(w.release.UID) + "/" + number + "/migrate", Entry: number + "/migrate", TargetNamespace: w.ns,
		Record: w.record(), Until: time.Now().Add(time.Hour),
		Objects: func(context.Context) ([]*unstructured.Unstructured, error) { return nil, nil },
	}
}

func (w *world) startHook(number string, o *unstructured.Unstructured) *HookObject {
	w.Helper()
	made, err := StartHook(w.ctx, w.target, w.ledger, w.hookRequest(number, o))
	w.check(err)
	return made
}

func (w *world) resumeHook(number string, o *unstructured.Unstructured) *HookObject {
	w.Helper()
	req := w.hookRequest(number, o)
	req.Resumed = true
	made, err := StartHook(w.ctx, w.target, w.ledger, req)
	w.check(err)
	return made
}

func TestARunWhoseTimeIsOverMakesNothingAndFindsWhatItMade(t *testing.T) {
	w := newWorld(t)
	job := w.hookJob("migrate")
	late := func() (*HookObject, error) {
		req := w.hookRequest("1", job)
		req.Resumed, req.Until = true, time.Now()
		return StartHook(w.ctx, w.target, w.ledger, req)
	}
	if _, err := late(); !errors.Is(err, ErrTooLate) || w.live(job) != nil || len(w.record().Entries()) > 0 {
		t.Errorf("%v; it is %v", err, w.live(job))
	}
	w.startHook("1", job)
	if made, err := late(); err != nil || made == nil {
		t.Errorf("what it made in time is not found: %v", err)
	}
}

func TestARunThatWasStoppedIsBegunAnew(t *testing.T) {
	w := newWorld(t)
	job := w.hookJob("migrate")
	w.check(w.startHook("1", job).Remove(w.ctx))
	w.startHook("1", job)
	uid := w.live(job).GetUID()
	w.startHook("1", job) // and it could not be deleted
	if live := w.live(job); live == nil || live.GetUID() == uid {
		t.Errorf("it is %v", live)
	}
}

func TestARunMakesItsObjectOnceAndKeepsItUntilItsResultIsRead(t *testing.T) {
	w := newWorld(t)
	job := w.hookJob("migrate")
	var announced bool
	w.targetLog.intercept(onPath(http.MethodPost, "/jobs", func() { announced = len(w.record().Entries()) == 1 }))
	w.startHook("1", job)
	if !announced {
		t.Error("it was made before the inventory had it")
	}
	live := w.live(job)
	if live.GetLabels()[v1alpha1.LabelOwner] != "" || live.GetLabels()[v1alpha1.LabelHookOwner] != w.owner.Key() ||
		!slices.Contains(live.GetFinalizers(), v1alpha1.HookFinalizer) {
		t.Errorf("its marks are %v, %v", live.GetLabels(), live.GetFinalizers())
	}
	made := w.resumeHook("1", job) // another worker goes on
	if n := count(w.targetLog.take(), http.MethodPost); n != 1 {
		t.Errorf("it was made %d times", n)
	}
	background := metav1.DeletePropagationBackground // a Job's own default waits for a controller
	w.check(w.client(job).Delete(w.ctx, job.GetName(), metav1.DeleteOptions{PropagationPolicy: &background}))
	if got, err := made.Get(w.ctx); err != nil || got == nil {
		t.Fatalf("it went before its result was read: %v, %v", got, err)
	}
	w.check(made.Release(w.ctx))
	w.eventually("it is gone", func() bool { return w.live(job) == nil })
	again := w.resumeHook("1", job)
	if got, err := again.Get(w.ctx); err != nil || got != nil {
		t.Errorf("a run that lost its object made another one: %v, %v", got, err)
	}
}

func TestTheObjectOfTheRunBeforeIsReplacedAlsoUnderAnotherName(t *testing.T) {
	w := newWorld(t)
	first, second := w.hookJob("migrate"), w.hookJob("migrate-2")
	w.startHook("1", first)
	uid := w.live(first).GetUID()
	w.startHook("2", first)
	if live := w.live(first); live == nil || live.GetUID() == uid {
		t.Error("the object of the run before is still there")
	}
	w.startHook("3", second)
	if w.live(first) != nil || w.live(second) == nil {
		t.Error("a name of its own leaves the object of the run before")
	}
	if entries := w.record().Entries(); len(entries) != 1 || entries[0].Hook != "3/migrate" || entries[0].UID == "" {
		t.Errorf("the inventory has %+v", entries)
	}
}

func TestAnObjectThatNoHookMadeIsNotTouched(t *testing.T) {
	w := newWorld(t)
	job := w.hookJob("migrate")
	w.create(job)
	_, err := StartHook(w.ctx, w.target, w.ledger, w.hookRequest("1", job))
	if f, ok := failure.As(err); !ok || !f.Terminal || !strings.Contains(f.Message, "Job.batch "+w.ns+"/migrate: it is there already") {
		t.Errorf("error %v", err)
	}
	if live := w.live(job); live == nil || live.GetDeletionTimestamp() != nil || len(w.record().Entries()) > 0 {
		t.Error("it was touched")
	}
}

func TestWhatIsRefusedForGoodIsAVerdictAndHidesSecrets(t *testing.T) {
	w := newWorld(t)
	bad := w.fromYAML(`{apiVersion: batch/v1, kind: Job, metadata: {name: bad, namespace: $NS}, spec: {template: {spec: {restartPolicy: S3CR3T-value, containers: [{name: main, image: pause}]}}}}`)
	req := w.hookRequest("1", bad)
	req.Objects = func(context.Context) ([]*unstructured.Unstructured, error) {
		return []*unstructured.Unstructured{w.fromYAML(`{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {a: S3CR3T-value}}`)}, nil
	}
	_, err := StartHook(w.ctx, w.target, w.ledger, req)
	if f, ok := failure.As(err); !ok || !f.Terminal || !strings.Contains(f.Message, "restartPolicy") || strings.Contains(f.Message, "S3CR3T") {
		t.Errorf("error %v", err)
	}
	_, err = StartHook(w.ctx, w.target, w.ledger, w.hookRequest("1", w.fromYAML(`{apiVersion: example.com/v1, kind: Widget, metadata: {name: a, namespace: $NS}}`)))
	if f, ok := failure.As(err); !ok || !f.Terminal || !strings.Contains(f.Message, "Widget") {
		t.Errorf("error %v", err)
	}
	w.targetLog.intercept(breaking(http.MethodPost, "/jobs"))
	if _, err = StartHook(w.ctx, w.target, w.ledger, w.hookRequest("1", w.hookJob("migrate"))); !errors.Is(err, errCut) {
		t.Errorf("a target that breaks off is %v", err)
	}
}

func TestTheTargetNamespaceIsMadeForAHookThatRunsBeforeTheApply(t *testing.T) {
	w := newWorld(t)
	job := w.hookJob("migrate")
	job.SetNamespace(w.ns + "-new")
	req := w.hookRequest("1", job)
	req.TargetNamespace = w.ns + "-new"
	_, err := StartHook(w.ctx, w.target, w.ledger, req)
	if f, ok := failure.As(err); !ok || f.Terminal || !strings.Contains(f.Message, "does not exist") {
		t.Fatalf("without createNamespace: %v", err)
	}
	req.Record, req.CreateNamespace = w.record(), true
	_, err = StartHook(w.ctx, w.target, w.ledger, req)
	w.check(err)
	if w.live(job) == nil {
		t.Error("it is not there")
	}
	if diff := len(w.record().Entries()); diff != 2 {
		t.Errorf("the inventory has %v", names(w.record().Entries()))
	}
}

func TestObjectsOfHooksAreNotThoseOfTheRenderAndGoWithTheirHookOrRelease(t *testing.T) {
	w := newWorld(t)
	o, job := w.configMap("cfg", nil), w.hookJob("migrate")
	w.applied(o)
	w.startHook("1", job)
	req := w.request(o)
	req.Hooks = []string{"migrate"}
	set, err := Apply(w.ctx, w.target, w.ledger, req)
	w.check(err)
	if set.ToPrune != 0 {
		t.Errorf("%d objects are to be pruned", set.ToPrune)
	}
	found, err := Rebuild(w.ctx, w.target, w.owner)
	w.check(err)
	if got := names(found.Entries); len(got) != 2 || found.Entries[0].Hook+found.Entries[1].Hook != "1/migrate" {
		t.Errorf("rebuilt: %+v", found.Entries)
	}
	if out := w.prune(o); out.Removed != 1 || w.live(job) != nil { // the hook left the spec
		t.Errorf("got %+v", out)
	}
	w.startHook("2", job)
	out, err := Delete(w.ctx, w.target, w.ledger, DeleteRequest{Owner: w.owner, Record: w.record(), KeepWorkloads: true})
	w.check(err)
	if !out.Done() || w.live(job) != nil || w.live(o) == nil {
		t.Errorf("kept workloads: %+v", out)
	}
}

func TestARunThatIsGivenUpTakesItsObjectWithIt(t *testing.T) {
	w := newWorld(t)
	job := w.hookJob("migrate")
	made := w.startHook("1", job)
	w.check(made.Remove(w.ctx))
	w.eventually("it is gone", func() bool { return w.live(job) == nil })
	w.check(made.Remove(w.ctx))
	found, err := FindHook(w.ctx, w.target, w.record(), "another run", "1/migrate")
	w.check(err)
	w.create(job)
	w.check(found.Remove(w.ctx))
	if live := w.live(job); live == nil || live.GetDeletionTimestamp() != nil {
		t.Error("an object of somebody else was removed")
	}
}
