package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
)

// checks sets the health checks of a Release.
func checks(all ...v1alpha1.HealthCheck) func(*v1alpha1.Release) {
	return func(r *v1alpha1.Release) { r.Spec.HealthChecks = all }
}

const isReady = "object.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')"

// widgetCheck judges Widgets by what their status says.
func widgetCheck(current string) v1alpha1.HealthCheck {
	return v1alpha1.HealthCheck{
		Kind: "Widget", Current: current, Failed: "object.status.?phase.orValue('') == 'Broken'",
		Message: "'it is ' + object.status.?phase.orValue('on its way')",
	}
}

// widgetSource is a source with a Widget one, and its definition, whose status is a subresource.
func widgetSource(group, text string) map[string]string {
	kind := strings.ReplaceAll(definition(group, "Widget", "v1"), "    served: true\n", "    served: true\n    subresources: {status: {}}\n")
	return map[string]string{"all.yaml": custom(group, "v1", "Widget", "one", text) + "---\n" + kind}
}

// controllerSays writes the status of the Widget one, as its controller.
func (s *scene) controllerSays(on client.Client, group, status string) {
	s.Helper()
	widget := &unstructured.Unstructured{}
	widget.SetAPIVersion(group + "/v1")
	widget.SetKind("Widget")
	widget.SetNamespace(s.ns)
	widget.SetName("one")
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"status":`+status+`}`))
	s.eventually("the controller of the Widget has its say", func(ctx context.Context) error {
		return on.Status().Patch(ctx, widget, patch, client.FieldOwner("controller"))
	})
}

func readyOf(generation int, status, more string) string {
	return fmt.Sprintf(`{"observedGeneration":%d,"conditions":[{"type":"Ready","status":%q}]%s}`, generation, status, more)
}

// awaitHealthWait waits until a rollout of a Release has applied everything, and waits for its health.
func (s *scene) awaitHealthWait(release string, number int64) {
	s.Helper()
	s.eventually(fmt.Sprintf("rollout %d of %s waits for health", number, release), func(context.Context) error {
		r := s.getRelease(release)
		if r.Status.Rollout == nil || r.Status.Rollout.Number != number {
			return fmt.Errorf("the rollout is %+v", r.Status.Rollout)
		}
		if err := s.compare(r.Status.Conditions, v1alpha1.ConditionReady, metav1.ConditionUnknown, v1alpha1.ReasonProgressing, r.Generation); err != nil {
			return err
		}
		return s.compare(r.Status.Conditions, v1alpha1.ConditionApplied, metav1.ConditionTrue, v1alpha1.ReasonApplied, r.Generation)
	})
	s.awaitAttempt(fmt.Sprintf("rollout/%s/%s/%d", s.ns, release, number), "AwaitHealth", 1)
}

func (s *scene) wantRollout(release string, number int64) {
	s.Helper()
	if r := s.getRelease(release).Status.Rollout; r.Number != number || r.Phase != v1alpha1.RolloutSucceeded {
		s.Errorf("the last rollout is %d, %s", r.Number, r.Phase)
	}
}

func TestACustomResourceIsHealthyOnceItsControllerHasSeenIt(t *testing.T) {
	s := newScene(t)
	on := s.on(alpha)
	group := "checked-" + s.ns + ".test"
	s.readyCluster("prod", alpha)
	source := s.configMap("widgets", widgetSource(group, "first"))
	r := s.release("app", "prod", "widgets", checks(widgetCheck(isReady)))
	s.awaitHealthWait("app", 1) // there is no status
	s.eventually("the status says what the rollout waits for", func(context.Context) error {
		ready := meta.FindStatusCondition(s.getRelease("app").Status.Conditions, v1alpha1.ConditionReady)
		if want := "waiting for the health of 1 object: Widget." + group + " " + s.ns + "/one: spec.healthChecks[0].failed: "; !strings.HasPrefix(ready.Message, want) {
			return fmt.Errorf("it says %q, want %q and so on", ready.Message, want)
		}
		return nil
	})
	s.controllerSays(on, group, readyOf(1, "True", ""))
	s.awaitDelivered("app")

	change(s, source, func(cm *corev1.ConfigMap) { cm.Data = widgetSource(group, "second") })
	s.awaitHealthWait("app", 2) // the status is of the generation before
	s.controllerSays(on, group, readyOf(1, "True", `,"phase":"Broken"`))
	s.awaitHealthWait("app", 2)
	s.controllerSays(on, group, readyOf(2, "True", `,"phase":"Fine"`))
	s.awaitDelivered("app")
	s.awaitObserver("prod")

	change(s, r, checks(widgetCheck("object.status.phase == 'Resting'"))) // what is there is judged anew, and nothing is rolled out
	s.awaitRelease("app", v1alpha1.ConditionHealthy, metav1.ConditionFalse, v1alpha1.ReasonDegraded)
	s.wantMessage(s.getRelease("app").Status.Conditions, v1alpha1.ConditionHealthy, "1 of 2 objects", "Widget."+group, "it is Fine")
	s.awaitRelease("app", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDegraded)
	s.controllerSays(on, group, readyOf(2, "False", `,"phase":"Resting"`))
	s.awaitRelease("app", v1alpha1.ConditionHealthy, metav1.ConditionTrue, v1alpha1.ReasonHealthy)
	s.awaitDelivered("app")
	s.wantRollout("app", 2)
}

func TestACheckThatIsNeverTrueIsMendedInTheMiddleOfARollout(t *testing.T) {
	s := newScene(t)
	group := "checked-" + s.ns + ".test"
	s.readyCluster("prod", alpha)
	s.configMap("widgets", widgetSource(group, "first"))
	r := s.release("app", "prod", "widgets", checks(widgetCheck("object.status.phase == 'Never'")))
	s.awaitHealthWait("app", 1)
	change(s, r, checks(v1alpha1.HealthCheck{Kind: "Widget", Current: "object.spec.text == 'first'"}))
	s.awaitDelivered("app")
	s.wantRollout("app", 1)
}

func TestACheckThatFailsFailsTheRollout(t *testing.T) {
	s := newScene(t)
	group := "checked-" + s.ns + ".test"
	s.readyCluster("prod", alpha)
	s.configMap("widgets", widgetSource(group, "first"))
	s.release("app", "prod", "widgets", checks(widgetCheck(isReady)))
	s.awaitHealthWait("app", 1)
	s.controllerSays(s.on(alpha), group, readyOf(1, "True", `,"phase":"Broken"`))
	s.awaitRelease("app", v1alpha1.ConditionHealthy, metav1.ConditionFalse, v1alpha1.ReasonUnhealthy)
	s.wantMessage(s.getRelease("app").Status.Conditions, v1alpha1.ConditionReady, "Widget."+group, "it is Broken")
}

func TestACheckThatIsNotValidIsRefusedBeforeAnythingIsApplied(t *testing.T) {
	s := newScene(t)
	s.readyCluster("prod", alpha)
	s.greeting("source", "hello")
	r := s.release("app", "prod", "source", checks(v1alpha1.HealthCheck{Kind: "Widget", Current: "status.phase == 'Ready'"}))
	s.awaitRelease("app", v1alpha1.ConditionRendered, metav1.ConditionFalse, v1alpha1.ReasonRenderFailed)
	s.wantMessage(s.getRelease("app").Status.Conditions, v1alpha1.ConditionReady, "spec.healthChecks[0].current", "line 1, column 1", "'status'")
	if s.exists(s.on(alpha), &corev1.ConfigMap{ObjectMeta: s.meta("source")}) {
		t.Error("something was applied")
	}
	change(s, r, checks(v1alpha1.HealthCheck{Kind: "Widget", Current: "object.status.phase == 'Ready'"}))
	delivered := s.awaitDelivered("app")
	change(s, r, func(r *v1alpha1.Release) {
		r.Spec.PinnedRender = delivered.Status.RenderRef.Digest
		r.Spec.IgnoreDifferences = []v1alpha1.IgnoredDifference{{When: "1", Managers: []string{"somebody"}}}
	})
	s.awaitRelease("app", v1alpha1.ConditionRendered, metav1.ConditionFalse, v1alpha1.ReasonRenderFailed)
	s.wantMessage(s.getRelease("app").Status.Conditions, v1alpha1.ConditionReady, "spec.ignoreDifferences[0].when", "true or false is needed")
}

func TestARuleThatIgnoresNothingIsRefused(t *testing.T) {
	s := newScene(t)
	r := &v1alpha1.Release{ObjectMeta: s.meta("app"), Spec: v1alpha1.ReleaseSpec{
		ClusterRef: v1alpha1.ClusterRef{Name: "prod"}, Source: v1alpha1.Source{ConfigMap: &v1alpha1.ConfigMapSource{Name: "source"}},
		SyncPolicy:        v1alpha1.SyncPolicy{Interval: metav1.Duration{Duration: time.Hour}, Timeout: metav1.Duration{Duration: time.Minute}},
		DeletionPolicy:    v1alpha1.ReleaseDeletionPolicy{Timeout: metav1.Duration{Duration: time.Minute}},
		IgnoreDifferences: []v1alpha1.IgnoredDifference{{Kind: "Deployment", When: "true"}},
	}}
	if err := s.hub.Create(s.ctx, r); err == nil || !strings.Contains(err.Error(), "jsonPointers or managers say what is ignored") {
		t.Errorf("the hub says %v", err)
	}
}

func TestDriftIsIgnoredByManagerAndByExpression(t *testing.T) {
	s := newScene(t)
	on := s.on(alpha)
	s.readyCluster("prod", alpha)
	labelled := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: three, labels: {theirs: text}}\ndata: {text: hello, more: hello}\n"
	s.configMap("source", map[string]string{"all.yaml": manifest("one", "hello") + "---\n" + manifest("two", "hello") + "---\n" + labelled})
	s.release("app", "prod", "source", drifts(v1alpha1.DriftReport), func(r *v1alpha1.Release) {
		r.Spec.IgnoreDifferences = []v1alpha1.IgnoredDifference{
			{Name: "one", Managers: []string{"somebody"}},
			{Kind: "ConfigMap", When: "object.metadata.labels.theirs == 'text'", JSONPointers: []string{"/data/text"}},
		}
	})
	s.awaitDelivered("app")
	s.awaitObserver("prod")
	for _, name := range []string{"one", "three", "two"} {
		s.tamper(on, &corev1.ConfigMap{ObjectMeta: s.meta(name)}, `{"data":{"text":"other"}}`)
	}
	s.awaitDrift("app", metav1.ConditionTrue, "ConfigMap "+s.ns+"/two (data.text, now of somebody)")
	s.tamper(on, &corev1.ConfigMap{ObjectMeta: s.meta("three")}, `{"data":{"more":"other"}}`)
	s.awaitDrift("app", metav1.ConditionTrue, "/three (data.more, now of somebody); ConfigMap "+s.ns+"/two (data.text, now of somebody)")
	if d := s.getRelease("app").Status.Drift; d == nil || d.Count != 2 {
		t.Errorf("status.drift is %+v", d)
	}
}

// workload is a Deployment with more fields in its spec, whose pods run an image.
func workload(name, spec, image string) string {
	return fmt.Sprintf("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: %[1]s}\nspec:\n  %[2]s\n  selector: {matchLabels: {app: %[1]s}}\n"+
		"  template:\n    metadata: {labels: {app: %[1]s}}\n    spec: {containers: [{name: main, image: %[3]s}]}\n---\n", name, spec, image)
}

func TestWhatIsPausedSuspendedOrScaledToZeroIsNotWaitedFor(t *testing.T) {
	s := newScene(t)
	s.readyCluster("prod", alpha)
	pods := "template: {spec: {restartPolicy: Never, containers: [{name: main, image: pause}]}}"
	others := workload("none", "replicas: 0", "pause") +
		"apiVersion: batch/v1\nkind: Job\nmetadata: {name: job}\nspec: {suspend: true, " + pods + "}\n---\n" +
		"apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: cron}\nspec: {schedule: '* * * * *', suspend: true, jobTemplate: {spec: {" + pods + "}}}\n---\n"
	source := s.configMap("source", map[string]string{"all.yaml": others + workload("web", "replicas: 1", "pause:1")})
	s.release("app", "prod", "source")
	s.awaitDelivered("app")
	change(s, source, func(cm *corev1.ConfigMap) {
		cm.Data["all.yaml"] = others + workload("web", "replicas: 1\n  paused: true", "pause:2")
	})
	s.eventually("the second rollout has succeeded", func(context.Context) error {
		if r := s.getRelease("app").Status.Rollout; r.Number != 2 || r.Phase != v1alpha1.RolloutSucceeded {
			return fmt.Errorf("the last rollout is %d, %s", r.Number, r.Phase)
		}
		return nil
	})
	s.awaitObserver("prod")
	s.awaitRelease("app", v1alpha1.ConditionHealthy, metav1.ConditionTrue, v1alpha1.ReasonHealthy)
	s.awaitDelivered("app")
}

func TestADeploymentWhoseDeadlineIsOverFailsTheRolloutAtOnce(t *testing.T) {
	s := newScene(t)
	s.readyCluster("prod", beta) // has no nodes
	s.configMap("source", map[string]string{"all.yaml": workload("web", "progressDeadlineSeconds: 1", "pause")})
	s.release("app", "prod", "source")
	s.awaitRelease("app", v1alpha1.ConditionHealthy, metav1.ConditionFalse, v1alpha1.ReasonUnhealthy)
	r := s.awaitRelease("app", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonUnhealthy)
	s.wantMessage(r.Status.Conditions, v1alpha1.ConditionReady, "1 of 2 objects failed", "Deployment.apps "+s.ns+"/web")
	ended := r.Status.History[0]
	if took := ended.EndTime.Sub(ended.StartTime.Time); took > r.Spec.SyncPolicy.Timeout.Duration/2 {
		t.Errorf("it took %s", took)
	}
}
