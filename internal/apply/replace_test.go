package apply

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"kumodo.io/convoy/api/v1alpha1"
)

func recreating(req *Request) { req.Recreate = v1alpha1.RecreateImmutable }

// changes are objects and a change of a field that the server does not let anybody change.
var changes = map[string]struct{ object, from, to string }{
	"a Deployment's selector": {`
apiVersion: apps/v1
kind: Deployment
metadata: {name: x, namespace: $NS}
spec:
  selector: {matchLabels: {app: one}}
  template:
    metadata: {labels: {app: one}}
    spec: {containers: [{name: web, image: example.test/web:1}]}
`, "app: one", "app: two"},
	"a Job's template": {`
apiVersion: batch/v1
kind: Job
metadata: {name: x, namespace: $NS}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: job, image: "example.test/job:1"}]}}}
`, "job:1", "job:2"},
	"a StatefulSet's service": {`
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: x, namespace: $NS}
spec:
  serviceName: one
  selector: {matchLabels: {app: x}}
  template:
    metadata: {labels: {app: x}}
    spec: {containers: [{name: web, image: example.test/web:1}]}
`, "serviceName: one", "serviceName: two"},
	"a DaemonSet's selector": {`
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: x, namespace: $NS}
spec:
  selector: {matchLabels: {app: one}}
  template:
    metadata: {labels: {app: one}}
    spec: {containers: [{name: web, image: example.test/web:1}]}
`, "app: one", "app: two"},
	"a Pod's container": {
		`{apiVersion: v1, kind: Pod, metadata: {name: x, namespace: $NS}, spec: {automountServiceAccountToken: false, containers: [{name: one, image: "example.test/web:1"}]}}`,
		"name: one", "name: two",
	},
	"a Service's address": {
		`{apiVersion: v1, kind: Service, metadata: {name: x, namespace: $NS}, spec: {clusterIP: 10.0.0.77, ports: [{port: 80}]}}`,
		"10.0.0.77", "10.0.0.78",
	},
	"an immutable ConfigMap": {`{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: $NS}, immutable: true, data: {a: one}}`, "one", "two"},
	"an immutable Secret":    {`{apiVersion: v1, kind: Secret, metadata: {name: x, namespace: $NS}, immutable: true, stringData: {a: hidden-one}}`, "one", "two"},
	"a Secret's type":        {`{apiVersion: v1, kind: Secret, metadata: {name: x, namespace: $NS}, type: example.test/one}`, "one", "two"},
	"a RoleBinding's role": {
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: x, namespace: $NS}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}}`,
		"name: view", "name: edit",
	},
	"a StorageClass's provisioner": {`{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: $NS}, provisioner: example.test/v1}`, "test/v1", "test/v2"},
	"a StorageClass's parameters": {
		`{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: $NS}, provisioner: example.test/x, parameters: {a: first}}`, "first", "second",
	},
	"a PriorityClass's value": {`{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: $NS}, value: 1001}`, "1001", "1002"},
}

// changed is the object as it was and as it is wished for.
func (w *world) changed(name string) (before, after *unstructured.Unstructured) {
	w.Helper()
	c := changes[name]
	return w.fromYAML(c.object), w.fromYAML(strings.ReplaceAll(c.object, c.from, c.to))
}

// tidied is an object that goes with the test.
func (w *world) tidied(o *unstructured.Unstructured) *unstructured.Unstructured {
	w.Cleanup(func() { _ = w.mapped(o).Delete(context.Background(), o.GetName(), metav1.DeleteOptions{}) })
	return o
}

// mapped is client for objects whose plural is not plain.
func (w *world) mapped(o *unstructured.Unstructured) dynamic.ResourceInterface {
	w.Helper()
	m, err := w.target.Mapper.RESTMapping(o.GroupVersionKind().GroupKind(), o.GroupVersionKind().Version)
	w.check(err)
	return newResolver(Target{Dynamic: w.admin, Mapper: w.target.Mapper, Discovery: w.target.Discovery}).client(m, o.GetNamespace())
}

func (w *world) liveMapped(o *unstructured.Unstructured) *unstructured.Unstructured {
	w.Helper()
	live, err := w.mapped(o).Get(w.ctx, o.GetName(), metav1.GetOptions{})
	w.check(err)
	return live
}

func TestAnImmutableFieldIsAnErrorThatNamesTheWayOut(t *testing.T) {
	for name := range changes {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			before, after := w.changed(name)
			w.applied(w.tidied(before))
			uid := w.liveMapped(before).GetUID()
			other := w.configMap("other", nil)
			set := w.apply(after, other)
			only(t, set.Failed, before.GetName(), `set its annotation convoy.kumodo.io/recreate: "true" in the source, or syncPolicy.recreate: Immutable`, true)
			if strings.Contains(set.Failed[0].Message, "hidden") {
				t.Error(set.Failed[0].Message)
			}
			if w.liveMapped(before).GetUID() != uid || w.live(other) == nil {
				t.Error("it was replaced, or held up another")
			}
		})
	}
}

func TestAnImmutableFieldIsReplacedWhereThatIsAskedFor(t *testing.T) {
	for name := range changes {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			before, after := w.changed(name)
			w.applied(w.tidied(before))
			uid := w.liveMapped(before).GetUID()
			if set := w.applyWith(recreating, after); len(set.Failed) > 0 || set.Applied != 1 {
				t.Fatalf("got %+v", set)
			}
			live := w.liveMapped(after)
			if live.GetUID() == uid || live.GetLabels()[v1alpha1.LabelOwner] != w.owner.Key() {
				t.Errorf("it is the same, or has no marks: %v", live.GetLabels())
			}
			if e := w.record().Entries(); len(e) != 1 || e[0].UID != string(live.GetUID()) {
				t.Errorf("recorded: %v, live %s", e, live.GetUID())
			}
			w.applied(after)
		})
	}
}

func TestTheAnnotationOutweighsThePolicyForOneObject(t *testing.T) {
	w := newWorld(t)
	before, after := w.changed("an immutable ConfigMap")
	w.applied(before)
	set := w.applyWith(recreating, annotated(after, v1alpha1.AnnotationRecreate, "false"))
	only(t, set.Failed, "x", "its annotation convoy.kumodo.io/recreate forbids", true)
	w.targetLog.take()
	w.applied(annotated(after, v1alpha1.AnnotationRecreate, "true"))
	if got, _, _ := unstructured.NestedString(w.live(after).Object, "data", "a"); got != "two" {
		t.Errorf("it holds %q", got)
	}
	want := []string{"PATCH", "GET", "POST", "DELETE", "GET", "PATCH"}
	var methods []string
	for _, line := range w.targetLog.take() {
		methods = append(methods, strings.Fields(line)[0])
	}
	if diff := cmp.Diff(want, methods); diff != "" {
		t.Error(diff)
	}
}

func TestWhatHoldsDataIsNeverReplaced(t *testing.T) {
	w := newWorld(t)
	claim := `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: x, namespace: $NS}, spec: {accessModes: [ReadWriteOnce], storageClassName: one, resources: {requests: {storage: 1Gi}}}}`
	crd := w.definition("v1")
	w.applied(w.fromYAML(claim), crd)
	changed := w.fromYAML(strings.ReplaceAll(claim, "one", "two"))
	scope := crd.DeepCopy()
	w.check(unstructured.SetNestedField(scope.Object, "Cluster", "spec", "scope"))
	set := w.applyWith(recreating, annotated(changed, v1alpha1.AnnotationRecreate, "true"), annotated(scope, v1alpha1.AnnotationRecreate, "true"))
	if len(set.Failed) != 2 {
		t.Fatalf("got %v", set.Failed)
	}
	for _, e := range set.Failed {
		if !strings.Contains(e.Message, "convoy never deletes a "+e.Ref.Kind+" to create it anew") {
			t.Error(e)
		}
	}
	if w.live(changed).GetDeletionTimestamp() != nil || w.live(crd).GetDeletionTimestamp() != nil {
		t.Error("it was deleted")
	}
}

func TestNothingIsDeletedForAnObjectThatTheClusterWouldNotTakeAnew(t *testing.T) {
	w := newWorld(t)
	before, after := w.changed("a Deployment's selector")
	w.applied(before)
	w.check(unstructured.SetNestedField(after.Object, "other", "spec", "template", "metadata", "labels", "app"))
	set := w.applyWith(recreating, after)
	only(t, set.Failed, "x", "does not match template", true)
	w.targetLog.intercept(func(r *http.Request) (*http.Response, error) { // as an admission policy for new objects would answer
		if r.Method == http.MethodPost {
			return reply(r, 403, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden","message":"no new ones"}`), nil
		}
		return nil, nil
	})
	_, after = w.changed("a Deployment's selector")
	only(t, w.applyWith(recreating, after).Failed, "x", "no new ones", true)
	if w.live(before).GetDeletionTimestamp() != nil {
		t.Error("it was deleted")
	}
}

