package observe

import (
	"sync"
	"time"
)

// beat is how often progress is reported when nothing is new.
const beat = 2 * time.Second

// reporter calls a callback at every change and every beat, never twice at the same time.
type reporter struct {
	mu         sync.Mutex
	call       func(done, of int, waitingFor string)
	done, of   int
	waitingFor string
	quit       chan struct{}
	ended      chan struct{}
}

// startReporter starts the beat; the caller stops it.
func startReporter(call func(done, of int, waitingFor string)) *reporter {
	r := &reporter{call: call, quit: make(chan struct{}), ended: make(chan struct{})}
	go r.run()
	return r
}

func (r *reporter) run() {
	defer close(r.ended)
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		select {
		case <-r.quit:
			return
		case <-ticker.C:
			r.mu.Lock()
			r.send()
			r.mu.Unlock()
		}
	}
}

// stop ends the beat; nothing is reported after it returned.
func (r *reporter) stop() {
	close(r.quit)
	<-r.ended
}

func (r *reporter) set(done, of int, waitingFor string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done, r.of, r.waitingFor = done, of, waitingFor
	r.send()
}

func (r *reporter) send() {
	if r.call != nil {
		r.call(r.done, r.of, r.waitingFor)
	}
}
