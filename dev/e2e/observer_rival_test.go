package e2e

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilwait "k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
)

// rival changes an object back, whatever convoy does, until the test ends it.
func (s *scene) rival(on client.Client, o client.Object, patch string) (end func()) {
	ctx, cancel := context.WithCancel(s.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		utilwait.UntilWithContext(ctx, func(ctx context.Context) {
			_ = on.Patch(ctx, o, client.RawPatch("application/merge-patch+json", []byte(patch)), client.FieldOwner("rival"))
		}, 200*time.Millisecond)
	}()
	return func() { cancel(); <-done }
}

func TestAnObjectWithARivalIsCorrectedLessAndLessAndHoldsNoOtherBack(t *testing.T) {
	s := newScene(t)
	on := s.on(alpha)
	s.readyCluster("prod", alpha)
	s.configMap("source", map[string]string{"all.yaml": manifest("fought", "hello") + "---\n" + manifest("calm", "hello")})
	s.release("app", "prod", "source")
	s.awaitDelivered("app")
	s.awaitObserver("prod")
	fought, calm := &corev1.ConfigMap{ObjectMeta: s.meta("fought")}, &corev1.ConfigMap{ObjectMeta: s.meta("calm")}
	end := s.rival(on, fought, `{"data":{"text":"other"}}`)
	times := func(name string) (n int32, notBefore time.Time) {
		if d := s.getRelease("app").Status.Drift; d != nil {
			for _, c := range d.Corrected {
				if c.Name == name {
					n, notBefore = c.Times, c.NotBefore.Time
				}
			}
		}
		return n, notBefore
	}
	s.eventually("the rival has been corrected three times", func(context.Context) error {
		if n, _ := times("fought"); n < 3 {
			return fmt.Errorf("it was %d times", n)
		}
		return nil
	})
	s.awaitDrift("app", metav1.ConditionTrue, "ConfigMap "+s.ns+"/fought (data.text, now of rival)")
	s.tamper(on, calm, `{"data":{"text":"other"}}`)
	s.awaitText(8*time.Second, on, "calm", "hello") // the pause of the other is twenty seconds by now
	if n, notBefore := times("fought"); n != 3 || notBefore.Before(time.Now()) {
		t.Errorf("it was corrected %d times, and may be again at %s", n, notBefore)
	}
	end()
	change(s, &v1alpha1.Release{ObjectMeta: s.meta("app")}, func(r *v1alpha1.Release) {
		r.Annotations = map[string]string{v1alpha1.AnnotationRequestedAt: "the rival is gone"}
	})
	s.awaitText(10*time.Second, on, "fought", "hello")
	s.awaitDrift("app", metav1.ConditionFalse)
	s.save("release-corrections", s.releaseWorkflow("app"))
	s.must(s.hub.Delete(s.ctx, &v1alpha1.Release{ObjectMeta: s.meta("app")}))
	s.awaitGone(s.hub, &v1alpha1.Release{ObjectMeta: s.meta("app")})
	s.must(s.hub.Delete(s.ctx, s.getCluster("prod")))
	s.awaitEnd("observer/" + s.ns + "/prod")
	s.save("observer-of-a-cluster", "observer/"+s.ns+"/prod")
}

const twoPorts = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n  ports: [{name: http, port: 80}, {name: admin, port: 81}]\n"

func TestACorrectionThatTheTargetRefusesSaysSoAndCorrectsTheRest(t *testing.T) {
	s := newScene(t)
	on := s.on(alpha)
	s.readyCluster("prod", alpha)
	s.configMap("source", map[string]string{"all.yaml": twoPorts + "---\n" + manifest("calm", "hello")})
	s.release("app", "prod", "source")
	s.awaitDelivered("app")
	s.awaitObserver("prod")
	web := &corev1.Service{ObjectMeta: s.meta("web")}
	// One port takes the name of another, which is away: it cannot come back beside it.
	s.must(on.Patch(s.ctx, web, client.RawPatch("application/json-patch+json", []byte(`[{"op":"replace","path":"/spec/ports","value":[{"name":"admin","port":8443,"targetPort":8443,"protocol":"TCP"}]}]`)), client.FieldOwner("somebody")))
	s.tamper(on, &corev1.ConfigMap{ObjectMeta: s.meta("calm")}, `{"data":{"text":"other"}}`)
	s.awaitText(patience, on, "calm", "hello")
	s.awaitDrift("app", metav1.ConditionTrue, "Service "+s.ns+"/web (spec.ports", "it cannot be corrected: ", "Duplicate value")
	s.awaitEvent("app", v1alpha1.ReasonApplyFailed)
	s.must(on.Patch(s.ctx, web, client.RawPatch("application/json-patch+json", []byte(`[{"op":"replace","path":"/spec/ports/0/name","value":"metrics"}]`)), client.FieldOwner("somebody")))
	s.awaitDrift("app", metav1.ConditionFalse)
	if c := meta.FindStatusCondition(s.getRelease("app").Status.Conditions, v1alpha1.ConditionReady); c.Status != metav1.ConditionTrue {
		t.Errorf("Ready is %+v", c)
	}
}

