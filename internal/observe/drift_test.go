package observe

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const ours = "convoy-1"

// entry is one of managedFields: manager, operation, subresource, fields; of apps/v1 unless the manager is manager@version.
func entry(manager, operation, subresource, fields string) metav1.ManagedFieldsEntry {
	name, version, found := strings.Cut(manager, "@")
	if !found {
		version = "apps/v1"
	}
	return metav1.ManagedFieldsEntry{
		Manager: name, Operation: metav1.ManagedFieldsOperationType(operation), Subresource: subresource, APIVersion: version,
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
	}
}

func applies(fields string) metav1.ManagedFieldsEntry { return entry(ours, "Apply", "", fields) }

func updates(manager, fields string) metav1.ManagedFieldsEntry {
	return entry(manager, "Update", "", fields)
}

func TestAFieldThatIsOwnedNoMoreHasDrifted(t *testing.T) {
	const meta = `apiVersion: apps/v1, kind: W, metadata: {name: w, namespace: x, uid: u, creationTimestamp: null}`
	lost := func(paths ...string) Drift { return Drift{Paths: paths, Lost: len(paths)} }
	to := func(rival string, d Drift) Drift {
		d.Rivals = []string{rival}
		return d
	}
	unsure := Drift{Unsure: true}
	tests := map[string]struct {
		object string
		ignore []string
		fields []metav1.ManagedFieldsEntry
		want   Drift
	}{
		"all is owned": {
			`spec: {a: 1, b: {c: x}}`, nil,
			[]metav1.ManagedFieldsEntry{applies(`{"f:spec":{"f:a":{},"f:b":{"f:c":{}}}}`)},
			Drift{},
		},
		"one is not": {
			`spec: {a: 1, b: {c: x}}`, nil,
			[]metav1.ManagedFieldsEntry{applies(`{"f:spec":{"f:a":{}}}`)},
			lost("spec.b.c"),
		},
		"one is another's": {
			`spec: {a: 1, b: {c: x}}`, nil,
			[]metav1.ManagedFieldsEntry{applies(`{"f:spec":{"f:a":{}}}`), updates("edit", `{"f:spec":{"f:b":{"f:c":{}}}}`)},
			to("edit", lost("spec.b.c")),
		},
		"one is shared": {
			`spec: {a: 1}`, nil,
			[]metav1.ManagedFieldsEntry{applies(`{"f:spec":{"f:a":{}}}`), updates("edit", `{"f:spec":{"f:a":{}}}`)},
			Drift{},
		},
		"no entry": {`spec: {a: 1, b: [2], c: {d: e}}`, nil, nil, lost("spec.a", "spec.b", "spec.c.d")},
		"an entry of a subresource only": {
			`spec: {a: 1}`, nil,
			[]metav1.ManagedFieldsEntry{entry(ours, "Apply", "status", `{"f:spec":{"f:a":{}}}`)},
			lost("spec.a"),
		},
		"the scale of another": {
			`spec: {replicas: 2}`, nil,
			[]metav1.ManagedFieldsEntry{applies(`{"f:spec":{"f:b":{}}}`), entry("hpa", "Update", "scale", `{"f:spec":{"f:replicas":{}}}`)},
			to("hpa", lost("spec.replicas")),
		},
		"from before an adoption": {
			`spec: {a: 1, b: 2}`, nil,
			[]metav1.ManagedFieldsEntry{updates(ours, `{"f:spec":{"f:a":{}}}`), applies(`{"f:spec":{"f:b":{}}}`)},
			Drift{},
		},
		"null is no wish":      {`spec: {a: null}`, nil, []metav1.ManagedFieldsEntry{applies(`{"f:x":{}}`)}, Drift{}},
		"the status is none":   {`status: {a: 1}`, nil, []metav1.ManagedFieldsEntry{applies(`{"f:x":{}}`)}, Drift{}},
		"but a field of it is": {`spec: {status: a, kind: b, name: c}`, nil, nil, lost("spec.kind", "spec.name", "spec.status")},
		"a map as a whole, of which no sibling tells whether a schema has it": {
			`spec: {a: {b: {c: d}}}`, nil, []metav1.ManagedFieldsEntry{applies(`{"f:spec":{"f:a":{}}}`)}, unsure,
		},
		"an atomic map beside one that a schema has": {
			`spec: {a: {b: {c: d}}, e: {f: g}}`, nil, []metav1.ManagedFieldsEntry{applies(`{"f:spec":{"f:a":{},"f:e":{"f:f":{}}}}`)}, Drift{},
		},
		"an atomic map that another has": {
			`spec: {a: {b: {c: d}, e: f}}`, nil,
			[]metav1.ManagedFieldsEntry{applies(`{"f:spec":{"f:x":{}}}`), updates("edit", `{"f:spec":{"f:a":{}}}`)},
			to("edit", lost("spec.a")),
		},
		"a map whose name is all that is left, and its field another's": {
			`spec: {a: {b: c}}`, nil,
			[]metav1.ManagedFieldsEntry{applies(`{"f:spec":{"f:a":{}}}`), updates("edit", `{"f:spec":{"f:a":{"f:b":{}}}}`)},
			to("edit", lost("spec.a.b")),
		},
		"a map whose name is all that is left, among such": {
			`spec: {a: {b: c}, d: {e: f}}`, nil,
			[]metav1.ManagedFieldsEntry{applies(`{"f:spec":{"f:a":{},"f:d":{".":{},"f:e":{}}}}`)},
			unsure,
		},
		"an empty map": {`spec: {a: {}}`, nil, []metav1.ManagedFieldsEntry{applies(`{"f:spec":{"f:a":{}}}`)}, Drift{}},
		"an empty map that somebody added to": {
			`spec: {a: {}}`, nil,
			[]metav1.ManagedFieldsEntry{applies(`{"f:x":{}}`), updates("edit", `{"f:spec":{"f:a":{".":{},"f:b":{}}}}`)},
			Drift{},
		},
		"an empty map that another set as a whole": {
			`spec: {a: {}}`, nil,
			[]metav1.ManagedFieldsEntry{applies(`{"f:x":{}}`), updates("edit", `{"f:spec":{"f:a":{}}}`)},
			to("edit", lost("spec.a")),
		},
		"an empty map that is gone": {`spec: {a: {}}`, nil, []metav1.ManagedFieldsEntry{applies(`{"f:x":{}}`)}, unsure},
		"an empty list":             {`spec: {a: []}`, nil, []metav1.ManagedFieldsEntry{applies(`{"f:x":{}}`)}, Drift{}},
		"an empty list that another set as a whole": {
			`spec: {a: []}`, nil,
			[]metav1.ManagedFieldsEntry{applies(`{"f:x":{}}`), updates("edit", `{"f:spec":{"f:a":{}}}`)},
			to("edit", lost("spec.a")),
		},
		"an atomic list": {`spec: {a: [b, {c: d}]}`, nil, []metav1.ManagedFieldsEntry{applies(`{"f:spec":{"f:a":{}}}`)}, Drift{}},
		"an item that another changed": {
			`spec: {a: [{name: x, v: 1}, {name: z, v: 2}]}`, nil,
			[]metav1.ManagedFieldsEntry{
				applies(`{"f:spec":{"f:a":{"k:{\"name\":\"x\"}":{".":{},"f:name":{},"f:v":{}},"k:{\"name\":\"z\"}":{".":{},"f:name":{}}}}}`),
				updates("edit", `{"f:spec":{"f:a":{"k:{\"name\":\"z\"}":{"f:v":{}}}}}`),
			},
			to("edit", lost("spec.a[name=z].v")),
		},
		"an item that is gone": {
			`spec: {a: [{name: x}, {name: z}]}`, nil,
			[]metav1.ManagedFieldsEntry{applies(`{"f:spec":{"f:a":{"k:{\"name\":\"x\"}":{".":{},"f:name":{}}}}}`)},
			lost("spec.a[name=z].name"),
		},
		"an item that another replaced, of a list of one": {
			`spec: {a: [{name: x}]}`, nil,
			[]metav1.ManagedFieldsEntry{applies(`{"f:x":{}}`), updates("edit", `{"f:spec":{"f:a":{"k:{\"name\":\"z\"}":{".":{},"f:name":{}}}}}`)},
			lost("spec.a[name=x].name"),
		},
		"items that are told apart by a default": {
			`spec: {ports: [{port: 53}, {port: 53, protocol: UDP, name: u}]}`, nil,
			[]metav1.ManagedFieldsEntry{applies(`{"f:spec":{"f:ports":{"k:{\"port\":53,\"protocol\":\"TCP\"}":{".":{},"f:port":{}},` +
				`"k:{\"port\":53,\"protocol\":\"UDP\"}":{".":{},"f:port":{},"f:protocol":{},"f:name":{}}}}}`)},
			Drift{},
		},
		"of these the defaulted one is gone": {
			`spec: {ports: [{port: 53}, {port: 53, protocol: UDP}]}`, nil,
			[]metav1.ManagedFieldsEntry{applies(`{"f:spec":{"f:ports":{"k:{\"port\":53,\"protocol\":\"UDP\"}":{".":{},"f:port":{},"f:protocol":{}}}}}`)},
			lost("spec.ports[port=53].port"),
		},
		"of these the other is gone": {
			`spec: {ports: [{port: 53}, {port: 53, protocol: UDP}]}`, nil,
			[]metav1.ManagedFieldsEntry{applies(`{"f:spec":{"f:ports":{"k:{\"port\":53,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}}}}`)},
			lost("spec.ports[port=53,protocol=UDP].port", "spec.ports[port=53,protocol=UDP].protocol"),
		},
		"an item that could be either of two": {
			`spec: {a: [{id: 1}]}`, nil,
			[]metav1.ManagedFieldsEntry{applies(`{"f:spec":{"f:a":{"k:{\"id\":1,\"zone\":\"a\"}":{".":{},"f:id":{}},"k:{\"id\":1,\"zone\":\"b\"}":{".":{},"f:id":{}}}}}`)},
			unsure,
		},
		"a set": {
			`metadata: {finalizers: [a/b, c/d]}`, nil,
			[]metav1.ManagedFieldsEntry{applies(`{"f:metadata":{"f:finalizers":{".":{},"v:\"a/b\"":{}}}}`)},
			lost("metadata.finalizers[c/d]"),
		},
		"indices":     {`spec: {a: [x, y]}`, nil, []metav1.ManagedFieldsEntry{applies(`{"f:spec":{"f:a":{"i:0":{}}}}`)}, lost("spec.a[1]")},
		"a mark":      {`metadata: {labels: {convoy.kumodo.io/owner: x, a: b}}`, nil, []metav1.ManagedFieldsEntry{applies(`{"f:metadata":{"f:labels":{"f:a":{}}}}`)}, lost("metadata.labels[convoy.kumodo.io/owner]")},
		"many":        {`spec: {g: 1, f: 1, e: 1, d: 1, c: 1, b: 1, a: 1}`, nil, nil, Drift{Paths: []string{"spec.a", "spec.b", "spec.c", "spec.d", "spec.e"}, Lost: 7}},
		"many rivals": {`spec: {a: 1}`, nil, []metav1.ManagedFieldsEntry{updates("d", `{"f:spec":{"f:a":{}}}`), updates("b", `{"f:spec":{"f:a":{}}}`), updates("c", `{"f:spec":{"f:a":{}}}`), updates("a", `{"f:spec":{"f:a":{}}}`)}, Drift{Paths: []string{"spec.a"}, Lost: 1, Rivals: []string{"a", "b", "c"}}},
		"another version, all owned": {
			`spec: {a: 1}`, nil, []metav1.ManagedFieldsEntry{entry(ours+"@apps/v2", "Apply", "", `{"f:spec":{"f:a":{}}}`)}, Drift{},
		},
		"another version, moved": {
			`spec: {a: 1}`, nil, []metav1.ManagedFieldsEntry{entry(ours+"@apps/v2", "Apply", "", `{"f:spec":{"f:b":{}}}`)}, unsure,
		},
		"garbage of ours":   {`spec: {a: 1}`, nil, []metav1.ManagedFieldsEntry{applies(`{"f:spec":7}`)}, unsure},
		"emptiness of ours": {`spec: {a: 1}`, nil, []metav1.ManagedFieldsEntry{applies(`{}`)}, unsure},
		"no fields of ours": {`spec: {a: 1}`, nil, []metav1.ManagedFieldsEntry{{Manager: ours, Operation: "Apply", APIVersion: "apps/v1"}}, unsure},
		"fields of an unknown type": {
			`spec: {a: 1}`, nil, []metav1.ManagedFieldsEntry{{Manager: ours, Operation: "Apply", APIVersion: "apps/v1", FieldsType: "FieldsV2", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:a":{}}}`)}}, unsure,
		},
		"garbage of another": {
			`spec: {a: 1}`, nil, []metav1.ManagedFieldsEntry{applies(`{"f:x":{}}`), updates("edit", `{"f:spec":`)}, lost("spec.a"),
		},
		"a field that is ignored":       {`spec: {a: 1, b: 2}`, []string{"/spec/a"}, nil, lost("spec.b")},
		"a field below one":             {`spec: {a: {b: 1, c: 2}, d: 1}`, []string{"/spec/a"}, nil, lost("spec.d")},
		"all":                           {`spec: {a: 1}`, []string{""}, nil, Drift{}},
		"an annotation that is ignored": {`metadata: {annotations: {x/y: a, z~: b}}`, []string{"/metadata/annotations/x~1y", "/metadata/annotations/z~0"}, nil, Drift{}},
		"no pointer":                    {`spec: {a: 1}`, []string{"spec/a", "/spec/a/", "/spec/*"}, nil, lost("spec.a")},
		"a field of all items": {
			`spec: {a: [{name: x, v: 1}]}`,
			[]string{"/spec/a/*/v"},
			[]metav1.ManagedFieldsEntry{applies(`{"f:spec":{"f:a":{"k:{\"name\":\"x\"}":{".":{},"f:name":{}}}}}`)},
			Drift{},
		},
		"a field of an item by its index": {
			`spec: {a: [{name: x, v: 1}]}`,
			[]string{"/spec/a/7/v"},
			[]metav1.ManagedFieldsEntry{applies(`{"f:spec":{"f:a":{"k:{\"name\":\"x\"}":{".":{},"f:name":{}}}}}`)},
			Drift{},
		},
		"a part of what is owned as one": {`spec: {a: [{v: 1, w: 2}]}`, []string{"/spec/a/0/v"}, nil, unsure},
		"all of what is owned as one":    {`spec: {a: [{v: 1}]}`, []string{"/spec/a/0/v"}, nil, Drift{}},
		"a part that is not there":       {`spec: {a: [{v: 1}]}`, []string{"/spec/a/0/w"}, nil, lost("spec.a")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := fromYAML(t, `{`+meta+`}`)
			for k, v := range fromYAML(t, `{apiVersion: v1, kind: W, `+tc.object+`}`).Object {
				if k != "apiVersion" && k != "kind" {
					o.Object[k] = v
				}
			}
			if diff := cmp.Diff(tc.want, DriftOf(o, tc.fields, ours, Ignore{Pointers: tc.ignore})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhatAnIgnoredManagerTookOverIsNoDrift(t *testing.T) {
	o := fromYAML(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: x}, spec: {replicas: 2, paused: true, minReadySeconds: 5}}`)
	scaled := entry("kube-controller-manager@apps/v1", "Update", "scale", `{"f:spec":{"f:replicas":{}}}`)
	fields := []metav1.ManagedFieldsEntry{
		entry(ours+"@apps/v1", "Apply", "", `{"f:spec":{"f:minReadySeconds":{}}}`), scaled,
		entry("somebody@apps/v1", "Update", "", `{"f:spec":{"f:paused":{}}}`),
	}
	for name, tc := range map[string]struct {
		ignore Ignore
		fields []metav1.ManagedFieldsEntry
		want   Drift
	}{
		"nothing is ignored": {Ignore{}, fields, Drift{Paths: []string{"spec.paused", "spec.replicas"}, Lost: 2, Rivals: []string{"kube-controller-manager", "somebody"}}},
		"one of two":         {Ignore{Managers: []string{"kube-controller-manager", "nobody"}}, fields, Drift{Paths: []string{"spec.paused"}, Lost: 1, Rivals: []string{"somebody"}}},
		"both":               {Ignore{Managers: []string{"kube-controller-manager", "somebody"}}, fields, Drift{}},
		"what was removed is nobody's": {
			Ignore{Managers: []string{"kube-controller-manager", "somebody"}}, fields[:2], Drift{Paths: []string{"spec.paused"}, Lost: 1},
		},
	} {
		if diff := cmp.Diff(tc.want, DriftOf(o, tc.fields, ours, tc.ignore)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestNothingOfASecretIsInAPath(t *testing.T) {
	o := fromYAML(t, `{apiVersion: v1, kind: Secret, metadata: {name: s, finalizers: [hidden/1, hidden/2, kept/1]}, data: {password: aGlkZGVu, wrong: {hidden: [hidden]}}}`)
	got := DriftOf(o, []metav1.ManagedFieldsEntry{entry(ours+"@v1", "Apply", "", `{"f:metadata":{"f:finalizers":{"v:\"kept/1\"":{}}}}`)}, ours, Ignore{})
	want := Drift{Paths: []string{"data.password", "data.wrong", "metadata.finalizers[]"}, Lost: 4}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAPathIsOneLineThatEnds(t *testing.T) {
	long := strings.Repeat("é", 400)
	o := fromYAML(t, `{apiVersion: apps/v1, kind: W, metadata: {name: s, finalizers: ["`+long+`", "a\nb"]}, spec: {"`+long+`": 1, "a\nb": 1, "": 1}}`)
	got := DriftOf(o, []metav1.ManagedFieldsEntry{applies(`{"f:metadata":{"f:finalizers":{"v:\"kept/1\"":{}}}}`)}, ours, Ignore{})
	want := []string{
		"metadata.finalizers[ab]", "metadata.finalizers[" + strings.Repeat("é", 30) + "...]", "spec.ab", "spec." + strings.Repeat("é", 157) + "...", "spec[]",
	}
	if diff := cmp.Diff(want, got.Paths); diff != "" {
		t.Error(diff)
	}
}

func TestWithoutAnObjectNothingIsSure(t *testing.T) {
	if got := DriftOf(nil, nil, ours, Ignore{}); !got.Unsure || got.Lost > 0 {
		t.Error(got)
	}
}

func FuzzDriftOf(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"v1","kind":"Secret","stringData":{"a":"b"},"data":{"c":"d"}}`), []byte(`{"f:data":{".":{},"f:c":{}}}`), []byte(`{"f:data":{"f:c":{}}}`), "/data/c")
	f.Add([]byte(`{"apiVersion":"v1","kind":"X","spec":{"p":[{"a":1},{"a":1,"b":"UDP"},null,[1],7]}}`), []byte(`{"f:spec":{"f:p":{"k:{\"a\":1,\"b\":\"TCP\"}":{".":{},"f:a":{}},"k:{}":{}}}}`), []byte(`{"f:spec":{"f:p":{"v:{\"a\":1}":{},"i:3":{}}}}`), "/spec/p/*/a")
	f.Add([]byte(`{"apiVersion":"v1","kind":"X","spec":{"p":["a",{"b":[1]},null],"q":{},"r":[]}}`), []byte(`{"f:spec":{"f:p":{"v:\"a\"":{},"v:null":{},"v:[1]":{}}}}`), []byte(`{"f:spec":{"f:q":{},"f:r":{}}}`), "")
	f.Add([]byte(`{"apiVersion":"v1","kind":"X","a":{"b":{"c":1},"d":{"e":1}}}`), []byte(`{"f:a":{"f:b":{},"f:d":{".":{},"f:e":{}}}}`), []byte(`null`), "/a/~01")
	f.Fuzz(func(t *testing.T, applied, own, other []byte, pointer string) {
		var object map[string]any
		if json.Unmarshal(applied, &object) != nil {
			return
		}
		o := &unstructured.Unstructured{Object: object}
		before := o.DeepCopy()
		managed := []metav1.ManagedFieldsEntry{
			entry(ours+"@v1", "Apply", "", string(own)), entry(ours+"@v1", "Update", "", string(other)), entry("x@v1", "Update", "", string(other)),
		}
		for _, fields := range [][]metav1.ManagedFieldsEntry{managed, managed[:2], {managed[0], managed[2]}} {
			got := DriftOf(o, fields, ours, Ignore{Pointers: []string{pointer}})
			if again := DriftOf(o, fields, ours, Ignore{Pointers: []string{pointer}}); !cmp.Equal(got, again) {
				t.Errorf("once %v, then %v", got, again)
			}
			if len(got.Paths) > maxPaths || len(got.Paths) > got.Lost || got.Lost > 0 && len(got.Paths) == 0 || len(got.Rivals) > maxRivals || !slices.IsSorted(got.Paths) {
				t.Errorf("%+v", got)
			}
			for _, p := range got.Paths {
				if !utf8.ValidString(p) || strings.ContainsAny(p, "\r\n") {
					t.Errorf("%q", p)
				}
			}
		}
		if !cmp.Equal(before.Object, o.Object) {
			t.Error("the object was changed")
		}
	})
}

// BenchmarkDriftOf: a Deployment of usual size, of which nothing is lost, or one image.
func BenchmarkDriftOf(b *testing.B) {
	o, managed := usualDeployment(b)
	b.Run("owned", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if d := DriftOf(o, managed, ours, Ignore{}); d.Lost > 0 || d.Unsure {
				b.Fatal(d)
			}
		}
	})
	lost := slices.Clone(managed)
	lost[0] = applies(strings.Replace(managed[0].FieldsV1.GetRawString(), `"f:image":{},`, "", 1))
	b.Run("lost", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if d := DriftOf(o, lost, ours, Ignore{}); d.Lost != 1 {
				b.Fatal(d)
			}
		}
	})
}

