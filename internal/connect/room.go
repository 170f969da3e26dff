package connect

import (
	"sync"
	"time"

	"kumodo.io/convoy/api/v1alpha1"
)

// BusyError says that as many steps work on a Cluster as may: ask again in a moment. It is no verdict about the target.
type BusyError struct {
	// NoAnswer: there is less room than usual, because the target gives no answer.
	NoAnswer bool
}

func (e *BusyError) Error() string { return "as many steps as are allowed work on the Cluster" }

const (
	// troubledConcurrency is how many steps may work on a target that gives no answer: one that fails and one that finds
	// out that it is over. So a dead target, on which every step takes as long as a time-out, holds no more than these.
	troubledConcurrency = 2
	// suspectEvery is how often one process may ask for a probe of one Cluster.
	suspectEvery = 5 * time.Second
)

// room bounds how many steps of this process work on one Cluster. It outlives the clients of the Cluster.
type room struct {
	mu        sync.Mutex
	busy      int
	troubled  bool
	suspected time.Time
}

func (r *room) setTroubled(troubled bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.troubled = troubled
}

// take gives a place, without waiting for one. done gives it back.
func (r *room) take(limit int) (done func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.troubled {
		limit = min(limit, troubledConcurrency)
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

// roomOf is the room of a Cluster. A Cluster that this process meets for the first time is in trouble when the hub says so.
func (p *Pool) roomOf(c *v1alpha1.Cluster) *room {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.rooms[c.UID]
	if !ok {
		r = &room{troubled: c.Status.Reachable != nil && !*c.Status.Reachable}
		p.rooms[c.UID] = r
	}
	return r
}

// Work takes a place among the steps that work on a Cluster, until done is called. It does not wait: when there is no
// place, it returns a *BusyError.
func (p *Pool) Work(c *v1alpha1.Cluster) (done func(), err error) {
	return p.roomOf(c).take(p.options.Concurrency)
}

// Suspect reports whether it is time to ask for a probe of a Cluster, which gave no answer: not every few milliseconds.
func (p *Pool) Suspect(c *v1alpha1.Cluster) bool {
	r := p.roomOf(c)
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.suspected) < suspectEvery {
		return false
	}
	r.suspected = time.Now()
	return true
}
