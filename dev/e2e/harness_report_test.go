package e2e

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
)

// kubectl runs kubectl against the hub in the scene's namespace and returns what it printed.
func (s *scene) kubectl(args ...string) (string, error) {
	s.Helper()
	return s.command("kubectl", append([]string{"--kubeconfig=" + hubFile, "--namespace=" + s.ns}, args...)...)
}

// temporalCommand runs the temporal command and returns what it printed.
func (s *scene) temporalCommand(args ...string) (string, error) {
	s.Helper()
	return s.command("temporal", append(args, "--address="+s.local.Temporal.Address)...)
}

func (s *scene) command(name string, args ...string) (string, error) {
	s.Helper()
	cmd := exec.CommandContext(s.ctx, binary(name), args...)
	cmd.Dir = s.TempDir()
	cmd.Env = bareEnvironment(cmd.Dir)
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return string(out), err
}

// state is what the scene's Clusters and Releases say, and what their workflows do.
func (s *scene) state() string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var b strings.Builder
	write := func(kind string, o metav1.Object, conditions []metav1.Condition) {
		fmt.Fprintf(&b, "--- %s %s generation=%d deleted=%v finalizers=%v\n", kind, o.GetName(), o.GetGeneration(), o.GetDeletionTimestamp(), o.GetFinalizers())
		for _, c := range conditions {
			fmt.Fprintf(&b, "    %s=%s %s (generation %d): %s\n", c.Type, c.Status, c.Reason, c.ObservedGeneration, c.Message)
		}
	}
	var clusters v1alpha1.ClusterList
	var releases v1alpha1.ReleaseList
	if err := s.hub.List(ctx, &clusters, client.InNamespace(s.ns)); err != nil {
		return err.Error()
	}
	if err := s.hub.List(ctx, &releases, client.InNamespace(s.ns)); err != nil {
		return err.Error()
	}
	for i := range clusters.Items {
		write("Cluster", &clusters.Items[i], clusters.Items[i].Status.Conditions)
		b.WriteString(s.standing(ctx, s.clusterWorkflow(clusters.Items[i].Name)))
	}
	for i := range releases.Items {
		r := &releases.Items[i]
		write("Release", r, r.Status.Conditions)
		b.WriteString(s.standing(ctx, s.releaseWorkflow(r.Name)))
		if r.Status.Rollout != nil {
			b.WriteString(s.standing(ctx, r.Status.Rollout.WorkflowID))
		}
	}
	return b.String()
}
