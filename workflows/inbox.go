package workflows

import (
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"kumodo.io/convoy/internal/delivery"
)

// inbox is everything that may wake an entity: kicks of the watcher, a signal of people, and an update of the
// same meaning. Signals stay in their channels until they are drained, so that none is lost when a run
// continues as new.
type inbox struct {
	kicks  workflow.ReceiveChannel
	forces workflow.ReceiveChannel
	// read are kicks that were looked at in the channel, and are still to be drained.
	read []delivery.Kick
	// created is when the object of the newest kick was created: older kicks are of an earlier life.
	created int64
	// asked counts the updates that were made, taken those that drain has handed over, answered those that
	// have their answer.
	asked    int
	taken    int
	answered int
}

// mail is what an inbox held, all kicks folded into one.
type mail struct {
	uid     string
	changed bool
	// listed: it may have changed while no watcher ran.
	listed   bool
	resync   bool
	deleting bool
	forced   bool
}

// perhaps reports whether what the object asks for may be something else than before.
func (m mail) perhaps() bool { return m.changed || m.listed || m.forced }

func newInbox(ctx workflow.Context, force, description string) *inbox {
	return &inbox{
		kicks: workflow.GetSignalChannelWithOptions(ctx, delivery.SignalKick, workflow.SignalChannelOptions{
			Description: "Sent by the watcher when the object, or something that it reads, changed.",
		}),
		forces: workflow.GetSignalChannelWithOptions(ctx, force, workflow.SignalChannelOptions{Description: description}),
	}
}

func (i *inbox) empty() bool {
	return len(i.read) == 0 && i.kicks.Len() == 0 && i.forces.Len() == 0 && i.asked == i.taken
}

func (i *inbox) stirred() bool { return !i.empty() }

// answer answers every update that was taken.
func (i *inbox) answer() { i.answered = i.taken }

// owes reports whether an update that was taken waits for its answer.
func (i *inbox) owes() bool { return i.answered < i.taken }

// drain takes everything. A kick about a newer life voids what came before it.
func (i *inbox) drain() mail {
	var m mail
	for _, k := range i.receive() {
		if k.Reason == delivery.KickGone { // of an unknown life: a look will tell
			m.changed = true
			continue
		}
		if k.Created < i.created {
			continue
		}
		i.created = k.Created
		if k.UID != m.uid {
			m = mail{uid: k.UID, forced: m.forced}
		}
		switch k.Reason {
		case delivery.KickDeleting:
			m.deleting = true
		case delivery.KickListed:
			m.listed = true
		case delivery.KickResync, delivery.KickSuspected:
			m.resync = true // a probe, unless one is running or backing off
		default:
			m.changed = true
		}
	}
	for i.forces.ReceiveAsync(nil) {
		m.forced = true
	}
	i.taken = i.asked
	m.forced = m.forced || i.owes()
	return m
}

// receive takes all kicks.
func (i *inbox) receive() []delivery.Kick {
	all := i.read
	i.read = nil
	var k delivery.Kick
	for i.kicks.ReceiveAsync(&k) {
		all = append(all, k)
		k = delivery.Kick{}
	}
	return all
}

// forget takes the kicks that may be forgotten, and leaves the others to be drained.
func (i *inbox) forget(may func(delivery.Kick) bool) {
	i.read = slices.DeleteFunc(i.receive(), may)
}

// quiet waits until every update has its answer, and reports whether nothing has come in meanwhile: then a
// workflow may end or continue as new, if it does so before it yields again.
func (i *inbox) quiet(ctx workflow.Context) bool {
	err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) || !i.empty() })
	return err == nil && i.empty()
}

// ask is the body of an update: it returns once somebody has answered what was asked up to now.
func (i *inbox) ask(ctx workflow.Context) error {
	i.asked++
	mine := i.asked
	return workflow.Await(ctx, func() bool { return i.answered >= mine })
}

// patience is how long a step that began just now may go on when a kick arrives: a step that is working is worth
// more than one that begins again, and objects that change all the time must not starve.
const patience = 2 * time.Second

// settled waits for a step until it ends or something makes it obsolete, and reports whether it has ended.
func settled(ctx workflow.Context, f workflow.Future, started time.Time, obsolete func() bool) (bool, error) {
	if err := workflow.Await(ctx, func() bool { return f.IsReady() || obsolete() }); err != nil || f.IsReady() {
		return true, err
	}
	if left := patience - workflow.Now(ctx).Sub(started); left > 0 {
		options := workflow.AwaitOptions{Timeout: left, TimerOptions: workflow.TimerOptions{Summary: "let the running step end"}}
		if err := awaitFor(ctx, options, f.IsReady); err != nil {
			return false, err
		}
	}
	return f.IsReady(), nil
}

// awaitFor waits for a condition or a time. The SDK leaves the timer of an await running when the condition comes
// first; it is cancelled here.
func awaitFor(ctx workflow.Context, options workflow.AwaitOptions, condition func() bool) error {
	waiting, cancel := workflow.WithCancel(ctx)
	defer cancel()
	_, err := workflow.AwaitWithOptions(waiting, options, condition)
	return err
}

// grown reports whether the history is long enough to continue as new.
func grown(ctx workflow.Context) bool {
	info := workflow.GetInfo(ctx)
	return info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() > 2000
}

// table renders pairs of label and value for the UI, without those that have no value.
func table(pairs ...string) string {
	var b strings.Builder
	b.WriteString("| | |\n|---|---|\n")
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			b.WriteString("| **" + pairs[i] + "** | " + strings.ReplaceAll(pairs[i+1], "|", "\\|") + " |\n")
		}
	}
	return b.String()
}
