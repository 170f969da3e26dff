package render

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kumodo.io/convoy/api/v1alpha1"
)

const aDeployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, labels: {app: web, tier: gold}, annotations: {team: a, long: "true"}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: "web:1", args: [a], ports: [{containerPort: 80, protocol: TCP}], env: [{name: A, value: a}]}
      - {name: side, image: "side:1"}
`

const aCustomResource = `apiVersion: x.test/v1
kind: Widget
metadata: {name: w, namespace: shop, labels: {app: web}}
spec: {size: 9007199254740993, parts: [a, b], nested: {keep: true}}
`

const aSecret = `apiVersion: v1
kind: Secret
metadata: {name: pw, namespace: shop}
stringData: {pw: S3NT1NEL}
`

var deployments, widgets = v1alpha1.MutationTarget{Group: "apps", Kind: "Deployment"}, v1alpha1.MutationTarget{Group: "x.test", Kind: "Widget"}

func patched(kind v1alpha1.PatchType, target v1alpha1.MutationTarget, template string) v1alpha1.Mutation {
	return v1alpha1.Mutation{Name: "m", Target: target, Patch: v1alpha1.Patch{Type: kind, Template: template}}
}

func evaluated(target v1alpha1.MutationTarget, expression string) v1alpha1.Mutation {
	return v1alpha1.Mutation{Name: "m", Target: target, CEL: expression}
}

func read(kind v1alpha1.PatchSourceKind, name, at string, changes ...func(*v1alpha1.Mutation)) v1alpha1.Mutation {
	m := v1alpha1.Mutation{Name: "m", Target: deployments, From: &v1alpha1.PatchSource{Kind: kind, Name: name, Path: at}}
	for _, change := range changes {
		change(&m)
	}
	return m
}

func optional(m *v1alpha1.Mutation) { m.From.Optional = true }

// mutated renders the three objects with a mutation.
func mutated(t *testing.T, in Input, mutations ...v1alpha1.Mutation) (*Output, error) {
	t.Helper()
	if in.Files == nil {
		in.Files = map[string][]byte{}
	}
	in.Files["a.yaml"] = []byte(aDeployment + "---\n" + aCustomResource + "---\n" + aSecret)
	in.Mutations, in.Context = mutations, inContext()
	return Render(t.Context(), in)
}

// at reads a path of the object of a kind, as JSON.
func at(t *testing.T, out *Output, kind string, fields ...string) string {
	t.Helper()
	i := slices.IndexFunc(out.Objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind })
	var v any = out.Objects[i].Object
	for _, f := range fields {
		if list, ok := v.([]any); ok {
			var index int
			if _, err := fmt.Sscanf(f, "%d", &index); err != nil || index >= len(list) {
				t.Fatalf("no %s in %v", f, list)
			}
			v = list[index]
			continue
		}
		m, ok := v.(map[string]any)
		if !ok {
			t.Fatalf("no %s in %v", f, v)
		}
		v = m[f]
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestMutationsChangeObjects(t *testing.T) {
	containers := []string{"spec", "template", "spec", "containers"}
	for name, tc := range map[string]struct {
		mutation v1alpha1.Mutation
		kind     string
		path     []string
		want     string
	}{
		"a strategic patch merges lists by their keys": {
			patched("Strategic", deployments, "spec: {template: {spec: {containers: [{name: web, image: 'web:{{ .cluster.region }}', env: [{name: B, value: b}]}]}}}"),
			"Deployment", append(containers, "1"), `{"image":"side:1","name":"side"}`,
		},
		"a strategic patch adds to an inner list": {
			patched("Strategic", deployments, "spec: {template: {spec: {containers: [{name: web, env: [{name: B, value: b}]}]}}}"),
			"Deployment", append(containers, "0", "env"), `[{"name":"B","value":"b"},{"name":"A","value":"a"}]`,
		},
		"a strategic patch deletes by a directive": {
			patched("Strategic", deployments, "spec: {template: {spec: {containers: [{name: side, $patch: delete}]}}}"),
			"Deployment", append(containers, "0", "name"), `"web"`,
		},
		"a strategic patch keeps numbers": {patched("Strategic", deployments, "spec: {replicas: 3}"), "Deployment", []string{"spec", "replicas"}, `3`},
		"a merge patch replaces lists":    {patched("Merge", widgets, "spec: {parts: [c], size: 9007199254740995}"), "Widget", []string{"spec"}, `{"nested":{"keep":true},"parts":["c"],"size":9007199254740995}`},
		"a JSON patch": {
			patched("JSON6902", widgets, "- {op: test, path: /spec/parts/0, value: a}\n- {op: add, path: /spec/parts/-, value: '{{ .cluster.name }}'}\n- {op: remove, path: /spec/nested}"),
			"Widget",
			[]string{"spec"},
			`{"parts":["a","b","eu-1"],"size":9007199254740993}`,
		},
		"a JSON patch that comes out empty": {patched("JSON6902", widgets, "{{ if hasKey .cluster \"nope\" }}- {}{{ end }}"), "Widget", []string{"spec", "size"}, `9007199254740993`},
		"an Object merges lists by the schema": {
			evaluated(deployments, "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: [Object.spec.template.spec.containers{name: 'web', image: 'web:' + cluster.region}]}}}}"),
			"Deployment", append(containers, "1"), `{"image":"side:1","name":"side"}`,
		},
		"an Object changes the item of its key": {
			evaluated(deployments, "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: [Object.spec.template.spec.containers{name: 'web', image: 'web:' + cluster.region}]}}}}"),
			"Deployment", append(containers, "0", "image"), `"web:eu-west-1"`,
		},
		"an Object for every container": {
			evaluated(deployments, "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: object.spec.template.spec.containers.map(c, Object.spec.template.spec.containers{name: c.name, imagePullPolicy: 'Always'})}}}}"),
			"Deployment", append(containers, "1"), `{"image":"side:1","imagePullPolicy":"Always","name":"side"}`,
		},
		"an Object over numbers": {evaluated(deployments, "Object{spec: Object.spec{replicas: object.spec.replicas * 2}}"), "Deployment", []string{"spec", "replicas"}, `4`},
		"an Object with odd keys": {
			evaluated(deployments, "Object{metadata: Object.metadata{labels: {'topology.kubernetes.io/zone': cluster['topology.kubernetes.io/zone']}}}"),
			"Deployment",
			[]string{"metadata", "labels"},
			`{"app":"web","tier":"gold","topology.kubernetes.io/zone":"a"}`,
		},
		"an Object of a kind without a schema": {
			evaluated(widgets, "Object{spec: Object.spec{parts: ['c'], nested: Object.spec.nested{more: release.name}}}"),
			"Widget",
			[]string{"spec"},
			`{"nested":{"keep":true,"more":"shop"},"parts":["c"],"size":9007199254740993}`,
		},
		"a list of JSONPatch": {
			evaluated(widgets, "[JSONPatch{op: 'replace', path: '/spec/parts', value: ['z']}, JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b'), value: 'c'}]"),
			"Widget",
			[]string{"metadata", "labels"},
			`{"a/b":"c","app":"web"}`,
		},
		"a test of JSONPatch that fails changes nothing": {
			evaluated(widgets, "[JSONPatch{op: 'test', path: '/spec/parts/0', value: 'z'}, JSONPatch{op: 'remove', path: '/spec/parts'}]"),
			"Widget",
			[]string{"spec", "parts"},
			`["a","b"]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := mutated(t, Input{}, tc.mutation)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, at(t, out, tc.kind, tc.path...)); diff != "" {
				t.Errorf("%v (-want +got):\n%s", tc.path, diff)
			}
			if diff := cmp.Diff([]v1alpha1.MutationStatus{{Name: "m", Matched: 1}}, out.Mutations); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTargetsSelectObjects(t *testing.T) {
	for name, tc := range map[string]struct {
		target v1alpha1.MutationTarget
		want   int32
	}{
		"everything":                   {v1alpha1.MutationTarget{}, 3},
		"a label":                      {v1alpha1.MutationTarget{LabelSelector: "app=web"}, 2},
		"a set of labels":              {v1alpha1.MutationTarget{LabelSelector: "tier in (gold,silver),app"}, 1},
		"a label that is not there":    {v1alpha1.MutationTarget{LabelSelector: "!app"}, 1},
		"an annotation":                {v1alpha1.MutationTarget{AnnotationSelector: "team=a,long!=false"}, 1},
		"kind, name and label":         {v1alpha1.MutationTarget{Group: "apps", Kind: "Deployment", Name: "w*", LabelSelector: "app=web"}, 1},
		"a label and another kind":     {v1alpha1.MutationTarget{Kind: "Secret", LabelSelector: "app=web"}, 0},
		"an annotation and no objects": {v1alpha1.MutationTarget{AnnotationSelector: "team=b"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := mutated(t, Input{}, patched("Merge", tc.target, "metadata: {annotations: {seen: x}}"))
			if err != nil {
				t.Fatal(err)
			}
			if got := out.Mutations[0].Matched; got != tc.want {
				t.Errorf("%d objects, want %d", got, tc.want)
			}
		})
	}
}

