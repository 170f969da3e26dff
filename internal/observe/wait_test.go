package observe

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

func refs(findings []Finding) []string {
	var out []string
	for _, f := range findings {
		out = append(out, f.Ref.Name)
	}
	return out
}

func TestAWaitEndsWhenAllAreHealthyAndLooksOnlyAtThoseThatAreNot(t *testing.T) {
	w := newWorld(t)
	entries := []v1alpha1.InventoryEntry{w.deployment("a"), w.deployment("b")}
	w.status("a", available)
	rounds := 0
	var last []Finding
	result, err := Wait(w.ctx, w.target, entries, nil, nil, func(now Result) {
		if last = now.Open(); now.Healthy == 1 && len(last) == 1 {
			if rounds++; rounds == 3 {
				w.status("b", available)
			}
		}
	})
	w.check(err)
	if diff := cmp.Diff(Result{Healthy: 2}, result); diff != "" {
		t.Error(diff)
	}
	path := "/apis/apps/v1/namespaces/" + w.ns + "/deployments/"
	if a, b := w.log.count(path+"a"), w.log.count(path+"b"); a != 1 || b < 3 {
		t.Errorf("a was read %d times, b %d times", a, b)
	}
	if len(last) > 0 {
		t.Errorf("in the end it waits for %v", last)
	}
}

func TestAWaitEndsAtOnceWhenADeploymentHasGivenUp(t *testing.T) {
	w := newWorld(t)
	entries := []v1alpha1.InventoryEntry{w.deployment("a"), w.deployment("b")}
	w.status("a", givenUp)
	begin := time.Now()
	result, err := Wait(w.ctx, w.target, entries, nil, nil, nil)
	w.check(err)
	if time.Since(begin) > settle { // no second look
		t.Errorf("it took %s", time.Since(begin))
	}
	if diff := cmp.Diff([]string{"a"}, refs(result.Failed)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"b"}, refs(result.Pending)); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(result.Failed[0].String(), "Progress deadline exceeded") {
		t.Error(result.Failed[0])
	}
}

func TestAFailureThatDoesNotLastIsNone(t *testing.T) {
	s := &subject{}
	s.note(Failed, "once", false)
	if s.hasGivenUp() {
		t.Error("a first look is enough")
	}
	s.failedSince = s.failedSince.Add(-settle)
	s.note(Failed, "twice", false)
	if !s.hasGivenUp() {
		t.Error("a failure that lasts does not count")
	}
	s.note(InProgress, "better", false)
	s.note(Failed, "again", false)
	if s.hasGivenUp() {
		t.Error("a failure that passed counts on")
	}
}

