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
	"kumodo.io/convoy/internal/failure"
	"kumodo.io/convoy/internal/status"
)

// told is every condition as type=status/reason, in the order they were set.
func told(conditions []metav1.Condition) string {
	var all []string
	for _, c := range conditions {
		all = append(all, fmt.Sprintf("%s=%s/%s", c.Type, c.Status, c.Reason))
	}
	return strings.Join(all, " ")
}

var noon = metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))

func release() *v1alpha1.Release {
	return &v1alpha1.Release{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "podinfo", UID: "r-1", Generation: 3,
		Annotations: map[string]string{v1alpha1.AnnotationNewLife: "r-1", v1alpha1.AnnotationRequestedAt: "noon"},
	}}
}

func rendered(digest string) status.Render {
	return status.Render{
		Inputs: "sha256:in", Source: v1alpha1.SourceStatus{Revision: "main@sha1:1"}, Objects: 4,
		Render: v1alpha1.RenderStatus{Type: v1alpha1.RenderPlain}, Ref: v1alpha1.RenderRef{Name: "podinfo-" + digest, Digest: digest},
	}
}

func started(r *v1alpha1.Release) {
	status.RolloutStarted(r, rendered("a"), v1alpha1.RolloutStatus{Number: 1, Phase: v1alpha1.RolloutRunning, Digest: "a", Objects: 4})
}

func succeeded(r *v1alpha1.Release) { status.RolloutSucceeded(r, 4, nil, noon) }

func upToDate(r *v1alpha1.Release) {
	status.UpToDate(r, &v1alpha1.SourceStatus{Revision: "main@sha1:1"})
}

func seen(o status.Observation) func(*v1alpha1.Release) {
	return func(r *v1alpha1.Release) { status.Observed(r, o) }
}

var drifted = status.Observation{
	LooksForDrift: true, Count: 2,
	Drifted: []v1alpha1.DriftedObject{{Kind: "ConfigMap", Name: "a", Gone: true}, {Kind: "ConfigMap", Name: "b", Fields: []string{"data.x"}, Managers: []string{"kubectl"}}},
}

func held(r *v1alpha1.Release) {
	status.Held(r, rendered("b"), v1alpha1.ReasonAwaitingApproval, "rollout 2 waits for an Approval", noon)
}

