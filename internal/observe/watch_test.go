package observe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"kumodo.io/convoy/internal/delivery"
)

// watched is a Release on the target, whose objects are watched.
type watched struct {
	*world
	owner    delivery.Owner
	watches  *Watches
	failures atomic.Int32
	wish     Wish
}

// watch applies objects as convoy does, and follows their kinds.
func (w *world) watch(objects ...*unstructured.Unstructured) *watched {
	w.Helper()
	d := &watched{world: w, owner: delivery.Owner{HubID: w.ns, Namespace: "team", Name: "shop"}}
	d.wish = Wish{
		Owner: d.owner, Objects: objects, TargetNamespace: w.ns,
		Applied: func(o *unstructured.Unstructured, namespace string) (*unstructured.Unstructured, Extent) {
			return d.marked(o, namespace), Fields
		},
	}
	for _, o := range objects {
		w.applyAs(d.owner.FieldManager(), d.marked(o, w.ns))
	}
	d.watches = NewWatches(w.target, time.Hour, func(error) { d.failures.Add(1) })
	w.Cleanup(d.watches.Close)
	return d
}

func (d *watched) marked(o *unstructured.Unstructured, namespace string) *unstructured.Unstructured {
	out := o.DeepCopy()
	out.SetNamespace(namespace)
	out.SetLabels(map[string]string{"convoy.kumodo.io/owner": d.owner.Key()})
	return out
}

// says is a report in one line.
func says(r Report) string {
	var all []string
	for _, x := range r.Drifted {
		all = append(all, fmt.Sprintf("drift %s gone=%v %v", x.Ref, x.Gone, x.Paths))
	}
	for _, x := range r.Failed {
		all = append(all, "failed "+x.Ref.String())
	}
	for _, x := range r.Pending {
		all = append(all, "pending "+x.Ref.String())
	}
	for _, x := range r.Unseen {
		kind := x.Kind.Kind
		if x.Namespace != "" {
			kind += " in " + x.Namespace
		}
		all = append(all, "unseen "+kind+": "+x.Problem)
	}
	return strings.ReplaceAll(strings.Join(all, "; "), "/", "_")
}

// await waits until the report says something, and each change of it was told.
func (d *watched) await(want string) {
	d.Helper()
	want = strings.ReplaceAll(strings.ReplaceAll(want, "$NS", d.ns), "/", "_")
	var got string
	err := wait.PollUntilContextTimeout(d.ctx, 10*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		d.watches.Follow(d.ctx, KindsOf(d.wish.Objects, d.ns)) //nolint:contextcheck // as an observer does: what is followed outlives the look
		got = says(d.watches.Judge(ctx, d.wish, time.Now()))
		return got == want, nil
	})
	if err != nil {
		d.Fatalf("the report says %q, want %q", got, want)
	}
}

func configMap(w *world, name string) *unstructured.Unstructured {
	return fromYAML(w, `{apiVersion: v1, kind: ConfigMap, metadata: {name: `+name+`}, data: {text: hello}}`)
}

func TestWhatHappensToObjectsIsSeenWithoutAnyRequest(t *testing.T) {
	w := newWorld(t)
	secret := fromYAML(w, `{apiVersion: v1, kind: Secret, metadata: {name: s}, data: {text: aGVsbG8=}}`)
	one, two := configMap(w, "one"), configMap(w, "two")
	d := w.watch(one, two, secret)
	d.await("")
	before := len(w.log.paths)
	w.change(one, change{kind: merges, patch: `{"data":{"text":"other","more":"x"}}`})
	d.await("drift ConfigMap $NS/one gone=false [data.text]")
	if d.watches.TakeDirty()[d.owner.Key()].IsZero() {
		t.Error("nobody was told")
	}
	w.change(secret, change{kind: merges, patch: `{"data":{"text":"b3RoZXI="}}`})
	w.check(w.client(two).Delete(w.ctx, "two", metav1.DeleteOptions{}))
	d.await("drift ConfigMap $NS/one gone=false [data.text]; drift ConfigMap $NS/two gone=true []; drift Secret $NS/s gone=false [data.text]; pending ConfigMap $NS/two")
	w.applyAs(d.owner.FieldManager(), d.marked(one, w.ns))
	w.applyAs(d.owner.FieldManager(), d.marked(two, w.ns))
	w.applyAs(d.owner.FieldManager(), d.marked(secret, w.ns))
	d.await("")
	w.change(one, change{kind: merges, patch: `{"metadata":{"labels":{"convoy.kumodo.io/owner":null}}}`})
	d.await("drift ConfigMap $NS/one gone=true []; pending ConfigMap $NS/one")
	if after := len(w.log.paths); after != before {
		t.Errorf("the target was asked for %v", w.log.paths)
	}
	if n := d.failures.Load(); n != 0 {
		t.Errorf("%d failures", n)
	}
}

