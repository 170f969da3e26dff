package workflows

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"kumodo.io/convoy/activities"
	"kumodo.io/convoy/internal/delivery"
)

// Release lives as long as a Release object: it reconciles at each kick and at the interval, has at most one
// rollout under way, and removes the objects when the Release is deleted.
func Release(ctx workflow.Context, in delivery.ReleaseInput) error {
	r := &release{key: in.Key, interval: cmp.Or(in.Interval, time.Hour), next: in.Next, turn: in.Turn, word: in.Word}
	r.news = workflow.GetSignalChannelWithOptions(ctx, delivery.SignalNews, workflow.SignalChannelOptions{
		Description: "Sent by the workflow of the source when it found another revision, or none.",
	})
	r.drift = workflow.GetSignalChannelWithOptions(ctx, delivery.SignalDrift, workflow.SignalChannelOptions{
		Description: "Sent by the observer of the Cluster while objects are not as they were applied.",
	})
	r.inbox = newInbox(ctx, delivery.SignalReconcile, "Look at the source and the Cluster now, also in the middle of a backoff.")
	err := workflow.SetUpdateHandlerWithOptions(ctx, delivery.UpdateReconcile, r.reconcileNow, workflow.UpdateHandlerOptions{
		Description: "Look at the source and the Cluster now, also in the middle of a backoff, and answer with what this look found.",
	})
	if err != nil {
		return err
	}
	return r.run(ctx)
}

// release is the state of the workflow.
type release struct {
	key   delivery.Key
	inbox *inbox
	// next is when to look when nothing else starts a look before, an interval after the last; turn counts the looks,
	// for the jitter.
	interval time.Duration
	next     time.Time
	turn     int64
	// until is when a rollout that is held may begin, if time alone helps.
	until time.Time
	// word is what is known of the source, and news brings another. fresh: look at the source all the same, because
	// something changed or somebody asked for it.
	word     delivery.Word
	news     workflow.ReceiveChannel
	fresh    bool
	outcome  Outcome
	standing standing
	rollout  *rollout
	cleaning *cleaning
	deleting bool
	// drift brings word of objects that drifted, which interrupts nothing.
	drift workflow.ReceiveChannel
	// correct is when what drifted is to be corrected, zero for never.
	correct time.Time
	// again: a reconcile was cut short, or ended in something that a new one has to settle, after a pause.
	again bool
	pause time.Duration
	// listed: a reconcile has no other reason than that the watcher has begun, or this workflow, for a Release that was there.
	listed bool
}

