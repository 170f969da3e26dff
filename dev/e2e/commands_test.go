package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	historypb "go.temporal.io/api/history/v1"
	temporalclient "go.temporal.io/sdk/client"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

func TestKubectlWaitsForReadinessAndShowsTheColumns(t *testing.T) {
	s := newScene(t)
	s.cluster("prod", alpha.Kubeconfig())
	s.greeting("greeting", "hello")
	s.release("app", "prod", "greeting")
	for _, object := range []string{"cluster.core.convoy.kumodo.io/prod", "release.core.convoy.kumodo.io/app"} {
		if _, err := s.kubectl("wait", "--for=condition=Ready", "--timeout=120s", object); err != nil {
			t.Fatal(err)
		}
	}
	for kind, want := range map[string][2]string{
		"clusters.core.convoy.kumodo.io": {"NAME READY REACHABLE VERSION LAST-PROBE AGE", "prod True true v1."},
		"releases.core.convoy.kumodo.io": {"NAME CLUSTER READY HEALTHY DRIFTED REVISION STATUS AGE", "app prod True True False sha256:"},
		"cvc":                            {"NAME READY", "prod True"},
		"cvr":                            {"NAME CLUSTER", "app prod"},
	} {
		out, err := s.kubectl("get", kind)
		s.must(err)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		for i, line := range lines {
			lines[i] = strings.Join(strings.Fields(line), " ")
		}
		if len(lines) != 2 || !strings.HasPrefix(lines[0], want[0]) || !strings.HasPrefix(lines[1], want[1]) {
			t.Errorf("kubectl get %s prints\n%s\nnot %q", kind, out, want)
		}
	}
	out, err := s.kubectl("get", "convoy")
	s.must(err)
	if !strings.Contains(out, "/prod") || !strings.Contains(out, "/app") {
		t.Errorf("kubectl get convoy prints\n%s", out)
	}
}

func TestKubectlExplainsTheFields(t *testing.T) {
	s := newScene(t)
	for path, want := range map[string]string{
		"clusters.spec.agentless": "caPublicCertRef", "clusters.spec.agentless.auth.kubeconfig.secretRef": "key",
		"clusters.spec.deletionPolicy": "pruneReleases", "releases.spec.deletionPolicy": "blockOnClusterUnreachable",
	} {
		out, err := s.kubectl("explain", path, "--api-version=core.convoy.kumodo.io/v1alpha1")
		s.must(err)
		description := out[strings.Index(out, "DESCRIPTION:")+1:]
		if !strings.Contains(out, want) || strings.Contains(description, "<empty>") {
			t.Errorf("kubectl explain %s prints\n%s", path, out)
		}
	}
}

// signals counts the signals of a name in a history.
func signals(history []*historypb.HistoryEvent, name string) (n int) {
	for _, e := range history {
		if e.GetWorkflowExecutionSignaledEventAttributes().GetSignalName() == name {
			n++
		}
	}
	return n
}

// forced counts the probes that somebody asked for: they run where no resync can be in the way.
func forced(history []*historypb.HistoryEvent) (n int) {
	for _, e := range history {
		a := e.GetActivityTaskScheduledEventAttributes()
		if a.GetActivityType().GetName() == "ProbeCluster" && a.GetTaskQueue().GetName() == delivery.QueueMain {
			n++
		}
	}
	return n
}

func TestTheReprobeSignalProbesAtOnceAlsoInTheMiddleOfABackoff(t *testing.T) {
	s := newScene(t)
	path := newLink(t, alpha)
	path.cut()
	s.cluster("prod", path.kubeconfig(t, "signal-"+s.ns))
	id := s.clusterWorkflow("prod")
	s.awaitBackoff(id, 3)
	path.mend(t)
	if _, err := s.temporalCommand("workflow", "signal", "--workflow-id", id, "--name", "reprobe"); err != nil {
		t.Fatal(err)
	}
	s.awaitCluster("prod", metav1.ConditionTrue, v1alpha1.ReasonReachable)
	if h := s.history(id); signals(h, "reprobe") != 1 || forced(h) != 1 {
		t.Errorf("there are %d signals and %d forced probes", signals(h, "reprobe"), forced(h))
	}
}

