package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// answer is what the command why prints.
type answer struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Ready     bool   `json:"ready"`
	Reason    string `json:"reason"`
	Message   string `json:"message,omitempty"`
	// Since is when that began.
	Since *metav1.Time `json:"since,omitempty"`
	// Gate says whether the Cluster lets a Release through.
	Gate string `json:"gate,omitempty"`
	// WayOut is what somebody may do about it.
	WayOut string `json:"wayOut,omitempty"`
	// Drift says what is not as it was applied, and Corrections what becomes of that.
	Drift       string   `json:"drift,omitempty"`
	Corrections []string `json:"corrections,omitempty"`
	// Hooks are those that it waits for.
	Hooks []runningHook `json:"hooks,omitempty"`
	// Executions are the workflows, with the steps that they are at.
	Executions []execution `json:"executions,omitempty"`
	// Unknown says why there is none.
	Unknown string `json:"unknown,omitempty"`
}

func whyCommand(s Settings) *cobra.Command {
	var output format
	cmd := &cobra.Command{
		Use: "why release|cluster NAME", Short: "Say in one answer what a Release or Cluster waits for",
		Long: strings.TrimSpace(`
Say what a Release or Cluster waits for: the verdict and the gate from the hub, and from Temporal the step, its attempt, when the
next one is due, how the last one failed, and which worker had it. When Temporal does not answer, what the hub knows is printed all
the same. The environment and the flags for Temporal are those of convoy run.`),
		Example: "  convoy why release podinfo\n  convoy why cluster east -o json", Args: cobra.RangeArgs(1, 2),
	}
	flags := newHubFlags(s, cmd.Flags())
	cmd.ValidArgsFunction = flags.complete(releaseKind, clusterKind)
	s.Temporal.Bind(cmd.Flags())
	output.bind(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		k, name, err := object(args, releaseKind, clusterKind)
		if err != nil {
			return err
		}
		h, err := flags.connect()
		if err != nil {
			return err
		}
		a, workflows, err := h.why(cmd.Context(), k, name)
		if err != nil {
			return err
		}
		a.ask(cmd.Context(), s.Temporal, workflows)
		return output.print(cmd.OutOrStdout(), a, func(out io.Writer) error { return a.write(out, time.Now()) })
	}
	return cmd
}

// why is what the hub knows, and which workflows know more.
func (h *hub) why(ctx context.Context, k kind, name string) (*answer, []string, error) {
	a := &answer{Kind: k.Title, Namespace: h.namespace, Name: name}
	if k.Title == clusterKind.Title {
		c, err := h.cluster(ctx, name)
		if err != nil {
			return nil, nil, err
		}
		a.ofCluster(c)
		return a, []string{delivery.ClusterWorkflowID(h.namespace, name)}, nil
	}
	r, err := h.release(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	var c *v1alpha1.Cluster
	var clusters v1alpha1.ClusterList
	if err := h.list(ctx, r.Spec.ClusterRef.Name, &clusters); err != nil {
		return nil, nil, fmt.Errorf("read Cluster %s/%s: %w", h.namespace, r.Spec.ClusterRef.Name, err)
	}
	if len(clusters.Items) > 0 {
		c = &clusters.Items[0]
	}
	a.ofRelease(r, c)
	return a, []string{delivery.ReleaseWorkflowID(h.namespace, name)}, nil
}

func (a *answer) ofCluster(c *v1alpha1.Cluster) {
	a.Reason, a.Message = "NotProbed", "there is no verdict yet"
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionDeleting} { // the latter outweighs
		if found := meta.FindStatusCondition(c.Status.Conditions, kind); found != nil {
			a.Ready = kind == v1alpha1.ConditionReady && found.Status == metav1.ConditionTrue
			a.Reason, a.Message, a.Since = found.Reason, found.Message, &found.LastTransitionTime
		}
	}
	a.WayOut = wayOut(a.Reason)
	a.ofEngine(c.Status.Conditions)
}

// ofEngine says of a change that waits for Temporal that it does, which outweighs what was known before.
func (a *answer) ofEngine(conditions []metav1.Condition) {
	c := meta.FindStatusCondition(conditions, v1alpha1.ConditionEngineUnavailable)
	if c == nil {
		return
	}
	a.Ready, a.Reason, a.Message, a.Since, a.WayOut = false, c.Reason, c.Message, &c.LastTransitionTime, wayOut(c.Reason)
}

