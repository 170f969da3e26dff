package source

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// flights joins equal work that is wanted at the same time. Unlike singleflight, a caller that gives up leaves
// at once, the work goes on for the others, and it is cancelled when nobody is left.
type flights struct {
	timeout time.Duration
	mu      sync.Mutex
	running map[string]*flight
}

type flight struct {
	waiting int
	cancel  context.CancelFunc
	done    chan struct{}
	value   any
	err     error
}

func newFlights(timeout time.Duration) *flights {
	return &flights{timeout: timeout, running: map[string]*flight{}}
}

// join returns what work returns, run once for all callers with the same key, within the timeout.
func join[T any](ctx context.Context, f *flights, key string, work func(context.Context) (T, error)) (T, error) {
	v, err := f.do(ctx, key, func(ctx context.Context) (any, error) { return work(ctx) })
	value, _ := v.(T) // nil beside an error
	return value, err
}

// do returns what work returns, run once for all callers with the same key, within the timeout.
func (f *flights) do(ctx context.Context, key string, work func(context.Context) (any, error)) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	fl := f.running[key]
	if fl == nil {
		fl = f.start(ctx, key, work)
	}
	fl.waiting++
	f.mu.Unlock()

	select {
	case <-fl.done:
		return fl.value, fl.err
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl.waiting--; fl.waiting == 0 {
		fl.cancel()
		f.forget(key, fl)
	}
	return nil, ctx.Err()
}

// start runs the work on its own; f.mu is held.
func (f *flights) start(ctx context.Context, key string, work func(context.Context) (any, error)) *flight {
	runCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.timeout)
	fl := &flight{cancel: cancel, done: make(chan struct{})}
	f.running[key] = fl
	go func() {
		defer cancel()
		fl.value, fl.err = safely(func() (any, error) { return work(runCtx) })
		if fl.err != nil { // some clients drop the reason for which they were cut off
			fl.err = errors.Join(fl.err, runCtx.Err())
		}
		f.mu.Lock()
		f.forget(key, fl)
		f.mu.Unlock()
		close(fl.done)
	}()
	return fl
}

func (f *flights) forget(key string, fl *flight) {
	if f.running[key] == fl {
		delete(f.running, key)
	}
}

// safely turns a panic into an error. What a server sends is untrusted, and a panic on a goroutine that no caller
// guards would end the process.
func safely(work func() (any, error)) (v any, err error) {
	defer func() {
		if p := recover(); p != nil {
			v, err = nil, fmt.Errorf("panic: %v", p)
		}
	}()
	return work()
}
