package render

import (
	"strings"
	"testing"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/failure"
)

func wantInvalid(t *testing.T, err error, message string) {
	t.Helper()
	f, ok := failure.As(err)
	if !ok {
		t.Fatalf("error %v is no failure", err)
	}
	if f.Message != message || f.Reason != v1alpha1.ReasonRenderFailed || !f.Terminal {
		t.Errorf("failure is\n  %s, terminal %v: %s\nwant\n  %s, terminal true: %s", f.Reason, f.Terminal, f.Message, v1alpha1.ReasonRenderFailed, message)
	}
}

// cm is a ConfigMap in one line, with more fields of metadata.
func cm(metadata string) string {
	return "{apiVersion: v1, kind: ConfigMap, metadata: {" + metadata + "}}\n"
}

func TestInvalidManifestsAreNamed(t *testing.T) {
	for name, tc := range map[string]struct{ file, content, message string }{
		"a duplicate key":                 {"a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels: {a: b}\n  labels: {c: d}\n", `a.yaml: line 6: the key "labels" is set twice`},
		"a duplicate key that is quoted":  {"a.yaml", "x: 1\n\"x\": 2\n", `a.yaml: line 2: the key "x" is set twice`},
		"a duplicate key in a second doc": {"a.yaml", cm("name: a") + "---\nx: {y: 1, y: 2}\n", `a.yaml: line 3: the key "y" is set twice`},
		"a duplicate key in JSON":         {"a.json", "{\"a\": 1,\n\"a\": 2}", `a.json: line 2: the key "a" is set twice`},
		"a large integer":                 {"a.yaml", "a:\n- 9223372036854775808\n", `a.yaml: line 2: a number is too large to be kept exactly; quote it if it is a text`},
		"a very large integer":            {"a.yaml", "a: 123456789012345678901234567890", `a.yaml: line 1: a number is too large to be kept exactly; quote it if it is a text`},
		"a large integer in JSON":         {"a.json", "{\"a\": 18446744073709551615}", `a.json: line 1: a number is too large to be kept exactly; quote it if it is a text`},
		"infinity":                        {"a.yaml", "a: .inf", `a.yaml: line 1: a number cannot be written as JSON`},
		"YAML that is broken":             {"a.yaml", "a: [S3NT1NEL\nb: {", `a.yaml: line 1: it is not valid YAML: did not find expected ',' or ']'`},
		"a template that is no YAML":      {"a.yaml", "a: {{ .Values.S3NT1NEL }}", `a.yaml: line 1: a key is not a text`},
		"JSON that is broken":             {"a.json", "{\"a\": \"S3NT1NEL\",\n", `a.json: line 1: it is not valid JSON`},
		"JSON that is cut off":            {"a.json", "[", `a.json: line 1: it is not valid JSON`},
		"a tag":                           {"a.yaml", "a: !secret S3NT1NEL", `a.yaml: line 1: the tag "!secret" is not supported`},
		"binary":                          {"a.yaml", "a: !!binary UzNOVA==", `a.yaml: line 1: the tag "!!binary" is not supported`},
		"a wrong tag":                     {"a.yaml", "a: !!int S3NT1NEL", `a.yaml: line 1: a number is too large to be kept exactly; quote it if it is a text`},
		"aliases that explode":            {"a.yaml", bomb(), `a.yaml: line 1: its aliases expand to too much`},
		"an alias of itself":              {"a.yaml", "a: &a [*a]", `a.yaml: line 1: it is nested too deeply`},
		"deep nesting":                    {"a.yaml", strings.Repeat("[", 600) + strings.Repeat("]", 600), `a.yaml: line 1: it is nested too deeply`},
		"deep nesting in JSON":            {"a.json", strings.Repeat("[", 600) + strings.Repeat("]", 600), `a.json: line 1: it is nested too deeply`},
		"an unknown anchor":               {"a.yaml", "a: *x", `a.yaml: it is not valid YAML: unknown anchor 'x' referenced`},
		"a merge of no map":               {"a.yaml", "a: {<<: [1]}", `a.yaml: line 1: a merge key (<<) needs a map or a list of maps`},

		"no kind":                                 {"a.yaml", "apiVersion: v1\nmetadata: {name: a}\n", `a.yaml, document 1: kind is missing`},
		"no apiVersion":                           {"a.yaml", cm("name: b") + "---\nkind: ConfigMap\nmetadata: {name: a}\n", `a.yaml, document 2: apiVersion is missing`},
		"a misspelt apiVersion":                   {"a.yaml", "apiversion: v1\nkind: ConfigMap\n", `a.yaml, document 1: apiVersion is missing`},
		"neither, with metadata":                  {"a.yaml", "metadata: {name: a}\ndata: {}\n", `a.yaml, document 1: kind is missing`},
		"neither, beside an object":               {"a.yaml", cm("name: b") + "---\nreplicaCount: 2\n", `a.yaml, document 2: apiVersion and kind are missing`},
		"a list beside an object":                 {"a.yaml", "[a]\n---\n" + cm("name: b"), `a.yaml, document 1: apiVersion and kind are missing`},
		"an empty kind":                           {"a.yaml", "{apiVersion: v1, kind: '', metadata: {name: a}}", `a.yaml, document 1: kind is missing or invalid`},
		"a kind that is no text":                  {"a.yaml", "{apiVersion: v1, kind: [a], metadata: {name: a}}", `a.yaml, document 1: kind is missing or invalid`},
		"an apiVersion with two slashes":          {"a.yaml", "{apiVersion: a/b/c, kind: X, metadata: {name: a}}", `a.yaml, document 1: X: apiVersion is missing or invalid`},
		"no metadata":                             {"a.yaml", "{apiVersion: v1, kind: ConfigMap}", `a.yaml, document 1: ConfigMap: metadata is missing`},
		"no name":                                 {"a.yaml", cm("labels: {}"), `a.yaml, document 1: ConfigMap: metadata.name is missing`},
		"an empty name":                           {"a.yaml", cm("name: ''"), `a.yaml, document 1: ConfigMap: metadata.name is missing`},
		"a name that is a number":                 {"a.yaml", cm("name: 123"), `a.yaml, document 1: ConfigMap: metadata.name is not a text; quote it`},
		"a name in upper case":                    {"a.yaml", cm("name: Web"), `a.yaml, document 1: ConfigMap: metadata.name "Web" is not valid: use at most 253 lower-case letters, digits, dots and dashes`},
		"a name that is too long":                 {"a.yaml", cm("name: " + strings.Repeat("a", 254)), `a.yaml, document 1: ConfigMap: metadata.name "` + strings.Repeat("a", 120) + `…" is not valid: use at most 253 lower-case letters, digits, dots and dashes`},
		"a role's name with a slash":              {"a.yaml", "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: a/b}}", `a.yaml, document 1: Role: metadata.name "a/b" is not a valid name`},
		"generateName":                            {"a.yaml", cm("name: a") + "---\n" + cm("generateName: a-"), `a.yaml, document 2: ConfigMap: metadata.generateName would make a new object at each apply; set metadata.name instead`},
		"a namespace that is no name":             {"a.yaml", cm("name: a, namespace: a.b"), `a.yaml, document 1: ConfigMap: metadata.namespace is not a valid name`},
		"labels that are no map":                  {"a.yaml", cm("name: a, labels: [x]"), `a.yaml, document 1: ConfigMap: metadata.labels is not a map`},
		"an annotation that is no text":           {"a.yaml", cm("name: a, annotations: {x: 8675309}"), `a.yaml, document 1: ConfigMap: metadata.annotations: the value of "x" is not a text; quote it`},
		"an item that is no object":               {"a.yaml", "{apiVersion: v1, kind: List, items: [a]}", `a.yaml, document 1, item 1: it is not an object`},
		"an item without a name":                  {"a.yaml", "{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Pod, metadata: {}}]}]}", `a.yaml, document 1, item 1, item 1: Pod: metadata.name is missing`},
		"an item without a kind":                  {"a.yaml", "{apiVersion: v1, kind: List, items: [{metadata: {name: a}}]}", `a.yaml, document 1, item 1: apiVersion is missing or invalid`},
		"items that are no list":                  {"a.yaml", "{apiVersion: v1, kind: List, items: {}}", `a.yaml, document 1: items of the List is not a list`},
		"the same object twice":                   {"a.yaml", cm("name: a") + "---\n" + cm("name: b") + "---\n" + cm("name: a"), `ConfigMap a is defined twice: in a.yaml, document 1 and in a.yaml, document 3`},
		"the same object in another version":      {"a.yaml", "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, namespace: x}}\n---\n{apiVersion: apps/v1beta1, kind: Deployment, metadata: {name: a, namespace: x}}", `Deployment.apps x/a is defined twice: in a.yaml, document 1 and in a.yaml, document 2`},
		"with and without the target's namespace": {"a.yaml", cm("name: a, namespace: apps") + "---\n" + cm("name: a"), `ConfigMap a is defined twice: in a.yaml, document 1 and in a.yaml, document 2`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Render(t.Context(), Input{Files: map[string][]byte{tc.file: []byte(tc.content)}, TargetNamespace: "apps"})
			wantInvalid(t, err, tc.message)
		})
	}
}

