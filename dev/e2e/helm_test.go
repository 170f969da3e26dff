package e2e

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/dev/env"
)

// chart is a small chart with one ConfigMap, and what else is given.
func chart(more map[string]string) env.Change {
	files := map[string]string{
		"chart/Chart.yaml":  "apiVersion: v2\nname: greeting\nversion: 1.2.3\n",
		"chart/values.yaml": "text: from the chart\nregion: nowhere\npassword: none\n",
		"chart/templates/greeting.yaml": `apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}-greeting"}
data:
  text: "{{ .Values.text }}, {{ .Values.region }}, {{ .Values.password }}, {{ .Release.Namespace }}"
  widgets: "{{ .Capabilities.APIVersions.Has "example.test/v1/Widget" }}"
`,
	}
	maps.Copy(files, more)
	return env.Change{Files: files}
}

// ofChart makes a Release render the folder chart of a repository.
func ofChart(repository *env.Repository, settings *v1alpha1.HelmRender) func(*v1alpha1.Release) {
	return func(r *v1alpha1.Release) {
		fromGitAt(v1alpha1.GitSource{URL: repository.URL, Path: "chart"}, 5*time.Second)(r)
		r.Spec.Render.Helm = settings
	}
}

// awaitRenderFailed waits until a Release says of its render all of the words.
func (s *scene) awaitRenderFailed(release string, words ...string) {
	s.Helper()
	s.eventually("the render of "+release+" fails: "+strings.Join(words, ", "), func(context.Context) error {
		for _, c := range s.getRelease(release).Status.Conditions {
			if c.Type != v1alpha1.ConditionRendered {
				continue
			}
			for _, word := range words {
				if c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, word) {
					return fmt.Errorf("it says %s: %q", c.Status, c.Message)
				}
			}
			return nil
		}
		return fmt.Errorf("it says nothing")
	})
}

func TestAChartIsRenderedWithValuesOfTheReleaseAndOfTheHubAndAChangeOfThoseIsANewRollout(t *testing.T) {
	s := newScene(t)
	repository := s.repository()
	s.commit(repository, chart(nil))
	s.readyCluster("prod", alpha)
	region := s.configMap("region", map[string]string{"values.yaml": "text: never seen\nregion: eu-1\n"})
	secret := s.secret("password", map[string]string{"more": "password: " + secretSentinel + "-1"})
	s.release("app", "prod", "", ofChart(repository, &v1alpha1.HelmRender{
		Values: &runtime.RawExtension{Raw: []byte(`{"text":"hello"}`)},
		ValuesFrom: []v1alpha1.ValuesReference{
			{Kind: "ConfigMap", Name: "region"},
			{Kind: "Secret", Name: "password", Key: "more"},
			{Kind: "ConfigMap", Name: "missing", Optional: true},
		},
	}))
	first := s.awaitDelivered("app")
	if got, want := s.text(alpha, "app-greeting"), "hello, eu-1, "+secretSentinel+"-1, "+s.ns; got != want {
		t.Errorf("text is %q, want %q", got, want)
	}
	if first.Status.Render.Type != v1alpha1.RenderHelm {
		t.Errorf("rendered as %s", first.Status.Render.Type)
	}
	change(s, secret, func(o *corev1.Secret) { o.Data["more"] = []byte("password: " + secretSentinel + "-2") })
	s.awaitText(patience, s.on(alpha), "app-greeting", "hello, eu-1, "+secretSentinel+"-2, "+s.ns)
	change(s, region, func(o *corev1.ConfigMap) { o.Data["values.yaml"] = "region: [1\n" })
	s.awaitRenderFailed("app", "values of key values.yaml of ConfigMap region", "line 1")
	s.remove(region)
	s.awaitRenderFailed("app", "spec.render.helm.valuesFrom[0]", "key values.yaml of ConfigMap region does not exist")
	s.configMap("region", map[string]string{"values.yaml": "region: us-1"})
	s.awaitText(patience, s.on(alpha), "app-greeting", "hello, us-1, "+secretSentinel+"-2, "+s.ns)
	s.wantGood(s.awaitDelivered("app"))
}

func TestAChartSeesWhatItsClusterServesAtTheNextReconcileAfterItChanged(t *testing.T) {
	s := newScene(t)
	repository := s.repository()
	group := s.uniqueGroup()
	s.commit(repository, chart(map[string]string{"chart/templates/greeting.yaml": fmt.Sprintf(
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: served}\ndata: {text: '{{ .Capabilities.APIVersions.Has %q }}'}\n", group+"/v1/Gadget")}))
	s.readyCluster("prod", beta)
	s.release("app", "prod", "", ofChart(repository, nil))
	s.awaitDelivered("app")
	s.request("app")
	if got := s.text(beta, "served"); got != "false" {
		t.Fatalf("text is %q", got)
	}
	before := s.getRelease("app").Status.Rollout.Number
	s.put(s.on(beta), definition(group, "Gadget", "v1"))
	s.eventually("a probe finds the new kind", func(context.Context) error {
		s.reprobe()
		s.ask("app")
		if got := s.text(beta, "served"); got != "true" {
			return fmt.Errorf("the chart sees %s", got)
		}
		return nil
	})
	r := s.awaitDelivered("app")
	if r.Status.Rollout.Number != before+1 {
		t.Errorf("rollout %d after %d", r.Status.Rollout.Number, before)
	}
	// Other kinds come and go on this target all the time.
	s.request("app")
	if again := s.getRelease("app"); again.Status.RenderRef.Digest != r.Status.RenderRef.Digest || again.Status.Rollout.Number != r.Status.Rollout.Number {
		t.Error("a reconcile without a change of what the chart asks for is a new rollout")
	}
}

func TestWhatAChartMayNotDoIsRefusedByNameAndNothingIsApplied(t *testing.T) {
	s := newScene(t)
	s.readyCluster("prod", alpha)
	repository := s.repository()
	s.commit(repository, chart(map[string]string{"chart/templates/job.yaml": `apiVersion: batch/v1
kind: Job
metadata: {name: migrate, annotations: {helm.sh/hook: pre-launch}}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}}
`}))
	s.release("app", "prod", "", ofChart(repository, nil))
	s.awaitRenderFailed("app", "Job.batch migrate", "pre-launch")
	s.commit(repository, env.Change{Delete: []string{"chart/templates/job.yaml"}, Files: map[string]string{
		"chart/templates/secret.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {p: {{ randAlphaNum 8 }}}\n",
	}})
	s.awaitRenderFailed("app", "randAlphaNum", "templates/secret.yaml")
	if s.exists(s.on(alpha), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "app-greeting"}}) {
		t.Error("a part of the chart was applied")
	}
	s.commit(repository, env.Change{Delete: []string{"chart/templates/secret.yaml"}})
	s.awaitDelivered("app")
	s.release("plain", "prod", "", fromGit(repository, "main", "chart/templates"), func(r *v1alpha1.Release) {
		r.Spec.Render = v1alpha1.RenderSpec{Type: v1alpha1.RenderPlain, Helm: &v1alpha1.HelmRender{ReleaseName: "x"}}
	})
	s.awaitRenderFailed("plain", "spec.render.helm is for charts", "Plain")
}
