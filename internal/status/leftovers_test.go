package status_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/status"
)

var began = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func on(cluster string, objects int32) v1alpha1.Leftover {
	return v1alpha1.Leftover{Cluster: cluster, Identity: "uid-" + cluster, Objects: objects}
}

// leaves records a rollout that succeeded while the Release has something elsewhere.
func leaves(elsewhere ...v1alpha1.Leftover) func(*v1alpha1.Release) {
	return func(r *v1alpha1.Release) {
		if r.Status.Rollout == nil {
			r.Status.Rollout = &v1alpha1.RolloutStatus{Number: 8}
		}
		status.RolloutSucceeded(r, 4, elsewhere, metav1.NewTime(began))
	}
}

func cleans(removals ...status.Removal) func(*v1alpha1.Release) {
	return func(r *v1alpha1.Release) { status.Cleaned(r, removals) }
}

func waits(l v1alpha1.Leftover, reason, message string) status.Removal {
	return status.Removal{Left: l, Reason: reason, Message: message}
}

func done(l v1alpha1.Leftover) status.Removal { return status.Removal{Left: l, Done: true} }

// leftovers is the list, and the condition when there is one.
func leftovers(r *v1alpha1.Release) string {
	var all []string
	for _, l := range r.Status.Leftovers {
		all = append(all, fmt.Sprintf("%s:%d", l.Cluster, l.Objects))
	}
	if c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionLeftovers); c != nil {
		all = append(all, fmt.Sprintf("%s/%s: %s", c.Status, c.Reason, c.Message))
	}
	return strings.Join(all, " ")
}

func TestWhatIsLeftOnFormerClustersIsListedAndTold(t *testing.T) {
	const unreachable = v1alpha1.ReasonClusterUnreachable
	goesTo := func(cluster string) func(*v1alpha1.Release) {
		return func(r *v1alpha1.Release) {
			status.RolloutStarted(r, rendered("b"), v1alpha1.RolloutStatus{Number: 9, Phase: v1alpha1.RolloutRunning, Digest: "b", Cluster: cluster})
		}
	}
	cases := map[string]struct {
		steps []func(*v1alpha1.Release)
		want  string
	}{
		"nothing elsewhere is nothing left": {[]func(*v1alpha1.Release){leaves()}, ""},
		"a move leaves something": {
			[]func(*v1alpha1.Release){leaves(on("a", 3))},
			`a:3 True/Pruning: removing what is left on Cluster "a"`,
		},
		"what a removal waits for is told": {
			[]func(*v1alpha1.Release){leaves(on("a", 3)), cleans(waits(on("a", 2), unreachable, "refused"))},
			"a:2 True/ClusterUnreachable: refused",
		},
		"and stands when the next rollout succeeds": {
			[]func(*v1alpha1.Release){leaves(on("a", 3)), cleans(waits(on("a", 3), unreachable, "refused")), leaves(on("a", 3))},
			"a:3 True/ClusterUnreachable: refused",
		},
		"and while an attempt has no news": {
			[]func(*v1alpha1.Release){leaves(on("a", 3)), cleans(waits(on("a", 3), unreachable, "refused")), cleans(waits(on("a", 3), "", ""))},
			"a:3 True/ClusterUnreachable: refused",
		},
		"a second move leaves two": {
			[]func(*v1alpha1.Release){leaves(on("a", 3)), leaves(on("a", 3), on("b", 1))},
			`a:3 b:1 True/Pruning: removing what is left on Cluster "a" and Cluster "b"`,
		},
		"each is removed by itself": {
			[]func(*v1alpha1.Release){leaves(on("a", 3), on("b", 1)), cleans(waits(on("a", 3), unreachable, "refused"), done(on("b", 0)))},
			"a:3 True/ClusterUnreachable: refused",
		},
		"the condition goes with the last": {
			[]func(*v1alpha1.Release){leaves(on("a", 3)), cleans(done(on("a", 0)))}, "",
		},
		"a rollout that returns takes it off": {
			[]func(*v1alpha1.Release){leaves(on("a", 3), on("b", 1)), goesTo("uid-a")},
			`b:1 True/Pruning: removing what is left on Cluster "b"`,
		},
		"another rollout does not": {
			[]func(*v1alpha1.Release){leaves(on("a", 3)), goesTo("uid-b")},
			`a:3 True/Pruning: removing what is left on Cluster "a"`,
		},
		"a removal that ends after the return says nothing": {
			[]func(*v1alpha1.Release){leaves(on("a", 3)), goesTo("uid-a"), cleans(waits(on("a", 1), unreachable, "refused"))}, "",
		},
		"a deletion tells of everything itself": {
			[]func(*v1alpha1.Release){leaves(on("a", 3)), func(r *v1alpha1.Release) { status.ReleaseDeleting(r, unreachable, "refused") }}, "",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := release()
			for _, step := range tc.steps {
				step(r)
			}
			if diff := cmp.Diff(tc.want, leftovers(r)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestReadyDoesNotFollowWhatIsLeftOnFormerClusters(t *testing.T) {
	r := release()
	started(r)
	leaves(on("a", 3))(r)
	status.Cleaned(r, []status.Removal{waits(on("a", 3), v1alpha1.ReasonClusterUnreachable, "refused")})
	ready := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionTrue || meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionReconciling) != nil {
		t.Errorf("conditions: %s", told(r.Status.Conditions))
	}
	if c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionLeftovers); c == nil || c.ObservedGeneration != r.Generation {
		t.Errorf("the condition is %v", c)
	}
}
