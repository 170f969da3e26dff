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

// drifts sets what is done about drift.
func drifts(policy v1alpha1.DriftPolicy) func(*v1alpha1.Release) {
	return func(r *v1alpha1.Release) { r.Spec.SyncPolicy.Drift = policy }
}

// awaitObserver waits until the Cluster is observed, and every kind of it was seen.
func (s *scene) awaitObserver(cluster string) {
	s.Helper()
	s.eventually("Cluster "+cluster+" is observed", func(context.Context) error {
		pending := s.pending("observer/"+s.ns+"/"+cluster, "ObserveCluster")
		if pending == nil || pending.HeartbeatDetails == nil {
			return fmt.Errorf("there is no heartbeat: %v", pending)
		}
		if text := string(pending.HeartbeatDetails.Payloads[0].Data); !strings.Contains(text, `"kinds"`) || strings.Contains(text, `"problem"`) {
			return fmt.Errorf("it sees %s", text)
		}
		return nil
	})
}

// awaitDrift waits until the condition Drifted has a status and says all of the words.
func (s *scene) awaitDrift(release string, status metav1.ConditionStatus, words ...string) {
	s.Helper()
	s.eventually(fmt.Sprintf("Drifted of %s is %s: %s", release, status, strings.Join(words, ", ")), func(context.Context) error {
		c := meta.FindStatusCondition(s.getRelease(release).Status.Conditions, v1alpha1.ConditionDrifted)
		if c == nil || c.Status != status {
			return fmt.Errorf("it is %+v", c)
		}
		for _, word := range words {
			if !strings.Contains(c.Message, word) {
				return fmt.Errorf("it says %q", c.Message)
			}
		}
		return nil
	})
}

// tamper changes an object on a target as somebody else.
func (s *scene) tamper(on client.Client, o client.Object, patch string) {
	s.Helper()
	s.must(on.Patch(s.ctx, o, client.RawPatch("application/merge-patch+json", []byte(patch)), client.FieldOwner("somebody")))
}

func TestDriftIsToldAndCorrected(t *testing.T) {
	s := newScene(t)
	on := s.on(alpha)
	s.readyCluster("prod", alpha)
	s.configMap("source", map[string]string{"all.yaml": manifest("one", "hello") + "---\n" + manifest("two", "hello")})
	r := s.release("app", "prod", "source", drifts(v1alpha1.DriftReport))
	s.awaitDelivered("app")
	s.awaitObserver("prod")
	s.awaitDrift("app", metav1.ConditionFalse)

	one, two := &corev1.ConfigMap{ObjectMeta: s.meta("one")}, &corev1.ConfigMap{ObjectMeta: s.meta("two")}
	s.tamper(on, one, `{"data":{"more":"of somebody's own"}}`) // is no drift
	s.tamper(on, one, `{"data":{"text":"`+secretSentinel+`"}}`)
	s.awaitDrift("app", metav1.ConditionTrue, "ConfigMap "+s.ns+"/one (data.text, now of somebody)")
	if c := meta.FindStatusCondition(s.getRelease("app").Status.Conditions, v1alpha1.ConditionReady); c.Status != metav1.ConditionTrue {
		t.Errorf("Ready is %+v", c)
	}
	s.must(on.Delete(s.ctx, two))
	s.awaitDrift("app", metav1.ConditionTrue, "ConfigMap "+s.ns+"/one (data.text", "ConfigMap "+s.ns+"/two is gone")
	if d := s.getRelease("app").Status.Drift; d == nil || d.Count != 2 || len(d.Objects) != 2 {
		t.Errorf("status.drift is %+v", d)
	}

	change(s, r, drifts(v1alpha1.DriftCorrect))
	s.awaitDrift("app", metav1.ConditionFalse)
	s.awaitText(patience, on, "one", "hello")
	s.awaitText(patience, on, "two", "hello")
	s.eventually("the correction is counted", func(context.Context) error {
		if done := s.getRelease("app"); done.Status.Rollout.Number != 1 || done.Status.Drift == nil || done.Status.Drift.Corrections != 1 {
			return fmt.Errorf("rollout %d, drift %+v", done.Status.Rollout.Number, done.Status.Drift)
		}
		return nil
	})
	s.awaitEvent("app", v1alpha1.ReasonDriftCorrected)

	change(s, r, drifts(v1alpha1.DriftIgnore))
	s.eventually("nothing is said of drift", func(context.Context) error {
		if c := meta.FindStatusCondition(s.getRelease("app").Status.Conditions, v1alpha1.ConditionDrifted); c != nil {
			return fmt.Errorf("it says %+v", c)
		}
		return nil
	})
}

// awaitEvent waits until an Event about a Release has a reason.
func (s *scene) awaitEvent(release, reason string) {
	s.Helper()
	s.eventually("there is an Event "+reason, func(context.Context) error {
		all := strings.Join(s.events(), "\n")
		if !strings.Contains(all, "Release "+release+" "+reason+":") {
			return fmt.Errorf("there are\n%s", all)
		}
		return nil
	})
}