func TestEachOutcomeOfAReleaseHasItsConditions(t *testing.T) {
	const base = "SourceReady=True/Fetched Rendered=True/Rendered "
	cases := map[string]struct {
		steps []func(*v1alpha1.Release)
		want  string
	}{
		"a source that is not there is retried": {
			[]func(*v1alpha1.Release){func(r *v1alpha1.Release) {
				status.SourceFailed(r, failure.Transient(v1alpha1.ReasonSourceNotFound, nil, "ConfigMap app does not exist"))
			}},
			"SourceReady=False/SourceNotFound Ready=False/SourceNotFound Reconciling=True/SourceNotFound",
		},
		"a closed gate claims nothing about health that was never seen": {
			[]func(*v1alpha1.Release){func(r *v1alpha1.Release) { status.ClusterNotReady(r, "not probed yet", nil) }},
			"SourceReady=True/Fetched Applied=False/ClusterNotReady Ready=False/ClusterNotReady Reconciling=True/ClusterNotReady",
		},
		"a render that cannot be is stalled": {
			[]func(*v1alpha1.Release){func(r *v1alpha1.Release) {
				status.RenderFailed(r, v1alpha1.SourceStatus{}, failure.Terminal(v1alpha1.ReasonRenderFailed, nil, "app.yaml: no kind"))
			}},
			"SourceReady=True/Fetched Rendered=False/RenderFailed Ready=False/RenderFailed Stalled=True/RenderFailed",
		},
		"a chart that cannot learn what its Cluster serves waits": {
			[]func(*v1alpha1.Release){func(r *v1alpha1.Release) {
				status.RenderRetrying(r, v1alpha1.SourceStatus{}, failure.Transient(v1alpha1.ReasonRenderFailed, nil, "the group does not answer"))
			}},
			"SourceReady=True/Fetched Rendered=False/RenderRetrying Ready=False/RenderRetrying Reconciling=True/RenderRetrying",
		},
		"a rollout under way is neither ready nor not": {
			[]func(*v1alpha1.Release){started},
			base + "Applied=Unknown/Progressing Healthy=Unknown/Progressing Ready=Unknown/Progressing Reconciling=True/Progressing",
		},
		"a suspended Release is neither ready nor being worked on": {
			[]func(*v1alpha1.Release){started, succeeded, status.Suspended},
			base + "Applied=True/Applied Healthy=True/Healthy Drifted=False/InSync Ready=Unknown/Suspended",
		},
		"a render that waits leaves what is said of the target": {
			[]func(*v1alpha1.Release){started, succeeded, held},
			base + "Applied=True/Applied Healthy=True/Healthy Drifted=False/InSync Ready=Unknown/AwaitingApproval Reconciling=True/AwaitingApproval",
		},
		"a rollout that ends well while another render waits says so of the target only": {
			[]func(*v1alpha1.Release){started, func(r *v1alpha1.Release) { r.Status.Rollout.Generation = 2 }, held, succeeded},
			base + "Applied=True/Applied Healthy=True/Healthy Drifted=False/InSync Ready=Unknown/AwaitingApproval Reconciling=True/AwaitingApproval",
		},
		"a kept render that is not kept is stalled": {
			[]func(*v1alpha1.Release){started, succeeded, func(r *v1alpha1.Release) {
				status.Refused(r, failure.Terminal(v1alpha1.ReasonPinnedRenderMissing, nil, "not kept"))
			}},
			"SourceReady=True/Fetched Rendered=False/PinnedRenderMissing Applied=True/Applied Healthy=True/Healthy Drifted=False/InSync Ready=False/PinnedRenderMissing Stalled=True/PinnedRenderMissing",
		},
		"a rollout that succeeded is ready": {
			[]func(*v1alpha1.Release){started, func(r *v1alpha1.Release) { status.RolloutSucceeded(r, 4, nil, noon) }},
			base + "Applied=True/Applied Healthy=True/Healthy Drifted=False/InSync Ready=True/Delivered",
		},
		"a target that does not take everything for now is retried": {
			[]func(*v1alpha1.Release){started, func(r *v1alpha1.Release) { status.ApplyRetrying(r, v1alpha1.ReasonApplyRetrying, "refused", 0) }},
			base + "Applied=False/ApplyRetrying Healthy=Unknown/Progressing Ready=False/ApplyRetrying Reconciling=True/ApplyRetrying",
		},
		"objects that are refused stall it": {
			[]func(*v1alpha1.Release){started, func(r *v1alpha1.Release) {
				status.RolloutFailed(r, v1alpha1.ConditionApplied, v1alpha1.ReasonApplyFailed, "1 of 4", 4, noon)
			}},
			base + "Applied=False/ApplyFailed Healthy=Unknown/ApplyFailed Ready=False/ApplyFailed Stalled=True/ApplyFailed",
		},
		"objects that do not become healthy stall it, though they are applied": {
			[]func(*v1alpha1.Release){started, func(r *v1alpha1.Release) {
				status.RolloutFailed(r, v1alpha1.ConditionHealthy, v1alpha1.ReasonHealthTimeout, "1 of 4", 4, noon)
			}},
			base + "Applied=True/Applied Healthy=False/HealthTimeout Ready=False/HealthTimeout Stalled=True/HealthTimeout",
		},
		"a gate that closes later makes health unknown": {
			[]func(*v1alpha1.Release){started, func(r *v1alpha1.Release) { status.RolloutSucceeded(r, 4, nil, noon) }, func(r *v1alpha1.Release) { status.ClusterNotReady(r, "down", nil) }},
			base + "Applied=False/ClusterNotReady Healthy=Unknown/ClusterNotReady Drifted=Unknown/ClusterNotReady Ready=False/ClusterNotReady Reconciling=True/ClusterNotReady",
		},
		"a gate that opens again with nothing to do restores it": {
			[]func(*v1alpha1.Release){
				started, func(r *v1alpha1.Release) { status.RolloutSucceeded(r, 4, nil, noon) },
				func(r *v1alpha1.Release) { status.ClusterNotReady(r, "down", nil) },
				func(r *v1alpha1.Release) { status.UpToDate(r, &v1alpha1.SourceStatus{Revision: "main@sha1:1"}) },
			},
			base + "Applied=True/Applied Healthy=True/Healthy Drifted=Unknown/ClusterNotReady Ready=True/Delivered",
		},
		"a source that is put back after it could not be rendered restores it": {
			[]func(*v1alpha1.Release){
				started, func(r *v1alpha1.Release) { status.RolloutSucceeded(r, 4, nil, noon) },
				func(r *v1alpha1.Release) {
					status.RenderFailed(r, v1alpha1.SourceStatus{}, failure.Terminal(v1alpha1.ReasonRenderFailed, nil, "app.yaml: no kind"))
				},
				func(r *v1alpha1.Release) { status.UpToDate(r, &v1alpha1.SourceStatus{Revision: "main@sha1:1"}) },
			},
			base + "Applied=True/Applied Healthy=True/Healthy Drifted=False/InSync Ready=True/Delivered",
		},
		"objects that are no longer healthy make it degraded, which a reconcile without news does not undo": {
			[]func(*v1alpha1.Release){started, succeeded, seen(status.Observation{Unhealthy: "1 of 4", LooksForDrift: true}), upToDate},
			base + "Applied=True/Applied Healthy=False/Degraded Drifted=False/InSync Ready=False/Degraded",
		},
		"objects that are healthy again make it ready": {
			[]func(*v1alpha1.Release){started, succeeded, seen(status.Observation{Unhealthy: "1 of 4"}), seen(status.Observation{LooksForDrift: true})},
			base + "Applied=True/Applied Healthy=True/Healthy Drifted=False/InSync Ready=True/Delivered",
		},
		"objects that drifted leave it ready": {
			[]func(*v1alpha1.Release){started, succeeded, seen(drifted)},
			base + "Applied=True/Applied Healthy=True/Healthy Drifted=True/Drifted Ready=True/Delivered",
		},
		"nobody looks for drift": {
			[]func(*v1alpha1.Release){started, succeeded, seen(drifted), seen(status.Observation{})},
			base + "Applied=True/Applied Healthy=True/Healthy Ready=True/Delivered",
		},
		"a kind that is not seen makes health and drift unknown, and is delivered all the same": {
			[]func(*v1alpha1.Release){started, succeeded, seen(status.Observation{Reason: v1alpha1.ReasonNotObserved, Unseen: "not known", LooksForDrift: true}), upToDate},
			base + "Applied=True/Applied Healthy=Unknown/NotObserved Drifted=Unknown/NotObserved Ready=True/Delivered",
		},
		"a Cluster that is unreachable makes all unknown": {
			[]func(*v1alpha1.Release){started, succeeded, seen(status.Observation{Reason: v1alpha1.ReasonClusterNotReady, Unseen: "down", LooksForDrift: true})},
			base + "Applied=True/Applied Healthy=Unknown/ClusterNotReady Drifted=Unknown/ClusterNotReady Ready=Unknown/ClusterNotReady Reconciling=True/ClusterNotReady",
		},
		"what a closed gate says of a wish stands": {
			[]func(*v1alpha1.Release){
				started, succeeded, func(r *v1alpha1.Release) { status.ClusterNotReady(r, "down", nil) },
				seen(status.Observation{Reason: v1alpha1.ReasonClusterNotReady, Unseen: "down", LooksForDrift: true}),
			},
			base + "Applied=False/ClusterNotReady Healthy=Unknown/ClusterNotReady Drifted=Unknown/ClusterNotReady Ready=False/ClusterNotReady Reconciling=True/ClusterNotReady",
		},
		"what is seen does not end a suspension": {
			[]func(*v1alpha1.Release){started, succeeded, status.Suspended, seen(status.Observation{Unhealthy: "1 of 4", LooksForDrift: true})},
			base + "Applied=True/Applied Healthy=False/Degraded Drifted=False/InSync Ready=Unknown/Suspended",
		},
		"nothing is said while a rollout is under way": {
			[]func(*v1alpha1.Release){started, seen(drifted)},
			base + "Applied=Unknown/Progressing Healthy=Unknown/Progressing Ready=Unknown/Progressing Reconciling=True/Progressing",
		},
		"a rollout that failed makes drift unknown": {
			[]func(*v1alpha1.Release){
				started, succeeded, func(r *v1alpha1.Release) {
					status.RolloutStarted(r, rendered("b"), v1alpha1.RolloutStatus{Number: 2, Phase: v1alpha1.RolloutRunning, Digest: "b", Objects: 4})
					status.RolloutFailed(r, v1alpha1.ConditionApplied, v1alpha1.ReasonApplyFailed, "1 of 4", 4, noon)
				},
			},
			base + "Applied=False/ApplyFailed Healthy=Unknown/ApplyFailed Drifted=Unknown/ApplyFailed Ready=False/ApplyFailed Stalled=True/ApplyFailed",
		},
		"a deletion outweighs everything": {
			[]func(*v1alpha1.Release){
				started, func(r *v1alpha1.Release) { status.ReleaseDeleting(r, v1alpha1.ReasonPruning, "2 objects") },
				func(r *v1alpha1.Release) { status.RolloutSucceeded(r, 4, nil, noon) },
			},
			base + "Applied=True/Applied Healthy=True/Healthy Drifted=False/InSync Ready=False/Deleting Reconciling=True/Deleting Deleting=True/Pruning",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := release()
			for _, step := range tc.steps {
				step(r)
			}
			if diff := cmp.Diff(sorted(tc.want), sorted(told(r.Status.Conditions))); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			for _, c := range r.Status.Conditions {
				if c.ObservedGeneration != 3 || c.Message == "" {
					t.Errorf("condition %s: observedGeneration %d, message %q", c.Type, c.ObservedGeneration, c.Message)
				}
			}
		})
	}
}