func TestMutationsReadPatches(t *testing.T) {
	const replicas = "spec: {replicas: 7}"
	for name, tc := range map[string]struct {
		mutation v1alpha1.Mutation
		in       Input
		replicas string
		skipped  v1alpha1.MutationSkip
	}{
		"of a ConfigMap":                 {read("ConfigMap", "over-{{ .cluster.region }}", "k"), Input{Patches: map[string][]byte{"m": []byte(replicas)}}, "7", ""},
		"of a Secret":                    {read("Secret", "s", "k"), Input{Patches: map[string][]byte{"m": []byte(replicas)}}, "7", ""},
		"of the source":                  {read("Source", "", ".clusters/{{ .cluster.name }}.yaml"), Input{Files: map[string][]byte{".clusters/eu-1.yaml": []byte(replicas)}}, "7", ""},
		"of a folder beside":             {read("Source", "", "./x/../../over.yaml"), Input{Files: map[string][]byte{"../over.yaml": []byte(replicas)}}, "7", ""},
		"that are no templates":          {read("ConfigMap", "c", "k"), Input{Patches: map[string][]byte{"m": []byte("metadata: {annotations: {x: '{{ .x }}'}}")}}, "2", ""},
		"that are empty":                 {read("ConfigMap", "c", "k"), Input{Patches: map[string][]byte{"m": {}}}, "2", ""},
		"that are optional and missing":  {read("ConfigMap", "c", "k", optional), Input{}, "2", v1alpha1.SkippedAsMissing},
		"of a file that is optional":     {read("Source", "", "nope.yaml", optional), Input{}, "2", v1alpha1.SkippedAsMissing},
		"but not when the when is false": {read("ConfigMap", "c", "k", func(m *v1alpha1.Mutation) { m.When = "cluster.name == 'x'" }), Input{}, "2", v1alpha1.SkippedByWhen},
		"of another type": {
			read("ConfigMap", "c", "k", func(m *v1alpha1.Mutation) { m.From.Type = v1alpha1.PatchJSON6902 }),
			Input{Patches: map[string][]byte{"m": []byte(`[{"op":"replace","path":"/spec/replicas","value":7}]`)}},
			"7", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := mutated(t, tc.in, tc.mutation)
			if err != nil {
				t.Fatal(err)
			}
			if got := at(t, out, "Deployment", "spec", "replicas"); got != tc.replicas {
				t.Errorf("replicas are %s, want %s", got, tc.replicas)
			}
			if got := out.Mutations[0].Skipped; got != tc.skipped {
				t.Errorf("skipped is %q, want %q", got, tc.skipped)
			}
		})
	}
}