func usualDeployment(tb testing.TB) (*unstructured.Unstructured, []metav1.ManagedFieldsEntry) {
	tb.Helper()
	var env, fields []string
	for i := range 20 {
		name := "VARIABLE_" + strconv.Itoa(10+i)
		env = append(env, `{name: `+name+`, value: x}`)
		fields = append(fields, `"k:{\"name\":\"`+name+`\"}":{".":{},"f:name":{},"f:value":{}}`)
	}
	o := fromYAML(tb, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web, tier: front, convoy.kumodo.io/owner: x}, annotations: {convoy.kumodo.io/release: a/b}}
spec:
  replicas: 3
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web, tier: front}, annotations: {checksum: x}}
    spec:
      serviceAccountName: web
      securityContext: {runAsNonRoot: true, runAsUser: 1000}
      volumes: [{name: config, configMap: {name: web}}, {name: tmp, emptyDir: {}}]
      containers:
      - name: web
        image: example.test/web:1
        args: [serve, --port, "8080"]
        ports: [{containerPort: 8080, name: http}, {containerPort: 9090, name: metrics}]
        resources: {limits: {cpu: 1000m, memory: 1Gi}, requests: {cpu: 100m, memory: 128Mi}}
        livenessProbe: {httpGet: {path: /healthz, port: http}, periodSeconds: 10}
        readinessProbe: {httpGet: {path: /readyz, port: http}, periodSeconds: 10}
        volumeMounts: [{name: config, mountPath: /etc/web}, {name: tmp, mountPath: /tmp}]
        env: [`+strings.Join(env, ", ")+`]
