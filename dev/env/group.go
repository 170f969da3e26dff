package env

import (
	"errors"
	"slices"
	"sync"
	"syscall"
	"time"
)

// frozenTimeout bounds how long a loaded machine takes to suspend a program.
const frozenTimeout = 10 * time.Second

// group is the set of processes that make up one part of the environment, in the order in which they start.
type group []*process

// stop stops the processes in reverse order: whoever uses a server goes before the server.
func (g group) stop() error {
	var errs []error
	for _, p := range slices.Backward(g) {
		errs = append(errs, p.stop())
	}
	return errors.Join(errs...)
}

// kill ends all processes at once.
func (g group) kill() error {
	errs := make([]error, len(g))
	var wait sync.WaitGroup
	for i, p := range g {
		wait.Go(func() { errs[i] = p.kill() })
	}
	wait.Wait()
	return errors.Join(errs...)
}

// freeze suspends all processes and returns once they stand still: connections stay open and nothing answers.
func (g group) freeze() error {
	if err := g.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return poll(frozenTimeout, "the programs do not freeze", func() bool {
		return !slices.ContainsFunc(g, func(p *process) bool { return !frozen(p.pid()) })
	})
}

// thaw lets frozen processes go on.
func (g group) thaw() error { return g.signal(syscall.SIGCONT) }

func (g group) signal(signal syscall.Signal) error {
	var errs []error
	for _, p := range g {
		errs = append(errs, p.signal(signal))
	}
	return errors.Join(errs...)
}

// pids maps each running process's name to its id.
func (g group) pids() map[string]int {
	pids := map[string]int{}
	for _, p := range g {
		if pid := p.pid(); pid != 0 {
			pids[p.name] = pid
		}
	}
	return pids
}
