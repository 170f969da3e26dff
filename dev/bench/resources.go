package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// resources is what convoy holds at one moment.
type resources struct {
	rssMiB     float64
	heapMiB    float64   // of live and not yet collected objects
	collected  time.Time // when the last collection of garbage ended
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
	gauge := func(name string) float64 {
		metrics := families[name].GetMetric()
		if len(metrics) != 1 {
			err = fmt.Errorf("the metrics of convoy do not hold %s", name)
			return 0
		}
		return metrics[0].GetGauge().GetValue()
	}
	r.goroutines = gauge("go_goroutines")
	r.heapMiB = gauge("go_memstats_heap_alloc_bytes") / (1 << 20)
	r.collected = time.UnixMicro(int64(gauge("go_memstats_last_gc_time_seconds") * 1e6))
	return r, err
}

// settleTime is how long convoy may take to let go of what it no longer needs: a process at rest collects its garbage
// every two minutes.
const settleTime = 150 * time.Second

// settled is what convoy holds once that hardly changes any more and garbage was collected, or after settleTime.
func (w *world) settled(ctx context.Context) (resources, error) {
	var last []resources
	for began := time.Now(); ; {
		now, err := w.holding(ctx)
		if err != nil {
			return now, err
		}
		last = append(last, now)
		last = last[max(0, len(last)-5):]
		if steady(last, 5) && now.collected.After(began) || time.Since(began) > settleTime {
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
		{Name: "heap, settled", Unit: "MiB", Value: r.heapMiB},
		{Name: "goroutines, settled", Value: r.goroutines},
		{Name: "sockets, settled", Value: r.sockets},
	}
}

// factsSince are rows of a table about what is held beyond before, which should be nothing.
func (r resources) factsSince(before resources) []fact {
	facts := append(r.facts(),
		fact{Name: "resident memory before the first", Unit: "MiB", Value: before.rssMiB},
		fact{Name: "heap before the first", Unit: "MiB", Value: before.heapMiB},
		fact{Name: "goroutines before the first", Value: before.goroutines},
		fact{Name: "sockets before the first", Value: before.sockets},
	)
	facts[2].Limit, facts[3].Limit = new(noise(before.goroutines, 20)), new(noise(before.sockets, 5))
	return facts
}

// noise is how far a number that should be as before may be above it: what pollers, timers and a retried request hold,
// which does not grow with the number of Clusters.
func noise(before, few float64) float64 { return before + max(few, before/20) }
