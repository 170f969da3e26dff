package workflows

import (
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"kumodo.io/convoy/activities"
	"kumodo.io/convoy/internal/delivery"
)

// Observer keeps one activity running that watches what Releases have on a Cluster, as long as there are any. Temporal places it, and
// places it anew when its worker dies, stops or has had its turn: all that are attempts of the one activity.
func Observer(ctx workflow.Context, in delivery.ObserverInput) error {
	o := &observer{key: in.Key, created: in.Created, patience: firstPatience}
	o.kicks = workflow.GetSignalChannelWithOptions(ctx, delivery.SignalKick, workflow.SignalChannelOptions{
		Description: "Sent by the watcher when a Release begins to use the Cluster.",
	})
	return o.run(ctx)
}

type observer struct {
	key   delivery.Key
	kicks workflow.ReceiveChannel
	// created is when the newest Cluster of the name was created.
	created int64
	// patience is how long no worker may take the observation.
	patience time.Duration
}

func (o *observer) run(ctx workflow.Context) error {
	for {
		o.drain()
		workflow.SetCurrentDetails(ctx, table("Cluster", o.key.String(), "Who observes it", "the worker of the pending activity; its heartbeat says since when, and what it sees"))
		observing, cancel := workflow.WithCancel(ctx)
		done := observeCluster.within(o.patience).start(observing, "observe Cluster "+o.key.String(), activities.ObserveInput{Key: o.key})
		err := workflow.Await(ctx, func() bool { return done.IsReady() || o.drain() || grown(ctx) })
		ended := done.IsReady()
		cancel()
		if err != nil {
			return err
		}
		if o.nobody(ctx, done.Get(ctx, nil)) {
			continue
		}
		if o.kicks.Len() > 0 { // somebody may need it who came too late for it to see
			continue
		}
		switch {
		case ended:
			return nil
		case grown(ctx):
			return workflow.NewContinueAsNewError(ctx, Observer, delivery.ObserverInput{Key: o.key, Created: o.created})
		}
	}
}

// How long no worker may have taken an observation until that is said, for the first time and then again.
const (
	firstPatience = 2 * time.Minute
	laterPatience = 15 * time.Minute
)

// nobody reports whether an observation ended because no worker took it, and then takes back what was said before.
func (o *observer) nobody(ctx workflow.Context, err error) bool {
	if timeout, ok := errors.AsType[*temporal.TimeoutError](err); !ok || timeout.TimeoutType() != enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START {
		o.patience = firstPatience
		return false
	}
	o.patience = laterPatience
	marked, err := result[activities.UnobservedResult](ctx, markUnobserved.once().start(ctx, "nobody observes Cluster "+o.key.String(), activities.ObserveInput{Key: o.key}))
	if err != nil {
		workflow.GetLogger(ctx).Warn("cannot say that nobody observes a Cluster", "cluster", o.key.String())
	} else {
		workflow.GetLogger(ctx).Warn("nobody observes a Cluster", "cluster", o.key.String(), "releases", marked.Releases)
	}
	return true
}

// drain takes what came in, and reports whether it is about another Cluster of the same name.
func (o *observer) drain() (another bool) {
	var k delivery.Kick
	for o.kicks.ReceiveAsync(&k) {
		if k.Created >= o.created && k.UID != "" {
			another = another || k.UID != o.key.UID
			o.created, o.key.UID = k.Created, k.UID
		}
		k = delivery.Kick{}
	}
	return another
}
