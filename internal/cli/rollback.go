package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// rollback is what the command rollback is asked for.
type rollback struct {
	to   string
	undo bool
	waiting
}

func rollbackCommand(s Settings) *cobra.Command {
	var b rollback
	cmd := &cobra.Command{
		Use: "rollback release NAME", Short: "Deliver a kept render of a Release, and hold there",
		Long: strings.TrimSpace(`
Set spec.pinnedRender: the kept render is rolled out, and whatever the source holds is not, until the pin is removed with --undo.
The source is not needed for it.

Without --to it is the render of the newest rollout that succeeded with another render than the last rollout has. What is kept, and
which rollout had it, is shown by convoy history. Approvals and windows of the sync policy count for a rollback as for every other
rollout.`),
		Example: "  convoy rollback release podinfo --wait\n  convoy rollback release podinfo --to 4\n  convoy rollback release podinfo --to sha256:6f1d2c\n  convoy rollback release podinfo --undo",
		Args:    cobra.RangeArgs(1, 2),
	}
	flags := newHubFlags(s, cmd.Flags())
	cmd.ValidArgsFunction = flags.complete(releaseKind)
	b.bind(cmd.Flags())
	cmd.Flags().StringVar(&b.to, "to", "", "number of the rollout, or digest of the kept render or the beginning of it")
	cmd.Flags().BoolVar(&b.undo, "undo", false, "remove the pin, and deliver what the source holds")
	cmd.MarkFlagsMutuallyExclusive("to", "undo")
	cmd.RunE = flags.onRelease(b.run)
	return cmd
}

func (b *rollback) run(cmd *cobra.Command, h *hub, name string) error {
	r, err := h.change(cmd.Context(), name, b.decide)
	if err != nil {
		return err
	}
	done := "is unpinned: what the source holds is delivered"
	if !b.undo {
		done = "is pinned to render " + r.Spec.PinnedRender
	}
	if r.Spec.Suspend {
		done += ", once it is resumed: it is suspended"
	}
	fmt.Fprintf(cmd.OutOrStdout(), "Release %s/%s %s\n", r.Namespace, r.Name, done)
	return b.until(cmd.Context(), h, name, cmd.ErrOrStderr(), func(now *v1alpha1.Release) bool {
		return now.Status.ObservedGeneration >= r.Generation
	})
}

// decide changes the pin.
func (b *rollback) decide(r *v1alpha1.Release) error {
	if b.undo {
		if r.Spec.PinnedRender == "" {
			return errors.New("it is not pinned to a render")
		}
		r.Spec.PinnedRender = ""
		return nil
	}
	var (
		ref v1alpha1.RenderRef
		err error
	)
	if b.to == "" {
		ref, err = delivery.RenderBefore(r)
	} else {
		ref, err = delivery.ChooseRender(&r.Status, b.to)
	}
	r.Spec.PinnedRender = ref.Digest
	return err
}
