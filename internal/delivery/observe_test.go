package delivery_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

func TestWhoeverUndoesACorrectionIsCorrectedLaterAndLater(t *testing.T) {
	fought, once := v1alpha1.DriftedObject{Kind: "ConfigMap", Name: "fought"}, v1alpha1.DriftedObject{Kind: "ConfigMap", Name: "once"}
	d := v1alpha1.DriftStatus{Count: 1, Objects: []v1alpha1.DriftedObject{fought}}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var waits []time.Duration
	for range 9 { // undone at once, each time
		began := now
		due, _, next := delivery.DueCorrections(d, now)
		if len(due) == 0 {
			now = next
			due, _, _ = delivery.DueCorrections(d, now)
		}
		waits = append(waits, now.Sub(began))
		d.Corrected = delivery.CountCorrections(d.Corrected, due, now)
	}
	s := time.Second
	if want := []time.Duration{0, 5 * s, 10 * s, 20 * s, 40 * s, 80 * s, 160 * s, 320 * s, 600 * s}; !slices.Equal(waits, want) {
		t.Errorf("it waits %v, want %v", waits, want)
	}
	d.Count, d.Objects = 2, []v1alpha1.DriftedObject{fought, once}
	if due, _, next := delivery.DueCorrections(d, now); len(due) != 1 || due[0].Name != "once" || next != now.Add(600*s) {
		t.Errorf("beside a rival of another object %v is due, and the next at %s", due, next)
	}
	d.Count = 200 // the status names only two of them
	if due, all, next := delivery.DueCorrections(d, now); len(due) != 1 || all || next != now.Add(600*s) {
		t.Errorf("of very many %v is due, all: %v, and the next at %s", due, all, next)
	}
	now = now.Add(time.Hour)
	if due, all, _ := delivery.DueCorrections(d, now); len(due) != 2 || !all {
		t.Errorf("after an hour of peace %v is due", due)
	}
	if d.Corrected = delivery.CountCorrections(d.Corrected, d.Objects, now); len(d.Corrected) != 2 || d.Corrected[0].Times != 1 {
		t.Errorf("after an hour of peace it counts %v", d.Corrected)
	}
}

func TestMoreHasDriftedWhenAnObjectIsNamedThatWasNot(t *testing.T) {
	status := func(names ...string) *v1alpha1.DriftStatus {
		d := &v1alpha1.DriftStatus{Count: int32(len(names))}
		for _, name := range names {
			d.Objects = append(d.Objects, v1alpha1.DriftedObject{Kind: "ConfigMap", Name: name})
		}
		return d
	}
	for _, tc := range []struct {
		before, now *v1alpha1.DriftStatus
		more        bool
	}{
		{nil, nil, false},
		{nil, status("a"), true},
		{status("a"), nil, false},
		{status("a"), status("a"), false},
		{status("a"), status("b", "a"), true},
		{status("a", "b"), status("b"), false},
	} {
		if got := delivery.MoreDrifted(tc.before, tc.now); got != tc.more {
			t.Errorf("after %v, %v: %v", tc.before, tc.now, got)
		}
	}
}

func TestOnlySoManyCorrectedObjectsAreRemembered(t *testing.T) {
	var all []v1alpha1.CorrectedObject
	for i := range 50 {
		all = delivery.CountCorrections(all, []v1alpha1.DriftedObject{{Kind: "ConfigMap", Name: fmt.Sprint(i)}}, time.Now())
	}
	if len(all) != 20 || all[19].Name != "49" {
		t.Errorf("got %v", all)
	}
}

func TestOnlyWhatARolloutHasDeliveredIsObserved(t *testing.T) {
	cases := map[string]struct {
		change func(*v1alpha1.Release)
		want   bool
	}{
		"delivered":                 {func(*v1alpha1.Release) {}, true},
		"nothing yet":               {func(r *v1alpha1.Release) { r.Status.Rollout = nil }, false},
		"a rollout is under way":    {func(r *v1alpha1.Release) { r.Status.Rollout.Phase = v1alpha1.RolloutRunning }, false},
		"a rollout has failed":      {func(r *v1alpha1.Release) { r.Status.Rollout.Phase = v1alpha1.RolloutFailed }, false},
		"another render is wished":  {func(r *v1alpha1.Release) { r.Status.RenderRef.Digest = "sha256:b" }, false},
		"another Cluster is wished": {func(r *v1alpha1.Release) { r.Spec.ClusterRef.Name = "west" }, false},
		"it is deleted":             {func(r *v1alpha1.Release) { r.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, false},
		"it is suspended":           {func(r *v1alpha1.Release) { r.Spec.Suspend = true }, true},
	}
	for name, tc := range cases {
		r := &v1alpha1.Release{}
		r.Spec.ClusterRef.Name = "east"
		r.Status.RenderRef = &v1alpha1.RenderRef{Digest: "sha256:a"}
		r.Status.Rollout = &v1alpha1.RolloutStatus{Phase: v1alpha1.RolloutSucceeded, Digest: "sha256:a", ClusterName: "east"}
		tc.change(r)
		if got := delivery.Observable(r); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestAReleaseIsToldOfWhatIsDueOnceAMinute(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	calm, fought := v1alpha1.DriftedObject{Kind: "ConfigMap", Name: "calm"}, v1alpha1.DriftedObject{Kind: "ConfigMap", Name: "fought"}
	d := v1alpha1.DriftStatus{Count: 1, Objects: []v1alpha1.DriftedObject{fought}}
	d.Corrected = []v1alpha1.CorrectedObject{{Kind: "ConfigMap", Name: "fought", Times: 3, NotBefore: metav1.NewTime(now.Add(20 * time.Second))}}
	var told map[delivery.ObjectRef]time.Time
	for _, step := range []struct {
		what  string
		after time.Duration
		also  bool // another object has drifted
		news  bool
		wait  time.Duration
	}{
		{"one whose pause lasts", 0, false, false, 20 * time.Second},
		{"another one", 5 * time.Second, true, true, 15 * time.Second},
		{"the same again", 6 * time.Second, true, false, 14 * time.Second},
		{"the pause is over", 20 * time.Second, true, true, time.Minute},
		{"both again", 30 * time.Second, true, false, time.Minute},
		{"a minute later", 66 * time.Second, true, true, time.Minute},
	} {
		if step.also && d.Count == 1 {
			d.Count, d.Objects = 2, append(d.Objects, calm)
		}
		var news bool
		var wait time.Duration
		told, news, wait = delivery.TellOfDrift(d, told, now.Add(step.after))
		if news != step.news || wait != step.wait {
			t.Errorf("%s: news %v, wait %s", step.what, news, wait)
		}
	}
}
