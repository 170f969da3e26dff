package render

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kumodo.io/convoy/api/v1alpha1"
)

// anObject is one document of a template, with annotations as a flow mapping.
func anObject(kind, name, annotations string) string {
	versions := map[string]string{"Job": "batch/v1", "CustomResourceDefinition": "apiextensions.k8s.io/v1", "Role": "rbac.authorization.k8s.io/v1"}
	version := versions[kind]
	if version == "" {
		version = "v1"
	}
	return fmt.Sprintf("---\napiVersion: %s\nkind: %s\nmetadata: {name: %s, annotations: {%s}}\n", version, kind, name, annotations)
}

func hookedObject(kind, name, events string, more ...string) string {
	return anObject(kind, name, strings.Join(append([]string{fmt.Sprintf("helm.sh/hook: %q", events)}, more...), ", "))
}

func weight(n int) string { return fmt.Sprintf("helm.sh/hook-weight: \"%d\"", n) }

func TestHooksOfAChartAreKeptApartInTheOrderInWhichTheyRun(t *testing.T) {
	out, err := Render(t.Context(), Input{TargetNamespace: "shop", Files: oneTemplate(
		anObject("ConfigMap", "delivered", `a: b`) +
			hookedObject("Job", "late", "pre-install", weight(5)) +
			hookedObject("Job", "b", "pre-install, Pre-Upgrade ,test", weight(-5), `helm.sh/hook-delete-policy: "before-hook-creation, hook-succeeded"`) +
			hookedObject("ServiceAccount", "z", "pre-install", weight(-5), `helm.sh/hook-delete-policy: hook-failed`) +
			hookedObject("Job", "a", "pre-install", weight(-5)) +
			hookedObject("Job", "none", "post-delete,post-delete", `helm.sh/hook-weight: heavy`) +
			hookedObject("Job", "rest", "pre-rollback,post-rollback,post-install,post-upgrade,pre-delete") +
			hookedObject("Job", "t", "test-success") +
			hookedObject("ConfigMap", "definition", "crd-install"),
	)})
	if err != nil {
		t.Fatal(err)
	}
	var hooks []string
	for _, h := range out.Hooks {
		deletes := ""
		if h.DeleteSucceeded {
			deletes += " succeeded"
		}
		if h.DeleteFailed {
			deletes += " failed"
		}
		hooks = append(hooks, fmt.Sprintf("%d %s %s%s", h.Weight, h.Name, strings.Join(h.Events, ","), deletes))
	}
	want := []string{
		"-5 ServiceAccount.z pre-install failed", "-5 Job.a pre-install", "-5 Job.b pre-install,pre-upgrade succeeded",
		"0 Job.none post-delete", "0 Job.rest post-install,post-rollback,post-upgrade,pre-delete,pre-rollback", "5 Job.late pre-install",
	}
	if diff := cmp.Diff(want, hooks); diff != "" {
		t.Errorf("hooks (-want +got):\n%s", diff)
	}
	var objects []string
	for _, o := range out.Objects {
		objects = append(objects, o.GetName())
	}
	if !slices.Equal(objects, []string{"definition", "delivered"}) || len(out.Skipped) != 1 {
		t.Errorf("objects %v, skipped %v", objects, out.Skipped)
	}
	var run []string
	for _, h := range out.For("pre-install") {
		run = append(run, h.NameFor("pre-install"))
	}
	if got := strings.Join(run, " "); got != "pre-install.ServiceAccount.z pre-install.Job.a pre-install.Job.b pre-install.Job.late" {
		t.Errorf("pre-install runs %s", got)
	}
	if got := out.Hooks[0].Object; got.GetKind() != "ServiceAccount" || len(out.All()) != 8 {
		t.Errorf("the object of a hook is %v, and there are %d", got, len(out.All()))
	}
}