func TestPatchesOfNamesWhatIsReadOnTheHub(t *testing.T) {
	off := read("ConfigMap", "c", "k", func(m *v1alpha1.Mutation) { m.When = "false" })
	got, err := PatchesOf(t.Context(), []v1alpha1.Mutation{
		evaluated(deployments, "not valid"), read("Source", "", "x"), off,
		read("Secret", "s-{{ .cluster.region }}", "{{ .release.name }}.yaml"),
	}, inContext())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]PatchRef{{Mutation: "m", Kind: "Secret", Name: "s-eu-west-1", Key: "shop.yaml"}}, got); diff != "" {
		t.Errorf("refs (-want +got):\n%s", diff)
	}
	_, err = PatchesOf(t.Context(), []v1alpha1.Mutation{read("Secret", "{{ .cluster.nope }}", "k")}, inContext())
	wantInvalid(t, err, `mutation m: from.name: template line 1: the key "nope" does not exist in .cluster.nope`)
}

func TestMutationsThatFailNameMutationAndObject(t *testing.T) {
	const web, w = "mutation m, Deployment.apps shop/web: ", "mutation m, Widget.x.test shop/w: "
	secrets := v1alpha1.MutationTarget{Kind: "Secret"}
	required := func(m *v1alpha1.Mutation) { m.Required = true }
	for name, tc := range map[string]struct {
		mutation v1alpha1.Mutation
		content  string
		message  string
	}{
		"required and nothing matched":                {read("Source", "", "x", required, func(m *v1alpha1.Mutation) { m.Target.Name = "z" }), "", "mutation m: it is required, and its target selects no object"},
		"a bad label selector":                        {patched("Merge", v1alpha1.MutationTarget{LabelSelector: "a=b=c"}, "a: b"), "", "mutation m: target.labelSelector is not a valid selector"},
		"a bad annotation selector":                   {patched("Merge", v1alpha1.MutationTarget{AnnotationSelector: "((("}, "a: b"), "", "mutation m: target.annotationSelector is not a valid selector"},
		"a when that fails":                           {read("Source", "", "x", func(m *v1alpha1.Mutation) { m.When = "cluster.zone == 'a'" }), "", "mutation m: when: the key \"zone\" does not exist; ask for it with 'key' in map, or take map[?'key'].orValue('')"},
		"a missing ConfigMap":                         {read("ConfigMap", "c-{{ .cluster.region }}", "k"), "", "mutation m: key k of ConfigMap c-eu-west-1 does not exist; create it or set from.optional"},
		"a missing file":                              {read("Source", "", "/etc/passwd"), "", "mutation m: file /etc/passwd of the source does not exist; create it or set from.optional"},
		"a path that comes out empty":                 {read("Source", "", "{{ get .cluster \"x\" }}"), "", "mutation m: from.path comes out empty"},
		"a patch that is a list":                      {read("ConfigMap", "c", "k"), "[a]", "mutation m: the patch in key k of ConfigMap c is not one map"},
		"a patch of a Secret":                         {read("Secret", "s", "k"), "S3NT1NEL: 1\nS3NT1NEL: 2", "mutation m: the patch in key k of Secret s is not valid YAML"},
		"a Secret's patch of the name":                {read("Secret", "s", "k"), "metadata: {name: S3NT1NEL!}", web + "after the patch it is no valid object"},
		"a strategic patch of a custom resource":      {patched("Strategic", widgets, "spec: {}"), "", w + "a Strategic patch needs a kind that is built into Kubernetes; use Merge, JSON6902 or cel"},
		"a strategic patch that does not fit":         {patched("Strategic", deployments, "spec: {template: {spec: {containers: [{image: x}]}}}"), "", web + "the Strategic patch does not fit the object"},
		"a JSON patch that is a map":                  {patched("JSON6902", deployments, "a: b"), "", web + "the patch that the template makes is not one list of operations"},
		"a JSON patch of a missing path":              {patched("JSON6902", deployments, "[{op: remove, path: /spec/nope}]"), "", web + "a path of the JSON patch does not exist"},
		"a JSON patch whose test fails":               {patched("JSON6902", deployments, "[{op: test, path: /spec/replicas, value: 9}]"), "", web + "a test of the JSON patch fails"},
		"a JSON patch of texts":                       {patched("JSON6902", deployments, "[a, b]"), "", web + "the JSON patch does not fit the object"},
		"a JSON patch that drops everything":          {patched("JSON6902", deployments, "[{op: replace, path: '', value: 1}]"), "", web + "the JSON patch does not fit the object"},
		"an expression that fails":                    {evaluated(deployments, "Object{spec: Object.spec{replicas: object.spec.nope}}"), "", web + "the key \"nope\" does not exist; ask for it with 'key' in map, or take map[?'key'].orValue('')"},
		"an Object with a field too many":             {evaluated(deployments, "Object{spec: Object.spec{replica: 1}}"), "", web + "the Object does not fit the kind: it has no field .spec.replica"},
		"an Object with a wrong type":                 {evaluated(deployments, "Object{spec: Object.spec{replicas: 'S3NT1NEL'}}"), "", web + "the Object does not fit the kind"},
		"an Object over an atomic list":               {evaluated(deployments, "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: [Object.spec.template.spec.containers{name: 'web', args: ['b']}]}}}}"), "", web + "spec.template.spec.containers.args can only be replaced as a whole, which an Object does not do; use JSONPatch"},
		"another name":                                {evaluated(widgets, "Object{metadata: Object.metadata{name: 'z'}}"), "", w + "a patch must not change apiVersion, kind, name or namespace"},
		"a Secret's value as a name":                  {evaluated(secrets, "Object{metadata: Object.metadata{name: object.stringData.pw}}"), "", "mutation m, Secret shop/pw: after the patch it is no valid object"},
		"a Secret's value as a key":                   {evaluated(secrets, "Object{metadata: Object.metadata{labels: {object.stringData.pw: 1}}}"), "", "mutation m, Secret shop/pw: the Object does not fit the kind"},
		"a Secret's value as a key that is asked for": {evaluated(secrets, "Object{data: {'a': cluster[object.stringData.pw]}}"), "", "mutation m, Secret shop/pw: a key does not exist; ask for it with 'key' in map, or take map[?'key'].orValue('')"},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{}
			if tc.content != "" {
				in.Patches = map[string][]byte{"m": []byte(tc.content)}
			}
			_, err := mutated(t, in, tc.mutation)
			wantInvalid(t, err, tc.message)
		})
	}
}

