package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kumodo.io/convoy/api/v1alpha1"
)

func reconcileCommand(s Settings) *cobra.Command {
	var w waiting
	cmd := &cobra.Command{
		Use: "reconcile release NAME", Short: "Have convoy look at the source of a Release now, and deliver what it holds",
		Long: strings.TrimSpace(`
Ask for a reconcile by the annotation convoy.kumodo.io/requestedAt. A rollout follows when the source, or something else that
is rendered, has changed, or when the last rollout failed.

With --wait the command ends when the Release is ready (exit code 0), or when it can get no further by itself, as after a
failure that no waiting heals, or before an approval (exit code 1). What it waits for is printed on stderr.`),
		Example: "  convoy reconcile release podinfo --wait", Args: cobra.RangeArgs(1, 2),
	}
	flags := newHubFlags(s, cmd.Flags())
	cmd.ValidArgsFunction = flags.complete(releaseKind)
	w.bind(cmd.Flags())
	cmd.RunE = flags.onRelease(func(cmd *cobra.Command, h *hub, name string) error {
		at := time.Now().UTC().Format(time.RFC3339Nano)
		r, err := h.change(cmd.Context(), name, func(r *v1alpha1.Release) error {
			if r.Annotations == nil {
				r.Annotations = map[string]string{}
			}
			r.Annotations[v1alpha1.AnnotationRequestedAt] = at
			return nil
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "Release %s/%s is asked to reconcile\n", r.Namespace, r.Name)
		return w.until(cmd.Context(), h, name, cmd.ErrOrStderr(), func(r *v1alpha1.Release) bool {
			asked := r.Annotations[v1alpha1.AnnotationRequestedAt]
			return r.Status.LastHandledReconcileAt == at || asked != at && r.Status.LastHandledReconcileAt == asked // somebody asked later
		})
	})
	return cmd
}
