package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	temporalclient "go.temporal.io/sdk/client"

	"kumodo.io/convoy/activities"
	"kumodo.io/convoy/internal/delivery"
)

func reprobeCommand(s Settings) *cobra.Command {
	var (
		output  format
		timeout time.Duration
	)
	cmd := &cobra.Command{
		Use: "reprobe cluster NAME", Short: "Probe a Cluster now, and print the verdict",
		Long: strings.TrimSpace(`
Have the worker probe a Cluster now, also in the middle of a backoff, and print the verdict. The exit code is 1 when the Cluster
is not reachable. This goes through Temporal; the environment and the flags are those of convoy run.`),
		Example: "  convoy reprobe cluster east", Args: cobra.RangeArgs(1, 2),
	}
	flags := newHubFlags(s, cmd.Flags())
	cmd.ValidArgsFunction = flags.complete(clusterKind)
	s.Temporal.Bind(cmd.Flags())
	output.bind(cmd.Flags())
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "how long to wait for the verdict")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		_, name, err := object(args, clusterKind)
		if err != nil {
			return err
		}
		h, err := flags.connect()
		if err != nil {
			return err
		}
		c, err := h.cluster(cmd.Context(), name)
		if err != nil {
			return err
		}
		e, err := dialEngine(s.Temporal)
		if err != nil {
			return err
		}
		defer e.Close()
		ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
		defer cancel()
		verdict, err := e.reprobe(ctx, c.Namespace, c.Name)
		if err != nil {
			return err
		}
		err = output.print(cmd.OutOrStdout(), verdict, func(out io.Writer) error {
			_, err := fmt.Fprintf(out, "Cluster %s/%s: %s\n", c.Namespace, c.Name, verdictOf(verdict))
			return err
		})
		if err == nil && !verdict.Reachable {
			return &exit{code: 1}
		}
		return err
	}
	return cmd
}

// reprobe asks for a probe by the update of that name.
func (e *engine) reprobe(ctx context.Context, namespace, name string) (activities.ProbeResult, error) {
	var verdict activities.ProbeResult
	id := delivery.ClusterWorkflowID(namespace, name)
	handle, err := e.UpdateWorkflow(ctx, temporalclient.UpdateWorkflowOptions{
		WorkflowID: id, UpdateName: delivery.UpdateReprobe, WaitForStage: temporalclient.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = handle.Get(ctx, &verdict)
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return verdict, fmt.Errorf("no verdict in time: does Temporal answer at %s, and does a worker of convoy run?", e.address)
	}
	if err != nil {
		return verdict, e.failed(err, id)
	}
	return verdict, nil
}

func verdictOf(v activities.ProbeResult) string {
	switch {
	case v.Life != activities.Alive:
		return "it is being deleted, or was made anew: ask again"
	case v.Reachable:
		return "reachable, Kubernetes " + v.KubernetesVersion
	case v.RetryAfter.Duration > 0:
		return fmt.Sprintf("not reachable: %s; next probe in %s", joined(v.Reason, v.Message), v.RetryAfter.Duration.Round(time.Second))
	}
	return "not reachable: " + joined(v.Reason, v.Message)
}