func TestHealthThatIsLostAndFoundIsTold(t *testing.T) {
	s := newScene(t)
	on := s.on(alpha)
	group := "observed-" + s.ns + ".test"
	s.readyCluster("prod", alpha)
	object := custom(group, "v1", "Widget", "one", "first")
	s.configMap("widgets", map[string]string{"all.yaml": object + "---\n" + definition(group, "Widget", "v1")})
	s.release("app", "prod", "widgets")
	s.awaitDelivered("app")
	s.awaitObserver("prod")
	widget := &unstructured.Unstructured{}
	widget.SetAPIVersion(group + "/v1")
	widget.SetKind("Widget")
	widget.SetNamespace(s.ns)
	widget.SetName("one")
	ready := func(status string) {
		s.Helper()
		s.tamper(on, widget, `{"status":{"conditions":[{"type":"Ready","status":"`+status+`","reason":"Because","message":"the far side says so"}]}}`)
	}
	ready("False")
	s.awaitRelease("app", v1alpha1.ConditionHealthy, metav1.ConditionFalse, v1alpha1.ReasonDegraded)
	s.awaitRelease("app", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDegraded)
	s.wantMessage(s.getRelease("app").Status.Conditions, v1alpha1.ConditionHealthy, "1 of 2 objects", "Widget."+group, "one")
	s.request("app") // a reconcile that finds nothing to do does not say otherwise
	s.awaitRelease("app", v1alpha1.ConditionHealthy, metav1.ConditionFalse, v1alpha1.ReasonDegraded)
	ready("True")
	s.awaitRelease("app", v1alpha1.ConditionHealthy, metav1.ConditionTrue, v1alpha1.ReasonHealthy)
	s.awaitRelease("app", v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonDelivered)
}

func TestOfAClusterThatIsGoneNothingIsClaimed(t *testing.T) { claimNothing(t, (*link).cut) }

// Its connections and all new ones hang: nothing but time tells.
func TestOfAClusterThatIsFrozenNothingIsClaimed(t *testing.T) { claimNothing(t, (*link).freeze) }

func claimNothing(t *testing.T, lose func(*link)) {
	t.Helper()
	s := newScene(t)
	path := newLink(t, beta)
	s.cluster("prod", path.kubeconfig(t, "observed-"+s.ns))
	s.greeting("source", "hello")
	s.release("app", "prod", "source", func(r *v1alpha1.Release) { r.Spec.SyncPolicy.Interval.Duration = time.Hour })
	s.awaitDelivered("app")
	s.awaitObserver("prod")
	lose(path)
	s.awaitCluster("prod", metav1.ConditionFalse, v1alpha1.ReasonProbeFailed) // the observer asks for the probe
	s.awaitRelease("app", v1alpha1.ConditionHealthy, metav1.ConditionUnknown, v1alpha1.ReasonClusterNotReady)
	s.wantMessage(s.getRelease("app").Status.Conditions, v1alpha1.ConditionHealthy, "not reachable", "its last good probe was at 20")
	s.awaitRelease("app", v1alpha1.ConditionReady, metav1.ConditionUnknown, v1alpha1.ReasonClusterNotReady)
	s.awaitDrift("app", metav1.ConditionUnknown, "not reachable")
	s.tamper(s.on(beta), &corev1.ConfigMap{ObjectMeta: s.meta("source")}, `{"data":{"text":"changed meanwhile"}}`)
	path.cut()
	path.mend(t)
	s.awaitRelease("app", v1alpha1.ConditionHealthy, metav1.ConditionTrue, v1alpha1.ReasonHealthy)
	s.awaitText(patience, s.on(beta), "source", "hello") // what drifted while nobody looked is corrected
	s.awaitRelease("app", v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonDelivered)
	s.awaitDrift("app", metav1.ConditionFalse)
}

// TestAnObserverThatIsKilledOrStoppedIsFollowedByAnotherThatMissesNothing runs alone: it kills convoy.
func TestAnObserverThatIsKilledOrStoppedIsFollowedByAnotherThatMissesNothing(t *testing.T) {
	const n = 1000
	s := newSerialScene(t)
	on := s.on(beta)
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, "%s---\n", manifest(fmt.Sprint("object-", i), "hello"))
	}
	s.configMap("source", map[string]string{"all.yaml": all.String()})
	s.readyCluster("prod", beta)
	s.release("app", "prod", "source", drifts(v1alpha1.DriftReport))
	s.awaitDelivered("app")
	s.awaitObserver("prod")
	other, err := newConvoy("observer", "--roles=observer")
	s.must(err)
	s.must(other.start(s.ctx))
	t.Cleanup(func() { _ = other.stop() })
	edited := 0
	edit := func(to int) {
		for ; edited < to; edited++ {
			s.tamper(on, &corev1.ConfigMap{ObjectMeta: s.meta(fmt.Sprint("object-", edited))}, `{"data":{"text":"other"}}`)
		}
	}
	counted := func(what string) {
		s.Helper()
		began := time.Now()
		s.eventually(what, func(context.Context) error {
			if d := s.getRelease("app").Status.Drift; d == nil || int(d.Count) != edited {
				return fmt.Errorf("of %d the status counts %+v", edited, d)
			}
			return nil
		})
		t.Logf("%s after %s", what, time.Since(began).Round(time.Second/10))
	}
	edit(n / 4)
	counted("drift is seen")
	s.must(shared.kill())
	edit(n / 2)
	counted("drift is seen after kill -9 of the observer")
	edit(3 * n / 4)
	s.must(shared.start(s.ctx))
	s.must(other.stop())
	edit(n)
	counted("drift is seen after a stop of the observer")
}