func sorted(s string) map[string]bool {
	set := map[string]bool{}
	for f := range strings.FieldsSeq(s) {
		set[f] = true
	}
	return set
}

func TestTheSameOutcomeTwiceChangesNothing(t *testing.T) {
	r := release()
	started(r)
	status.RolloutSucceeded(r, 4, nil, noon)
	before := r.DeepCopy()
	status.UpToDate(r, r.Status.Source)
	if diff := cmp.Diff(before, r); diff != "" {
		t.Errorf("-before +after\n%s", diff)
	}
}

func TestEarlierRendersAreKeptNewestFirstUpToTheLimit(t *testing.T) {
	r := release()
	r.Spec.SyncPolicy.HistoryLimit = 3
	for _, digest := range []string{"a", "b", "c", "d", "c"} {
		status.Rendered(r, rendered(digest))
	}
	var got []string
	for _, ref := range r.Status.PreviousRenderRefs {
		got = append(got, ref.Digest)
	}
	if diff := cmp.Diff([]string{"d", "b"}, got); diff != "" || r.Status.RenderRef.Digest != "c" {
		t.Errorf("current %s, previous -want +got\n%s", r.Status.RenderRef.Digest, diff)
	}
}

func TestTheInventoryIsEmptyUntilSomethingIsApplied(t *testing.T) {
	r := release()
	status.ClusterNotReady(r, "down", nil)
	if got := r.Status.Inventory; got == nil || got.State != v1alpha1.InventoryEmpty {
		t.Errorf("before a rollout the inventory is %v, want Empty", got)
	}
	started(r)
	status.RolloutSucceeded(r, 4, nil, noon)
	if got := r.Status.Inventory; got.State != v1alpha1.InventoryRecorded || got.Objects != 4 {
		t.Errorf("after a rollout the inventory is %v, want 4 objects Recorded", got)
	}
}