func (a *answer) ofRelease(r *v1alpha1.Release, c *v1alpha1.Cluster) {
	is := delivery.StandingOf(r)
	a.Ready, a.Reason, a.Message = is.Ready, is.Reason, is.Message
	if ready := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionReady); ready != nil && ready.Reason == is.Reason {
		a.Since = &ready.LastTransitionTime
	}
	if r.Status.Pending != nil && r.Status.Pending.Reason == is.Reason {
		a.Since = &r.Status.Pending.Since
	}
	open, closed := delivery.Gate(r.Spec.ClusterRef.Name, c)
	a.Gate = "open: Cluster " + r.Spec.ClusterRef.Name + " is reachable"
	if !open {
		a.Gate = "closed: " + closed
	}
	a.WayOut = wayOut(a.Reason)
	if d := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionDeleting); d != nil && !r.DeletionTimestamp.IsZero() {
		a.Since, a.WayOut = &d.LastTransitionTime, wayOutOfDeletion(r, d.Reason)
	}
	a.ofDrift(r)
	a.Hooks = runningHooks(r, open)
	for i := range a.Hooks {
		a.WayOut = cmp.Or(a.Hooks[i].wayOut, a.WayOut)
	}
	a.ofEngine(r.Status.Conditions)
}

func (a *answer) ofDrift(r *v1alpha1.Release) {
	drifted := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionDrifted)
	if drifted == nil || drifted.Status != metav1.ConditionTrue || r.Status.Drift == nil {
		return
	}
	a.Drift, a.Corrections = drifted.Message, correctionsOf(r)
}

// correctionsOf are what becomes of the objects that have drifted, as far as something was tried before or nothing will be.
func correctionsOf(r *v1alpha1.Release) (lines []string) {
	if r.Spec.SyncPolicy.Drift == v1alpha1.DriftReport {
		return []string{"none, as syncPolicy.drift: Report asks; Correct, or the next rollout, puts it right"}
	}
	for _, c := range r.Status.Drift.Corrected {
		ref := delivery.CorrectedRef(c)
		if slices.ContainsFunc(r.Status.Drift.Objects, func(o v1alpha1.DriftedObject) bool { return delivery.DriftedRef(o) == ref }) {
			lines = append(lines, fmt.Sprintf("%s: tried %d times in a row, and the next time at %s at the earliest", ref, c.Times, c.NotBefore.UTC().Format(time.RFC3339)))
		}
	}
	return lines
}

// ask adds what Temporal knows.
func (a *answer) ask(ctx context.Context, f TemporalFlags, workflows []string) {
	e, err := dialEngine(f)
	if err != nil {
		a.Unknown = err.Error()
		return
	}
	defer e.Close()
	for len(workflows) > 0 {
		found, err := e.describe(ctx, workflows[0])
		if err != nil {
			a.Unknown = err.Error()
			return
		}
		a.Executions = append(a.Executions, *found)
		workflows = append(workflows[1:], found.children...)
	}
}

// write prints the answer for people.
func (a *answer) write(out io.Writer, now time.Time) error {
	is := "is not ready"
	if a.Ready {
		is = "is ready"
	}
	fmt.Fprintf(out, "%s %s/%s %s\n", a.Kind, a.Namespace, a.Name, is)
	since := ""
	if a.Since != nil {
		since = age(*a.Since, now)
	}
	pairs := []string{"Verdict", joined(a.Reason, a.Message), "Since", since, "Gate", a.Gate, "Way out", a.WayOut, "Drift", a.Drift}
	for _, c := range a.Corrections {
		pairs = append(pairs, "Correction", c)
	}
	for i := range a.Hooks {
		pairs = append(pairs, a.Hooks[i].facts(now)...)
	}
	for _, e := range a.Executions {
		pairs = append(pairs, "Workflow", e.Workflow+", "+strings.ToLower(e.Status)+", run "+e.Run, "Version", e.Version, "Blocked", e.Blocked)
		for _, s := range e.Steps {
			pairs = append(pairs, s.facts(now)...)
		}
	}
	if a.Unknown != "" {
		pairs = append(pairs, "Steps", "not known: "+a.Unknown)
	}
	return facts(out, pairs...)
}

