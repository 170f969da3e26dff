package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
)

// cli runs a command for people, in the scene's namespace.
func (s *scene) cli(args ...string) (out, errOut string, code int) {
	s.Helper()
	return s.cliWith("TEMPORAL_ADDRESS="+s.local.Temporal.Address, args...)
}

func (s *scene) cliWith(variable string, args ...string) (out, errOut string, code int) {
	s.Helper()
	cmd := exec.CommandContext(s.ctx, binary("convoy-race"), append(args, "--kubeconfig="+s.hubFile, "--namespace="+s.ns)...)
	cmd.Dir = s.TempDir()
	cmd.Env = append(bareEnvironment(cmd.Dir), variable)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return stdout.String(), stderr.String(), exit.ExitCode()
	}
	s.must(err)
	return stdout.String(), stderr.String(), 0
}

// wantCLI runs a command that is to end with a code and to print these parts, on whichever stream.
func (s *scene) wantCLI(code int, args []string, parts ...string) string {
	s.Helper()
	out, errOut, got := s.cli(args...)
	for _, part := range parts {
		if !strings.Contains(out+errOut, part) {
			s.Errorf("convoy %s printed\n%s%s\nwithout %q", strings.Join(args, " "), out, errOut, part)
		}
	}
	if got != code {
		s.Fatalf("convoy %s ended with code %d:\n%s%s", strings.Join(args, " "), got, out, errOut)
	}
	return out
}

func words(line string) []string { return strings.Fields(line) }

func TestTheCommandsShowApproveAndRollBackARender(t *testing.T) {
	s := newScene(t)
	s.readyCluster("prod", alpha)
	s.greeting("greeting", "one")
	s.release("app", "prod", "greeting", func(r *v1alpha1.Release) { r.Spec.SyncPolicy.Mode = v1alpha1.SyncManual })
	first := s.awaitPending("app", v1alpha1.ReasonAwaitingApproval)
	s.wantCLI(1, words("diff release app --exit-code"), "+++ pending ConfigMap", "+  text: one")
	s.wantCLI(0, words("why release app"), "AwaitingApproval: ", first, "release/"+s.ns+"/app, running", "open: Cluster prod is reachable")
	s.wantCLI(0, []string{"approve", "release", "app", "--wait", "--digest=" + first}, "approved render "+first, "Delivered: ")
	s.wantText(alpha, "greeting", "one")

	s.edit("greeting", "two")
	second := s.awaitPending("app", v1alpha1.ReasonAwaitingApproval)
	s.wantCLI(1, []string{"approve", "app", "--digest=" + first}, "the render that waits is "+second)
	s.wantCLI(1, words("diff app --live --allow-loopback --exit-code"), "-  text: one\n+  text: two\n", "--- live ConfigMap "+s.ns+"/greeting")
	s.wantText(alpha, "greeting", "one")
	s.wantCLI(0, words("approve app --wait"))
	s.wantCLI(1, words("diff app --to 1 --exit-code"), "-  text: two\n+  text: one\n")

	change(s, &v1alpha1.Release{ObjectMeta: s.meta("app")}, func(r *v1alpha1.Release) { r.Spec.SyncPolicy.Mode = v1alpha1.SyncAutomatic })
	s.awaitDelivered("app")
	s.wantCLI(0, words("rollback release app --wait"), "is pinned to render "+first)
	s.wantText(alpha, "greeting", "one")
	s.wantCLI(0, words("rollback release app --undo --wait"), "is unpinned")
	s.wantText(alpha, "greeting", "two")
	var history struct{ Rollouts []v1alpha1.RolloutRecord }
	s.must(json.Unmarshal([]byte(s.wantCLI(0, words("history app -o json"))), &history))
	var triggers []string
	for _, r := range history.Rollouts {
		triggers = append(triggers, string(r.Trigger)+" "+string(r.Phase))
	}
	if got := strings.Join(triggers, ", "); len(triggers) != 4 || triggers[1] != "Pinned Succeeded" || history.Rollouts[3].Approval == nil {
		t.Errorf("the history is %s", got)
	}
}

func TestTheCommandsSuspendResumeAndReconcile(t *testing.T) {
	s := newScene(t)
	s.readyCluster("prod", alpha)
	s.greeting("greeting", "one")
	s.release("app", "prod", "greeting")
	s.wantCLI(0, words("reconcile release app --wait"), "is asked to reconcile", "Delivered: ")
	s.wantCLI(0, words("suspend release app"), "suspended")
	s.awaitRelease("app", v1alpha1.ConditionReady, metav1.ConditionUnknown, v1alpha1.ReasonSuspended)
	s.wantCLI(1, words("reconcile app --wait"), "is not ready: Suspended: ")
	s.edit("greeting", "two")
	s.wantCLI(0, words("resume release app"), "resumed")
	s.wantCLI(0, words("reconcile app --wait"), "Delivered: ")
	s.wantText(alpha, "greeting", "two")
	file := filepath.Join(s.TempDir(), "release.yaml")
	printed, err := s.kubectl("get", "release/app", "--output", "yaml")
	s.must(err)
	source := filepath.Join(s.TempDir(), "source")
	s.must(os.Mkdir(source, 0o700))
	s.must(os.WriteFile(filepath.Join(source, "greeting.yaml"), []byte(manifest("greeting", "three")), 0o600))
	s.must(os.WriteFile(file, []byte(printed), 0o600))
	s.wantCLI(0, []string{"diff", "-f", file, "--source", source}, "-  text: two\n+  text: three\n")
}

