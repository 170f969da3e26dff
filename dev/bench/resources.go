package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// resources is what convoy holds at one moment.
type resources struct {
	rssMiB     float64
	goroutines float64
	sockets    float64
}

// holding reads what convoy holds now.
func (w *world) holding(ctx context.Context) (r resources, err error) {
	if r.rssMiB, err = memoryMiB(w.convoy.pid(), "VmRSS"); err != nil {
		return r, err
	}
	open, err := sockets(w.convoy.pid())
	if err != nil {
		return r, err
	}
	r.sockets = float64(open)
	families, err := scrape(ctx, w.convoy.metrics)
	if err != nil {
		return r, fmt.Errorf("read the metrics of convoy: %w", err)
	}
	metrics := families["go_goroutines"].GetMetric()
	if len(metrics) != 1 {
		return r, errors.New("the metrics of convoy do not count its goroutines")
	}
	r.goroutines = metrics[0].GetGauge().GetValue()
	return r, nil
}

// settleTime is how long convoy may take to let go of what it no longer needs.
const settleTime = 30 * time.Second

// settled is what convoy holds once that hardly changes any more, or after settleTime.
func (w *world) settled(ctx context.Context) (resources, error) {
	var last []resources
	for began := time.Now(); ; {
		now, err := w.holding(ctx)
		if err != nil {
			return now, err
		}
		last = append(last, now)
		if last = last[max(0, len(last)-5):]; steady(last, 5) || time.Since(began) > settleTime {
			return now, nil
		}
		if err := pause(ctx, time.Second); err != nil {
			return now, err
		}
	}
}

// steady reports whether n readings are within 2 % of each other.
func steady(last []resources, n int) bool {
	if len(last) < n {
		return false
	}
	for _, of := range []func(resources) float64{
		func(r resources) float64 { return r.goroutines }, func(r resources) float64 { return r.sockets },
	} {
		values := make([]float64, 0, n)
		for _, r := range last {
			values = append(values, of(r))
		}
		if slices.Max(values) > 1.02*slices.Min(values)+1 {
			return false
		}
	}
	return true
}

// facts are rows of a table, all without a budget.
func (r resources) facts() []fact {
	return []fact{
		{Name: "resident memory, settled", Unit: "MiB", Value: r.rssMiB},
		{Name: "goroutines, settled", Value: r.goroutines},
		{Name: "sockets, settled", Value: r.sockets},
	}
}

// factsSince are rows of a table about what is held beyond before, which should be nothing.
func (r resources) factsSince(before resources) []fact {
	facts := append(r.facts(),
		fact{Name: "resident memory before the first", Unit: "MiB", Value: before.rssMiB},
		fact{Name: "goroutines before the first", Value: before.goroutines},
		fact{Name: "sockets before the first", Value: before.sockets},
	)
	facts[1].Limit, facts[2].Limit = new(noise(before.goroutines, 20)), new(noise(before.sockets, 5))
	return facts
}

// noise is how far a number that should be as before may be above it: what pollers, timers and a retried request hold,
// which does not grow with the number of Clusters.
func noise(before, few float64) float64 { return before + max(few, before/20) }
