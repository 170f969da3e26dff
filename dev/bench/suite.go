package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"
)

// Names of the suites.
const (
	suiteReleases = "releases"
	suiteClusters = "clusters"
	suiteRender   = "render"
	suiteSources  = "sources"
	suiteObserve  = "observe"
)

// suite is what is measured: phases over one world, in order, each on what the one before has left.
type suite struct {
	name    string
	about   string                      // "100 Releases of 4 ConfigMaps", for people
	unit    string                      // what figures are shared out over: "Release"
	n       int                         // how many of them there are
	sample  []string                    // IDs of the workflows whose histories are read
	furnish func(context.Context) error // writes all that is there before the first phase
	phases  []phase
}

// phase is one thing to measure. Wall time ends with do, everything else when rest has returned.
type phase struct {
	name    string
	title   string
	prepare func(context.Context) error // what has to be so before; not measured; nil for nothing
	do      func(context.Context) error // what is measured, to its end
	rest    func(context.Context) error // waits for what goes on behind it; nil for nothing
	check   check                       // not measured
	budgets map[string]float64          // by row
	alone   bool                        // the facts are the figures: what the machine did besides is not shown
}

// check tells whether the outcome of a phase is right, and what else it came to.
type check func(context.Context, figures) ([]fact, error)

// fact is a figure that one phase has and others have not.
type fact struct {
	Name  string   `json:"name"`
	Unit  string   `json:"unit,omitempty"` // s, MiB, or none
	Value float64  `json:"value"`
	Limit *float64 `json:"limit,omitempty"` // the budget, when there is one
}

// newSuite builds the suite that the options ask for.
func newSuite(w *world) suite {
	switch w.Suite {
	case suiteClusters:
		return newClustersSuite(w)
	case suiteSources:
		return newSourcesSuite(w)
	case suiteObserve:
		return newObserveSuite(w)
	}
	return newReleasesSuite(w)
}

// convoyFlags are the flags of convoy, besides those of a default deployment, under which a suite is measured.
func (o options) convoyFlags() []string {
	switch o.Suite {
	case suiteClusters:
		return []string{"--resync-period=" + o.Resync.String()}
	case suiteObserve:
		return []string{"--roles=watcher,worker"}
	}
	return nil
}

// measureAll runs the phases in order and prints the figures of each as soon as it has ended.
func (w *world) measureAll(ctx context.Context, s suite, out io.Writer) (*result, error) {
	of, err := version(ctx, w.Convoy)
	if err != nil {
		return nil, err
	}
	r := &result{Version: of, Suite: s.name, N: s.n, M: w.M, Dead: w.Dead, Unit: s.unit, About: s.about}
	for _, p := range s.phases {
		f, err := w.measure(ctx, s, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.title, err)
		}
		r.Phases = append(r.Phases, f)
		if err := r.print(out, p, f); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// measure runs one phase.
func (w *world) measure(ctx context.Context, s suite, p phase) (figures, error) {
	ctx, cancel := context.WithTimeout(ctx, w.Timeout)
	defer cancel()
	// An end of convoy ends the phase.
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	go func() {
		select {
		case <-w.convoy.done:
			end(fmt.Errorf("convoy has ended: %w", w.convoy.err))
		case <-ctx.Done():
		}
	}()
	if p.prepare != nil {
		if err := p.prepare(ctx); err != nil {
			return figures{}, fmt.Errorf("prepare: %w", err)
		}
	}
	before, err := w.snapshot(ctx, s.sample)
	if err != nil {
		return figures{}, err
	}
	for _, pids := range w.programs() {
		if err := resetPeak(pids); err != nil {
			return figures{}, err
		}
	}
	began := time.Now()
	if err := p.do(ctx); err != nil {
		return figures{}, err
	}
	wall := time.Since(began)
	if p.rest != nil {
		if err := p.rest(ctx); err != nil {
			return figures{}, err
		}
	}
	after, err := w.snapshot(ctx, s.sample)
	if err != nil {
		return figures{}, err
	}
	f := after.since(before, p.name, wall)
	f.Facts, err = p.check(ctx, f)
	return f, err
}

// atOnce is how many requests the bench itself has under way at a time.
const atOnce = 8

// each calls do for every name, a few at a time.
func each(ctx context.Context, names []string, do func(context.Context, string) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, name := range names {
		group.Go(func() error { return do(ctx, name) })
	}
	return group.Wait()
}

// poll calls check until it returns nil or ctx ends; then the error holds the last answer.
func poll(ctx context.Context, every time.Duration, check func() error) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// pause waits for a time, unless ctx ends before.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
