package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	historypb "go.temporal.io/api/history/v1"
	"google.golang.org/protobuf/encoding/protojson"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// record is how the histories of workflows/testdata/histories are made, after a change of workflow code:
//
//	go test ./e2e -run 'TestALifeFrom|TestADeletionAfterAMove|TestDriftIsTold|TestAnObjectWithARival' -record=../../workflows/testdata/histories
var record = flag.String("record", "", "folder to write the histories of these tests to")

// TestALifeFromRegistrationToDeletion takes every way through the workflows once. Its histories can be recorded.
func TestALifeFromRegistrationToDeletion(t *testing.T) {
	s := newScene(t)
	on := s.on(beta)
	s.targetNamespace(on)
	source := s.configMap("source", map[string]string{"greeting.yaml": manifest("greeting", "first"), "leaving.yaml": manifest("leaving", "b")})

	s.readyCluster("steady", beta)
	s.outage()
	s.release("gated", "doomed", "source", intoNamespace(s.ns), func(r *v1alpha1.Release) { r.Spec.DeletionPolicy.KeepWorkloads = true })
	s.awaitClosed("gated")
	s.reconcile("gated")

	// The first rollout, a reconcile that finds nothing to do, and a second rollout.
	s.release("app", "steady", "source", intoNamespace(s.ns+"-app"), func(r *v1alpha1.Release) { r.Spec.CreateNamespace = true })
	s.awaitDelivered("app")
	s.awaitIdle("app")
	s.must(temporal.SignalWorkflow(s.ctx, s.releaseWorkflow("app"), "", delivery.SignalReconcile, nil))
	s.request("app")
	change(s, source, func(cm *corev1.ConfigMap) { cm.Data["greeting.yaml"] = manifest("greeting", "second") })
	s.awaitRollout("app", 2)
	s.save("release-rollouts", s.releaseWorkflow("app"))

	// A rollout that prunes and waits for health, interrupted by an edit that a fourth one delivers.
	change(s, source, func(cm *corev1.ConfigMap) {
		delete(cm.Data, "leaving.yaml")
		cm.Data["pod.yaml"] = podManifest("worker")
	})
	app := *s
	app.ns = s.ns + "-app"
	app.letPodRun(on)
	s.awaitRollout("app", 3)
	change(s, source, func(cm *corev1.ConfigMap) { cm.Data["pod.yaml"] = podManifest("other") })
	s.awaitWaiting("app", 4)
	change(s, source, func(cm *corev1.ConfigMap) { delete(cm.Data, "pod.yaml") })
	r := s.awaitRollout("app", 5)
	s.remove(r)
	s.awaitGone(hubClient, r)

	// A Cluster that takes its Releases along.
	doomed := s.readyCluster("doomed", beta, func(c *v1alpha1.Cluster) { c.Spec.DeletionPolicy.PruneReleases = true })
	gated := s.awaitDelivered("gated")
	s.remove(doomed)
	s.awaitGone(hubClient, gated)
	s.awaitGone(hubClient, doomed)
	if !s.exists(on, &corev1.ConfigMap{ObjectMeta: s.meta("greeting")}) {
		t.Error("keepWorkloads did not keep what was delivered")
	}

	s.save("cluster-ready", s.clusterWorkflow("steady"))
	s.save("cluster-dead-then-mended", s.clusterWorkflow("flaky"))
	s.save("hub", delivery.HubWorkflowID)
	s.save("cluster-cascade", s.clusterWorkflow("doomed"))
	s.save("release-deleted", s.releaseWorkflow("app"))
	s.save("release-gated-then-cascade", s.releaseWorkflow("gated"))
	for number, name := range map[int64]string{1: "rollout-apply", 3: "rollout-prune-and-health", 4: "rollout-taken-over"} {
		s.save(name, delivery.RolloutWorkflowID(s.ns, "app", number))
	}
}

// intoNamespace lets a Release deliver to a namespace of the target, without creating it.
func intoNamespace(name string) func(*v1alpha1.Release) {
	return func(r *v1alpha1.Release) { r.Spec.TargetNamespace, r.Spec.CreateNamespace = name, false }
}

// outage takes the Cluster flaky from ready to dead and back.
func (s *scene) outage() {
	s.Helper()
	path := newLink(s.T, beta)
	s.cluster("flaky", path.kubeconfig(s.T, "flaky-"+s.ns))
	s.awaitCluster("flaky", metav1.ConditionTrue, v1alpha1.ReasonReachable)
	path.cut()
	s.must(temporal.SignalWorkflow(s.ctx, s.clusterWorkflow("flaky"), "", delivery.SignalReprobe, nil))
	s.awaitCluster("flaky", metav1.ConditionFalse, v1alpha1.ReasonProbeFailed)
	s.awaitAttempt(s.clusterWorkflow("flaky"), "ProbeCluster", 2)
	path.mend(s.T)
	s.awaitCluster("flaky", metav1.ConditionTrue, v1alpha1.ReasonReachable)
}

// awaitRollout waits until a rollout succeeded and nothing is left to do.
func (s *scene) awaitRollout(release string, number int64) *v1alpha1.Release {
	s.Helper()
	s.awaitSucceeded(release, number)
	s.awaitIdle(release)
	return s.getRelease(release)
}

// awaitSucceeded waits until a rollout succeeded, whatever goes on beside it.
func (s *scene) awaitSucceeded(release string, number int64) {
	s.Helper()
	s.eventually(fmt.Sprintf("rollout %d of Release %s succeeded", number, release), func(context.Context) error {
		r := s.getRelease(release)
		if r.Status.Rollout == nil || r.Status.Rollout.Number != number || r.Status.Rollout.Phase != v1alpha1.RolloutSucceeded {
			return fmt.Errorf("it is %+v", r.Status.Rollout)
		}
		return nil
	})
}

// awaitWaiting waits until all objects of a rollout are applied, and their health is waited for.
func (s *scene) awaitWaiting(release string, number int64) {
	s.Helper()
	s.eventually(fmt.Sprintf("rollout %d of Release %s waits for health", number, release), func(context.Context) error {
		r := s.getRelease(release)
		if r.Status.Rollout.Number != number {
			return fmt.Errorf("it is rollout %d", r.Status.Rollout.Number)
		}
		return s.compare(r.Status.Conditions, v1alpha1.ConditionApplied, metav1.ConditionTrue, v1alpha1.ReasonApplied, r.Generation)
	})
}

// save writes the history of a workflow to the folder that -record names, without a word about the machine.
func (s *scene) save(name, workflowID string) {
	s.Helper()
	events := s.history(workflowID)
	if len(events) == 0 {
		s.Fatalf("workflow %s has no history", workflowID)
	}
	if *record == "" {
		return
	}
	content, err := protojson.Marshal(&historypb.History{Events: events})
	s.must(err)
	host, err := os.Hostname()
	s.must(err)
	content = regexp.MustCompile(`"[0-9]+@`+regexp.QuoteMeta(host)+`@[^"]*"`).ReplaceAll(content, []byte(`"worker"`))
	content = regexp.MustCompile(`"`+regexp.QuoteMeta(host)+`:[^"]*"`).ReplaceAll(content, []byte(`"worker:sticky"`))
	var out bytes.Buffer
	s.must(json.Indent(&out, content, "", " ")) // protojson spaces its output at random
	s.must(os.WriteFile(filepath.Join(*record, name+".json"), append(out.Bytes(), '\n'), 0o600))
}