func TestHealthIsSeenAndAStatusIsNoDrift(t *testing.T) {
	w := newWorld(t)
	web := fromYAML(w, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: example.test/web:1}]}
`)
	d := w.watch(web)
	d.await("pending Deployment.apps $NS/web")
	w.status("web", available)
	d.await("")
	w.change(web, change{kind: merges, patch: `{"spec":{"replicas":7}}`, subresource: []string{"scale"}}) // as an autoscaler
	d.await("pending Deployment.apps $NS/web")
	w.status("web", givenUp)
	d.await("pending Deployment.apps $NS/web") // of a generation before
	w.status("web", strings.ReplaceAll(givenUp, `"observedGeneration":1`, `"observedGeneration":2`))
	d.await("failed Deployment.apps $NS/web")
}

// refusing answers requests for a resource.
func (tr *traffic) refusing(resource string, answer func(*http.Request) (*http.Response, error)) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.answer = func(r *http.Request) (*http.Response, error) {
		if !strings.HasSuffix(r.URL.Path, "/"+resource) {
			return nil, nil
		}
		return answer(r)
	}
}

func TestAKindThatIsNotSeenDegradesNoOther(t *testing.T) {
	w := newWorld(t)
	group := "seen-" + w.ns + ".test"
	widget := fromYAML(w, `{apiVersion: `+group+`/v1, kind: Widget, metadata: {name: one}, spec: {text: hello}}`)
	w.log.refusing("configmaps", func(*http.Request) (*http.Response, error) {
		body := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`
		return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}, nil
	})
	secret := fromYAML(w, `{apiVersion: v1, kind: Secret, metadata: {name: s}, data: {text: aGVsbG8=}}`)
	d := w.watch(configMap(w, "one"), secret)
	d.await("unseen ConfigMap in $NS: convoy may not list and watch it")
	d.wish.Objects = append(d.wish.Objects, widget)
	d.await("unseen ConfigMap in $NS: convoy may not list and watch it; unseen Widget: the cluster does not serve it")
	w.log.refusing("configmaps", func(*http.Request) (*http.Response, error) { return nil, errors.New("S3CR3T") })
	d.await("unseen ConfigMap in $NS: the cluster did not answer; unseen Widget: the cluster does not serve it")
	w.log.refusing("nothing", nil)
	w.define(group)
	w.applyAs(d.owner.FieldManager(), d.marked(widget, w.ns))
	d.await("")
	w.undefine(group)
	d.await("drift Widget." + group + " $NS/one gone=true []; pending Widget." + group + " $NS/one")
	if d.failures.Load() == 0 {
		t.Error("no failure was told")
	}
	d.watches.Follow(w.ctx, Kinds{{Version: "v1", Kind: "Secret"}: {w.ns: true}})
	if states := d.watches.States(); len(states) != 1 || states[0].Objects < 1 || !states[0].Fresh(time.Now()) || states[0].Fresh(time.Now().Add(2*StaleAfter)) {
		t.Errorf("%+v", states)
	}
}

