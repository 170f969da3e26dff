package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/testsuite"

	"kumodo.io/convoy/activities"
	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

var shared = delivery.Poll{Source: v1alpha1.Source{Git: &v1alpha1.GitSource{URL: "https://git.example.test/app"}}}

// looking is what looks at a source find, one after the other, the last one for ever; it notes the minute of each.
type looking struct {
	finds []delivery.Word
	users *int
	ins   []activities.LookInput
	log   []string
}

func (l *looking) run(t *testing.T, in delivery.SourceInput, script func(*testsuite.TestWorkflowEnvironment)) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	env := newEnv(t)
	start := env.Now()
	env.OnActivity(acts.LookSource, mock.Anything, mock.Anything).Return(func(_ context.Context, in activities.LookInput) (activities.LookResult, error) {
		found := l.finds[min(len(l.ins), len(l.finds)-1)]
		found.Poll, found.At = in.Poll.ID(), env.Now()
		l.ins = append(l.ins, in)
		l.log = append(l.log, env.Now().Sub(start).Round(time.Minute).String())
		return activities.LookResult{Word: found, Users: l.users}, nil
	}).Maybe()
	script(env)
	env.ExecuteWorkflow(delivery.WorkflowSource, in)
	if !env.IsWorkflowCompleted() {
		t.Fatal("the workflow did not end")
	}
	return env
}

var (
	found   = delivery.Word{Revision: "main@sha1:1"}
	missing = delivery.Word{Reason: v1alpha1.ReasonSourceNotFound, Message: "repository https://git.example.test/app does not exist"}
)

func users(n int, joined bool) delivery.Users {
	return delivery.Users{Count: n, Interval: 10 * time.Minute, Joined: joined, Lease: time.Hour}
}

func TestASourceIsLookedAtOnceAnIntervalWhoeverUsesIt(t *testing.T) {
	l := &looking{finds: []delivery.Word{found}}
	l.run(t, delivery.SourceInput{Poll: shared, Interval: 10 * time.Minute}, func(env *testsuite.TestWorkflowEnvironment) {
		for i := range 40 {
			at(env, time.Duration(i)*time.Second, func() { env.SignalWorkflow(delivery.SignalUsers, users(i+1, true)) })
		}
		stop(env, 45*time.Minute)
	})
	if n := len(l.ins); n != 4 {
		t.Errorf("%d looks in 45 minutes, at %v, want 4", n, l.log)
	}
	for i, in := range l.ins {
		if joined := i == 0; in.Joined != joined || in.Count {
			t.Errorf("look %d: joined %v, count %v", i+1, in.Joined, in.Count)
		}
		if i > 0 && !in.Last.Same(delivery.Word{Poll: shared.ID(), Revision: found.Revision}) {
			t.Errorf("look %d does not know what was told: %+v", i+1, in.Last)
		}
	}
}

func TestAFailedLookIsRepeatedSoonerButNeverMoreOftenThanItsBackoffAllows(t *testing.T) {
	l := &looking{finds: []delivery.Word{missing}}
	l.run(t, delivery.SourceInput{Poll: shared, Interval: 5 * time.Minute}, func(env *testsuite.TestWorkflowEnvironment) {
		at(env, 0, func() {
			env.SignalWorkflow(delivery.SignalUsers, delivery.Users{Count: 1, Interval: 5 * time.Minute, Lease: 24 * time.Hour})
		})
		stop(env, 2*time.Hour)
	})
	if n := len(l.ins); n < 25 || n > 31 { // 5 s, 10 s, … up to 5 minutes: six more than one an interval
		t.Errorf("%d looks in two hours", n)
	}
}

func TestSomebodyWhoAsksIsAnsweredAtOnceButAStormOfAskingIsNot(t *testing.T) {
	l := &looking{finds: []delivery.Word{found}}
	l.run(t, delivery.SourceInput{Poll: shared, Interval: time.Hour}, func(env *testsuite.TestWorkflowEnvironment) {
		at(env, 0, func() {
			env.SignalWorkflow(delivery.SignalUsers, delivery.Users{Count: 1, Interval: time.Hour, Lease: 24 * time.Hour})
		})
		for i := range 100 {
			at(env, time.Minute+time.Duration(i)*100*time.Millisecond, func() { env.SignalWorkflow(delivery.SignalLook, nil) })
		}
		stop(env, 2*time.Minute)
	})
	if n := len(l.ins); n < 5 || n > 7 {
		t.Errorf("%d looks for 100 requests in 10 seconds, want one each 2 seconds", n)
	}
}

func TestASourceThatNobodyUsesIsNotLookedAt(t *testing.T) {
	l := &looking{finds: []delivery.Word{found}}
	env := l.run(t, delivery.SourceInput{Poll: shared, Interval: 10 * time.Minute}, func(env *testsuite.TestWorkflowEnvironment) {
		at(env, 0, func() { env.SignalWorkflow(delivery.SignalUsers, users(2, true)) })
		at(env, 15*time.Minute, func() { env.SignalWorkflow(delivery.SignalUsers, delivery.Users{}) })
	})
	if err := env.GetWorkflowError(); err != nil || len(l.ins) != 1 {
		t.Errorf("%d looks, ended with %v", len(l.ins), err)
	}
}

func TestUsersThatNobodyTellsOfAnyMoreAreCountedAndTheirSourceEndsWithTheLast(t *testing.T) {
	l := &looking{finds: []delivery.Word{found}, users: new(0)}
	env := l.run(t, delivery.SourceInput{Poll: shared, Interval: 25 * time.Minute, Until: time.Time{}}, func(*testsuite.TestWorkflowEnvironment) {})
	if err := env.GetWorkflowError(); err != nil || len(l.ins) != 1 || !l.ins[0].Count {
		t.Errorf("looks %+v, ended with %v", l.ins, err)
	}
}