// allKinds is one mutation of each kind.
var allKinds = []v1alpha1.Mutation{
	patched("Strategic", deployments, "spec: {template: {spec: {containers: [{name: web, env: [{name: Z, value: '{{ .cluster.region }}'}, {name: X, value: x}]}]}}}"),
	patched("Merge", v1alpha1.MutationTarget{}, "metadata: {labels: {zone: '{{ index .cluster \"topology.kubernetes.io/zone\" }}'}}"),
	patched("JSON6902", widgets, "- {op: add, path: /spec/parts/-, value: c}"),
	evaluated(deployments, "Object{metadata: Object.metadata{annotations: {'a': cluster.map(k, k).filter(k, k.startsWith('r')).join(','), 'b': string(release.labels.size())}}}"),
	evaluated(widgets, "Object{spec: Object.spec{nested: Object.spec.nested{z: 1, y: {'q': 2, 'p': 3}}}}"),
	evaluated(widgets, "[JSONPatch{op: 'add', path: '/spec/more', value: Object.spec.more{b: 1, a: 2}}]"),
	read("Source", "", ".clusters/{{ .cluster.name }}.yaml"),
}

func TestEveryKindOfMutationMatchesItsGoldenFile(t *testing.T) {
	out, err := mutated(t, Input{Files: map[string][]byte{".clusters/eu-1.yaml": []byte("spec: {replicas: 7}")}}, allKinds...)
	if err != nil {
		t.Fatal(err)
	}
	matchGolden(t, "mutations", out.Canonical)
}

