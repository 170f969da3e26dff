package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/deploy"
	"kumodo.io/convoy/worker"
)

func TestObjectsOfTheHubThatThisBuildDoesNotTakeAreNamed(t *testing.T) {
	own, err := deploy.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	clusters := own[slices.IndexFunc(own, func(c *apiextensionsv1.CustomResourceDefinition) bool { return c.Spec.Names.Kind == "Cluster" })]
	cluster := func(name string, spec map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": v1alpha1.GroupVersion.String(), "kind": "Cluster", "metadata": map[string]any{"namespace": "web", "name": name}, "spec": spec,
		}}
	}
	agentless := map[string]any{"auth": map[string]any{"type": "kubeconfig", "kubeconfig": map[string]any{"secretRef": map[string]any{"name": "a"}}}}
	hub := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		v1alpha1.GroupVersion.WithResource("clusters"): "ClusterList",
	}, cluster("known", map[string]any{"connectionMode": "agentless", "agentless": agentless}),
		cluster("newer", map[string]any{"connectionMode": "agentless", "agentless": agentless, "tunnel": map[string]any{"port": "secret"}}))
	v := &hubVerdict{}
	if err := v.look(t.Context(), hub, clusters); err != nil {
		t.Fatal(err)
	}
	want := &hubVerdict{Checked: 2, Objects: []lostObject{{"Cluster", "web", "newer", []string{"spec.tunnel is not known"}}}}
	if diff := cmp.Diff(want, v); diff != "" {
		t.Error(diff)
	}
	gone := &hubVerdict{Older: []lacking{{clusters.Name, []string{absentKind}}}}
	if err := gone.look(t.Context(), hub, clusters); err != nil || gone.Checked != 0 {
		t.Errorf("a hub without the kind: %+v, %v", gone, err)
	}
}

func TestWhatAPreflightPrints(t *testing.T) {
	v := &verdict{Version: "v2", Preflight: &worker.Preflight{
		Types:    []worker.PreflightType{{Type: "Cluster", Replayed: 3}, {Type: "Release", Replayed: 9, Failed: 1, LeftOut: 2}},
		Failures: []worker.PreflightFailure{{Type: "Release", Workflow: "release/web/app", Run: "r1", Problem: "the history has a step"}},
	}}
	var out bytes.Buffer
	if err := (&preflight{}).print(&out, v); err != nil {
		t.Fatal(err)
	}
	const table = `WORKFLOWS   REPLAYED   FAILED   LEFT-OUT
Cluster     3          0        0
Release     9          1        2
release/web/app, run r1: the history has a step
`
	if diff := cmp.Diff(table+"The hub was not looked at; --kubeconfig or --context names it.\n", out.String()); diff != "" {
		t.Error(diff)
	}
	out.Reset()
	v.Failures, v.OK = nil, true
	v.Hub = &hubVerdict{
		Checked: 2, Objects: []lostObject{{"Cluster", "web", "east", []string{"spec.tunnel is not known"}}},
		Older: []lacking{{"releases.core.convoy.kumodo.io", []string{"status.leftovers is gone"}}},
	}
	if err := (&preflight{}).print(&out, v); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"The hub has 2 objects of convoy, of which 1 have fields that this build does not take.\nCluster web/east: spec.tunnel is not known\n",
		"CRD releases.core.convoy.kumodo.io on the hub is older than this build, and has to be upgraded first: status.leftovers is gone\n",
		"Build v2 can take over.\n",
	} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("it prints %s, want %s", out.String(), line)
		}
	}
	out.Reset()
	if err := (&preflight{Output: "json"}).print(&out, v); err != nil {
		t.Fatal(err)
	}
	var read struct {
		OK    bool
		Types []worker.PreflightType
		Hub   hubVerdict
	}
	if err := json.Unmarshal(out.Bytes(), &read); err != nil || !read.OK || len(read.Types) != 2 || len(read.Hub.Objects) != 1 {
		t.Errorf("as JSON it is %+v, %v", read, err)
	}
}

func TestFlagsOfAPreflightThatMakeNoSenseAreRefused(t *testing.T) {
	for flag, want := range map[string]string{
		"--limit=-1": "--limit must not be below 0", "--concurrency=0": "--concurrency must be above 0", "--output=yaml": `--output: "yaml" is not json`,
	} {
		cmd := preflightCommand()
		cmd.SetArgs([]string{flag})
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", flag, err, want)
		}
	}
}
