package activities

import (
	"context"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"
)

// heartbeat tells Temporal that an activity lives, which is also how a cancellation reaches it.
type heartbeat struct {
	latest atomic.Pointer[any]
	stop   context.CancelFunc
	done   chan struct{}
}

// Progress is what a heartbeat carries, for the people who watch.
type Progress struct {
	Step string `json:"step"`
	Done int    `json:"done"`
	Of   int    `json:"of"`
}

// startHeartbeat beats until stopped. Every activity with a heartbeat timeout defers stopped().
func startHeartbeat(ctx context.Context) *heartbeat {
	ctx, cancel := context.WithCancel(ctx)
	h := &heartbeat{stop: cancel, done: make(chan struct{})}
	go h.run(ctx)
	return h
}

func (h *heartbeat) run(ctx context.Context) {
	defer close(h.done)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for { // the first beat comes after a second: most activities have ended by then, and cost no request
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if p := h.latest.Load(); p != nil {
			activity.RecordHeartbeat(ctx, *p)
		} else {
			activity.RecordHeartbeat(ctx)
		}
	}
}

func (h *heartbeat) set(details any) { h.latest.Store(&details) }

func (h *heartbeat) stopped() {
	h.stop()
	<-h.done
}
