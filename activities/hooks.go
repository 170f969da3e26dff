package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/apply"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/failure"
	"kumodo.io/convoy/internal/hook"
	"kumodo.io/convoy/internal/status"
)

// hookStep is one run of a hook.
type hookStep struct {
	*step
	input HookInput
	// hook is nil when it is no longer there.
	hook *v1alpha1.Hook
	plan hookPlan
	// run is what the hub knows of the run. It is new when begun is false.
	run   v1alpha1.HookStatus
	begun bool
	deed  deed
	beat  *heartbeat
}

// deed is what a hook does, once its templates are executed.
type deed struct {
	// object is what it makes on the target.
	object *v1alpha1.HookObject
	// message says what a run waits for that was begun, done what came of one that has succeeded.
	message, done string
	// start is called once in each attempt; what was started before is found again.
	start func(context.Context) error
	// look is called until it is done, with growing pauses between first and last; nil when start does it all.
	look        func(context.Context) (done bool, waiting string, err error)
	first, last time.Duration
	// end leaves nothing behind of a run that has ended: what still runs is stopped.
	end func(context.Context) error
}

// RunHook runs a hook once for its rollout, or for the deletion. The run is recorded on the hub before anything is done,
// and one that has ended is not begun again. A failure of the hook is a result, not an error.
func (a *Activities) RunHook(ctx context.Context, in HookInput) (StepResult, error) {
	beat := startHeartbeat(ctx)
	defer beat.stopped()
	h, err := a.hookStep(ctx, in)
	if err != nil || h == nil {
		return StepResult{Superseded: err == nil}, err
	}
	h.beat = beat
	if !delivery.HookEnded(&h.run) {
		over, err := a.beginHook(ctx, h)
		if errors.Is(err, errHookSuperseded) {
			return StepResult{Superseded: true}, nil
		}
		if err == nil && !over {
			err = a.doHook(ctx, h)
		}
		if err != nil {
			return StepResult{}, a.hookTrouble(ctx, h, err)
		}
	}
	if superseded, err := a.endHook(ctx, h); superseded || err != nil {
		a.dropHook(ctx, h)
		return StepResult{Superseded: err == nil}, err
	}
	return a.hookOver(ctx, h)
}

// hookStep reads what a run is about. It returns nil when the hub does not ask for it any more.
func (a *Activities) hookStep(ctx context.Context, in HookInput) (*hookStep, error) {
	h := &hookStep{input: in}
	var err error
	if in.Rollout.Number == 0 {
		h.step, err = a.deletionStep(ctx, in)
	} else {
		h.step, err = a.currentWhile(ctx, in.Rollout, h.asksFor)
	}
	if err != nil || h.step == nil {
		return nil, err
	}
	r, name := h.release, in.Hook
	if h.plan, err = a.hooksOf(ctx, r, in); err != nil {
		return nil, err
	}
	h.hook = delivery.HookOf(h.plan.all, name.Name, name.Phase)
	if run := delivery.HookRunOf(r, name.Name, name.Phase, in.Rollout.Number); run != nil {
		h.run, h.begun = *run, true
		return h, nil
	}
	h.run = newRun(r, name, in.Rollout.Number)
	return h, nil
}

func newRun(r *v1alpha1.Release, name delivery.HookRef, number int64) v1alpha1.HookStatus {
	run := v1alpha1.HookStatus{
		Name: name.Name, Phase: name.Phase, Rollout: number, State: v1alpha1.HookRunning, StartTime: metav1.Now(),
	}
	if number == 0 {
		run.Request = r.Annotations[v1alpha1.AnnotationRequestedAt]
	}
	return run
}

// asksFor reports whether the hub asks for the hook of a rollout. A rollout that this very hook has concluded asks for it
// too: its result may have been lost.
func (h *hookStep) asksFor(r *v1alpha1.Release) bool {
	in, last := h.input.Rollout, r.Status.Rollout
	if !r.DeletionTimestamp.IsZero() || last == nil || last.Number != in.Number || last.Digest != in.Digest || r.Spec.ClusterRef.Name != in.Cluster {
		return false
	}
	if h.input.Hook.Phase == v1alpha1.HookOnFailure {
		return !r.Spec.Suspend && last.Phase == v1alpha1.RolloutFailed
	}
	return wished(r, in) || delivery.HookEnded(delivery.HookRunOf(r, h.input.Hook.Name, h.input.Hook.Phase, in.Number))
}