func TestAProbeMovesItsTimesOnlyWithTheVerdictOrOncePerResync(t *testing.T) {
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "east", Generation: 1}}
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) status.Clock { return status.Clock{Now: start.Add(d), Resync: 10 * time.Minute} }
	refused := failure.Transient(v1alpha1.ReasonProbeFailed, nil, "connection refused")
	found := status.Probed{KubernetesVersion: "v1.37.2", ClusterID: "id"}

	steps := []struct {
		does  func()
		moves bool
		ready string
	}{
		{func() { status.NotReachable(c, refused, at(0)) }, true, "Ready=False/ProbeFailed"},
		{func() { status.NotReachable(c, refused, at(time.Second)) }, false, "Ready=False/ProbeFailed"},
		{func() { status.Reachable(c, found, at(2*time.Second)) }, true, "Ready=True/Reachable"},
		{func() { status.Reachable(c, found, at(time.Minute)) }, false, "Ready=True/Reachable"},
		{func() { status.Reachable(c, found, at(11*time.Minute)) }, true, "Ready=True/Reachable"},
		{func() { c.Generation = 2; status.Reachable(c, found, at(12*time.Minute)) }, true, "Ready=True/Reachable"},
	}
	for i, s := range steps {
		before := c.Status.LastProbeTime
		s.does()
		if moved := before == nil || !before.Equal(c.Status.LastProbeTime); moved != s.moves {
			t.Errorf("step %d: lastProbeTime moved = %v, want %v", i, moved, s.moves)
		}
		if got := told(c.Status.Conditions); got != s.ready {
			t.Errorf("step %d: %s, want %s", i, got, s.ready)
		}
		if c.Status.Reachable == nil || *c.Status.Reachable != (s.ready == "Ready=True/Reachable") {
			t.Errorf("step %d: reachable = %v", i, c.Status.Reachable)
		}
	}
}