func TestAWaitThatRunsOutNamesWhatItWaitedFor(t *testing.T) {
	w := newWorld(t)
	missing := v1alpha1.InventoryEntry{Version: "v1", Kind: "ConfigMap", Namespace: w.ns, Name: "missing"}
	nobody := v1alpha1.InventoryEntry{Group: "nobody.example.test", Version: "v1", Kind: "Gadget", Name: "g"}
	ctx, cancel := context.WithTimeout(w.ctx, time.Second)
	defer cancel()
	begin := time.Now()
	result, err := Wait(ctx, w.target, []v1alpha1.InventoryEntry{w.deployment("a"), missing, nobody}, nil, nil, nil)
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) > 5*time.Second {
		t.Errorf("err %v after %s", err, time.Since(begin))
	}
	want := []string{
		"ConfigMap " + w.ns + "/missing: it is not on the cluster",
		"Deployment.apps " + w.ns + "/a: Replicas: 0/1",
		"Gadget.nobody.example.test g: its kind is not served by the cluster",
	}
	var got []string
	for _, f := range result.Pending {
		got = append(got, f.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAWaitRecoversWhenTheKindIsInstalledMeanwhile(t *testing.T) {
	w := newWorld(t)
	group := w.ns + ".example.test"
	crd := fromYAML(t, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.`+group+`}
spec:
  group: `+group+`
  scope: Cluster
  names: {kind: Gadget, plural: gadgets}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`)
	gadget := fromYAML(t, `{apiVersion: `+group+`/v1, kind: Gadget, metadata: {name: g}}`)
	crds := w.admin.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	t.Cleanup(func() { _ = crds.Delete(context.Background(), crd.GetName(), metav1.DeleteOptions{}) })
	rounds := 0
	result, err := Wait(w.ctx, w.target, []v1alpha1.InventoryEntry{{Group: group, Version: "v1", Kind: "Gadget", Name: "g"}}, nil, nil,
		func(Result) {
			if rounds++; rounds == 2 {
				_, err := crds.Create(w.ctx, crd, metav1.CreateOptions{})
				w.check(err)
			}
			if rounds > 2 {
				_, _ = w.admin.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "gadgets"}).
					Create(w.ctx, gadget, metav1.CreateOptions{})
			}
		})
	w.check(err)
	if result.Healthy != 1 {
		t.Errorf("got %+v", result)
	}
}

func TestATargetThatDoesNotAnswerIsAnErrorAndNoVerdict(t *testing.T) {
	w := newWorld(t)
	entries := []v1alpha1.InventoryEntry{w.deployment("a")}
	broken := errors.New("connection reset by peer")
	_, err := w.target.Mapper.RESTMapping(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "v1")
	w.check(err)
	w.log.answer = func(*http.Request) (*http.Response, error) { return nil, broken }
	result, err := Wait(w.ctx, w.target, entries, nil, nil, nil)
	if !errors.Is(err, broken) || len(result.Failed) != 0 || len(result.Pending) != 1 {
		t.Errorf("got %+v, %v", result, err)
	}
}

func TestAWaitForNothingMakesNoRequest(t *testing.T) {
	w := newWorld(t)
	result, err := Wait(w.ctx, w.target, nil, nil, nil, nil)
	if err != nil || result.Healthy != 0 || len(w.log.paths) != 0 {
		t.Errorf("got %+v, %v, %v", result, err, w.log.paths)
	}
}

func TestAWaitGoesByTheChecks(t *testing.T) {
	w := newWorld(t)
	checks := compiled(t, v1alpha1.HealthCheck{
		Kind: "Deployment", Name: "checked", Current: "object.status.conditions.exists(c, c.type == 'Warm' && c.status == 'True')",
		Failed: "object.status.conditions.exists(c, c.type == 'Cold')", Message: "'it wants to be warm'",
	})
	entries := []v1alpha1.InventoryEntry{w.deployment("checked"), w.deployment("plain")}
	w.status("checked", available)
	w.status("plain", available)
	short, cancel := context.WithTimeout(w.ctx, 2*time.Second)
	defer cancel()
	result, err := Wait(short, w.target, entries, checks, nil, nil)
	if !errors.Is(err, context.DeadlineExceeded) || result.Healthy != 1 || len(result.Pending) != 1 || result.Pending[0].Message != "it wants to be warm" {
		t.Errorf("%+v, %v", result, err)
	}
	w.status("checked", `{"conditions":[{"type":"Warm","status":"True"}]}`)
	if result, err := Wait(w.ctx, w.target, entries, checks, nil, nil); err != nil || result.Healthy != 2 {
		t.Errorf("%+v, %v", result, err)
	}
	w.status("checked", `{"conditions":[{"type":"Warm","status":"True"},{"type":"Cold","status":"False"}]}`)
	if result, err := Wait(w.ctx, w.target, entries, checks, nil, nil); err != nil || len(result.Failed) != 1 {
		t.Errorf("%+v, %v", result, err)
	}
}

func TestAJobThatExpiredHasDoneItsWork(t *testing.T) {
	w := newWorld(t)
	entry := v1alpha1.InventoryEntry{Group: "batch", Version: "v1", Kind: "Job", Namespace: w.ns, Name: "expired"}
	result, err := Wait(w.ctx, w.target, []v1alpha1.InventoryEntry{entry}, nil, map[delivery.ObjectRef]bool{refOf(entry): true}, nil)
	if err != nil || result.Healthy != 1 {
		t.Errorf("%+v, %v", result, err)
	}
}