// beginHook prepares a run and records that it begins, unless that was recorded before. over: there is nothing to do.
func (a *Activities) beginHook(ctx context.Context, h *hookStep) (over bool, err error) {
	if h.hook == nil {
		return h.conclude(v1alpha1.HookSkipped, "the hook is no longer in the spec"), nil
	}
	facts := delivery.NewContext(h.cluster, h.release)
	if !h.begun {
		applies, err := hook.Applies(ctx, h.hook, facts)
		if err == nil && !applies {
			return h.conclude(v1alpha1.HookSkipped, "when is false"), nil
		}
		if f, ok := failure.As(err); ok && f.Terminal {
			return h.conclude(v1alpha1.HookFailed, f.Message), nil
		}
		if err != nil {
			return false, err
		}
	}
	h.deed, err = a.deedOf(ctx, h, facts)
	if f, ok := failure.As(err); ok && f.Terminal {
		return h.conclude(v1alpha1.HookFailed, f.Message), nil
	}
	if err != nil {
		return false, err
	}
	if h.begun {
		a.stopFormerFirst(h)
		return false, nil
	}
	h.run.Object, h.run.Message = h.deed.object, cut(h.deed.message)
	superseded, err := a.tell(ctx, h.step, func(r *v1alpha1.Release) { status.HookStarted(r, h.run) })
	if superseded && err == nil {
		err = errHookSuperseded
	}
	return false, err
}

// errHookSuperseded: the hub asks for something else since a moment ago.
var errHookSuperseded = errors.New("superseded")

// errTimeOver: nothing is wrong but that it takes too long.
var errTimeOver = errors.New("the time of the hook is over")

// conclude notes how the run ended.
func (h *hookStep) conclude(state v1alpha1.HookState, message string) (over bool) {
	now := metav1.Now()
	h.run.State, h.run.Message, h.run.EndTime = state, cut(message), &now
	return true
}

// doHook does what the hook does until it is done, has failed, or its time is over. A nil error means that the run is
// concluded.
func (a *Activities) doHook(ctx context.Context, h *hookStep) error {
	timeout := h.hook.Timeout.Duration
	limited, cancel := context.WithDeadline(ctx, h.attemptUntil(time.Now()))
	defer cancel()
	waiting, err := a.perform(limited, h)
	f, known := failure.As(err)
	switch {
	case err == nil:
		h.conclude(v1alpha1.HookSucceeded, h.deed.done)
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case takesNothing(err):
		h.conclude(v1alpha1.HookSkipped, "the namespace of the Release goes away, and takes no record of another object")
		return nil
	case errors.Is(err, apply.ErrHub) && limited.Err() == nil, known && f.Reason == ReasonRenewed:
		return err
	case known && f.Terminal && f.Reason == v1alpha1.ReasonHookFailed, known && f.Terminal && h.placed():
		h.conclude(v1alpha1.HookFailed, f.Message)
		return nil
	case h.outOfReach(err) && h.patient():
		return err
	case h.outOfReach(err):
		h.conclude(v1alpha1.HookSkipped, "the cluster cannot be reached, and the deletion gives up by deletionPolicy.timeout")
		return nil
	case known && h.hook.HTTP != nil && time.Now().Add(f.RetryAfter).After(h.until()) && f.RetryAfter > 0:
		h.conclude(v1alpha1.HookFailed, fmt.Sprintf("%s, and asks to wait for longer than its timeout of %s leaves", f.Message, timeout))
		return nil
	case limited.Err() == nil && time.Now().Before(h.until()):
		return err
	}
	h.conclude(v1alpha1.HookFailed, fmt.Sprintf("it was not done after %s: %s", timeout, h.lastReason(waiting, err)))
	return nil
}

// placed: the connection stands, so what is refused for good is refused by the target.
func (h *hookStep) placed() bool {
	return h.conn != nil || h.input.Rollout.Number == 0 && h.record != nil
}

// perform starts the deed and looks at it until it is done. waiting is what the last look waited for.
func (a *Activities) perform(ctx context.Context, h *hookStep) (waiting string, err error) {
	if ctx.Err() != nil {
		return "", errTimeOver
	}
	if err := h.deed.start(ctx); err != nil || h.deed.look == nil {
		return "", err
	}
	asked := time.Now()
	pause := h.deed.first
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return waiting, errTimeOver
		case <-activity.GetWorkerStopChannel(ctx):
			return waiting, handedOver()
		case <-h.renewed():
			return waiting, handedOver()
		case <-timer.C:
		}
		began := time.Now()
		done, what, err := h.deed.look(ctx)
		switch {
		case done, err != nil && ctx.Err() == nil:
			return waiting, err
		case err != nil && time.Since(began) > noAnswer && !errors.Is(err, apply.ErrHub):
			waiting = h.reasonOf(err)
		}
		if ctx.Err() != nil { // and nothing more is asked with it
			return waiting, errTimeOver
		}
		if what != "" {
			waiting = what
			h.beat.set(Progress{Step: cut(what)})
		}
		if time.Since(asked) > askAgain {
			asked = time.Now()
			if err := a.askAgain(ctx, h); err != nil {
				return waiting, err
			}
		}
		timer.Reset(pause)
		pause = min(pause*3/2, h.deed.last)
	}
}

// noAnswer is how long a look that the time-out cuts off had to get an answer: one that took longer got none.
const noAnswer = 3 * time.Second

