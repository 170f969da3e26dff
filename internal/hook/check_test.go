package hook_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/hook"
)

// mapper knows ConfigMaps only, and counts how often it was told to forget.
type mapper struct {
	*meta.DefaultRESTMapper
	resets int
}

func (m *mapper) Reset() { m.resets++ }

func target() (hook.Target, *mapper) {
	configMap := func(name, app, text string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"text": text},
			"metadata": map[string]any{"namespace": "shop", "name": name, "labels": map[string]any{"app": app}},
		}}
	}
	m := &mapper{DefaultRESTMapper: meta.NewDefaultRESTMapper(nil)}
	m.Add(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, meta.RESTScopeNamespace)
	lists := map[schema.GroupVersionResource]string{{Version: "v1", Resource: "configmaps"}: "ConfigMapList"}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists,
		configMap("one", "web", "S3CR3T"), configMap("two", "web", "S3CR3T"), configMap("three", "db", "S3CR3T"))
	return hook.Target{Dynamic: client, Mapper: m}, m
}

func TestChecksOverLiveObjects(t *testing.T) {
	cases := map[string]struct {
		target v1alpha1.HookCheckTarget
		cel    string
		done   bool
		says   string
	}{
		"by labels":                 {v1alpha1.HookCheckTarget{LabelSelector: "app=web"}, "objects.size() == 2", true, ""},
		"by name":                   {v1alpha1.HookCheckTarget{Name: "three"}, "objects.all(o, o.metadata.name == 'three')", true, ""},
		"all of a namespace":        {v1alpha1.HookCheckTarget{}, "objects.size() == 3 && cluster.region == 'eu'", true, ""},
		"one that is not there":     {v1alpha1.HookCheckTarget{Name: "four"}, "objects.size() == 0", true, ""},
		"another namespace":         {v1alpha1.HookCheckTarget{Namespace: "{{ .cluster.region }}"}, "objects.size() == 0", true, ""},
		"false is waited for":       {v1alpha1.HookCheckTarget{}, "objects.exists(o, o.data.text == 'S3CR3T2')", false, "false over 3 objects"},
		"a missing key is too":      {v1alpha1.HookCheckTarget{}, "objects.all(o, o.status.ready)", false, `"status"`},
		"so is an index":            {v1alpha1.HookCheckTarget{Name: "four"}, "objects[0].data.text == ''", false, "out of bounds"},
		"a kind that is not served": {v1alpha1.HookCheckTarget{Kind: "Widget"}, "true", false, "does not serve kind Widget"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			on, m := target()
			tc.target.APIVersion = "v1"
			if tc.target.Kind == "" {
				tc.target.Kind = "ConfigMap"
			}
			check, err := hook.NewCheck(t.Context(), &v1alpha1.HookCheck{Target: tc.target, CEL: tc.cel}, facts(), "shop")
			if err != nil {
				t.Fatal(err)
			}
			done, says, err := check.Look(t.Context(), on)
			if err != nil || done != tc.done || !strings.Contains(says, tc.says) || strings.Contains(says, "S3CR3T") {
				t.Errorf("done = %v, %q, %v", done, says, err)
			}
			if tc.target.Kind == "Widget" && m.resets != 1 {
				t.Errorf("discovery was asked %d times anew", m.resets)
			}
		})
	}
}

func TestAnExpressionThatCannotBeTrueIsAVerdictAtOnce(t *testing.T) {
	for cel, want := range map[string]string{
		"objects.size(":    "not valid",
		"objects.size()":   "true or false is needed",
		"object.kind == 1": "not valid",
	} {
		_, err := hook.NewCheck(t.Context(), &v1alpha1.HookCheck{Target: v1alpha1.HookCheckTarget{APIVersion: "v1", Kind: "Pod"}, CEL: cel}, facts(), "")
		if got := verdictOf(t, err); !strings.Contains(got, want) {
			t.Errorf("%s: %s", cel, got)
		}
	}
	for field, tc := range map[string]v1alpha1.HookCheckTarget{
		"check.target.namespace":     {APIVersion: "v1", Kind: "Pod", Namespace: "{{ .cluster.zone }}"},
		"check.target.apiVersion":    {APIVersion: "a/b/c", Kind: "Pod"},
		"check.target.labelSelector": {APIVersion: "v1", Kind: "Pod", LabelSelector: "a in"},
		"check.target.name":          {APIVersion: "v1", Kind: "Pod", Name: `{{ get .cluster "zone" }}`},
	} {
		_, err := hook.NewCheck(t.Context(), &v1alpha1.HookCheck{Target: tc, CEL: "true"}, facts(), "")
		if got := verdictOf(t, err); !strings.Contains(got, field) {
			t.Errorf("%s: %s", field, got)
		}
	}
}
