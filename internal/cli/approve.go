package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// approval is what the command approve is asked for.
type approval struct {
	digest string
	hook   string
	waiting
}

func approveCommand(s Settings) *cobra.Command {
	var a approval
	cmd := &cobra.Command{
		Use: "approve release NAME", Short: "Let the render of a Release that waits for an approval be rolled out",
		Long: strings.TrimSpace(`
Create an Approval of the render that waits, in your name. It counts for this render alone: when the Release has another one by
then, nothing is rolled out. With --digest, only the render that you have looked at is approved. See what it would change with
convoy diff.

With --hook, a hook of the rollout that is under way is approved instead.`),
		Example: "  convoy diff release podinfo\n  convoy approve release podinfo --digest sha256:6f1d2c3b4a59 --wait", Args: cobra.RangeArgs(1, 2),
	}
	flags := newHubFlags(s, cmd.Flags())
	cmd.ValidArgsFunction = flags.complete(releaseKind)
	a.bind(cmd.Flags())
	cmd.Flags().StringVar(&a.digest, "digest", "", "digest of the render that you have looked at, or the beginning of it")
	cmd.Flags().StringVar(&a.hook, "hook", "", "hook that may pass")
	cmd.RunE = flags.onRelease(a.run)
	return cmd
}

func (a *approval) run(cmd *cobra.Command, h *hub, name string) error {
	r, err := h.living(cmd.Context(), name)
	if err != nil {
		return err
	}
	what := "render "
	digest, err := delivery.Approvable(r, a.digest)
	if a.hook != "" {
		what = "hook " + a.hook + " for render "
		digest, err = delivery.ApprovableHook(r, a.hook, a.digest)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", h.named(name), err)
	}
	user, err := h.user(cmd.Context())
	if err != nil {
		return err
	}
	made := &v1alpha1.Approval{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, GenerateName: r.Name[:min(len(r.Name), 240)] + "-"},
		Spec: v1alpha1.ApprovalSpec{
			ReleaseRef: v1alpha1.ReleaseRef{Name: r.Name}, Digest: digest, Hook: a.hook, ApprovedBy: user,
		},
	}
	if err := h.Create(cmd.Context(), made, fieldOwner); err != nil {
		return fmt.Errorf("create the Approval: %w", err)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "approved %s%s of Release %s/%s as %s, by Approval %s\n", what, digest, r.Namespace, r.Name, user, made.Name)
	if r.Spec.Suspend {
		fmt.Fprintln(cmd.ErrOrStderr(), "the Release is suspended: the rollout begins when it is resumed")
	}
	return a.until(cmd.Context(), h, name, cmd.ErrOrStderr(), func(r *v1alpha1.Release) bool {
		waits := r.Status.Pending != nil && r.Status.Pending.Digest == digest && r.Status.Pending.Reason == v1alpha1.ReasonAwaitingApproval
		return a.hook != "" || !waits || r.Spec.Suspend
	})
}

// user is who the hub takes the caller for.
func (h *hub) user(ctx context.Context) (string, error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := h.Create(ctx, review); err != nil {
		return "", fmt.Errorf("ask the hub who you are: %w", err)
	}
	if review.Status.UserInfo.Username == "" {
		return "", errors.New("the hub does not say who you are")
	}
	return review.Status.UserInfo.Username, nil
}
