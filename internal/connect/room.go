package connect

import (
	"sync"
	"time"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/room"
)

// suspectEvery is how often one process may ask for a probe of one Cluster.
const suspectEvery = 5 * time.Second

// clusterRoom is the room of a Cluster, which outlives the clients of it, and when it was suspected last.
type clusterRoom struct {
	*room.Room
	mu        sync.Mutex
	suspected time.Time
}

// roomOf is the room of a Cluster. A Cluster that this process meets for the first time is in trouble when the hub says so.
func (p *Pool) roomOf(c *v1alpha1.Cluster) *clusterRoom {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.rooms[c.UID]
	if !ok {
		r = &clusterRoom{Room: room.New(c.Status.Reachable != nil && !*c.Status.Reachable)}
		p.rooms[c.UID] = r
	}
	return r
}

// Work takes a place among the steps that work on a Cluster, until done is called. It does not wait: when there is no
// place, it returns a *room.BusyError.
func (p *Pool) Work(c *v1alpha1.Cluster) (done func(), err error) {
	return p.roomOf(c).Take(p.options.Concurrency)
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
