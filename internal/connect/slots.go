package connect

import (
	"context"
	"errors"
	"sync"
)

// ErrBusy says that as many steps work on the target as may: ask again in a moment. It says nothing about the target.
var ErrBusy = errors.New("as many steps as are allowed work on the cluster")

// troubledConcurrency is how many steps may work on a target whose last request got no answer: one that fails and one
// that finds out that it is over. So a dead target, on which every step takes as long as a time-out, holds no more
// than these.
const troubledConcurrency = 2

// slots bounds how many steps work on one target.
type slots struct {
	mu   sync.Mutex
	busy int
}

// Work takes a slot of the target until ctx ends; the context of an activity ends with the activity. It does not
// wait for one: it returns ErrBusy when none is free.
func (c *Client) Work(ctx context.Context) error {
	limit := c.concurrency
	if c.link.troubled.Load() {
		limit = min(limit, troubledConcurrency)
	}
	c.slots.mu.Lock()
	defer c.slots.mu.Unlock()
	if c.slots.busy >= limit {
		return ErrBusy
	}
	c.slots.busy++
	context.AfterFunc(ctx, func() {
		c.slots.mu.Lock()
		defer c.slots.mu.Unlock()
		c.slots.busy--
	})
	return nil
}
