package apply

import (
	"sync"
	"time"

	"kumodo.io/convoy/internal/delivery"
)

// Progress is where a call is, for a heartbeat.
type Progress struct {
	// Stage that is worked on, for people.
	Stage string
	// Done of Of objects; a call that waits repeats its last numbers.
	Done, Of int
}

// beat is how often a call reports that has nothing new to say.
const beat = 2 * time.Second

// reporter calls a callback after each object, and every beat besides, never twice at the same time.
type reporter struct {
	mu   sync.Mutex
	call func(Progress)
	last Progress
	quit chan struct{}
	done chan struct{}
}

// startReporter starts the beat; the caller stops it.
func startReporter(call func(Progress), of int) *reporter {
	r := &reporter{call: call, last: Progress{Of: of}, quit: make(chan struct{}), done: make(chan struct{})}
	go r.run()
	return r
}

func (r *reporter) run() {
	defer close(r.done)
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		select {
		case <-r.quit:
			return
		case <-ticker.C:
			r.update(func(*Progress) {})
		}
	}
}

// stop ends the beat; nothing is reported after it returned.
func (r *reporter) stop() {
	close(r.quit)
	<-r.done
}

func (r *reporter) stage(s delivery.Stage) {
	r.update(func(p *Progress) { p.Stage = s.String() })
}

func (r *reporter) one() {
	r.update(func(p *Progress) { p.Done++ })
}

func (r *reporter) update(change func(*Progress)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.last)
	if r.call != nil {
		r.call(r.last)
	}
}
