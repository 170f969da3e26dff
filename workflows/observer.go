package workflows

import (
	"go.temporal.io/sdk/workflow"

	"kumodo.io/convoy/activities"
	"kumodo.io/convoy/internal/delivery"
)

// Observer keeps one activity running that watches what Releases have on a Cluster, as long as there are any. Temporal places it, and
// places it anew when its worker dies, stops or has had its turn: all that are attempts of the one activity.
func Observer(ctx workflow.Context, in delivery.ObserverInput) error {
	o := &observer{key: in.Key, created: in.Created}
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
}

func (o *observer) run(ctx workflow.Context) error {
	for {
		o.drain()
		workflow.SetCurrentDetails(ctx, table("Cluster", o.key.String(), "Who observes it", "the worker of the pending activity; its heartbeat says since when, and what it sees"))
		observing, cancel := workflow.WithCancel(ctx)
		done := observeCluster.start(observing, "observe Cluster "+o.key.String(), activities.ObserveInput{Key: o.key})
		err := workflow.Await(ctx, func() bool { return done.IsReady() || o.drain() || grown(ctx) })
		ended := done.IsReady()
		cancel()
		if err != nil {
			return err
		}
		_ = done.Get(ctx, nil) // how it ended is of no interest
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