// askAgain is how often a hook that waits looks whether the hub still has it as it was begun.
const askAgain = 15 * time.Second

func (a *Activities) askAgain(ctx context.Context, h *hookStep) error {
	now, err := a.hookStep(ctx, h.input)
	if err != nil {
		return fmt.Errorf("%w: %w", apply.ErrHub, err)
	}
	if now == nil || now.hook == nil || !sameHook(now.hook, h.hook) {
		return handedOver()
	}
	return nil
}

// handedOver ends an attempt that another one goes on with.
func handedOver() error {
	again := failure.Transient(ReasonRenewed, nil, "the hook goes on in another attempt")
	again.RetryAfter = time.Second
	return again
}

// renewed is closed when the client of the target is replaced.
func (h *hookStep) renewed() <-chan struct{} {
	if h.conn == nil {
		return nil
	}
	return h.conn.Done()
}

// endHook records how the run ended and, with it, the end of the rollout where there is one. It writes nothing that is
// recorded already.
func (a *Activities) endHook(ctx context.Context, h *hookStep) (superseded bool, err error) {
	record := h.record // that of the step stays: it says whether the target was reached
	if record == nil && h.ends() == v1alpha1.RolloutSucceeded {
		if record, _, err = a.recall(ctx, h.step); err != nil {
			return false, err
		}
	}
	recorded := -1
	if record != nil {
		recorded = record.Len()
	}
	return a.tell(ctx, h.step, func(r *v1alpha1.Release) {
		switch {
		case r.Status.Rollout != nil && h.input.Rollout.Number > 0 && r.Status.Rollout.Phase != v1alpha1.RolloutRunning && h.run.Phase != v1alpha1.HookOnFailure:
		case h.ends() == v1alpha1.RolloutFailed:
			r.Status.Rollout.RunID = activity.GetInfo(ctx).WorkflowExecution.RunID
			status.HookFailedRollout(r, h.run, h.message(), recorded)
		case h.ends() == v1alpha1.RolloutSucceeded:
			r.Status.Rollout.RunID = activity.GetInfo(ctx).WorkflowExecution.RunID
			status.HookSucceededRollout(r, h.run, recorded, h.elsewhere)
		default:
			status.HookEnded(r, h.run)
		}
	})
}

// ends says how the rollout ends with this run; empty when it goes on, or is none.
func (h *hookStep) ends() v1alpha1.RolloutPhase {
	if h.run.Phase != v1alpha1.HookPreApply && h.run.Phase != v1alpha1.HookPostApply {
		return ""
	}
	if h.run.State == v1alpha1.HookFailed && h.hook != nil && h.hook.OnFailure != v1alpha1.HookContinue {
		return v1alpha1.RolloutFailed
	}
	if h.input.Last {
		return v1alpha1.RolloutSucceeded
	}
	return ""
}

// message is what the conditions say of a failed run.
func (h *hookStep) message() string {
	return cut(fmt.Sprintf("hook %s (%s) failed: %s", h.run.Name, h.run.Phase, h.run.Message))
}

// hookOver leaves nothing running of a run that has ended, and says how it ended.
func (a *Activities) hookOver(ctx context.Context, h *hookStep) (StepResult, error) {
	err := a.cleanHook(ctx, h)
	if err == nil {
		err = a.sweepChart(ctx, h)
	}
	if err != nil {
		return StepResult{}, a.hookTrouble(ctx, h, err)
	}
	out := StepResult{}
	if h.run.Phase != v1alpha1.HookPreApply && h.run.Phase != v1alpha1.HookPostApply {
		return out, nil
	}
	switch h.release.Status.Rollout.Phase { // as the hub has it now
	case v1alpha1.RolloutFailed:
		out.Phase, out.Reason, out.Message = v1alpha1.RolloutFailed, v1alpha1.ReasonHookFailed, h.message()
	case v1alpha1.RolloutSucceeded:
		out.Phase, out.Reason = v1alpha1.RolloutSucceeded, v1alpha1.ReasonDelivered
		out.Leftovers = len(h.release.Status.Leftovers)
	case v1alpha1.RolloutRunning:
	}
	return out, nil
}

// dropHook stops what a run has begun that nobody asks for any more. An attempt that is only stopped, or taken over by
// another worker, leaves it: the hub says which of them it is. The record of the run goes first, so that a rollout that
// goes on after a suspension begins the hook anew.
func (a *Activities) dropHook(ctx context.Context, h *hookStep) {
	const patience = 8 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	now, err := a.hookStep(ctx, h.input)
	if err != nil || now != nil || h.deed.start == nil {
		return
	}
	err = a.Status.Release(ctx, h.release, func(r *v1alpha1.Release) { status.HookStopped(r, h.run) })
	if err == nil && h.deed.end != nil {
		err = h.deed.end(ctx)
	}
	if err != nil {
		activity.GetLogger(ctx).Warn("cannot stop what a hook has begun", "hook", h.run.Name, "error", typesOf(err))
	}
}
