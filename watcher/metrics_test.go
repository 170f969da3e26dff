package watcher

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// at is the time of everything in these tests, 1750000000 in seconds.
var at = metav1.NewTime(time.Unix(1_750_000_000, 0))

func measuredRelease(name string, change func(*v1alpha1.Release)) *v1alpha1.Release {
	r := &v1alpha1.Release{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, Generation: 2, Finalizers: []string{"keep"}}}
	r.Spec.ClusterRef.Name = "east"
	r.Spec.SyncPolicy = v1alpha1.SyncPolicy{Mode: v1alpha1.SyncAutomatic, Drift: v1alpha1.DriftCorrect}
	r.Spec.Hooks = []v1alpha1.Hook{{Name: "ask", Approval: &v1alpha1.HookApproval{}}}
	r.Status.ObservedGeneration = 2
	r.Status.Rollout = &v1alpha1.RolloutStatus{Number: 3, Phase: v1alpha1.RolloutRunning, StartTime: at}
	change(r)
	return r
}

func stateOf(t *testing.T, objects ...runtime.Object) *state {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	elected := make(chan struct{})
	close(elected)
	return newState(fake.NewClientBuilder().WithScheme(scheme).WithRuntimeObjects(objects...).Build(), elected)
}

func TestTheLeadingWatcherTellsHowTheObjectsAre(t *testing.T) {
	east := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "east", Generation: 1}}
	east.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonProbeFailed, Message: "S3NT1NEL"}}
	ask := v1alpha1.HookStatus{Name: "ask", Rollout: 3, State: v1alpha1.HookRunning}
	s := stateOf(
		t, east,
		measuredRelease("rolling", func(r *v1alpha1.Release) {
			r.Status.Conditions = []metav1.Condition{{Type: "Drifted", Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonDrifted}}
			r.Status.Drift = &v1alpha1.DriftStatus{Count: 2}
		}),
		measuredRelease("behind", func(r *v1alpha1.Release) { r.Status.Rollout, r.Status.ObservedGeneration = nil, 1 }),
		measuredRelease("suspended", func(r *v1alpha1.Release) { r.Spec.Suspend = true }),
		measuredRelease("asking", func(r *v1alpha1.Release) { r.Status.Hooks = []v1alpha1.HookStatus{ask} }),
		measuredRelease("asked-before", func(r *v1alpha1.Release) {
			r.Status.Hooks = []v1alpha1.HookStatus{ask}
			r.Status.Hooks[0].State = v1alpha1.HookSucceeded
		}),
		measuredRelease("leaving", func(r *v1alpha1.Release) { r.DeletionTimestamp, r.Status.ObservedGeneration = &at, 1 }),
	)
	const want = `
# HELP convoy_cluster_condition 1 for each condition of a Cluster, with its status and reason.
# TYPE convoy_cluster_condition gauge
convoy_cluster_condition{cluster="east",condition="Ready",namespace="team",reason="ProbeFailed",status="False"} 1
# HELP convoy_deletion_timestamp_seconds When the deletion of an object was asked for that is still there.
# TYPE convoy_deletion_timestamp_seconds gauge
convoy_deletion_timestamp_seconds{kind="Release",name="leaving",namespace="team"} 1.75e+09
# HELP convoy_object_unanswered 1 for an object whose spec is newer than what its status tells of; none while its rollout is under way.
# TYPE convoy_object_unanswered gauge
convoy_object_unanswered{kind="Cluster",name="east",namespace="team"} 1
convoy_object_unanswered{kind="Release",name="behind",namespace="team"} 1
# HELP convoy_release_condition 1 for each condition of a Release, with its status and reason.
# TYPE convoy_release_condition gauge
convoy_release_condition{cluster="east",condition="Drifted",namespace="team",reason="Drifted",release="rolling",status="True"} 1
# HELP convoy_release_drifted_objects Objects of a Release that are not as they were applied.
# TYPE convoy_release_drifted_objects gauge
convoy_release_drifted_objects{cluster="east",namespace="team",release="rolling"} 2
# HELP convoy_release_rollout_start_timestamp_seconds When the rollout began that is under way; none while the Release is suspended or being deleted, or a hook waits for an Approval.
# TYPE convoy_release_rollout_start_timestamp_seconds gauge
convoy_release_rollout_start_timestamp_seconds{cluster="east",namespace="team",release="asked-before"} 1.75e+09
convoy_release_rollout_start_timestamp_seconds{cluster="east",namespace="team",release="rolling"} 1.75e+09
# HELP convoy_watcher_leading 1 for the watcher that leads, 0 for one that stands by.
# TYPE convoy_watcher_leading gauge
convoy_watcher_leading 1
`
	names := []string{
		"convoy_cluster_condition", "convoy_deletion_timestamp_seconds", "convoy_object_unanswered", "convoy_release_condition",
		"convoy_release_drifted_objects", "convoy_release_rollout_start_timestamp_seconds", "convoy_watcher_leading",
	}
	if err := testutil.CollectAndCompare(s, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
	const info = `
# HELP convoy_release_info 1 for each Release, with what its sync policy says.
# TYPE convoy_release_info gauge
convoy_release_info{cluster="east",drift="Correct",mode="Automatic",namespace="team",release="suspended",suspended="true"} 1
`
	alone := stateOf(t, measuredRelease("suspended", func(r *v1alpha1.Release) { r.Spec.Suspend = true }))
	if err := testutil.CollectAndCompare(alone, strings.NewReader(info), "convoy_release_info"); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.CollectAndLint(s); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

func TestAWatcherThatStandsByTellsOfNoObject(t *testing.T) {
	s := stateOf(t, measuredRelease("rolling", func(*v1alpha1.Release) {}))
	s.elected = make(chan struct{})
	const want = `
# HELP convoy_watcher_leading 1 for the watcher that leads, 0 for one that stands by.
# TYPE convoy_watcher_leading gauge
convoy_watcher_leading 0
`
	if err := testutil.CollectAndCompare(s, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

func TestWhatCannotBeHandedOverIsCountedUntilItIs(t *testing.T) {
	s := stateOf(t)
	var refused error
	hand := s.counting("release", func(context.Context, request) (reconcile.Result, error) { return reconcile.Result{}, refused })
	req := requestFor(measuredRelease("a", func(*v1alpha1.Release) {}), delivery.KickChanged)
	waiting := func() float64 {
		t.Helper()
		for range 2 { // a retry is no other change
			if _, err := hand(t.Context(), req); !errors.Is(err, refused) {
				t.Fatal(err)
			}
		}
		return float64(len(s.waiting["release"]))
	}
	refused = fmt.Errorf("%w: it is away", errNotTaken)
	if n := waiting(); n != 1 {
		t.Errorf("%v changes wait, want 1", n)
	}
	const want = `
# HELP convoy_watcher_handovers_waiting Changes that could not be handed over to Temporal at the last try, and are tried again.
# TYPE convoy_watcher_handovers_waiting gauge
convoy_watcher_handovers_waiting{controller="release"} 1
`
	if err := testutil.CollectAndCompare(s, strings.NewReader(want), "convoy_watcher_handovers_waiting"); err != nil {
		t.Error(err)
	}
	refused = nil
	if n := waiting(); n != 0 {
		t.Errorf("%v changes wait after Temporal took them", n)
	}
}