// awaitBackoff waits until the probe of a Cluster's workflow waits for that attempt.
func (s *scene) awaitBackoff(workflowID string, attempt int32) {
	s.Helper()
	s.eventually(fmt.Sprintf("the probe waits for attempt %d", attempt), func(ctx context.Context) error {
		if len(s.history(workflowID)) == 0 {
			return fmt.Errorf("there is no workflow yet")
		}
		if p := s.pending(workflowID, "ProbeCluster"); p.GetAttempt() < attempt {
			return fmt.Errorf("pending: %v", p)
		}
		return nil
	})
}

// verdict is what the update reprobe answers.
type verdict struct {
	Reachable         bool   `json:"reachable"`
	Reason            string `json:"reason"`
	Message           string `json:"message"`
	KubernetesVersion string `json:"kubernetesVersion"`
}

// reprobe runs the update of Cluster prod through the temporal command.
func (s *scene) reprobe() verdict {
	s.Helper()
	return s.reprobeOf("prod")
}

func (s *scene) reprobeOf(cluster string) verdict {
	s.Helper()
	out, err := s.temporalCommand("workflow", "update", "execute", "--workflow-id", s.clusterWorkflow(cluster), "--name", "reprobe", "--output", "json")
	s.must(err)
	var answer struct {
		Result verdict `json:"result"`
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		s.Fatalf("the answer is no JSON (%v): %s", err, out)
	}
	return answer.Result
}

func TestTheReprobeUpdateAnswersWithTheVerdictAlsoOfADeadCluster(t *testing.T) {
	s := newScene(t)
	path := newLink(t, alpha)
	s.cluster("prod", path.kubeconfig(t, "update-"+s.ns))
	s.awaitCluster("prod", metav1.ConditionTrue, v1alpha1.ReasonReachable)
	if v := s.reprobe(); !v.Reachable || v.Reason != v1alpha1.ReasonReachable || !strings.HasPrefix(v.KubernetesVersion, "v1.") {
		t.Errorf("the verdict of a healthy Cluster is %+v", v)
	}
	path.cut()
	if v := s.reprobe(); v.Reachable || v.Reason != v1alpha1.ReasonProbeFailed || v.Message == "" {
		t.Errorf("the verdict of a dead Cluster is %+v", v)
	}
	s.awaitCluster("prod", metav1.ConditionFalse, v1alpha1.ReasonProbeFailed)
	s.awaitBackoff(s.clusterWorkflow("prod"), 2) // a dead Cluster goes on retrying by itself
	if v := s.reprobe(); v.Reachable || v.Reason != v1alpha1.ReasonProbeFailed {
		t.Errorf("the verdict in the middle of a backoff is %+v", v)
	}
	path.mend(t)
	if v := s.reprobe(); !v.Reachable {
		t.Errorf("the verdict of the mended Cluster is %+v", v)
	}
	s.awaitCluster("prod", metav1.ConditionTrue, v1alpha1.ReasonReachable)
}

func TestTheReprobeUpdateOfAnUnsupportedClusterSaysSo(t *testing.T) {
	s := newScene(t)
	s.cluster("prod", alpha.Kubeconfig(), func(c *v1alpha1.Cluster) { c.Spec.Agentless.Auth.Type = "oidc" })
	s.awaitCluster("prod", metav1.ConditionFalse, v1alpha1.ReasonUnsupported)
	if v := s.reprobe(); v.Reachable || v.Reason != v1alpha1.ReasonUnsupported || v.Message == "" {
		t.Errorf("the verdict is %+v", v)
	}
}

// It runs alone: what it measures is convoy, not the load of the other tests.
func TestTheReprobeUpdateOfAHealthyClusterAnswersWithinTwoSeconds(t *testing.T) {
	s := newSerialScene(t)
	s.readyCluster("prod", beta)
	best := time.Hour
	for range 3 {
		began := time.Now()
		h, err := temporal.UpdateWorkflow(s.ctx, temporalclient.UpdateWorkflowOptions{
			WorkflowID: s.clusterWorkflow("prod"), UpdateName: "reprobe", WaitForStage: temporalclient.WorkflowUpdateStageCompleted,
		})
		s.must(err)
		var v verdict
		s.must(h.Get(s.ctx, &v))
		if !v.Reachable {
			t.Fatalf("the verdict is %+v", v)
		}
		best = min(best, time.Since(began))
	}
	if best > 2*time.Second {
		t.Errorf("the fastest of three answers took %s", best)
	}
}