func TestAKindThatMayNotBeWatchedEverywhereIsWatchedInItsNamespaces(t *testing.T) {
	w := newWorld(t)
	var forbid atomic.Bool
	forbid.Store(true)
	w.log.refusing("configmaps", func(r *http.Request) (*http.Response, error) {
		if !forbid.Load() || strings.Contains(r.URL.Path, "/namespaces/"+w.ns+"/") {
			return nil, nil
		}
		body := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`
		return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}, nil
	})
	one := configMap(w, "one")
	d := w.watch(one)
	d.await("")
	if states := d.watches.States(); len(states) != 1 || states[0].Namespace != w.ns {
		t.Errorf("%+v", states)
	}
	w.change(one, change{kind: merges, patch: `{"data":{"text":"other"}}`})
	d.await("drift ConfigMap $NS/one gone=false [data.text]")
	elsewhere := configMap(w, "one")
	elsewhere.SetNamespace("elsewhere")
	d.wish.Objects = append(d.wish.Objects, elsewhere)
	d.await("drift ConfigMap $NS/one gone=false [data.text]; unseen ConfigMap in elsewhere: convoy may not list and watch it")
	d.wish.Objects = d.wish.Objects[:1]
	forbid.Store(false)
	d.watches.mu.Lock()
	d.watches.narrow[schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}] = time.Now().Add(-2 * time.Hour)
	d.watches.mu.Unlock()
	d.await("drift ConfigMap $NS/one gone=false [data.text]")
	if states := d.watches.States(); len(states) != 1 || states[0].Namespace != "" {
		t.Errorf("%+v", states)
	}
}

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// define makes the kind Widget of a group known, and waits until it is served.
func (w *world) define(group string) {
	w.Helper()
	o := fromYAML(w, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.`+group+`}
spec:
  group: `+group+`
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {text: {type: string}}}}}}}]
`)
	_, err := w.admin.Resource(definitions).Create(w.ctx, o, metav1.CreateOptions{})
	w.check(err)
	w.check(wait.PollUntilContextTimeout(w.ctx, 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		_, err := w.admin.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}).List(ctx, metav1.ListOptions{})
		return err == nil, nil
	}))
}

func (w *world) undefine(group string) {
	w.Helper()
	w.check(w.admin.Resource(definitions).Delete(w.ctx, "widgets."+group, metav1.DeleteOptions{}))
}

func TestAJobThatItsTimeToLiveTookAwayHasNotDrifted(t *testing.T) {
	w := newWorld(t)
	job := func(name, ttl string) *unstructured.Unstructured {
		return fromYAML(w, `
apiVersion: batch/v1
kind: Job
metadata: {name: `+name+`}
spec:
  `+ttl+`
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: example.test/a:1}]}}
`)
	}
	short, long := job("short", "ttlSecondsAfterFinished: 60"), job("long", "backoffLimit: 1")
	d := w.watch(short, long)
	d.await("pending Job.batch $NS/short; pending Job.batch $NS/long")
	for _, o := range []*unstructured.Unstructured{short, long} {
		w.check(w.client(o).Delete(w.ctx, o.GetName(), metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}))
	}
	d.await("drift Job.batch $NS/long gone=true []; pending Job.batch $NS/long")
}

func TestWhatIsMissedIsFoundByTheAudit(t *testing.T) {
	w := newWorld(t)
	d := w.watch(configMap(w, "one"))
	d.await("")
	audited := NewWatches(w.target, 2*time.Second, func(error) {})
	defer audited.Close()
	d.watches = audited
	d.await("")
	k := audited.of(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, w.ns)
	w.check(wait.PollUntilContextTimeout(d.ctx, time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		audited.mu.Lock() // as if an event had been lost; again where an audit comes between
		clear(k.objects)
		audited.mu.Unlock()
		return len(d.watches.Judge(ctx, d.wish, time.Now()).Drifted) == 1, nil
	}))
	d.await("")
}

func TestManyObjectsTakeLittleMemoryEach(t *testing.T) {
	object := func(i int) *unstructured.Unstructured {
		o := fromYAML(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: shop, labels: {convoy.kumodo.io/owner: a}}}`)
		o.SetName(fmt.Sprint("object-", i))
		o.SetUID(types.UID(fmt.Sprint("uid-", i)))
		o.SetManagedFields([]metav1.ManagedFieldsEntry{{
			Manager: "convoy-a", Operation: "Apply", APIVersion: "v1", FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:text":{}},"f:metadata":{"f:labels":{"f:convoy.kumodo.io/owner":{}}}}`),
		}})
		return o
	}
	gvk := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	first, err := objectOf(t.Context(), gvk, object(0), nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := objectOf(t.Context(), gvk, object(1), nil)
	if err != nil {
		t.Fatal(err)
	}
	if first.managers[0].fields != second.managers[0].fields {
		t.Error("equal sets of fields are kept twice")
	}
	other := first
	other.Message = "x"
	if first.same(other) || !first.same(second) {
		t.Error("what is looked at is not told apart, or a name is")
	}
}

