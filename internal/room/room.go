// Package room bounds how many steps of this process work with one far side at once, so that one that gives no answer
// does not fill the places of all others. It never waits for a place, and does not know what the steps do; connect has a
// Room for each Cluster, source one for each server.
package room

import "sync"

// BusyError says that as many steps work with a far side as may: ask again in a moment. It is no verdict about it.
type BusyError struct {
	// NoAnswer: there is less room than usual, because the far side gives no answer.
	NoAnswer bool
}

func (e *BusyError) Error() string { return "as many steps as are allowed work with it" }

// Troubled is how many steps may work with a far side that gives no answer: one that fails and one that finds out that it
// is over. So a dead one, on which every step takes as long as a time-out, holds no more than these.
const Troubled = 2

// Room is the places of one far side. It is safe for concurrent use.
type Room struct {
	mu       sync.Mutex
	busy     int
	troubled bool
}

// New returns an empty Room. troubled: the far side is known to give no answer.
func New(troubled bool) *Room { return &Room{troubled: troubled} }

// SetTroubled says whether the far side gives no answer.
func (r *Room) SetTroubled(troubled bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.troubled = troubled
}

// Take gives a place of limit, without waiting for one: a *BusyError says that there is none. done gives it back.
func (r *Room) Take(limit int) (done func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.troubled {
		limit = min(limit, Troubled)
	}
	if r.busy >= limit {
		return nil, &BusyError{NoAnswer: r.troubled}
	}
	r.busy++
	return sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.busy--
	}), nil
}

// Idle reports whether the Room may be forgotten: nobody works with the far side, and it is not known to give no answer.
func (r *Room) Idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.busy == 0 && !r.troubled
}
