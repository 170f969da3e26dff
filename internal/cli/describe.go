package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

func describeCommand(s Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use: "describe release|cluster NAME", Short: "Show a Release or Cluster on one page, with the names to look for in Temporal",
		Example: "  convoy describe release podinfo", Args: cobra.RangeArgs(1, 2),
	}
	flags := newHubFlags(s, cmd.Flags())
	cmd.ValidArgsFunction = flags.complete(releaseKind, clusterKind)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		k, name, err := object(args, releaseKind, clusterKind)
		if err != nil {
			return err
		}
		h, err := flags.connect()
		if err != nil {
			return err
		}
		if k.Title == clusterKind.Title {
			return h.describeCluster(cmd.Context(), name, cmd.OutOrStdout())
		}
		r, err := h.release(cmd.Context(), name)
		if err != nil {
			return err
		}
		return describeRelease(r, cmd.OutOrStdout(), time.Now())
	}
	return cmd
}

func (h *hub) describeCluster(ctx context.Context, name string, out io.Writer) error {
	c, err := h.cluster(ctx, name)
	if err != nil {
		return err
	}
	return describeCluster(c, out, time.Now())
}

func describeCluster(c *v1alpha1.Cluster, out io.Writer, now time.Time) error {
	reachable, auth, probed, seen := "not probed yet", "", "", ""
	if c.Status.Reachable != nil {
		reachable = strconv.FormatBool(*c.Status.Reachable)
	}
	if c.Spec.Agentless != nil {
		auth = c.Spec.Agentless.Auth.Type
	}
	if c.Status.LastProbeTime != nil {
		probed = ago(*c.Status.LastProbeTime, now)
	}
	if c.Status.LastReachableTime != nil {
		seen = ago(*c.Status.LastReachableTime, now)
	}
	err := facts(out, "Cluster", c.Namespace+"/"+c.Name, "Connection", c.Spec.ConnectionMode, "Auth", auth, "Reachable", reachable,
		"Version", c.Status.KubernetesVersion, "ID", c.Status.ClusterID, "Last probe", probed, "Last reachable", seen,
		"Workflow", delivery.ClusterWorkflowID(c.Namespace, c.Name))
	return errors.Join(err, conditions(out, c.Status.Conditions, now))
}

func describeRelease(r *v1alpha1.Release, out io.Writer, now time.Time) error {
	s := &r.Status
	suspended, revision, inventory, workflow := "", "", "", delivery.ReleaseWorkflowID(r.Namespace, r.Name)
	if r.Spec.Suspend {
		suspended = "yes"
	}
	if s.Source != nil {
		revision = s.Source.Revision
	}
	if s.Inventory != nil {
		inventory = fmt.Sprintf("%s, %d objects", s.Inventory.State, s.Inventory.Objects)
		if s.Inventory.Objects == 1 {
			inventory = strings.TrimSuffix(inventory, "s")
		}
	}
	err := facts(out, "Release", r.Namespace+"/"+r.Name, "Cluster", r.Spec.ClusterRef.Name, "Target namespace", r.Spec.TargetNamespace,
		"Source", sourceOf(r.Spec.Source), "Revision", revision, "Mode", string(r.Spec.SyncPolicy.Mode), "Suspended", suspended,
		"Pinned to", r.Spec.PinnedRender, "Inventory", inventory, "Workflow", workflow)
	if last := s.Rollout; last != nil {
		by := ""
		if last.Approval != nil {
			by = last.Approval.By + ", by Approval " + last.Approval.Name
		}
		fmt.Fprintln(out, "\nRollout")
		err = errors.Join(err, facts(out, "Number", strconv.FormatInt(last.Number, 10), "Phase", string(last.Phase), "Render", last.Digest,
			"Revision", last.Revision, "Trigger", string(last.Trigger), "Approved by", by, "Objects", count(int(last.Objects)),
			"Started", ago(last.StartTime, now), "Workflow", joinedRun(last.WorkflowID, last.RunID)))
	}
	if p := s.Pending; p != nil {
		fmt.Fprintln(out, "\nPending")
		err = errors.Join(err, facts(out, "Waits for", joined(p.Reason, p.Message), "Render", p.Digest, "Revision", p.Revision,
			"Objects", count(int(p.Objects)), "Since", ago(p.Since, now)))
	}
	warnings(out, s.Rollout)
	err = errors.Join(err, conditions(out, s.Conditions, now))
	corrections(out, r)
	err = errors.Join(err, hooks(out, s.Hooks, now),
		leftovers(out, s.Leftovers, now), mutations(out, s.Mutations))
	if h := historyOf(r); len(h.Rollouts) > 0 {
		h.Pending = nil
		fmt.Fprintln(out, "\nHistory")
		err = errors.Join(err, h.table(out, now))
	}
	return err
}

