package delivery_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

var (
	noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	one  = noon.Add(time.Hour)
)

func left(identity string, objects int32, since time.Time) v1alpha1.Leftover {
	return v1alpha1.Leftover{Cluster: "c", Identity: identity, Objects: objects, Since: metav1.NewTime(since)}
}

func TestARolloutThatSucceededLeavesBehindWhatTheReleaseHasElsewhere(t *testing.T) {
	cases := map[string]struct {
		known, elsewhere, want []v1alpha1.Leftover
	}{
		"a Release that never moved leaves nothing":    {nil, nil, nil},
		"what it has elsewhere is left from now on":    {nil, []v1alpha1.Leftover{left("a", 3, time.Time{})}, []v1alpha1.Leftover{left("a", 3, one)}},
		"what was known keeps its time":                {[]v1alpha1.Leftover{left("a", 3, noon)}, []v1alpha1.Leftover{left("a", 2, time.Time{})}, []v1alpha1.Leftover{left("a", 2, noon)}},
		"each has a time of its own":                   {[]v1alpha1.Leftover{left("a", 3, noon)}, []v1alpha1.Leftover{left("a", 3, time.Time{}), left("b", 1, time.Time{})}, []v1alpha1.Leftover{left("a", 3, noon), left("b", 1, one)}},
		"what is gone, or is used again, is forgotten": {[]v1alpha1.Leftover{left("a", 3, noon)}, nil, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, delivery.Leftovers(tc.known, tc.elsewhere, one)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestOnlyWhatTheReleaseHasMovedAwayFromIsRemoved(t *testing.T) {
	at := func(name, uid, id string) *v1alpha1.Cluster {
		reachable := false
		return &v1alpha1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)}, Status: v1alpha1.ClusterStatus{ClusterID: id, Reachable: &reachable},
		}
	}
	cases := map[string]struct {
		listed string
		refers string
		wished *v1alpha1.Cluster
		id     string // of the record; its Cluster is a, with UID c-1
		want   bool
	}{
		"what no rollout elsewhere has replaced stays":        {"c-9/x", "b", at("b", "c-2", "y"), "x", false},
		"what one has replaced goes":                          {"c-1/x", "b", at("b", "c-2", "y"), "x", true},
		"it stays when the Release asks for it again":         {"c-1/x", "a", at("a", "c-1", "x"), "x", false},
		"also by another name":                                {"c-1/x", "b", at("b", "c-2", "x"), "x", false},
		"also by a Cluster that was made anew":                {"c-1/x", "a", at("a", "c-3", "x"), "x", false},
		"also when its Cluster does not exist now":            {"c-1/x", "a", nil, "x", false},
		"what is elsewhere goes though the Cluster is gone":   {"c-1/x", "b", nil, "x", true},
		"what is elsewhere goes though the Cluster is down":   {"c-1/x", "b", at("b", "c-2", ""), "x", true},
		"it stays while nobody knows where the Release is to": {"c-1/x", "b", &v1alpha1.Cluster{}, "x", false},
		"a cluster that another was accepted for is former":   {"c-1/x", "a", at("a", "c-1", "y"), "x", true},
		"a target without an ID is known by its Cluster":      {"c-1", "a", at("a", "c-1", ""), "", false},
		"one that has its ID by now is the same":              {"c-1", "a", at("a", "c-1", "x"), "", false},
		"an unknown target of another Cluster is another one": {"c-1", "b", at("b", "c-2", "x"), "", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := &v1alpha1.Release{}
			r.Spec.ClusterRef.Name = tc.refers
			r.Status.Leftovers = []v1alpha1.Leftover{left(tc.listed, 1, noon)}
			since, former := delivery.Former(r, tc.wished, "a", "c-1", tc.id)
			if former != tc.want {
				t.Errorf("former = %v, want %v", former, tc.want)
			}
			if former && !since.Equal(noon) {
				t.Errorf("since %s, want %s", since, noon)
			}
		})
	}
}