func TestADeletingClusterCountsDownItsReleasesByName(t *testing.T) {
	c := &v1alpha1.Cluster{}
	status.ClusterDeleting(c, []string{"a", "b", "c", "d", "e", "f", "g"})
	want := "waiting for 7 Releases (a, b, c, d, e, and 2 more) to leave the cluster"
	if got := c.Status.Conditions[0].Message; got != want {
		t.Errorf("message = %q, want %q", got, want)
	}
}

func TestAReleaseOfAnUnreachableClusterSaysWhenThatAnsweredLast(t *testing.T) {
	r := &v1alpha1.Release{Status: v1alpha1.ReleaseStatus{Rollout: &v1alpha1.RolloutStatus{Number: 1}}}
	status.RolloutSucceeded(r, 4, nil, noon)
	at := metav1.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	status.ClusterNotReady(r, "down", &at)
	healthy := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionHealthy)
	if healthy.Status != metav1.ConditionUnknown || healthy.Message != "down; its last good probe was at 2026-05-04T03:02:01Z" {
		t.Errorf("Healthy is %s: %s", healthy.Status, healthy.Message)
	}
	if applied := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionApplied); applied.Message != "down" {
		t.Errorf("Applied says %s", applied.Message)
	}
}

func TestWhatARolloutIsToAChartIsDecidedWhenItIsRecorded(t *testing.T) {
	next := v1alpha1.RolloutStatus{Number: 2, Phase: v1alpha1.RolloutRunning, Digest: "b"} // prepared while the first was under way
	for ended, want := range map[string]v1alpha1.RolloutOperation{"well": v1alpha1.OperationUpgrade, "not at all": v1alpha1.OperationInstall} {
		r := release()
		started(r)
		if got := r.Status.Rollout.Operation; got != v1alpha1.OperationInstall {
			t.Errorf("the first rollout is %q", got)
		}
		if ended == "well" {
			succeeded(r)
		}
		status.RolloutStarted(r, rendered("b"), next)
		if got := r.Status.Rollout.Operation; got != want {
			t.Errorf("after one that ended %s it is %q, want %q", ended, got, want)
		}
	}
}
