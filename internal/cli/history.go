package cli

import (
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// history is what the command of this name prints.
type history struct {
	Namespace string `json:"namespace"`
	Release   string `json:"release"`
	// Pinned is the render that the Release is held at.
	Pinned string `json:"pinnedRender,omitempty"`
	// Pending is the render that waits, if one does.
	Pending *v1alpha1.PendingRender `json:"pending,omitempty"`
	// Rollouts are the one under way, if there is one, and the ended ones, newest first.
	Rollouts []rollout `json:"rollouts"`
}

// rollout is one line of a history.
type rollout struct {
	v1alpha1.RolloutRecord `json:",inline"`
	// EndTime is absent while it is under way.
	EndTime *metav1.Time `json:"endTime,omitempty"`
	// Kept: its render is kept, so that one can roll back to it.
	Kept bool `json:"kept"`
}

func historyCommand(s Settings) *cobra.Command {
	var (
		f      format
		number int64
	)
	cmd := &cobra.Command{
		Use: "history release NAME", Short: "Show the rollouts of a Release, and what it can be rolled back to",
		Long: strings.TrimSpace(`
Show the rollouts of a Release that the hub remembers, and which renders are kept.

With --rollout, show the steps of one rollout and their attempts instead, from the history of its workflow in Temporal: how many
attempts each step took, how the one before the last failed, when it began and how long it took in all. Temporal keeps that for the
retention of its namespace. The environment and the flags for Temporal are those of convoy run.`),
		Example: "  convoy history release podinfo\n  convoy history release podinfo --rollout 4\n  convoy history release podinfo -o json",
		Args:    cobra.RangeArgs(1, 2),
	}
	flags := newHubFlags(s, cmd.Flags())
	cmd.ValidArgsFunction = flags.complete(releaseKind)
	cmd.Flags().Int64Var(&number, "rollout", 0, "number of a rollout whose steps and attempts are shown, from Temporal")
	s.Temporal.Bind(cmd.Flags())
	f.bind(cmd.Flags())
	cmd.RunE = flags.onRelease(func(cmd *cobra.Command, h *hub, name string) error {
		r, err := h.release(cmd.Context(), name)
		if err != nil {
			return err
		}
		if cmd.Flags().Changed("rollout") {
			e, err := dialEngine(s.Temporal)
			if err != nil {
				return err
			}
			defer e.Close()
			found, err := e.attemptsOf(cmd.Context(), r, number)
			if err != nil {
				return err
			}
			return f.print(cmd.OutOrStdout(), found, func(out io.Writer) error { return found.write(out, time.Now()) })
		}
		found := historyOf(r)
		return f.print(cmd.OutOrStdout(), found, func(out io.Writer) error { return found.table(out, time.Now()) })
	})
	return cmd
}

func historyOf(r *v1alpha1.Release) history {
	h := history{
		Namespace: r.Namespace, Release: r.Name, Pinned: r.Spec.PinnedRender, Pending: r.Status.Pending,
		Rollouts: make([]rollout, 0, len(r.Status.History)+1),
	}
	kept := func(digest string) bool {
		_, kept := delivery.KeptRender(&r.Status, digest)
		return kept
	}
	if last := r.Status.Rollout; last != nil && last.Phase == v1alpha1.RolloutRunning {
		h.Rollouts = append(h.Rollouts, rollout{Kept: kept(last.Digest), RolloutRecord: v1alpha1.RolloutRecord{
			Number: last.Number, Phase: last.Phase, Digest: last.Digest, Revision: last.Revision, Cluster: last.ClusterName, Trigger: last.Trigger,
			Approval: last.Approval, Objects: last.Objects, Pruned: last.Pruned, StartTime: last.StartTime,
		}})
	}
	for _, past := range r.Status.History {
		h.Rollouts = append(h.Rollouts, rollout{RolloutRecord: past, EndTime: &past.EndTime, Kept: kept(past.Digest)})
	}
	return h
}

func (h *history) table(out io.Writer, now time.Time) error {
	var rows [][]string
	if p := h.Pending; p != nil {
		rows = append(rows, []string{
			"next", p.Reason, delivery.ShortDigest(p.Digest), "yes", p.Revision, "", "", count(int(p.Objects)), "", age(p.Since, now), "", p.Message,
		})
	}
	for _, r := range h.Rollouts {
		took, by, isKept := "", "", ""
		if r.EndTime != nil {
			took = duration.HumanDuration(r.EndTime.Sub(r.StartTime.Time))
		}
		if r.Approval != nil {
			by = r.Approval.By
		}
		if r.Kept {
			isKept = "yes"
		}
		if r.Digest == h.Pinned {
			isKept = "pinned"
		}
		rows = append(rows, []string{
			strconv.FormatInt(r.Number, 10), string(r.Phase), delivery.ShortDigest(r.Digest), isKept, r.Revision, string(r.Trigger), r.Cluster,
			count(int(r.Objects)), by, age(r.StartTime, now), took, joined(r.Reason, r.Message),
		})
	}
	header := []string{"ROLLOUT", "PHASE", "RENDER", "KEPT", "REVISION", "TRIGGER", "CLUSTER", "OBJECTS", "APPROVED-BY", "AGE", "TOOK", "MESSAGE"}
	return table(out, header, rows)
}

// joined is reason and message, of which either may be empty.
func joined(reason, message string) string {
	if reason == "" || message == "" {
		return reason + message
	}
	return reason + ": " + message
}
