package apply

import (
	"sync"

	"kumodo.io/convoy/internal/delivery"
)

// Progress is where a call is, for a heartbeat.
type Progress struct {
	// Stage that is worked on, for people.
	Stage string
	// Done of Of objects.
	Done, Of int
}

// reporter calls a callback after each object, never twice at the same time.
type reporter struct {
	mu   sync.Mutex
	call func(Progress)
	last Progress
}

func newReporter(call func(Progress), of int) *reporter {
	return &reporter{call: call, last: Progress{Of: of}}
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