// bomb is a document that is small until its aliases are expanded.
func bomb() string {
	b := strings.Builder{}
	b.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i < 10; i++ {
		prev := "*a" + string(rune('0'+i-1))
		b.WriteString("a" + string(rune('0'+i)) + ": &a" + string(rune('0'+i)) + " [" + strings.Repeat(prev+",", 10) + "]\n")
	}
	return b.String()
}

func TestWhatLooksOddButIsValidRenders(t *testing.T) {
	for name, tc := range map[string]struct {
		file, content string
		objects       int
	}{
		"a byte order mark":                       {"a.yaml", "\ufeff" + cm("name: a"), 1},
		"a byte order mark in JSON":               {"a.json", "\ufeff" + `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}`, 1},
		"documents that are empty":                {"a.yaml", "---\n---\n" + cm("name: a") + "---\n# x\n---\n", 1},
		"two documents in JSON":                   {"a.json", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}} {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}`, 2},
		"Windows line ends":                       {"a.yaml", "apiVersion: v1\r\nkind: ConfigMap\r\nmetadata:\r\n  name: a\r\n", 1},
		"a key overriding a merged one":           {"a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nx: &x {a: b}\ndata: {<<: *x, a: c}\n", 1},
		"a list without items":                    {"a.yaml", "{apiVersion: v1, kind: List, items: []}", 0},
		"a list without even the field":           {"a.yaml", "{apiVersion: v1, kind: List}", 0},
		"one name in two namespaces":              {"a.yaml", cm("name: a, namespace: x") + "---\n" + cm("name: a"), 2},
		"one name in two groups":                  {"a.yaml", "{apiVersion: a.test/v1, kind: X, metadata: {name: a}}\n---\n{apiVersion: b.test/v1, kind: X, metadata: {name: a}}", 2},
		"keys that are numbers":                   {"a.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {8080: x}}", 1},
		"kustomize's files in a plain source":     {"sub/kustomization.yaml", "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nmetadata: {name: x}\n", 0},
		"an object below a folder that is hidden": {".x/a.yaml", "a: [", 0},
		"another extension":                       {"a.txt", "a: [", 0},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := Render(t.Context(), Input{Files: map[string][]byte{tc.file: []byte(tc.content)}, TargetNamespace: "apps"})
			if err != nil {
				t.Fatal(err)
			}
			if len(out.Objects) != tc.objects {
				t.Errorf("%d objects, want %d", len(out.Objects), tc.objects)
			}
		})
	}
}

func TestInvalidMutationsNameMutationAndObject(t *testing.T) {
	files := map[string][]byte{"a.yaml": []byte("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec: {replicas: 1}\n")}
	all := v1alpha1.MutationTarget{}
	for name, tc := range map[string]struct {
		mutation v1alpha1.Mutation
		message  string
	}{
		"a missing key":             {merge("m", all, "spec:\n  zone: {{ .cluster.zone }}"), `mutation m, Deployment.apps shop/web: template line 2: the key "zone" does not exist in .cluster.zone`},
		"a broken template":         {merge("m", all, "{{ .cluster"), `mutation m, Deployment.apps shop/web: template line 1: unclosed action`},
		"a patch that is no YAML":   {merge("m", all, "a: [{{ .cluster.region }}"), `mutation m, Deployment.apps shop/web: the patch that the template makes: line 1: it is not valid YAML: did not find expected ',' or ']'`},
		"a patch with a twin key":   {merge("m", all, "a: 1\na: 2"), `mutation m, Deployment.apps shop/web: the patch that the template makes: line 2: the key "a" is set twice`},
		"a patch that is a list":    {merge("m", all, "[a]"), `mutation m, Deployment.apps shop/web: the patch that the template makes is not one map`},
		"two patches":               {merge("m", all, "a: 1\n---\nb: 2"), `mutation m, Deployment.apps shop/web: the patch that the template makes is not one map`},
		"another name":              {merge("m", all, "metadata: {name: x}"), `mutation m, Deployment.apps shop/web: a patch must not change apiVersion, kind, name or namespace`},
		"no name":                   {merge("m", all, "metadata: {name: null}"), `mutation m, Deployment.apps shop/web: after the patch: metadata.name is missing`},
		"another namespace":         {merge("m", all, "metadata: {namespace: x}"), `mutation m, Deployment.apps shop/web: a patch must not change apiVersion, kind, name or namespace`},
		"no namespace":              {merge("m", all, "metadata: {namespace: null}"), `mutation m, Deployment.apps shop/web: a patch must not change apiVersion, kind, name or namespace`},
		"another version":           {merge("m", all, "apiVersion: apps/v2"), `mutation m, Deployment.apps shop/web: a patch must not change apiVersion, kind, name or namespace`},
		"another kind":              {merge("m", all, "kind: StatefulSet"), `mutation m, Deployment.apps shop/web: a patch must not change apiVersion, kind, name or namespace`},
		"a generateName":            {merge("m", all, "metadata: {generateName: x-}"), `mutation m, Deployment.apps shop/web: after the patch: metadata.generateName would make a new object at each apply; set metadata.name instead`},
		"a label that is no text":   {merge("m", all, "metadata: {labels: {a: 1}}"), `mutation m, Deployment.apps shop/web: after the patch: metadata.labels: the value of "a" is not a text; quote it`},
		"a pattern that is invalid": {merge("m", v1alpha1.MutationTarget{Name: "["}, "a: b"), `mutation m: target.name is not a valid pattern`},
		"a type of a later version": {v1alpha1.Mutation{Name: "m", Patch: v1alpha1.Patch{Type: "Later"}}, `mutation m, Deployment.apps shop/web: the patch that the template makes is of the type Later, which is not supported; use Strategic, Merge or JSON6902`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Render(t.Context(), Input{Files: files, Mutations: []v1alpha1.Mutation{tc.mutation}, Context: inContext()})
			wantInvalid(t, err, tc.message)
		})
	}
}
