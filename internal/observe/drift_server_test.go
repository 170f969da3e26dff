package observe

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
)

// resourceOf knows the kinds of these tests.
func resourceOf(o *unstructured.Unstructured) schema.GroupVersionResource {
	gvk := o.GroupVersionKind()
	return gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + "s")
}

func (w *world) client(o *unstructured.Unstructured) dynamic.ResourceInterface {
	return w.admin.Resource(resourceOf(o)).Namespace(w.ns)
}

// applyAs applies as convoy does, and as kubectl apply --server-side --force-conflicts.
func (w *world) applyAs(manager string, o *unstructured.Unstructured) {
	w.Helper()
	data, err := o.MarshalJSON()
	w.check(err)
	force := true
	_, err = w.client(o).Patch(w.ctx, o.GetName(), types.ApplyPatchType, data,
		metav1.PatchOptions{FieldManager: manager, Force: &force, FieldValidation: metav1.FieldValidationStrict})
	w.check(err)
}

// change is what somebody does to an object.
type change struct {
	kind        types.PatchType
	patch       string
	subresource []string
	apply       string // another object, as a whole
	lasting     bool   // the server does not let it be put right by an apply
}

const (
	merges    = types.MergePatchType
	strategic = types.StrategicMergePatchType
	asJSON    = types.JSONPatchType
)

func (w *world) change(o *unstructured.Unstructured, c change) {
	w.Helper()
	if c.apply != "" {
		w.applyAs("rival", fromYAML(w, c.apply))
		return
	}
	_, err := w.client(o).Patch(w.ctx, o.GetName(), c.kind, []byte(c.patch), metav1.PatchOptions{FieldManager: "rival"}, c.subresource...)
	w.check(err)
}

func (w *world) drift(o *unstructured.Unstructured) Drift {
	w.Helper()
	live, err := w.client(o).Get(w.ctx, o.GetName(), metav1.GetOptions{})
	w.check(err)
	return DriftOf(o, live.GetManagedFields(), ours, Ignore{})
}

