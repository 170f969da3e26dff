package activities

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/apply"
	"kumodo.io/convoy/internal/failure"
)

func clusterAt(name, id string) *v1alpha1.Cluster {
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}}
	reachable := true
	c.Status.Reachable, c.Status.ClusterID = &reachable, id
	return c
}

func releaseTo(name, cluster string) *v1alpha1.Release {
	r := &v1alpha1.Release{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}}
	r.Spec.ClusterRef.Name = cluster
	return r
}

// inventory is what a Release has on a cluster.
func inventory(release string, c *v1alpha1.Cluster, id string) *v1alpha1.Inventory {
	return &v1alpha1.Inventory{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: release + "-on-" + c.Name + id,
			Labels: map[string]string{v1alpha1.LabelClusterUID: string(c.UID), v1alpha1.LabelReleaseUID: "uid-" + release},
		},
		Release: v1alpha1.InventoryOwner{Name: release, UID: "uid-" + release},
		Cluster: v1alpha1.InventoryOwner{Name: c.Name, UID: string(c.UID)}, ClusterID: id,
	}
}

func TestADeletedClusterWaitsForReleasesThatMovedAwayAndLeftObjects(t *testing.T) {
	old, fresh, renamed := clusterAt("old", "x"), clusterAt("fresh", "y"), clusterAt("renamed", "x")
	releases := []*v1alpha1.Release{
		releaseTo("moved", "fresh"), releaseTo("clean", "fresh"), releaseTo("there", "old"),
		releaseTo("called-otherwise", "renamed"), releaseTo("both", "renamed"), releaseTo("to-nowhere", "none"),
	}
	objects := []client.Object{
		old, fresh, renamed,
		inventory("moved", old, "x"), inventory("moved", fresh, "y"), inventory("clean", fresh, "y"), inventory("there", old, "x"),
		inventory("called-otherwise", old, "x"), inventory("both", old, "x"), inventory("both", old, "w"), inventory("to-nowhere", old, "x"),
	}
	var listed []v1alpha1.Release
	for _, r := range releases {
		listed = append(listed, *r)
		objects = append(objects, r)
	}
	a := &Activities{Deps: Deps{Hub: hubWith(t, interceptor.Funcs{}, objects...)}}
	got, err := a.movedAway(t.Context(), old, listed)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{"moved": true, "both": true, "to-nowhere": true}
	names := map[string]bool{}
	for _, name := range got {
		names[name] = true
	}
	if diff := cmp.Diff(want, names); diff != "" || len(got) != len(want) {
		t.Errorf("it waits for %v: -want +got\n%s", got, diff)
	}
}

func TestACleanUpTakesWhatIsLeftAndSparesWhatStays(t *testing.T) {
	old, fresh := clusterAt("old", "x"), clusterAt("fresh", "y")
	r := releaseTo("app", "fresh")
	since := metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	r.Status.Leftovers = []v1alpha1.Leftover{
		{Cluster: "old", Identity: "uid-old/x", Objects: 3, Since: since}, {Cluster: "lost", Identity: "uid-lost/z", Since: since},
	}
	records := []*apply.Record{apply.NewRecord(r, fresh), apply.NewRecord(r, old), apply.NewRecord(r, clusterAt("next", "w"))}
	leave, staying := partOf(r, fresh, records)
	if len(leave) != 1 || leave[0].record != records[1] || !leave[0].since.Equal(since.Time) || leave[0].left.Identity != "uid-old/x" {
		t.Errorf("it cleans %+v", leave)
	}
	if len(staying) != 2 {
		t.Errorf("%d records stay, want that of the Cluster that is used and that of one that no rollout has replaced", len(staying))
	}
	if gone := vanished(r, records); len(gone) != 1 || gone[0].Left.Cluster != "lost" || !gone[0].Done {
		t.Errorf("of lost records it tells %+v", gone)
	}
}

func TestWhatACleanUpWaitsForNamesTheWayOut(t *testing.T) {
	unreachable := failure.Transient(v1alpha1.ReasonClusterUnreachable, nil, "refused")
	pruning := failure.Transient(v1alpha1.ReasonPruning, nil, "waiting for 1 object to go")
	no := false
	cases := map[string]struct {
		block *bool
		err   error
		want  string
		done  bool
	}{
		"a policy that waits for ever":      {nil, unreachable, "refused; convoy goes on trying, unless deletionPolicy.blockOnClusterUnreachable is set to false", false},
		"a policy that does not":            {&no, unreachable, "refused", false},
		"objects that do not go":            {nil, pruning, "waiting for 1 object to go", false},
		"no place on the target is no news": {nil, failure.Transient(ReasonBusy, nil, "busy"), "", false},
		"nothing":                           {nil, nil, "", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := releaseTo("app", "fresh")
			r.Spec.DeletionPolicy.BlockOnClusterUnreachable = tc.block
			got := removalOf(former{leaving: leaving{release: r}, record: apply.NewRecord(r, clusterAt("old", "x"))}, tc.err)
			if got.Message != tc.want || got.Done != tc.done {
				t.Errorf("it tells %+v, want %q, done %v", got, tc.want, tc.done)
			}
		})
	}
}

func TestObjectsAreRemovedThroughTheClusterThatLeadsThereNow(t *testing.T) {
	old := clusterAt("old", "x")
	cases := map[string]struct {
		to   *v1alpha1.Cluster
		want string
	}{
		"the recorded one":                  {old, "old"},
		"one that is only called otherwise": {clusterAt("renamed", "x"), "renamed"},
		"another cluster is no way":         {clusterAt("fresh", "y"), "old"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := releaseTo("app", tc.to.Name)
			a := &Activities{Deps: Deps{Hub: hubWith(t, interceptor.Funcs{}, tc.to, r)}}
			got, err := a.wayTo(t.Context(), r, apply.NewRecord(r, old))
			if err != nil || got != tc.want {
				t.Errorf("by Cluster %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}