// Who removes the last field of a map that no schema describes leaves nothing in managedFields that tells of it.
func TestDriftThatOnlyADryRunCanTellIsToldAndCorrected(t *testing.T) {
	s := newScene(t)
	on := s.on(alpha)
	group := s.ns + ".free.test"
	kind := strings.ReplaceAll(definition(group, "Gadget", "v1"), "spec: {type: object", "spec: {type: object, x-kubernetes-preserve-unknown-fields: true")
	gadget := fmt.Sprintf("apiVersion: %s/v1\nkind: Gadget\nmetadata: {name: one}\nspec: {free: {d: {e: {f: 1}}}}\n", group)
	s.readyCluster("prod", alpha)
	s.configMap("source", map[string]string{"all.yaml": kind + "---\n" + gadget})
	s.release("app", "prod", "source")
	s.awaitDelivered("app")
	s.awaitObserver("prod")
	live := &unstructured.Unstructured{}
	live.SetAPIVersion(group + "/v1")
	live.SetKind("Gadget")
	live.SetNamespace(s.ns)
	live.SetName("one")
	s.tamper(on, live, `{"spec":{"free":{"d":{"e":{"f":null}}}}}`)
	s.eventually("it is as it was applied", func(ctx context.Context) error {
		if err := on.Get(ctx, client.ObjectKeyFromObject(live), live); err != nil {
			return err
		}
		if _, found, _ := unstructured.NestedInt64(live.Object, "spec", "free", "d", "e", "f"); !found {
			return fmt.Errorf("it is %v", live.Object["spec"])
		}
		return nil
	})
	s.awaitEvent("app", v1alpha1.ReasonDriftCorrected)
	s.awaitDrift("app", metav1.ConditionFalse)
}

var stormEdits = flag.Int("storm.edits", 40, "how often each of the 50 objects of TestAStorm… is changed")

func TestAStormOfChangesTellsAReleaseOfItOnceASecondAtTheMost(t *testing.T) {
	const objects = 50
	s := newScene(t)
	on := s.on(beta)
	var all strings.Builder
	for i := range objects {
		fmt.Fprintf(&all, "%s---\n", manifest(fmt.Sprint("object-", i), "hello"))
	}
	s.readyCluster("prod", beta)
	s.configMap("source", map[string]string{"all.yaml": all.String()})
	s.release("app", "prod", "source")
	s.awaitDelivered("app")
	s.awaitObserver("prod")
	began := time.Now()
	for edit := range *stormEdits {
		for i := range objects {
			s.tamper(on, &corev1.ConfigMap{ObjectMeta: s.meta(fmt.Sprint("object-", i))}, fmt.Sprintf(`{"data":{"text":"other-%d"}}`, edit))
		}
	}
	change(s, &v1alpha1.Release{ObjectMeta: s.meta("app")}, func(r *v1alpha1.Release) {
		r.Annotations = map[string]string{v1alpha1.AnnotationRequestedAt: "the storm is over"}
	})
	s.awaitDrift("app", metav1.ConditionFalse)
	most := int(time.Since(began)/time.Second) + 1
	told := 0
	for _, e := range s.history(s.releaseWorkflow("app")) {
		if e.GetWorkflowExecutionSignaledEventAttributes().GetSignalName() == "drift" {
			told++
		}
	}
	if told == 0 || told > most {
		t.Errorf("it was told %d times in %d seconds", told, most)
	}
	t.Logf("%d changes, %d signals in %d s", objects**stormEdits, told, most)
}