const (
	webDeployment = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: o, labels: {a: b, convoy.kumodo.io/owner: x}, annotations: {convoy.kumodo.io/release: x/y}},
		spec: {replicas: 2, strategy: {}, selector: {matchLabels: {a: b}}, template: {metadata: {creationTimestamp: null, labels: {a: b}, annotations: {}}, spec: {
		nodeSelector: {}, tolerations: [], securityContext: {}, affinity: null, serviceAccount: x, volumes: [{name: v, emptyDir: {}}, {name: w, emptyDir: {}}],
		containers: [{name: web, image: x, args: [a, b], env: [], resources: {limits: {cpu: 1000m, memory: 1024Mi}}, livenessProbe: {httpGet: {port: 80}},
		ports: [{containerPort: 80}, {containerPort: 53}, {containerPort: 53, protocol: UDP}]}, {name: side, image: z, env: [{name: A, value: b}]}]}}}}`
	dnsService = `{apiVersion: v1, kind: Service, metadata: {name: o}, spec: {selector: {a: b}, ports: [{name: t, port: 53, targetPort: 53}, {name: u, port: 53, protocol: UDP, targetPort: dns}]}}`
	files      = `{apiVersion: v1, kind: ConfigMap, metadata: {name: o, labels: {convoy.kumodo.io/owner: x, a: b}, finalizers: [a.test/x, a.test/z]}, data: {a.txt: "1", b: "2"}}`
	password   = `{apiVersion: v1, kind: Secret, metadata: {name: o}, data: {a: eA==}, stringData: {b: c}}`
)

func TestDriftIsWhatTheServerSaysItIs(t *testing.T) {
	rivals := func(paths ...string) Drift { return Drift{Paths: paths, Lost: len(paths), Rivals: []string{"rival"}} }
	gone := func(paths ...string) Drift { return Drift{Paths: paths, Lost: len(paths)} }
	containers := func(patch string) string { return `{"spec":{"template":{"spec":{"containers":[` + patch + `]}}}}` }
	tests := map[string]struct {
		object string
		change change
		want   Drift
	}{
		"nothing happened":         {webDeployment, change{}, Drift{}},
		"a status":                 {webDeployment, change{kind: merges, patch: `{"status":` + available + `}`, subresource: []string{"status"}}, Drift{}},
		"another image":            {webDeployment, change{kind: strategic, patch: containers(`{"name":"web","image":"evil"}`)}, rivals("spec.template.spec.containers[name=web].image")},
		"the same image":           {webDeployment, change{kind: strategic, patch: containers(`{"name":"web","image":"x"}`)}, Drift{}},
		"a quantity as it reads":   {webDeployment, change{kind: strategic, patch: containers(`{"name":"web","resources":{"limits":{"cpu":"1"}}}`)}, Drift{}},
		"another quantity":         {webDeployment, change{kind: strategic, patch: containers(`{"name":"web","resources":{"limits":{"cpu":"2"}}}`)}, rivals("spec.template.spec.containers[name=web].resources.limits.cpu")},
		"other arguments":          {webDeployment, change{kind: strategic, patch: containers(`{"name":"web","args":["c"]}`)}, rivals("spec.template.spec.containers[name=web].args")},
		"no arguments":             {webDeployment, change{kind: strategic, patch: containers(`{"name":"web","args":null}`)}, gone("spec.template.spec.containers[name=web].args")},
		"a sidecar":                {webDeployment, change{kind: strategic, patch: containers(`{"name":"injected","image":"y"}`)}, Drift{}},
		"a variable more":          {webDeployment, change{kind: strategic, patch: containers(`{"name":"side","env":[{"name":"B","value":"c"}]},{"name":"web","env":[{"name":"B","value":"c"}]}`)}, Drift{}},
		"another variable":         {webDeployment, change{kind: strategic, patch: containers(`{"name":"side","env":[{"name":"A","value":"c"}]}`)}, rivals("spec.template.spec.containers[name=side].env[name=A].value")},
		"a container less":         {webDeployment, change{kind: strategic, patch: containers(`{"name":"side","$patch":"delete"}`)}, gone("spec.template.spec.containers[name=side].env", "spec.template.spec.containers[name=side].image", "spec.template.spec.containers[name=side].name")},
		"an annotation of a Pod":   {webDeployment, change{kind: merges, patch: `{"spec":{"template":{"metadata":{"annotations":{"restartedAt":"now"}}}}}`}, Drift{}},
		"more of an empty map":     {webDeployment, change{kind: merges, patch: `{"spec":{"template":{"spec":{"securityContext":{"runAsUser":1}}}}}`}, Drift{}},
		"more of an empty volume":  {webDeployment, change{kind: strategic, patch: `{"spec":{"template":{"spec":{"volumes":[{"name":"v","emptyDir":{"sizeLimit":"1Gi"}}]}}}}`}, Drift{}},
		"another volume":           {webDeployment, change{kind: asJSON, patch: `[{"op":"replace","path":"/spec/template/spec/volumes/0","value":{"name":"v","hostPath":{"path":"/x"}}}]`, lasting: true}, Drift{Unsure: true}},
		"an empty atomic map":      {webDeployment, change{kind: merges, patch: `{"spec":{"template":{"spec":{"nodeSelector":{"a":"b"}}}}}`}, rivals("spec.template.spec.nodeSelector")},
		"an empty atomic list":     {webDeployment, change{kind: merges, patch: `{"spec":{"template":{"spec":{"tolerations":[{"operator":"Exists"}]}}}}`}, rivals("spec.template.spec.tolerations")},
		"a field by its new name":  {webDeployment, change{kind: merges, patch: `{"spec":{"template":{"spec":{"serviceAccountName":"z"}}}}`}, rivals("spec.template.spec.serviceAccount")},
		"a scaling":                {webDeployment, change{kind: merges, patch: `{"spec":{"replicas":5}}`, subresource: []string{"scale"}}, rivals("spec.replicas")},
		"a scaling that is free":   {strings.Replace(webDeployment, "replicas: 2, ", "", 1), change{kind: merges, patch: `{"spec":{"replicas":5}}`, subresource: []string{"scale"}}, Drift{}},
		"a strategy, as defaulted": {webDeployment, change{kind: merges, patch: `{"spec":{"strategy":{"rollingUpdate":{"maxSurge":2}}}}`}, Drift{}},
		"another's port":           {webDeployment, change{kind: strategic, patch: containers(`{"name":"web","ports":[{"containerPort":90}]}`)}, Drift{}},
		"a forced apply": {
			webDeployment,
			change{apply: `{apiVersion: apps/v1, kind: Deployment, metadata: {name: o}, spec: {replicas: 7, template: {spec: {containers: [{name: web, image: x}]}}}}`},
			rivals("spec.replicas"),
		},
		"a mark":                    {webDeployment, change{kind: merges, patch: `{"metadata":{"labels":{"convoy.kumodo.io/owner":null}}}`}, gone("metadata.labels[convoy.kumodo.io/owner]")},
		"another's mark":            {webDeployment, change{kind: merges, patch: `{"metadata":{"annotations":{"convoy.kumodo.io/release":"z/z"}}}`}, rivals("metadata.annotations[convoy.kumodo.io/release]")},
		"all owners":                {files, change{kind: merges, patch: `{"metadata":{"managedFields":[{}]}}`}, gone("data.b", "data[a.txt]", "metadata.finalizers", "metadata.labels.a", "metadata.labels[convoy.kumodo.io/owner]")},
		"ports of one number":       {dnsService, change{}, Drift{}},
		"one of these less":         {dnsService, change{kind: asJSON, patch: `[{"op":"remove","path":"/spec/ports/0"}]`}, gone("spec.ports[port=53].name", "spec.ports[port=53].port", "spec.ports[port=53].targetPort")},
		"one of these other":        {dnsService, change{kind: asJSON, patch: `[{"op":"replace","path":"/spec/ports/0/targetPort","value":"dns"}]`}, rivals("spec.ports[port=53,protocol=TCP].targetPort")},
		"a port more":               {dnsService, change{kind: strategic, patch: `{"spec":{"ports":[{"port":80,"name":"h"}]}}`}, Drift{}},
		"a selector":                {dnsService, change{kind: merges, patch: `{"spec":{"selector":{"c":"d"}}}`}, rivals("spec.selector")},
		"a key less":                {files, change{kind: merges, patch: `{"data":{"a.txt":null}}`}, gone("data[a.txt]")},
		"a key more":                {files, change{kind: merges, patch: `{"data":{"c":"x"}}`}, Drift{}},
		"another value of a label":  {files, change{kind: merges, patch: `{"metadata":{"labels":{"a":"c"}}}`}, rivals("metadata.labels.a")},
		"a finalizer less":          {files, change{kind: merges, patch: `{"metadata":{"finalizers":["a.test/x"]}}`}, gone("metadata.finalizers[a.test/z]")},
		"a finalizer more":          {files, change{kind: merges, patch: `{"metadata":{"finalizers":["a.test/x","a.test/z","a.test/q"]}}`}, Drift{}},
		"a Secret of readable data": {password, change{}, Drift{Unsure: true}},
		"that is changed":           {password, change{kind: merges, patch: `{"data":{"b":"enp6"}}`}, Drift{Unsure: true}},
		"a key of it that is not":   {password, change{kind: merges, patch: `{"data":{"a":"enp6"}}`}, Drift{Paths: []string{"data.a"}, Lost: 1, Rivals: []string{"rival"}, Unsure: true}},
		"a webhook's authorities":   {hookConfig, change{kind: asJSON, patch: `[{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":"` + someCA + `"}]`}, Drift{}},
		"a webhook's policy":        {hookConfig, change{kind: strategic, patch: `{"webhooks":[{"name":"a.a.test","failurePolicy":"Ignore"}]}`}, rivals("webhooks[name=a.a.test].failurePolicy")},
		"a part of an atomic list":  {`{apiVersion: v1, kind: ServiceAccount, metadata: {name: o}, imagePullSecrets: [{name: a}]}`, change{kind: strategic, patch: `{"imagePullSecrets":[{"name":"b"}]}`}, rivals("imagePullSecrets")},
	}
	w := newWorld(t)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := &world{T: t, ctx: w.ctx, ns: w.ns, admin: w.admin}
			w.driftsTo(tc.object, tc.change, tc.want)
		})
	}
}