func TestOfAKindThatIsNewNothingIsSaidAtOnce(t *testing.T) {
	now := time.Now()
	for name, tc := range map[string]struct {
		state KindState
		young bool
	}{
		"not listed yet":          {KindState{Since: now.Add(-20 * time.Second)}, true},
		"not listed for long":     {KindState{Since: now.Add(-40 * time.Second)}, false},
		"failed a moment ago":     {KindState{Since: now.Add(-2 * time.Second), Problem: "the cluster did not answer"}, true},
		"fails since a while":     {KindState{Since: now.Add(-12 * time.Second), Problem: "the cluster did not answer"}, false},
		"was seen":                {KindState{Since: now.Add(-time.Second), Seen: now}, false},
		"was seen, and fails now": {KindState{Since: now.Add(-time.Second), Seen: now, Problem: "the cluster did not answer"}, false},
	} {
		if got := tc.state.Young(now); got != tc.young {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestAnObjectThatLostItsMarkIsNotGone(t *testing.T) {
	w := newWorld(t)
	without, other, gone := configMap(w, "without"), configMap(w, "other"), configMap(w, "gone")
	claim := fromYAML(w, `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: claim}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`)
	d := w.watch(without, other, gone, claim)
	d.await("pending PersistentVolumeClaim $NS/claim")
	unmark := change{kind: merges, patch: `{"metadata":{"labels":{"convoy.kumodo.io/owner":null}}}`}
	d.change(without, unmark)
	d.change(claim, unmark)
	d.change(other, change{kind: merges, patch: `{"metadata":{"labels":{"convoy.kumodo.io/owner":"somebody"}}}`})
	w.check(w.client(gone).Delete(w.ctx, "gone", metav1.DeleteOptions{}))
	const mark = "[metadata.labels[convoy.kumodo.io_owner]]"
	d.await("drift ConfigMap $NS/without gone=true []; drift ConfigMap $NS/other gone=false " + mark +
		"; drift ConfigMap $NS/gone gone=true []; drift PersistentVolumeClaim $NS/claim gone=true []" +
		"; pending ConfigMap $NS/without; pending ConfigMap $NS/gone; pending PersistentVolumeClaim $NS/claim")
	r := d.watches.Judge(w.ctx, d.wish, time.Now())
	var known Confirmed
	d.watches.Confirm(w.ctx, &r, &known)
	want := strings.ReplaceAll("drift ConfigMap $NS_without gone=false "+mark+"; drift ConfigMap $NS_other gone=false "+mark+
		"; drift ConfigMap $NS_gone gone=true []; drift PersistentVolumeClaim $NS_claim gone=false "+mark+
		"; pending ConfigMap $NS_gone; pending PersistentVolumeClaim $NS_claim", "$NS", w.ns)
	if got := says(r); got != want || r.Pending[0].Message == r.Pending[1].Message {
		t.Errorf("the report says\n%q, want\n%q; %v", got, want, r.Pending)
	}
	requests := len(w.log.paths)
	r = d.watches.Judge(w.ctx, d.wish, time.Now())
	if d.watches.Confirm(w.ctx, &r, &known); says(r) != want || len(w.log.paths) != requests {
		t.Errorf("asked again, the report says %q after %d requests more", says(r), len(w.log.paths)-requests)
	}
}

func TestWhatIsBeingDeletedIsNotHealthyWhateverItsKind(t *testing.T) {
	w := newWorld(t)
	held := fromYAML(w, `{apiVersion: v1, kind: ConfigMap, metadata: {name: held, finalizers: [test.example/hold]}, data: {text: hello}}`)
	d := w.watch(held)
	d.await("")
	w.check(w.client(held).Delete(w.ctx, "held", metav1.DeleteOptions{}))
	d.await("pending ConfigMap $NS/held")
	d.change(held, change{kind: merges, patch: `{"metadata":{"finalizers":null}}`})
	d.await("drift ConfigMap $NS/held gone=true []; pending ConfigMap $NS/held")
}
