package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// listing is what the command get is asked for.
type listing struct {
	all    bool
	output format
}

func getCommand(s Settings) *cobra.Command {
	var l listing
	cmd := &cobra.Command{
		Use: "get [releases|clusters] [NAME]", Short: "List Releases and Clusters",
		Example: "  convoy get releases -A\n  convoy get cluster east -o yaml", Args: cobra.MaximumNArgs(2),
	}
	flags := newHubFlags(s, cmd.Flags())
	cmd.ValidArgsFunction = flags.complete(releaseKind, clusterKind)
	cmd.Flags().BoolVarP(&l.all, "all-namespaces", "A", false, "of all namespaces")
	l.output.bind(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		kinds, name := []kind{releaseKind, clusterKind}, ""
		if len(args) > 0 {
			k, err := listed(args)
			if err != nil {
				return err
			}
			kinds, name = []kind{k.kind}, k.name
		}
		h, err := flags.connect()
		if err != nil {
			return err
		}
		for i, k := range kinds {
			if i > 0 && l.output == "" {
				fmt.Fprintln(cmd.OutOrStdout())
			}
			if i > 0 && l.output == "yaml" {
				fmt.Fprintln(cmd.OutOrStdout(), "---")
			}
			if err := l.run(cmd.Context(), h, k, name, cmd.OutOrStdout()); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}

// listed is what arguments name, of which the name may be absent.
func listed(args []string) (out struct {
	kind
	name string
}, err error,
) {
	for _, k := range []kind{releaseKind, clusterKind} {
		if len(args) == 1 && k.is(args[0]) {
			out.kind = k
			return out, nil
		}
	}
	out.kind, out.name, err = object(args, releaseKind, clusterKind)
	return out, err
}

func (l *listing) run(ctx context.Context, h *hub, k kind, name string, out io.Writer) error {
	options := []client.ListOption{client.InNamespace(h.namespace)}
	if l.all {
		options = nil
	}
	if name != "" {
		options = append(options, client.MatchingFields{metav1.ObjectNameField: name})
	}
	var (
		releases v1alpha1.ReleaseList
		clusters v1alpha1.ClusterList
		list     client.ObjectList = &releases
	)
	if k.Title == clusterKind.Title {
		list = &clusters
	}
	err := h.List(ctx, list, options...)
	if meta.IsNoMatchError(err) {
		return noKinds()
	}
	if err != nil {
		return fmt.Errorf("list %ss: %w", k.Title, err)
	}
	if name != "" && len(releases.Items)+len(clusters.Items) == 0 {
		return fmt.Errorf("there is no %s %s/%s", k.Title, h.namespace, name)
	}
	for i := range releases.Items {
		stamp(&releases.Items[i], k)
	}
	for i := range clusters.Items {
		stamp(&clusters.Items[i], k)
	}
	list.GetObjectKind().SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(k.Title + "List"))
	return l.output.print(out, list, func(out io.Writer) error {
		if k.Title == clusterKind.Title {
			return table(out, l.header("NAME", "READY", "REACHABLE", "VERSION", "LAST-PROBE", "AGE", "MESSAGE"), l.clusters(clusters.Items, time.Now()))
		}
		return table(out, l.header("NAME", "CLUSTER", "READY", "STATUS", "ROLLOUT", "REVISION", "AGE", "MESSAGE"), l.releases(releases.Items, time.Now()))
	})
}

// stamp gives an object what a list leaves out, and takes away what nobody reads.
func stamp(o client.Object, k kind) {
	o.GetObjectKind().SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(k.Title))
	o.SetManagedFields(nil)
}

func (l *listing) header(columns ...string) []string {
	if l.all {
		return append([]string{"NAMESPACE"}, columns...)
	}
	return columns
}

func (l *listing) row(o client.Object, cells ...string) []string {
	if l.all {
		return append([]string{o.GetNamespace(), o.GetName()}, cells...)
	}
	return append([]string{o.GetName()}, cells...)
}

func (l *listing) releases(items []v1alpha1.Release, now time.Time) (rows [][]string) {
	for i := range items {
		r := &items[i]
		is, number, revision := delivery.StandingOf(r), "", ""
		if r.Status.Rollout != nil {
			number, revision = strconv.FormatInt(r.Status.Rollout.Number, 10), r.Status.Rollout.Revision
		}
		rows = append(rows, l.row(r, r.Spec.ClusterRef.Name, readiness(r.Status.Conditions), is.Reason, number, revision, age(r.CreationTimestamp, now), is.Message))
	}
	return rows
}

func (l *listing) clusters(items []v1alpha1.Cluster, now time.Time) (rows [][]string) {
	for i := range items {
		c := &items[i]
		reachable, message, probed := "", "", ""
		if c.Status.Reachable != nil {
			reachable = strconv.FormatBool(*c.Status.Reachable)
		}
		if ready := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
			message = joined(ready.Reason, ready.Message)
		}
		if c.Status.LastProbeTime != nil {
			probed = age(*c.Status.LastProbeTime, now)
		}
		rows = append(rows, l.row(c, readiness(c.Status.Conditions), reachable, c.Status.KubernetesVersion, probed, age(c.CreationTimestamp, now), message))
	}
	return rows
}

// readiness is the status of the condition Ready, empty before there is one.
func readiness(conditions []metav1.Condition) string {
	if ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady); ready != nil {
		return string(ready.Status)
	}
	return ""
}