const (
	hookConfig = `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: o}, webhooks: [{name: a.a.test, failurePolicy: Fail,
		sideEffects: None, admissionReviewVersions: [v1], clientConfig: {service: {name: a, namespace: b}}, rules: [{apiGroups: [none.test], apiVersions: [v1], operations: [CREATE], resources: [x]}]}]}`
	someCA = "e30=" // the server takes anything for one until it calls
)

// driftsTo applies an object under a name of its own, has it changed, and compares. It applies it once more then: after that
// nothing is lost.
func (w *world) driftsTo(object string, c change, want Drift) {
	w.Helper()
	name := "o-" + rand.String(8)
	o := fromYAML(w, object)
	o.SetName(name)
	if o.GetKind() == "ValidatingWebhookConfiguration" {
		w.ns = ""
	}
	w.applyAs(ours, o)
	if c.kind != "" || c.apply != "" {
		c.apply = strings.Replace(c.apply, "name: o}", "name: "+name+"}", 1)
		w.change(o, c)
	}
	if diff := cmp.Diff(want, w.drift(o)); diff != "" {
		w.Error(diff)
	}
	if c.lasting {
		return
	}
	w.applyAs(ours, o)
	if got := w.drift(o); got.Lost > 0 || got.Unsure && o.GetKind() != "Secret" {
		w.Errorf("after it was put right: %+v", got)
	}
}