func (s *step) facts(now time.Time) []string {
	next := ""
	if s.Next != nil {
		next = when(s.Next.Time, now)
	}
	return []string{
		"Step", s.Name + ", " + s.State, "Attempt", strconv.Itoa(int(s.Attempt)), "Next attempt", next, "Progress", s.Progress,
		"Last failure", s.Failure, "Worker", s.Worker,
	}
}

// wayOut is what somebody may do about what a reason says, empty when nothing is to be done.
func wayOut(reason string) string {
	return map[string]string{
		v1alpha1.ReasonSuspended:           "convoy resume, which removes spec.suspend",
		v1alpha1.ReasonAwaitingApproval:    "look at convoy diff, then convoy approve",
		v1alpha1.ReasonOutsideWindow:       "wait for the window, or change spec.syncPolicy.windows",
		v1alpha1.ReasonSourceFailed:        "it is retried; mend the source or the access to it",
		v1alpha1.ReasonSourceNotFound:      "it is retried; mend spec.source, or make what it names",
		v1alpha1.ReasonSourceInvalid:       "change the source or spec.source",
		v1alpha1.ReasonClusterNotReady:     "it is retried; mend the Cluster, and see convoy why for it",
		v1alpha1.ReasonRenderFailed:        "change the source or the spec",
		v1alpha1.ReasonEmptyRender:         "put objects into the source, or set spec.syncPolicy.allowEmpty",
		v1alpha1.ReasonPinnedRenderMissing: "convoy rollback to a render that convoy history shows as kept, or with --undo",
		v1alpha1.ReasonSyncPolicyInvalid:   "change spec.syncPolicy",
		v1alpha1.ReasonApplyFailed:         "do what the message says: change the objects in the source, give the account its rights, or permit to make them anew; or roll back",
		v1alpha1.ReasonConflict: "remove the object, or the fields, on one of the two sides; syncPolicy.conflicts: Force takes fields over, and " + v1alpha1.AnnotationAdopt +
			": \"true\" an object of another tool",
		v1alpha1.ReasonHookFailed:             "see convoy describe, mend what the hook needs, then convoy reconcile; or change spec.hooks",
		v1alpha1.ReasonServiceAccountRequired: "name an account in spec.serviceAccountName",
		v1alpha1.ReasonApplyRetrying:          "it is retried; the message says what the target cannot take",
		v1alpha1.ReasonPruning:                "it is retried; the message says what keeps the objects, or what convoy may not do",
		v1alpha1.ReasonPruneFailed:            "it is retried; the message says what keeps the objects",
		v1alpha1.ReasonHealthTimeout:          "change the source, raise spec.syncPolicy.timeout, or roll back; convoy reconcile tries again",
		v1alpha1.ReasonDegraded:               "see on the cluster what keeps the objects that the message names; or change the source, or roll back",
		v1alpha1.ReasonUnhealthy:              "change the source, or roll back; convoy reconcile tries again",
		v1alpha1.ReasonProbeFailed:            "it is retried; convoy reprobe asks now",
		v1alpha1.ReasonUnsupported:            "change the spec of the Cluster or its Secret",
		v1alpha1.ReasonClusterIdentityChanged: "set the annotation " + v1alpha1.AnnotationAcceptClusterID + " if the other cluster is meant",
		v1alpha1.ReasonWaitingForReleases:     "wait for the deletion of the Releases that the message names, and see convoy why for each",
		v1alpha1.ReasonEngineUnavailable:      "mend Temporal, or the way to it from the watcher of convoy; then it goes on by itself",
		v1alpha1.ReasonClusterUnreachable:     "mend the Cluster, or set spec.deletionPolicy.blockOnClusterUnreachable to false",
	}[reason]
}

// wayOutOfDeletion is wayOut for what holds the deletion of a Release, which the other commands do not change any more.
func wayOutOfDeletion(r *v1alpha1.Release, reason string) string {
	if reason == v1alpha1.ReasonHookFailed {
		return "mend what the hook needs, then kubectl annotate --overwrite release.core.convoy.kumodo.io -n " + r.Namespace + " " + r.Name + " " + v1alpha1.AnnotationRequestedAt +
			"=\"$(date)\"; or change spec.hooks"
	}
	return wayOut(reason)
}