func TestOnlyWhatConvoyMadeAndMayDeleteIsReplaced(t *testing.T) {
	w := newWorld(t)
	before, after := w.changed("an immutable ConfigMap")
	w.create(before)
	only(t, w.applyWith(recreating, after).Failed, "x", "convoy did not make it", true)
	w.remove(before)
	w.applied(annotated(before, v1alpha1.AnnotationPrune, "disabled"))
	only(t, w.applyWith(recreating, annotated(after, v1alpha1.AnnotationPrune, "disabled")).Failed, "x", "its annotation convoy.kumodo.io/prune forbids", true)
}

func TestAReplacementThatIsHeldUpIsTakenUpAgain(t *testing.T) {
	w := newWorld(t)
	before, after := w.changed("an immutable ConfigMap")
	w.applied(before)
	w.patch(before, `{"metadata":{"finalizers":["example.test/hold"]}}`)
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	req := w.request(after)
	recreating(&req)
	ended := make(chan error, 1)
	go func() {
		_, err := Apply(ctx, w.target, w.ledger, req)
		ended <- err
	}()
	w.eventually("it is being deleted", func() bool { return w.live(before).GetDeletionTimestamp() != nil })
	cancel() // the worker stops
	if err := <-ended; err == nil {
		t.Error("it ended well")
	}
	w.patch(before, `{"metadata":{"finalizers":null}}`)
	w.targetLog.take()
	if set := w.applyWith(recreating, after); len(set.Failed) > 0 {
		t.Errorf("failed: %v", set.Failed)
	}
	if lines := w.targetLog.take(); count(lines, "DELETE ") != 0 {
		t.Errorf("requests: %v", lines)
	}
}

func TestARefusalForAnotherReasonIsNoImmutableField(t *testing.T) {
	invalid := func(causes ...metav1.StatusCause) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Code: 422, Reason: metav1.StatusReasonInvalid, Details: &metav1.StatusDetails{Causes: causes},
		}}
	}
	fixed := metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: "spec.selector", Message: `Invalid value: {"a":"b"}: field is immutable`}
	wrong := metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: "spec.replicas", Message: "Invalid value: -1: must be greater than or equal to 0"}
	quoted := metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: "spec.note", Message: `Invalid value: "field is immutable": must be short`}
	identity := metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: "metadata.uid", Message: `Invalid value: "1": field is immutable`}
	if !isImmutable(invalid(fixed)) {
		t.Error("the field itself")
	}
	for name, err := range map[string]error{
		"a mistake beside it": invalid(fixed, wrong), "a value that says so": invalid(quoted), "another object": invalid(identity),
		"no cause": invalid(), "a conflict": conflictOf(fixed), "nothing": nil,
	} {
		if isImmutable(err) {
			t.Error(name)
		}
	}
}