// Outcome is what a reconcile found.
type Outcome struct {
	Life     activities.Life `json:"life"`
	Revision string          `json:"revision,omitempty"`
	Digest   string          `json:"digest,omitempty"`
	Cluster  string          `json:"cluster,omitempty"`
	// Rollout is the number of the rollout that it started or that is under way, 0 when none is due.
	Rollout int64 `json:"rollout,omitempty"`
	// Held: one is due, and waits for somebody or for a time.
	Held bool `json:"held,omitempty"`
	// Reason and Message say why nothing could be rolled out, or how the last rollout ended.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// rollout is the child that is under way.
type rollout struct {
	number int64
	done   workflow.ChildWorkflowFuture
	cancel workflow.CancelFunc
}

// errInterrupted ends a reconcile that news made obsolete.
var errInterrupted = errors.New("interrupted by news")

func (r *release) run(ctx workflow.Context) error {
	for {
		if err := r.await(ctx); err != nil {
			return err
		}
		r.concludeRollout(ctx)
		r.concludeCleaning(ctx)
		heard := r.hear()
		m := r.inbox.drain()
		r.adopt(ctx, m)
		r.hearOfDrift(ctx, m)
		if m.perhaps() {
			r.cleanAnew(ctx)
		}
		r.fresh = r.fresh || m.perhaps()
		due := m.changed || m.forced || heard || r.again || !workflow.Now(ctx).Before(r.next)
		r.listed = (r.next.IsZero() || m.listed && !due || r.again && r.listed) && !m.changed && !m.forced && !heard
		due = due || m.listed
		if grown(ctx) && r.rollout == nil && !r.inbox.owes() {
			due = r.stopCleaning(ctx) || due // the look that is due then finds it again
			if r.inbox.quiet(ctx) {
				return r.goOn(ctx, due || r.deleting)
			}
		}
		var err error
		switch {
		case r.deleting:
			err = r.finalize(ctx)
		case due:
			err = r.reconcile(ctx, m.forced)
		case r.drifted(ctx):
			err = r.correctDrift(ctx)
		}
		if err == nil {
			err = r.standing.turn(ctx, r.stands())
		}
		if err != nil {
			return err
		}
		r.show(ctx)
		ended := r.outcome.Life == activities.Gone && r.rollout == nil && !r.again && !r.deleting
		if ended {
			r.stopCleaning(ctx)
		}
		if ended && r.inbox.quiet(ctx) {
			return nil
		}
	}
}

// goOn continues as new. What is due is found out by a look, with which the next run then begins.
func (r *release) goOn(ctx workflow.Context, due bool) error {
	next := delivery.ReleaseInput{Key: r.key, Interval: r.interval, Next: r.next, Turn: r.turn, Word: r.word}
	heard := r.hear()
	switch {
	case r.listed && !heard:
		next.Next, next.Word = time.Time{}, delivery.Word{}
	case due || heard:
		next.Next, next.Word = workflow.Now(ctx), delivery.Word{}
	}
	return workflow.NewContinueAsNewError(ctx, Release, next)
}

// hear takes what the workflow of the source has told, and reports whether it is another word than was known.
func (r *release) hear() (changed bool) {
	var n delivery.News
	for r.news.ReceiveAsync(&n) {
		newer := n.Word.At.After(r.word.At)
		switch {
		case n.UID != r.key.UID:
		case newer:
			changed = changed || !n.Word.Same(r.word)
			r.word, r.fresh = n.Word, false
		case !n.Word.Same(r.word): // this Release itself has looked since, perhaps; or by another clock
			changed, r.fresh = true, true
		}
		n = delivery.News{}
	}
	return changed
}

// await returns when there is something to do. The interval also runs while a rollout is under way: what it waits for
// may be mended in the source.
func (r *release) await(ctx workflow.Context) error {
	due := func() bool {
		return r.stirred() || r.drift.Len() > 0 || r.rollout != nil && r.rollout.done.IsReady() || r.cleaning != nil && r.cleaning.done.IsReady()
	}
	options := workflow.AwaitOptions{
		Timeout:      r.next.Sub(workflow.Now(ctx)),
		TimerOptions: workflow.TimerOptions{Summary: "until the next look at the source"},
	}
	if r.again || r.deleting {
		options.Timeout, r.pause = r.pause, 0
		options.TimerOptions.Summary = "before the next try"
	} else if left := r.correct.Sub(workflow.Now(ctx)); r.corrects() && left < options.Timeout {
		options.Timeout = left
		options.TimerOptions.Summary = "before what drifted is corrected again"
	}
	if options.Timeout <= 0 || due() {
		return nil
	}
	return awaitFor(ctx, options, due)
}

// stirred reports whether anything has come in.
func (r *release) stirred() bool { return r.inbox.stirred() || r.news.Len() > 0 }

// adopt turns to a new life under the same name.
func (r *release) adopt(ctx workflow.Context, m mail) {
	if m.uid != "" && m.uid != r.key.UID {
		r.cancelRollout(ctx)
		r.stopCleaning(ctx)
		r.key.UID, r.outcome, r.deleting, r.word = m.uid, Outcome{}, false, delivery.Word{}
		r.correct = time.Time{}
	}
	r.deleting = r.deleting || m.deleting
}

// pauseAfterFailure is before a step that ended in a way that is nobody's verdict is tried again.
const pauseAfterFailure = 10 * time.Second

// reconcile runs one pass: source, gate, render, rollout. A forced one tries each step once and answers; a
// failure is left to another pass, which retries. Nothing but a cancellation ends the workflow: a step that failed for
// good is an outcome.
func (r *release) reconcile(ctx workflow.Context, forced bool) error {
	r.again, r.until = false, time.Time{}
	due := r.next
	err := r.pass(ctx, forced)
	r.turn++
	r.next = workflow.Now(ctx).Add(delivery.Jitter(r.interval, r.key.UID, r.turn))
	if r.listed && !due.IsZero() && due.Before(r.next) {
		r.next = due // watchers that begin often do not put it off
	}
	if !r.until.IsZero() && r.until.Before(r.next) {
		r.next = r.until
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errInterrupted):
		r.again = true
		return nil
	case err != nil:
		r.outcome.Reason, r.outcome.Message = describe(err)
		_, verdict := errors.AsType[*temporal.ApplicationError](err)
		if r.again = forced || !verdict; !forced {
			r.pause = pauseAfterFailure
		}
	}
	r.inbox.answer()
	return nil
}

func (r *release) pass(ctx workflow.Context, forced bool) error {
	for {
		r.hear()
		fetched, err := do(ctx, r, fetchSource, forced, "fetch the source", activities.FetchInput{Key: r.key, Word: r.word, Fresh: r.fresh})
		if err != nil || r.ended(fetched.Life) {
			return err
		}
		r.interval, r.word, r.fresh = fetched.Interval, fetched.Word, false
		if fetched.Leftovers {
			r.clean(ctx)
		}
		r.outcome = Outcome{Life: activities.Alive, Revision: fetched.Revision, Cluster: fetched.Cluster, Digest: r.outcome.Digest}
		if fetched.Suspended {
			r.outcome.Reason, r.outcome.Held = activities.ReasonSuspended, true
			r.cancelRollout(ctx)
			return nil
		}
		if r.word.Reason != "" { // the workflow of the source goes on looking
			r.outcome.Reason, r.outcome.Message = r.word.Reason, r.word.Message
			return nil
		}
		at := activities.RevisionInput{Key: r.key, Revision: fetched.Revision, Digest: fetched.Digest, Listed: r.listed}
		checked, err := do(ctx, r, checkCluster, forced, "gate: is Cluster "+fetched.Cluster+" reachable?", at)
		if err != nil || r.ended(checked.Life) || checked.UpToDate || checked.Failed {
			r.outcome.Reason, r.outcome.Message = checked.Reason, checked.Message
			return err
		}
		if checked.Waited {
			continue
		}
		rendered, err := do(ctx, r, renderRelease, forced, "render "+fetched.Revision, at)
		if err != nil || r.ended(rendered.Life) {
			return err
		}
		if rendered.Closed {
			r.fresh = true // that revision may not be had any more
			continue
		}
		r.outcome.Digest, r.outcome.Reason, r.outcome.Message = rendered.Digest, rendered.Reason, rendered.Message
		r.outcome.Held, r.until = rendered.Held, rendered.Until
		return r.roll(ctx, rendered)
	}
}