func joinedRun(workflow, run string) string {
	if run == "" {
		return workflow
	}
	return workflow + ", run " + run
}

// sourceOf names a source on one line. The API takes no URL that holds a login.
func sourceOf(s v1alpha1.Source) string {
	var words []string
	add := func(name, value string) {
		if value != "" {
			words = append(words, strings.TrimSpace(name+" "+value))
		}
	}
	switch {
	case s.Git != nil:
		add("git", s.Git.URL)
		add("path", s.Git.Path)
	case s.OCI != nil:
		add("oci", s.OCI.URL)
		add("path", s.OCI.Path)
	case s.Helm != nil:
		add("helm", s.Helm.URL)
		add("chart", s.Helm.Chart)
		add("version", s.Helm.Version)
	case s.ConfigMap != nil:
		add("ConfigMap", s.ConfigMap.Name)
	}
	return strings.Join(words, ", ")
}

func conditions(out io.Writer, all []metav1.Condition, now time.Time) error {
	if len(all) == 0 {
		return nil
	}
	fmt.Fprintln(out, "\nConditions")
	rows := make([][]string, 0, len(all))
	for _, c := range all {
		rows = append(rows, []string{c.Type, string(c.Status), c.Reason, age(c.LastTransitionTime, now), c.Message})
	}
	return table(out, []string{"TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"}, rows)
}

// warnings writes what the target warned of when the last rollout was applied.
func warnings(out io.Writer, last *v1alpha1.RolloutStatus) {
	if last == nil || len(last.Warnings) == 0 {
		return
	}
	fmt.Fprintf(out, "\nWarnings of the target in rollout %d\n", last.Number)
	for _, w := range last.Warnings {
		fmt.Fprintln(out, "- "+oneLine(w))
	}
}

// corrections writes what becomes of what has drifted.
func corrections(out io.Writer, r *v1alpha1.Release) {
	if d := r.Status.Drift; d == nil || d.Count == 0 {
		return
	}
	for i, line := range correctionsOf(r) {
		if i == 0 {
			fmt.Fprintln(out, "\nCorrections")
		}
		fmt.Fprintln(out, "- "+oneLine(line))
	}
}

// leftovers writes what is left on clusters that the Release moved away from.
func leftovers(out io.Writer, all []v1alpha1.Leftover, now time.Time) error {
	if len(all) == 0 {
		return nil
	}
	fmt.Fprintln(out, "\nLeft on former clusters")
	rows := make([][]string, 0, len(all))
	for _, l := range all {
		rows = append(rows, []string{l.Cluster, count(int(l.Objects)), age(l.Since, now)})
	}
	return table(out, []string{"CLUSTER", "OBJECTS", "SINCE"}, rows)
}

func mutations(out io.Writer, all []v1alpha1.MutationStatus) error {
	if len(all) == 0 {
		return nil
	}
	fmt.Fprintln(out, "\nMutations")
	rows := make([][]string, 0, len(all))
	for _, m := range all {
		rows = append(rows, []string{m.Name, strconv.Itoa(int(m.Matched)), noteOf(m)})
	}
	return table(out, []string{"NAME", "MATCHED", "NOTE"}, rows)
}

// noteOf says why a mutation changed nothing.
func noteOf(m v1alpha1.MutationStatus) string {
	switch {
	case m.Skipped == v1alpha1.SkippedByWhen:
		return "left out: its when is false"
	case m.Skipped == v1alpha1.SkippedAsMissing:
		return "left out: the optional patch that it reads does not exist"
	case m.Matched == 0:
		return "its target selects no object"
	}
	return ""
}