func TestTheNextRunOfASourceKnowsWhatWasToldAndWhenToLook(t *testing.T) {
	l := &looking{finds: []delivery.Word{missing}}
	env := l.run(t, delivery.SourceInput{Poll: shared, Interval: 10 * time.Minute}, func(env *testsuite.TestWorkflowEnvironment) {
		at(env, 0, func() { env.SignalWorkflow(delivery.SignalUsers, users(2, false)) })
		at(env, time.Minute, func() { env.SetCurrentHistoryLength(5000) })
	})
	in := continued[delivery.SourceInput](t, env)
	if in.Poll.ID() != shared.ID() || in.Failures != 1 || in.Turn != 1 || in.Last.Reason != missing.Reason || !in.Next.After(env.Now()) || in.Interval != 10*time.Minute {
		t.Errorf("continues as %+v", in)
	}
}

// tell signals a Release what was found at its source now.
func tell(env *testsuite.TestWorkflowEnvironment, uid string, w delivery.Word) {
	w.Poll, w.At = shared.ID(), env.Now()
	env.SignalWorkflow(delivery.SignalNews, delivery.News{UID: uid, Word: w})
}

// runTold runs a Release whose fetches are answered as the activity does, and notes what was known to each.
func (h *hub) runTold(t *testing.T, script func(*testsuite.TestWorkflowEnvironment)) {
	t.Helper()
	env := newEnv(t)
	env.OnActivity(acts.FetchSource, mock.Anything, mock.Anything).Return(func(_ context.Context, in activities.FetchInput) (activities.FetchResult, error) {
		out := activities.FetchResult{Life: activities.Alive, Cluster: "east", Interval: time.Hour, Word: in.Word, Revision: in.Word.Revision}
		switch {
		case in.Fresh || in.Word.Poll != shared.ID():
			h.note("look")
			out.Revision = "main@sha1:own"
			out.Word = delivery.Word{Poll: shared.ID(), Revision: out.Revision, At: env.Now()}
		case in.Word.Reason != "":
			h.note("known to fail")
			out.Revision = ""
		default:
			h.note("take " + in.Word.Revision)
		}
		return out, nil
	}).Maybe()
	h.install(env)
	script(env)
	env.ExecuteWorkflow(delivery.WorkflowRelease, delivery.ReleaseInput{Key: podinfo})
}

func TestWhatAReleaseIsToldOfItsSourceSparesItALook(t *testing.T) {
	h := &hub{upToDate: true}
	h.runTold(t, func(env *testsuite.TestWorkflowEnvironment) {
		at(env, 0, func() { env.SignalWorkflow(delivery.SignalKick, edited) })
		at(env, 10*time.Minute, func() { tell(env, "r-1", delivery.Word{Revision: "two"}) })
		at(env, 11*time.Minute, func() { tell(env, "r-1", delivery.Word{Revision: "two"}) })    // nothing new
		at(env, 12*time.Minute, func() { tell(env, "r-0", delivery.Word{Revision: "of old"}) }) // another life
		at(env, 20*time.Minute, func() { tell(env, "r-1", missing) })                           // deleted
		at(env, 30*time.Minute, func() { tell(env, "r-1", delivery.Word{Revision: "three"}) })  // and back
		at(env, 40*time.Minute, func() { env.SignalWorkflow(delivery.SignalReconcile, nil) })   // looks itself
		stop(env, 110*time.Minute)                                                              // the interval does not
	})
	expect(t, h, "look, open, take two, open, known to fail, take three, open, look, open, take main@sha1:own, open")
}

func TestNewsThatMayBeOlderThanAReleasesOwnLookMakeItLookAgain(t *testing.T) {
	h := &hub{upToDate: true}
	h.runTold(t, func(env *testsuite.TestWorkflowEnvironment) {
		at(env, 0, func() { env.SignalWorkflow(delivery.SignalKick, edited) })
		at(env, 2*time.Minute, func() {
			old := delivery.Word{Poll: shared.ID(), Revision: "before", At: env.Now().Add(-3 * time.Minute)}
			env.SignalWorkflow(delivery.SignalNews, delivery.News{UID: "r-1", Word: old})
		})
		stop(env, 5*time.Minute)
	})
	expect(t, h, "look, open, look, open")
}

func TestNewsInterruptAGateThatIsWaitedFor(t *testing.T) {
	h := &hub{closed: -1}
	h.runTold(t, func(env *testsuite.TestWorkflowEnvironment) {
		at(env, 0, func() { env.SignalWorkflow(delivery.SignalKick, edited) })
		at(env, 4*time.Second, func() { tell(env, "r-1", delivery.Word{Revision: "two"}) })
		stop(env, 6*time.Second)
	})
	expect(t, h, "look, closed, take two, closed")
}

func TestAReleaseThatIsEditedAllTheTimeBehindAClosedGateContinuesAsNew(t *testing.T) {
	h := &hub{closed: -1}
	env := newEnv(t)
	h.install(env)
	for i := range 20 {
		at(env, time.Duration(i)*4*time.Second, func() {
			if i == 10 {
				env.SetCurrentHistoryLength(5000)
			}
			env.SignalWorkflow(delivery.SignalKick, edited)
		})
	}
	env.ExecuteWorkflow(delivery.WorkflowRelease, delivery.ReleaseInput{Key: podinfo})
	if in := continued[delivery.ReleaseInput](t, env); in.Key != podinfo || in.Next.IsZero() || in.Next.After(env.Now()) {
		t.Errorf("continues as %+v, want a look at once", in)
	}
}
