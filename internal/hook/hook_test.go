package hook_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/failure"
	"kumodo.io/convoy/internal/hook"
)

// facts are those of Release shop on a Cluster in a region.
func facts() delivery.Context {
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}
	c.Spec.Metadata = map[string]v1alpha1.MetadataValue{"region": "eu"}
	return delivery.NewContext(c, release())
}

func release() *v1alpha1.Release {
	r := &v1alpha1.Release{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "shop", UID: "r-1"}}
	r.Spec.ClusterRef.Name = "east"
	r.Status.RenderRef = &v1alpha1.RenderRef{Digest: "sha256:a"}
	r.Status.Source = &v1alpha1.SourceStatus{Revision: "main@sha1:1"}
	return r
}

// verdictOf is what a terminal failure says; it fails the test for any other error.
func verdictOf(t *testing.T, err error) string {
	t.Helper()
	f, ok := failure.As(err)
	if err == nil || !ok || !f.Terminal || f.Reason != v1alpha1.ReasonHookFailed {
		t.Fatalf("error %v is no verdict", err)
	}
	return f.Message
}

const id = "0123456789abcdef"

func TestATemplateMakesExactlyOneObject(t *testing.T) {
	o, err := hook.Object(&v1alpha1.HookJob{Template: `
# before the rollout
---
apiVersion: batch/v1
kind: Job
metadata: {generateName: "migrate-{{ .cluster.region }}-"}
spec: {backoffLimit: 9007199254740993}
`}, facts(), id)
	if err != nil {
		t.Fatal(err)
	}
	limit, _, _ := unstructured.NestedInt64(o.Object, "spec", "backoffLimit")
	if o.GetName() != "migrate-eu-0123456789" || o.GetGenerateName() != "" || limit != 9007199254740993 {
		t.Errorf("it makes %v", o.Object)
	}
	for template, want := range map[string]string{
		"":                                      "gives no object",
		"# nothing\n---\n":                      "gives no object",
		"{{ .cluster.zone }}":                   `"zone" does not exist`,
		"a: [":                                  "valid YAML",
		"kind: Job\nkind: Job":                  "a key twice",
		"kind: Job":                             "one object with apiVersion and kind",
		"- apiVersion: v1":                      "one object with apiVersion and kind",
		"apiVersion: v1\nkind: List\nitems: []": "one object",
		"apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Pod": "more than one object",
		"apiVersion: batch/v1\nkind: Job\nspec: {}":                                            "no metadata.name",
		"apiVersion: batch/v1\nkind: Job\nmetadata: {name: a, generateName: b}":                "exclude one another",
		"apiVersion: batch/v1\nkind: Job\nmetadata: {name: a, labels: {a: true}}":              `job.template: Job: metadata.labels: the value of "a" is not a text; quote it`,
		"apiVersion: batch/v1\nkind: Job\nmetadata: {name: a, labels: [x]}":                    "metadata.labels is not a map",
		"apiVersion: batch/v1\nkind: Job\nmetadata: {generateName: a, annotations: {v: 1.2}}":  `metadata.annotations: the value of "v" is not a text; quote it`,
		"apiVersion: batch/v1\nkind: Job\nmetadata: {name: a, finalizers: [1]}":                "metadata.finalizers holds what is not a text; quote it",
		"apiVersion: batch/v1\nkind: Job\nmetadata: {name: a, finalizers: x}":                  "metadata.finalizers is not a list",
		"apiVersion: batch/v1\nkind: Job\nmetadata: {name: a, namespace: [b]}":                 "metadata.namespace is not a valid name",
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: a}":                                 "does not make a Namespace",
	} {
		_, err := hook.Object(&v1alpha1.HookJob{Template: template}, facts(), id)
		if got := verdictOf(t, err); !strings.Contains(got, want) {
			t.Errorf("template %q: %s; want %q", template, got, want)
		}
	}
}

// object has a deletion timestamp when deleted, and what health says of it as its status.
func object(kind string, deleted bool) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": "a"}}}
	if deleted {
		now := metav1.Now()
		o.SetDeletionTimestamp(&now)
	}
	return o
}

func TestAnObjectIsJudgedByItsResultAlsoWhenSomebodyDeletesIt(t *testing.T) {
	running, completed := hook.Health{Message: "it runs"}, hook.Health{Current: true}
	failing, final := hook.Health{Failed: true, Message: "it failed"}, hook.Health{Failed: true, Final: true, Message: "it failed"}
	cases := map[string]struct {
		live    *unstructured.Unstructured
		health  hook.Health
		after   time.Duration // from the first look to the last
		done    bool
		verdict string
	}{
		"it runs":                            {object("Job", false), running, time.Hour, false, ""},
		"it has completed":                   {object("Job", false), completed, 0, true, ""},
		"it completed and is taken away":     {object("Job", true), completed, 0, true, ""},
		"it failed for good, and taken away": {object("Job", true), final, 0, false, "it failed"},
		"a failure that may pass":            {object("Job", false), failing, 4 * time.Second, false, ""},
		"a failure that lasts":               {object("Job", false), failing, 5 * time.Second, false, "it failed"},
		"it was deleted a moment ago":        {object("Job", true), running, 4 * time.Second, false, ""},
		"it was deleted, and does not end":   {object("Job", true), running, 5 * time.Second, false, "deleted before it had ended"},
		"it is gone":                         {nil, running, 0, false, "left no result"},
		"a Pod that is ready has not ended":  {object("Pod", false), completed, time.Hour, false, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			j := &hook.Judge{}
			health := func(o *unstructured.Unstructured) hook.Health {
				if o.GetDeletionTimestamp() != nil {
					t.Error("it is judged as an object that is being deleted")
				}
				return tc.health
			}
			at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
			done, _, err := j.Look(tc.live, health, at)
			if tc.after > 0 && err == nil {
				done, _, err = j.Look(tc.live, health, at.Add(tc.after))
			}
			if done != tc.done || (err != nil) != (tc.verdict != "") {
				t.Fatalf("done = %v, %v", done, err)
			}
			if err != nil && !strings.Contains(verdictOf(t, err), tc.verdict) {
				t.Errorf("it failed with %v", err)
			}
		})
	}
}