func TestWhyNamesTheStepThatIsRetriedAndReprobeAnswers(t *testing.T) {
	s := newScene(t)
	path := newLink(t, alpha)
	path.cut()
	s.cluster("prod", path.kubeconfig(t, "why-"+s.ns))
	s.greeting("greeting", "hello")
	s.release("app", "prod", "greeting")
	s.awaitRetriedGate("app")
	s.awaitBackoff(s.clusterWorkflow("prod"), 2)
	s.wantCLI(0, words("why cluster prod"), "ProbeFailed: ", "cluster/"+s.ns+"/prod, running", "ProbeCluster, ", "Attempt: ", "Last failure: ", "Worker: ")
	s.wantCLI(0, words("why release app"), "ClusterNotReady: ", "closed: Cluster \"prod\" is not reachable", "CheckCluster, ", "release/"+s.ns+"/app, running")
	var answer struct {
		Ready      bool
		Executions []struct {
			Steps []struct{ Name, Worker string }
		}
	}
	s.must(json.Unmarshal([]byte(s.wantCLI(0, words("why release app -o json"))), &answer))
	if answer.Ready || len(answer.Executions) != 1 || len(answer.Executions[0].Steps) != 1 || answer.Executions[0].Steps[0].Worker == "" {
		t.Errorf("why answers %+v", answer)
	}
	s.wantCLI(1, words("reprobe cluster prod"), "not reachable: ProbeFailed: ")
	path.mend(t)
	s.wantCLI(0, words("reprobe cluster prod"), "reachable, Kubernetes v1.")
	s.awaitDelivered("app")
	s.wantCLI(0, words("why release app"), "is ready", "Delivered: ")
	out, errOut, code := s.cliWith("TEMPORAL_ADDRESS=127.0.0.1:1", "why", "release", "app")
	if code != 0 || !strings.Contains(out, "is ready") || !strings.Contains(out, "not known: Temporal at 127.0.0.1:1") {
		t.Errorf("without Temporal: code %d, %s%s", code, out, errOut)
	}
}

func TestTheCommandsAreAPluginOfKubectl(t *testing.T) {
	s := newScene(t)
	dir := t.TempDir()
	s.must(os.Symlink(binary("convoy-race"), filepath.Join(dir, "kubectl-convoy")))
	for args, want := range map[string]string{
		"convoy history --help":             "  kubectl convoy history release NAME [flags]",
		"convoy history release app":        "kubectl convoy: there is no Release " + s.ns + "/app",
		"convoy get releases --output=yaml": "kind: ReleaseList",
	} {
		cmd := exec.CommandContext(s.ctx, binary("kubectl"), append(words(args), "--namespace="+s.ns)...)
		cmd.Env = []string{"PATH=" + dir, "HOME=" + dir, "KUBECONFIG=" + s.hubFile}
		if out, err := cmd.CombinedOutput(); !strings.Contains(string(out), want) {
			t.Errorf("kubectl %s: %v, %s", args, err, out)
		}
	}
}

