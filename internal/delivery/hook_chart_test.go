package delivery_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

func TestARolloutIsAnInstallationUntilOneHasSucceeded(t *testing.T) {
	last := func(phase v1alpha1.RolloutPhase, op v1alpha1.RolloutOperation) *v1alpha1.RolloutStatus {
		return &v1alpha1.RolloutStatus{Number: 3, Phase: phase, Operation: op, Cluster: "uid-1/id-1"}
	}
	const install, upgrade, rollback = v1alpha1.OperationInstall, v1alpha1.OperationUpgrade, v1alpha1.OperationRollback
	cases := map[string]struct {
		last     *v1alpha1.RolloutStatus
		cluster  string
		pinned   bool
		restored bool
		history  []v1alpha1.RolloutRecord
		want     v1alpha1.RolloutOperation
	}{
		"the first":                              {nil, "uid-1/id-1", false, false, nil, install},
		"the first of a copy from a backup":      {nil, "uid-1/id-1", false, true, nil, upgrade},
		"after a failed installation":            {last(v1alpha1.RolloutFailed, install), "uid-1/id-1", false, false, nil, install},
		"in the place of an installation":        {last(v1alpha1.RolloutRunning, install), "uid-1/id-1", false, false, nil, install},
		"pinned before anything succeeded":       {last(v1alpha1.RolloutFailed, install), "uid-1/id-1", true, false, nil, install},
		"after an installation":                  {last(v1alpha1.RolloutSucceeded, install), "uid-1/id-1", false, false, nil, upgrade},
		"after a failed upgrade":                 {last(v1alpha1.RolloutFailed, upgrade), "uid-1/id-1", false, false, nil, upgrade},
		"after one whose operation is not known": {last(v1alpha1.RolloutFailed, ""), "uid-1/id-1", false, false, nil, upgrade},
		"pinned":                                 {last(v1alpha1.RolloutSucceeded, upgrade), "uid-1/id-1", true, false, nil, rollback},
		"after a failed rollback":                {last(v1alpha1.RolloutFailed, rollback), "uid-1/id-1", false, false, nil, upgrade},
		"to another Cluster":                     {last(v1alpha1.RolloutSucceeded, upgrade), "uid-2/id-2", false, false, nil, install},
		"to another cluster behind the Cluster":  {last(v1alpha1.RolloutSucceeded, upgrade), "uid-1/id-2", false, false, nil, install},
		"to a Cluster that was made anew":        {last(v1alpha1.RolloutSucceeded, upgrade), "uid-2/id-1", false, false, nil, upgrade},
		"to one that tells no ID":                {last(v1alpha1.RolloutSucceeded, upgrade), "uid-2", false, false, nil, install},
		"back to a cluster that has it": {
			&v1alpha1.RolloutStatus{Number: 4, Phase: v1alpha1.RolloutFailed, Operation: install, Cluster: "uid-2/id-2"},
			"uid-1/id-1", false, false,
			[]v1alpha1.RolloutRecord{{Phase: v1alpha1.RolloutFailed, ClusterIdentity: "uid-2/id-2"}, {Phase: v1alpha1.RolloutSucceeded, ClusterIdentity: "uid-1/id-1"}},
			upgrade,
		},
		"back to a cluster where it failed": {
			&v1alpha1.RolloutStatus{Number: 4, Phase: v1alpha1.RolloutFailed, Operation: install, Cluster: "uid-2/id-2"},
			"uid-1/id-1", false, false,
			[]v1alpha1.RolloutRecord{{Phase: v1alpha1.RolloutFailed, ClusterIdentity: "uid-1/id-1"}},
			install,
		},
		"to one whose ID is known now": {&v1alpha1.RolloutStatus{Phase: v1alpha1.RolloutSucceeded, Operation: upgrade, Cluster: "uid-1"}, "uid-1/id-1", false, false, nil, upgrade},
		"to another Cluster, pinned":   {last(v1alpha1.RolloutSucceeded, upgrade), "uid-2/id-2", true, false, nil, install},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := &v1alpha1.Release{ObjectMeta: metav1.ObjectMeta{UID: "r-1", Annotations: map[string]string{v1alpha1.AnnotationNewLife: "r-1"}}}
			if tc.restored {
				r.UID = "r-2"
			}
			if tc.pinned {
				r.Spec.PinnedRender = "sha256:a"
			}
			r.Status.Rollout, r.Status.History = tc.last, tc.history
			if got := delivery.OperationOf(r, tc.cluster); got != tc.want {
				t.Errorf("it is %q, want %q", got, tc.want)
			}
		})
	}
}

func TestPhasesHaveTheNamesThatChartsGiveThem(t *testing.T) {
	for _, tc := range []struct {
		phase v1alpha1.HookPhase
		op    v1alpha1.RolloutOperation
		want  string
	}{
		{v1alpha1.HookPreApply, v1alpha1.OperationInstall, "pre-install"},
		{v1alpha1.HookPostApply, v1alpha1.OperationInstall, "post-install"},
		{v1alpha1.HookPreApply, v1alpha1.OperationUpgrade, "pre-upgrade"},
		{v1alpha1.HookPostApply, v1alpha1.OperationUpgrade, "post-upgrade"},
		{v1alpha1.HookPreApply, v1alpha1.OperationRollback, "pre-rollback"},
		{v1alpha1.HookPostApply, v1alpha1.OperationRollback, "post-rollback"},
		{v1alpha1.HookPreDelete, "", "pre-delete"},
		{v1alpha1.HookPostDelete, "", "post-delete"},
		{v1alpha1.HookOnFailure, v1alpha1.OperationUpgrade, ""},
		{v1alpha1.HookPreApply, "", ""},
	} {
		got := delivery.ChartEvent(tc.phase, tc.op)
		if got != tc.want || delivery.IsChartEvent(got) != (tc.want != "") {
			t.Errorf("%s of %q is %q, want %q", tc.phase, tc.op, got, tc.want)
		}
	}
}
