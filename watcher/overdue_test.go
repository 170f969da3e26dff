package watcher

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.temporal.io/api/serviceerror"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	hubclient "sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// noticed keeps what was written, and may fail to write.
type noticed struct {
	lines []string
	err   error
}

func (n *noticed) EngineUnavailable(_ context.Context, o hubclient.Object) error {
	n.lines = append(n.lines, o.GetName()+" waits")
	return n.err
}

func (n *noticed) EngineAnswers(_ context.Context, o hubclient.Object) error {
	n.lines = append(n.lines, o.GetName()+" goes on")
	return n.err
}

func releaseAt(generation, observed int64) *v1alpha1.Release {
	return &v1alpha1.Release{ObjectMeta: metav1.ObjectMeta{Name: "app", Generation: generation}, Status: v1alpha1.ReleaseStatus{ObservedGeneration: observed}}
}

func TestAChangeThatWaitsForLongIsToldOfAndTakenBackOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &noticed{}
		d := &overdue{notices: n}
		miss := func(reason delivery.KickReason, o hubclient.Object) {
			t.Helper()
			if err := d.missed(t.Context(), "release/app", o, reason); err != nil {
				t.Fatal(err)
			}
		}
		miss(delivery.KickChanged, releaseAt(2, 1))
		<-time.After(late - time.Second)
		miss(delivery.KickDependency, releaseAt(2, 1))
		if n.lines != nil {
			t.Errorf("too early: %v", n.lines)
		}
		<-time.After(time.Second)
		miss(delivery.KickChanged, releaseAt(2, 1))
		n.err = errors.New("the hub does not take it")
		if err := d.over(t.Context(), "release/app", releaseAt(2, 2)); !errors.Is(err, n.err) {
			t.Errorf("a notice that was not taken back: %v", err)
		}
		n.err = nil
		for range 2 {
			if err := d.over(t.Context(), "release/app", releaseAt(2, 2)); err != nil {
				t.Fatal(err)
			}
		}
		if want := []string{"app waits", "app goes on", "app goes on"}; !slices.Equal(n.lines, want) {
			t.Errorf("told %v, want %v", n.lines, want)
		}
		miss(delivery.KickChanged, releaseAt(3, 2)) // another change begins to wait anew
		if len(n.lines) != 3 {
			t.Errorf("told %v", n.lines)
		}
	})
}

func TestWhatAnotherProcessToldIsTakenBack(t *testing.T) {
	n := &noticed{}
	r := releaseAt(1, 1)
	r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionEngineUnavailable, Status: metav1.ConditionTrue}}
	if err := (&overdue{notices: n}).over(t.Context(), "release/app", r); err != nil || !slices.Equal(n.lines, []string{"app goes on"}) {
		t.Errorf("told %v, %v", n.lines, err)
	}
}

func TestOnlyNewsWait(t *testing.T) {
	asked := releaseAt(1, 1)
	asked.Annotations = map[string]string{v1alpha1.AnnotationRequestedAt: "noon"}
	probed := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Generation: 1}, Status: v1alpha1.ClusterStatus{ObservedGeneration: 1}}
	for name, tc := range map[string]struct {
		o      hubclient.Object
		reason delivery.KickReason
		want   bool
	}{
		"an edit":                        {releaseAt(1, 1), delivery.KickChanged, true},
		"a deletion":                     {releaseAt(1, 1), delivery.KickDeleting, true},
		"a Secret that is read":          {probed, delivery.KickDependency, true},
		"a start finds nothing new":      {releaseAt(1, 1), delivery.KickListed, false},
		"a start finds an edit":          {releaseAt(2, 1), delivery.KickListed, true},
		"a start finds a request":        {asked, delivery.KickListed, true},
		"a resync":                       {probed, delivery.KickResync, false},
		"a resync of what is not probed": {&v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Generation: 1}}, delivery.KickResync, true},
	} {
		if got := isNews(tc.o, tc.reason); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestAfterATimeOutNothingIsAskedForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &starter{err: serviceerror.NewUnavailable("down")}
		g := &gate{Starter: s, claimed: func() error { return nil }}
		for range 3 {
			if err := g.SignalWorkflow(t.Context(), "release/app", "", "kick", nil); !errors.Is(err, s.err) {
				t.Errorf("answered %v", err)
			}
		}
		if len(s.signals) != 1 {
			t.Errorf("%d requests", len(s.signals))
		}
		<-time.After(rest)
		s.err = serviceerror.NewNotFound("no such workflow") // an answer
		for range 2 {
			if err := g.SignalWorkflow(t.Context(), "release/app", "", "kick", nil); !errors.Is(err, s.err) {
				t.Errorf("answered %v", err)
			}
		}
		if len(s.signals) != 3 {
			t.Errorf("%d requests", len(s.signals))
		}
	})
}

func TestNothingIsToldBeforeTheNamespaceOfTemporalIsClaimed(t *testing.T) {
	s, not := &starter{}, errors.New("not yet")
	g := &gate{Starter: s, claimed: func() error { return not }}
	if err := g.SignalWorkflow(t.Context(), "release/app", "", "kick", nil); !errors.Is(err, not) || len(s.signals) != 0 {
		t.Errorf("%v after %v", err, s.signals)
	}
}