func TestTheCommandsShowHooksAndTheAttemptsOfARollout(t *testing.T) {
	s := newScene(t)
	l := s.listen()
	s.readyCluster("prod", alpha)
	s.greeting("greeting", "hello")
	var sent atomic.Int32
	l.answering(func(w http.ResponseWriter, _ *http.Request) {
		if sent.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	r := s.release("app", "prod", "greeting", intoNamespace(s.ns), hooked(
		l.hook("tell", v1alpha1.HookPreApply), l.hook("leave", v1alpha1.HookPreDelete),
		newHook("sign", v1alpha1.HookPostApply, func(h *v1alpha1.Hook) { h.Approval = &v1alpha1.HookApproval{Message: "look at {{ .cluster.name }}"} }),
	))
	s.awaitRelease("app", v1alpha1.ConditionApplied, metav1.ConditionFalse, v1alpha1.ReasonApplyRetrying) // its namespace is not there
	s.wantCLI(0, words("history app --rollout 1"), "apply to Cluster prod", "ApplyRetrying: ", "Phase:     Running")
	s.targetNamespace(s.on(alpha))
	first := s.awaitHook("app", "sign", v1alpha1.HookRunning)
	s.wantCLI(0, words("why release app"), "Progressing: rollout 1 waits for hook sign (PostApply): it waits for an Approval of ",
		"convoy approve release app -n "+s.ns+" --hook sign", "sign (PostApply), running since ", "look at prod", "RunHook, running")
	s.wantCLI(1, words("approve app --hook sing"), `spec.hooks has no hook "sing"; those that wait for an Approval are sign (PostApply)`)
	s.wantCLI(1, words("approve app --hook tell"), "hook tell (PreApply) is no approval but does something itself: HTTP")
	s.wantCLI(0, words("suspend app"))
	s.awaitRelease("app", v1alpha1.ConditionReady, metav1.ConditionUnknown, v1alpha1.ReasonSuspended)
	s.eventually("the hook is stopped", func(context.Context) error {
		if runs := s.getRelease("app").Status.Hooks; len(runs) != 1 {
			return fmt.Errorf("status.hooks is %+v", runs)
		}
		return nil
	})
	s.wantCLI(0, words("resume app"))
	if again := s.awaitHook("app", "sign", v1alpha1.HookRunning); !again.StartTime.After(first.StartTime.Time) {
		t.Errorf("the time of the hook counts from %s, before the suspension", again.StartTime)
	}
	s.wantCLI(0, words("history app --rollout 1"), "hook PostApply sign: Approval", "cancelled")
	s.wantCLI(0, words("approve app --hook sign --wait"), "approved hook sign for render ", "Delivered: ")
	s.wantCLI(0, words("describe release app"), "\nHooks\n", "tell   PreApply", "approved by ")

	s.wantAttempts()
	s.wantCLI(1, words("history app --rollout 2"), "Release "+s.ns+"/app has had no rollout 2")
	_, err := s.temporalCommand("workflow", "delete", "--workflow-id", s.getRelease("app").Status.Rollout.WorkflowID)
	s.must(err)
	s.eventually("the workflow is gone", func(context.Context) error {
		if out, errOut, code := s.cli(words("history app --rollout 1")...); code != 1 || !strings.Contains(errOut, "keeps an ended workflow only for the retention") {
			return fmt.Errorf("code %d, %s%s", code, out, errOut)
		}
		return nil
	})

	l.answering(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	s.remove(r)
	s.awaitHook("app", "leave", v1alpha1.HookFailed)
	s.eventually("why tells what holds the deletion", func(context.Context) error {
		out, _, _ := s.cli(words("why release app")...)
		for _, part := range []string{"Deleting: hook leave (PreDelete) failed: ", "kubectl annotate --overwrite release.core.convoy.kumodo.io -n " + s.ns + " app convoy.kumodo.io/requestedAt="} {
			if !strings.Contains(out, part) {
				return fmt.Errorf("it prints %s, without %q", out, part)
			}
		}
		return nil
	})
	s.awaitEvent("app", v1alpha1.ReasonHookFailed)
	l.answering(nil)
	_, err = s.kubectl("annotate", "--overwrite", "release.core.convoy.kumodo.io", "app", "convoy.kumodo.io/requestedAt=now")
	s.must(err)
	s.awaitGone(s.hub, r)
}

// wantAttempts looks at the rollout of the test above: a suspension has cut its first run, in which two steps were tried twice.
func (s *scene) wantAttempts() {
	s.Helper()
	type step struct {
		Name, Summary, State, Message, LastFailure string
		Attempt                                    int
		EndTime                                    *metav1.Time
	}
	var told struct {
		Runs []struct {
			Status string
			Steps  []step
		}
	}
	s.must(json.Unmarshal([]byte(s.wantCLI(0, words("history app --rollout 1 -o json"))), &told))
	if len(told.Runs) != 2 || len(told.Runs[0].Steps) != 3 || told.Runs[1].Status != "Completed" || len(told.Runs[1].Steps) != 3 {
		s.Fatalf("it tells %+v", told)
	}
	before, applied, cut, after := told.Runs[0].Steps[0], told.Runs[0].Steps[1], told.Runs[0].Steps[2], told.Runs[1].Steps[2]
	if before.Summary != "hook PreApply tell: HTTP" || before.State != "succeeded" || before.Attempt != 2 || !strings.HasPrefix(before.LastFailure, "HookRetrying: hook tell") {
		s.Errorf("of the hook before: %+v", before)
	}
	if applied.Name != "ApplyObjects" || applied.State != "done" || applied.Attempt < 2 || !strings.HasPrefix(applied.LastFailure, "ApplyRetrying: ") || applied.EndTime == nil {
		s.Errorf("of the apply: %+v", applied)
	}
	if cut.Summary != "hook PostApply sign: Approval" || cut.State != "cancelled" || cut.EndTime == nil {
		s.Errorf("of the hook that was cut off: %+v", cut)
	}
	if after.State != "succeeded" || !strings.HasPrefix(after.Message, "approved by ") {
		s.Errorf("of the hook after: %+v", after)
	}
}