// ended notes that the object is no longer there to be reconciled.
func (r *release) ended(life activities.Life) bool {
	switch life {
	case activities.Deleting:
		r.deleting = true
	case activities.Gone:
		r.outcome = Outcome{Life: activities.Gone}
	}
	return life != activities.Alive
}

// do runs one step of a pass, which news interrupt.
func do[In, Out any](ctx workflow.Context, r *release, s step[In, Out], forced bool, summary string, in In) (out Out, err error) {
	if forced {
		s = s.once()
	}
	return doUntil(ctx, s, r.stirred, summary, in)
}

// doUntil runs one step, which what makes it obsolete interrupts.
func doUntil[In, Out any](ctx workflow.Context, s step[In, Out], obsolete func() bool, summary string, in In) (out Out, err error) {
	running, cancel := workflow.WithCancel(ctx)
	defer cancel()
	f := s.start(running, summary, in)
	ended, err := settled(ctx, f, workflow.Now(ctx), obsolete)
	if err != nil {
		return out, err
	}
	if !ended {
		cancel()
		if err := f.Get(ctx, &out); err != nil {
			return out, errInterrupted
		}
		return out, nil // it ended well after all
	}
	return result[Out](ctx, f)
}

// roll starts the rollout that is due, unless that very rollout is under way. A newer one takes over: the
// older one is cancelled and waited for.
func (r *release) roll(ctx workflow.Context, rendered activities.RenderResult) error {
	r.outcome.Rollout = rendered.Rollout
	if rendered.Rollout == 0 || r.rollout != nil && r.rollout.number == rendered.Rollout {
		return nil
	}
	r.cancelRollout(ctx)
	r.cleanAnew(ctx) // it may be at work where the rollout goes
	rolling, cancel := workflow.WithCancel(ctx)
	rolling = workflow.WithChildOptions(rolling, workflow.ChildWorkflowOptions{
		WorkflowID:            delivery.RolloutWorkflowID(r.key.Namespace, r.key.Name, rendered.Rollout),
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WaitForCancellation:   true,
		StaticSummary:         fmt.Sprintf("%s of %s to Cluster %s", counted(rendered.Objects), r.key, r.outcome.Cluster),
		TypedSearchAttributes: attributes(r.key, r.outcome.Cluster, r.outcome.Revision),
	})
	r.rollout = &rollout{number: rendered.Rollout, cancel: cancel, done: workflow.ExecuteChildWorkflow(rolling, Rollout, delivery.RolloutInput{
		Key: r.key, Cluster: r.outcome.Cluster, Number: rendered.Rollout, Digest: rendered.Digest, Hooks: rendered.Hooks,
	})}
	return nil
}

func (r *release) cancelRollout(ctx workflow.Context) {
	if r.rollout == nil {
		return
	}
	r.rollout.cancel()
	_ = r.rollout.done.Get(ctx, nil) // how it ended is of no interest: what comes next replaces it
	r.rollout = nil
}

// concludeRollout takes note of a rollout that has ended.
func (r *release) concludeRollout(ctx workflow.Context) {
	if r.rollout == nil || !r.rollout.done.IsReady() {
		return
	}
	var out activities.StepResult
	err := r.rollout.done.Get(ctx, &out)
	r.rollout = nil
	if out.Leftovers > 0 {
		r.clean(ctx)
	}
	failed, concluded := errors.AsType[*temporal.ApplicationError](err)
	if _, step := errors.AsType[*temporal.ActivityError](err); step {
		concluded = false // a step that broke off, not a rollout that failed
	}
	switch {
	case err == nil && !out.Superseded:
		r.outcome.Reason, r.outcome.Message = out.Reason, out.Message
	case concluded:
		r.outcome.Reason, r.outcome.Message = failed.Type(), failed.Message()
	default: // ended from outside, broken off, or behind the hub: a new pass settles it, not too fast if that ends likewise
		r.again, r.pause = true, pauseAfterFailure
	}
}

// reconcileNow is the update called reconcile.
func (r *release) reconcileNow(ctx workflow.Context) (Outcome, error) {
	err := r.inbox.ask(ctx)
	return r.outcome, err
}