func TestARenderWithoutHooksKeepsItsForm(t *testing.T) {
	files := func(annotations string) map[string][]byte { return oneTemplate(anObject("Job", "a", annotations)) }
	digests := map[string]bool{}
	for _, annotations := range []string{"color: blue", "helm.sh/hook: pre-install", "helm.sh/hook: post-install", `helm.sh/hook: post-install, helm.sh/hook-weight: "1"`} {
		out, err := Render(t.Context(), Input{Files: files(annotations)})
		if err != nil {
			t.Fatal(err)
		}
		digests[out.Digest] = true
		first, _, _ := strings.Cut(string(out.Canonical), "\n")
		if isOld := strings.Contains(first, "render.v1"); isOld != (annotations == "color: blue") {
			t.Errorf("%s: the header is %s", annotations, first)
		}
	}
	if len(digests) != 4 {
		t.Errorf("four renders have %d digests", len(digests))
	}
}

func TestMutationsChangeHooksToo(t *testing.T) {
	out, err := Render(t.Context(), Input{
		Files: oneTemplate(hookedObject("Job", "a", "pre-install") + anObject("Job", "b", "")),
		Mutations: []v1alpha1.Mutation{{
			Name: "labels", Target: v1alpha1.MutationTarget{Group: "batch", Kind: "Job"}, Patch: v1alpha1.Patch{Type: v1alpha1.PatchMerge, Template: "metadata: {labels: {team: shop}}"},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range out.All() {
		if o.GetLabels()["team"] != "shop" {
			t.Errorf("%s has the labels %v", o.GetName(), o.GetLabels())
		}
	}
	if out.Mutations[0].Matched != 2 {
		t.Errorf("it matched %d", out.Mutations[0].Matched)
	}
}

func TestHooksThatCannotBeRunAreRefusedByName(t *testing.T) {
	many := ""
	for i := range maxHooksOfEvent + 1 {
		many += hookedObject("Job", fmt.Sprint("j", i), "pre-upgrade")
	}
	const wayOut = "; turn them off with the chart's values, or all hooks with spec.render.helm.disableHooks"
	cases := map[string]struct{ template, message string }{
		"events that nothing is known of": {
			hookedObject("Job", "c", "later") + hookedObject("Job", "b", "pre-install, never") + hookedObject("Job", "a", "pre-install"),
			"the chart has hooks that cannot be run: Job.batch b (pre-install, never), Job.batch c (later)" + wayOut,
		},
		"kinds that hold data": {
			hookedObject("PersistentVolumeClaim", "data", "pre-install") + hookedObject("Namespace", "shop", "pre-install") + hookedObject("CustomResourceDefinition", "c.x.test", "pre-install"),
			"the chart has hooks that cannot be run: CustomResourceDefinition.apiextensions.k8s.io c.x.test (it would be deleted before each run, with all that it holds), " +
				"Namespace shop (it would be deleted before each run, with all that it holds), " +
				"PersistentVolumeClaim data (it would be deleted before each run, with all that it holds)" + wayOut,
		},
		"one that is delivered, too": {
			hookedObject("Job", "a", "pre-install") + anObject("Job", "a", ""),
			"Job.batch a is defined twice: in web/templates/a.yaml, document 1 and in web/templates/a.yaml, document 2",
		},
		"twice the same": {
			hookedObject("Job", "a", "pre-install") + hookedObject("Job", "a", "pre-upgrade, pre-install"),
			"two hooks of the chart would have the name pre-install.Job.a: in web/templates/a.yaml, document 1 and in web/templates/a.yaml, document 2",
		},
		"too many": {many, "the chart has more than 16 hooks for pre-upgrade; turn some off with the chart's values, or all with spec.render.helm.disableHooks"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Render(t.Context(), Input{Files: oneTemplate(tc.template)})
			wantInvalid(t, err, tc.message)
			if strings.Contains(tc.message, "twice") {
				return
			}
			out, err := Render(t.Context(), Input{Files: oneTemplate(tc.template), Helm: &HelmInput{DisableHooks: true}})
			if err != nil || len(out.All()) != 0 || len(out.Skipped) == 0 || !strings.Contains(out.Skipped[0], "hook ") {
				t.Errorf("disabled: %+v, %v", out, err)
			}
		})
	}
	_, err := Render(t.Context(), Input{Files: oneTemplate(hookedObject("Job", "a", "pre-install") + hookedObject("Job", "a", "pre-upgrade"))})
	if err != nil {
		t.Errorf("one object for two events is refused: %v", err)
	}
}
