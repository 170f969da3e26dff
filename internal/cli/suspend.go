package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"kumodo.io/convoy/api/v1alpha1"
)

func suspendCommand(s Settings, suspend bool) *cobra.Command {
	name, done, short := "resume", "resumed", "Let convoy deliver a suspended Release again"
	if suspend {
		name, done, short = "suspend", "suspended", "Stop the deliveries of a Release; deletion works all the same"
	}
	cmd := &cobra.Command{
		Use: name + " release NAME", Short: short, Args: cobra.RangeArgs(1, 2),
		Example: fmt.Sprintf("  convoy %s release podinfo\n  convoy %s release/podinfo -n web", name, name),
	}
	flags := newHubFlags(s, cmd.Flags())
	cmd.ValidArgsFunction = flags.complete(releaseKind)
	cmd.RunE = flags.onRelease(func(cmd *cobra.Command, h *hub, name string) error {
		was := false
		r, err := h.change(cmd.Context(), name, func(r *v1alpha1.Release) error {
			was = r.Spec.Suspend == suspend
			r.Spec.Suspend = suspend
			return nil
		})
		if err != nil {
			return err
		}
		if was {
			done = "was " + done + " already"
			if !suspend {
				done = "was not suspended"
			}
		}
		fmt.Fprintf(cmd.OutOrStdout(), "Release %s/%s %s\n", r.Namespace, r.Name, done)
		return nil
	})
	return cmd
}