func TestDriftOfACustomResourceGoesByItsSchema(t *testing.T) {
	w := newWorld(t)
	definition := fromYAML(t, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.drift.test}
spec:
  group: drift.test
  scope: Namespaced
  names: {plural: gadgets, singular: gadget, kind: Gadget}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {
      size: {type: integer, default: 3}, either: {x-kubernetes-int-or-string: true}, maybe: {type: string, nullable: true},
      free: {type: object, x-kubernetes-preserve-unknown-fields: true},
      whole: {type: object, x-kubernetes-map-type: atomic, additionalProperties: {type: string}},
      plain: {type: array, items: {type: object, properties: {a: {type: string}}}},
      tags: {type: array, x-kubernetes-list-type: set, items: {type: string}},
      named: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [id, zone], items: {type: object, required: [id], properties: {id: {type: integer}, zone: {type: string, default: z1}, v: {type: string}}}},
      groups: {type: object, additionalProperties: {type: object, properties: {v: {type: string}, match: {type: object, x-kubernetes-map-type: atomic, additionalProperties: {type: string}}}}},
      inner: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}}}}}}
`)
	crds := w.admin.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	_, err := crds.Create(w.ctx, definition, metav1.CreateOptions{})
	w.check(err)
	const gadget = `{apiVersion: drift.test/v1, kind: Gadget, metadata: {name: o}, spec: {either: 5, maybe: null, free: {a: {b: c, l: [1, {x: 1}]}, d: {e: {f: 1}}},
		whole: {a: b}, plain: [{a: b}], tags: [a, b], named: [{id: 1, v: a}, {id: 1, zone: z2, v: b}], 		inner: {apiVersion: v1, kind: ConfigMap, metadata: {name: i}, data: {a: b}}}}`
	w.check(wait.PollUntilContextTimeout(w.ctx, 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		_, err := w.admin.Resource(resourceOf(fromYAML(t, gadget))).Namespace(w.ns).List(ctx, metav1.ListOptions{})
		return err == nil, nil
	}))
	rivals := func(paths ...string) Drift { return Drift{Paths: paths, Lost: len(paths), Rivals: []string{"rival"}} }
	gone := func(paths ...string) Drift { return Drift{Paths: paths, Lost: len(paths)} }
	for name, tc := range map[string]struct {
		patch string
		want  Drift
	}{
		"nothing":                       {`{}`, Drift{}},
		"a default":                     {`{"spec":{"size":4}}`, Drift{}},
		"another type":                  {`{"spec":{"either":"5"}}`, rivals("spec.either")},
		"a free field":                  {`{"spec":{"free":{"a":{"b":"x"}}}}`, rivals("spec.free.a.b")},
		"a free field more":             {`{"spec":{"free":{"a":{"n":"x"},"n":{"a":1}}}}`, Drift{}},
		"a free list":                   {`{"spec":{"free":{"a":{"l":[2]}}}}`, rivals("spec.free.a.l")},
		"a free map's only field":       {`{"spec":{"free":{"d":{"e":{"f":2}}}}}`, rivals("spec.free.d.e.f")},
		"a free map's only field less":  {`{"spec":{"free":{"d":{"e":{"f":null}}}}}`, Drift{Unsure: true}},
		"a free map less":               {`{"spec":{"free":{"d":null}}}`, gone("spec.free.d.e.f")},
		"a part of an atomic map":       {`{"spec":{"whole":{"c":"d"}}}`, rivals("spec.whole")},
		"an atomic list":                {`{"spec":{"plain":[{"a":"b"},{"a":"c"}]}}`, rivals("spec.plain")},
		"a set, reordered":              {`{"spec":{"tags":["b","a","c"]}}`, Drift{}},
		"an item of a set":              {`{"spec":{"tags":["b"]}}`, gone("spec.tags[a]")},
		"an item with a defaulted key":  {`{"spec":{"named":[{"id":1,"v":"x"},{"id":1,"zone":"z2","v":"b"}]}}`, rivals("spec.named[id=1,zone=z1].v")},
		"the other item":                {`{"spec":{"named":[{"id":1,"v":"a"},{"id":1,"zone":"z2","v":"x"}]}}`, rivals("spec.named[id=1,zone=z2].v")},
		"the item with a defaulted key": {`{"spec":{"named":[{"id":1,"zone":"z2","v":"b"}]}}`, gone("spec.named[id=1].id", "spec.named[id=1].v")},
		"an embedded kind":              {`{"spec":{"inner":{"metadata":{"name":"x"},"kind":"X"}}}`, rivals("spec.inner.kind", "spec.inner.metadata.name")},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{T: t, ctx: w.ctx, ns: w.ns, admin: w.admin}
			w.driftsTo(gadget, change{kind: merges, patch: tc.patch}, tc.want)
		})
	}

	// When it was the only map, nothing but the schema tells that it is not atomic.
	only := `{apiVersion: drift.test/v1, kind: Gadget, metadata: {name: only}, spec: {free: {n: 1, tags: {a: b}}}}`
	(&world{T: t, ctx: w.ctx, ns: w.ns, admin: w.admin}).driftsTo(only, change{kind: merges, patch: `{"spec":{"free":{"tags":{"a":null}}}}`}, Drift{Unsure: true})

	// An atomic map below names that are no fields looks like one that has lost all its fields.
	o := fromYAML(t, `{apiVersion: drift.test/v1, kind: Gadget, metadata: {name: o}, spec: {groups: {g: {v: x, match: {a: b}}}}}`)
	w.applyAs(ours, o)
	if diff := cmp.Diff(Drift{Unsure: true}, w.drift(o)); diff != "" {
		t.Error(diff)
	}
	w.change(o, change{kind: merges, patch: `{"spec":{"groups":{"g":{"match":{"c":"d"}}}}}`})
	if diff := cmp.Diff(rivals("spec.groups.g.match"), w.drift(o)); diff != "" {
		t.Error(diff)
	}
}
