package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// moved records, with a rollout that succeeded, what the Release has elsewhere: it is to be removed from now on. What is
// known of a removal that is under way stands.
func moved(r *v1alpha1.Release, elsewhere []v1alpha1.Leftover, now time.Time) {
	before := r.Status.Leftovers
	after := delivery.Leftovers(before, elsewhere, now)
	c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionLeftovers)
	if c != nil && slices.EqualFunc(before, after, func(a, b v1alpha1.Leftover) bool { return a.Identity == b.Identity }) {
		setLeftovers(r, after, c.Reason, c.Message)
		return
	}
	setLeftovers(r, after, v1alpha1.ReasonPruning, leftOn(after))
}

// returned records that a rollout goes to a cluster where something was left: it is not removed any more.
func returned(r *v1alpha1.Release, cluster string) {
	if _, was := delivery.LeftoverOf(r.Status.Leftovers, cluster); !was {
		return
	}
	rest := slices.DeleteFunc(slices.Clone(r.Status.Leftovers), func(l v1alpha1.Leftover) bool { return l.Identity == cluster })
	setLeftovers(r, rest, v1alpha1.ReasonPruning, leftOn(rest))
}

// Removal is how far the removal from one cluster is that a Release has moved away from.
type Removal struct {
	// Left is what is still there; it is done when that is no object, and nothing is waited for.
	Left v1alpha1.Leftover
	Done bool
	// Reason and Message say what is waited for, empty when that is no news.
	Reason  string
	Message string
}

// Cleaned records how far removals are. What is not listed any more is none of theirs: the Release has returned there.
func Cleaned(r *v1alpha1.Release, removals []Removal) {
	var rest []v1alpha1.Leftover
	var reason string
	var messages []string
	for _, l := range r.Status.Leftovers {
		i := slices.IndexFunc(removals, func(m Removal) bool { return m.Left.Identity == l.Identity })
		if i < 0 {
			rest = append(rest, l)
			continue
		}
		if removals[i].Done {
			continue
		}
		l.Objects = removals[i].Left.Objects
		rest = append(rest, l)
		if removals[i].Message != "" {
			messages = append(messages, removals[i].Message)
			if reason == "" {
				reason = removals[i].Reason
			}
		}
	}
	c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionLeftovers)
	switch {
	case len(messages) > 0:
		setLeftovers(r, rest, reason, strings.Join(messages, "; "))
	case c != nil && len(rest) == len(r.Status.Leftovers):
		setLeftovers(r, rest, c.Reason, c.Message)
	default:
		setLeftovers(r, rest, v1alpha1.ReasonPruning, leftOn(rest))
	}
}

// setLeftovers keeps the condition and the list together. Ready and its like do not follow them.
func setLeftovers(r *v1alpha1.Release, all []v1alpha1.Leftover, reason, message string) {
	r.Status.Leftovers = all
	flag(r, v1alpha1.ConditionLeftovers, len(all) > 0, reason, message)
}

// leftOn names the Clusters before anything is known of a removal.
func leftOn(all []v1alpha1.Leftover) string {
	names := make([]string, 0, len(all))
	for _, l := range all {
		names = append(names, fmt.Sprintf("%q", l.Cluster))
	}
	return "removing what is left on Cluster " + strings.Join(names, " and Cluster ")
}