`)
	probe := `{"f:httpGet":{"f:path":{},"f:port":{}},"f:periodSeconds":{}}`
	own := `{"f:metadata":{"f:annotations":{"f:convoy.kumodo.io/release":{}},"f:labels":{"f:app":{},"f:convoy.kumodo.io/owner":{},"f:tier":{}}},` +
		`"f:spec":{"f:replicas":{},"f:selector":{},"f:strategy":{"f:rollingUpdate":{"f:maxSurge":{},"f:maxUnavailable":{}},"f:type":{}},` +
		`"f:template":{"f:metadata":{"f:annotations":{"f:checksum":{}},"f:labels":{"f:app":{},"f:tier":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":` +
		`{".":{},"f:args":{},"f:env":{` + strings.Join(fields, ",") + `},"f:image":{},"f:livenessProbe":` + probe + `,"f:name":{},` +
		`"f:ports":{"k:{\"containerPort\":8080,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:name":{}},"k:{\"containerPort\":9090,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:name":{}}},` +
		`"f:readinessProbe":` + probe + `,"f:resources":{"f:limits":{"f:cpu":{},"f:memory":{}},"f:requests":{"f:cpu":{},"f:memory":{}}},` +
		`"f:volumeMounts":{"k:{\"mountPath\":\"/etc/web\"}":{".":{},"f:mountPath":{},"f:name":{}},"k:{\"mountPath\":\"/tmp\"}":{".":{},"f:mountPath":{},"f:name":{}}}}},` +
		`"f:securityContext":{"f:runAsNonRoot":{},"f:runAsUser":{}},"f:serviceAccountName":{},` +
		`"f:volumes":{"k:{\"name\":\"config\"}":{".":{},"f:configMap":{"f:name":{}},"f:name":{}},"k:{\"name\":\"tmp\"}":{".":{},"f:emptyDir":{},"f:name":{}}}}}}}`
	status := `{"f:metadata":{"f:annotations":{"f:deployment.kubernetes.io/revision":{}}},"f:status":{"f:availableReplicas":{},"f:conditions":{".":{},` +
		`"k:{\"type\":\"Available\"}":{".":{},"f:lastTransitionTime":{},"f:lastUpdateTime":{},"f:message":{},"f:reason":{},"f:status":{},"f:type":{}}},` +
		`"f:observedGeneration":{},"f:readyReplicas":{},"f:replicas":{},"f:updatedReplicas":{}}}`
	return o, []metav1.ManagedFieldsEntry{applies(own), entry("kube-controller-manager", "Update", "status", status)}
}