func TestAHundredRendersOfPermutedInputsHaveOneDigest(t *testing.T) {
	first := ""
	for range 100 {
		// The context's maps, and the keys of the objects, come in another order each time.
		in := Input{Files: map[string][]byte{".clusters/eu-1.yaml": []byte("spec: {replicas: 7}")}, Mutations: allKinds, Context: inContext()}
		keys := slices.Collect(maps.Keys(in.Context.Cluster))
		rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		permuted := map[string]string{}
		for _, k := range keys {
			permuted[k] = in.Context.Cluster[k]
		}
		in.Context.Cluster = permuted
		labels := []string{"app: web", "tier: gold", "a: b", "c: d"}
		rand.Shuffle(len(labels), func(i, j int) { labels[i], labels[j] = labels[j], labels[i] })
		docs := []string{strings.Replace(aDeployment, "app: web, tier: gold", strings.Join(labels, ", "), 1), aCustomResource, aSecret}
		rand.Shuffle(len(docs), func(i, j int) { docs[i], docs[j] = docs[j], docs[i] })
		in.Files["a.yaml"] = []byte(strings.Join(docs, "---\n"))
		out, err := Render(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = out.Digest
		}
		if out.Digest != first {
			t.Fatalf("the digests are %s and %s", first, out.Digest)
		}
	}
}

func FuzzPatch(f *testing.F) {
	for _, seed := range []string{
		"spec: {replicas: 1, template: {spec: {containers: [{name: web, $patch: delete}, {$setElementOrder/ports: [1]}]}}}",
		"[{op: copy, from: /spec, path: /spec/x}, {op: move, from: /a, path: ''}]", "$patch: replace", "metadata: null", "- {op: add, path: /metadata/labels/a~1b, value: 'c'}",
		"spec: {$retainKeys: [a], $deleteFromPrimitiveList/x: [1]}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, kind := range []v1alpha1.PatchType{v1alpha1.PatchStrategic, v1alpha1.PatchMerge, v1alpha1.PatchJSON6902} {
			m := read("ConfigMap", "c", "k", func(m *v1alpha1.Mutation) { m.From.Type = kind })
			out, err := mutated(t, Input{Patches: map[string][]byte{"m": []byte(text)}}, m)
			if err != nil {
				continue
			}
			if _, err := Decode(out.Canonical); err != nil {
				t.Fatal(err)
			}
			again, err := mutated(t, Input{Patches: map[string][]byte{"m": []byte(text)}}, m)
			if err != nil || again.Digest != out.Digest {
				t.Errorf("%s: a second render differs: %v", kind, err)
			}
		}
	})
}