func TestAFailureThatPassesIsForgotten(t *testing.T) {
	j, at := &hook.Judge{}, time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for i, failing := range []bool{true, false, true} {
		health := func(*unstructured.Unstructured) hook.Health { return hook.Health{Failed: failing} }
		if _, _, err := j.Look(object("Job", false), health, at.Add(time.Duration(i)*4*time.Second)); err != nil {
			t.Errorf("look %d: %v", i, err)
		}
	}
}

func TestOnlyPermittedWorkflowsRunAndNeverConvoysOwn(t *testing.T) {
	var permits hook.Permits
	for _, text := range []string{"team/Migrate@jobs", "*/Notify@chat/room", "team/a@b@c"} {
		if err := permits.Set(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{
		"", "team", "team/Migrate", "team/@jobs", "team/Migrate@", "/Migrate@jobs", "te*/Migrate@jobs", "team/*@jobs", "team/Migrate@*",
		"team/Release@jobs", "team/Migrate@convoy", "team/Migrate@convoy-apply",
	} {
		if err := permits.Set(text); err == nil {
			t.Errorf("%q is permitted", text)
		}
	}
	if got := permits.String(); got != "team/Migrate@jobs,*/Notify@chat/room,team/a@b@c" {
		t.Errorf("the list is %s", got)
	}
	cases := map[[3]string]string{
		{"team", "Migrate", "jobs"}:          "",
		{"other", "Notify", "chat/room"}:     "",
		{"team", "a@b", "c"}:                 "",
		{"other", "Migrate", "jobs"}:         "--allow-hook-workflow=other/Migrate@jobs",
		{"team", "Migrate", "other"}:         "not permitted",
		{"team", "Rollout", "jobs"}:          "convoy's own",
		{"team", "Migrate", "convoy-source"}: "convoy's own",
	}
	permits = append(permits, hook.Permit{Namespace: "*", Type: "Rollout", TaskQueue: "jobs"}) // however it came in
	for c, want := range cases {
		err := permits.Permit(c[0], &v1alpha1.HookWorkflow{Type: c[1], TaskQueue: c[2]})
		if want == "" && err != nil || want != "" && !strings.Contains(verdictOf(t, err), want) {
			t.Errorf("%v: %v, want %q", c, err, want)
		}
	}
}

func TestAWorkflowIsJudgedByItsStatus(t *testing.T) {
	for status, want := range map[string]string{"Completed": "done", "Running": "waits", "ContinuedAsNew": "waits", "Failed": "ended as Failed", "Canceled": "ended as Canceled", "TimedOut": "ended as TimedOut"} {
		done, waiting, err := hook.Outcome("hook/a", "Migrate", "Migrate", status)
		got := "waits"
		switch {
		case done:
			got = "done"
		case err != nil:
			got = verdictOf(t, err)
		case waiting == "":
			got = "says nothing"
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", status, got, want)
		}
	}
	if _, _, err := hook.Outcome("hook/a", "Migrate", "Other", "Completed"); !strings.Contains(verdictOf(t, err), "another type") {
		t.Error(err)
	}
}

func TestTheInputOfAWorkflowIsJSON(t *testing.T) {
	run := &v1alpha1.HookStatus{Name: "migrate", Phase: v1alpha1.HookPreApply, Rollout: 7}
	f := hook.FactsOf(release(), run)
	text, err := hook.Input(&v1alpha1.HookWorkflow{}, facts(), f)
	if err != nil {
		t.Fatal(err)
	}
	var got hook.Facts
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	want := hook.Facts{
		Release: "shop", Namespace: "team", Cluster: "east", Rollout: 7, Phase: "PreApply", Hook: "migrate", Digest: "sha256:a",
		Revision: "main@sha1:1", ID: delivery.HookRunID("r-1", run),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	text, err = hook.Input(&v1alpha1.HookWorkflow{Input: `{"region": {{ .cluster.region | quote }}}`}, facts(), f)
	if err != nil || string(text) != `{"region": "eu"}` {
		t.Errorf("input %s, %v", text, err)
	}
	_, err = hook.Input(&v1alpha1.HookWorkflow{Input: `{{ .cluster.region }}`}, facts(), f)
	if got := verdictOf(t, err); !strings.Contains(got, "JSON") {
		t.Error(got)
	}
}

func TestWhen(t *testing.T) {
	for when, want := range map[string]bool{"": true, "cluster.region == 'eu'": true, "cluster.region == 'us'": false} {
		got, err := hook.Applies(t.Context(), &v1alpha1.Hook{When: when}, facts())
		if err != nil || got != want {
			t.Errorf("%q: %v, %v", when, got, err)
		}
	}
	_, err := hook.Applies(t.Context(), &v1alpha1.Hook{When: "cluster.zone == 'a'"}, facts())
	if got := verdictOf(t, err); !strings.Contains(got, `"zone"`) {
		t.Error(got)
	}
}
