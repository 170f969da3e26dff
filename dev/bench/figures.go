package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// Names of the programs, and of the two control planes, in figures.
const (
	inConvoy   = "convoy"
	inTemporal = "Temporal"
	inHub      = "hub"
	inTarget   = "target"
)

// result is the outcome of one run of the bench.
type result struct {
	Version string    `json:"version"` // of convoy
	N       int       `json:"n"`
	M       int       `json:"m"`
	Phases  []figures `json:"phases"`
}

// figures are what one phase came to, over all Releases.
type figures struct {
	Name        string             `json:"name"`
	WallSeconds float64            `json:"wallSeconds"`
	CPUSeconds  map[string]float64 `json:"cpuSeconds"` // by program; etcd is part of its control plane
	PeakMiB     map[string]float64 `json:"peakMiB"`    // resident memory, by program
	Requests    map[string]counts  `json:"requests"`   // by server; of hub and target, those of convoy
	Sample      int                `json:"sample"`     // how many Releases the history is of
	History     history            `json:"history"`
}

// state is what the counters show at one moment.
type state struct {
	cpu, peak map[string]float64
	requests  map[string]counts
	history   history
	sample    int
}

// programs maps the name of each program to its processes.
func (w *world) programs() map[string][]int {
	return map[string][]int{
		inConvoy:   {w.convoy.pid()},
		inTemporal: slices.Collect(maps.Values(w.local.Temporal.PIDs())),
		inHub:      slices.Collect(maps.Values(w.local.Hub.PIDs())),
		inTarget:   slices.Collect(maps.Values(w.local.Targets[0].PIDs())),
	}
}

// snapshot reads all counters; CPU and memory first, so that the reading is not in them.
func (w *world) snapshot(ctx context.Context) (s state, err error) {
	s = state{cpu: map[string]float64{}, peak: map[string]float64{}, requests: map[string]counts{}, sample: len(w.sample())}
	for name, pids := range w.programs() {
		if s.cpu[name], err = cpuSeconds(pids); err != nil {
			return s, err
		}
		if s.peak[name], err = peakMiB(pids); err != nil {
			return s, err
		}
	}
	if s.requests[inHub], err = served(w.local.Hub); err != nil {
		return s, err
	}
	if s.requests[inTarget], err = served(w.local.Targets[0]); err != nil {
		return s, err
	}
	if s.history, err = w.histories(ctx); err != nil {
		return s, err
	}
	s.requests[inTemporal], err = w.handled(ctx)
	return s, err
}

// since is what happened between two moments.
func (s state) since(before state, name string, wall time.Duration) figures {
	f := figures{
		Name: name, WallSeconds: wall.Seconds(), PeakMiB: s.peak, Sample: s.sample, History: s.history.minus(before.history),
		CPUSeconds: map[string]float64{}, Requests: map[string]counts{},
	}
	for program, seconds := range s.cpu {
		f.CPUSeconds[program] = seconds - before.cpu[program]
	}
	for server, all := range s.requests {
		f.Requests[server] = all.minus(before.requests[server])
	}
	return f
}

// line writes the result as one line of JSON.
func (r *result) line(out io.Writer) error { return json.NewEncoder(out).Encode(r) }

// benchstat writes the result as lines of the Go benchmark format.
func (r *result) benchstat(out io.Writer) error {
	for _, f := range r.Phases {
		each := func(n float64) float64 { return n / float64(r.N) }
		_, err := fmt.Fprintf(out, "Benchmark%s/N=%d/M=%d 1 %d ns/op %.3f convoy-cpu-ms/release %.3f temporal-cpu-ms/release"+
			" %.1f convoy-MiB %.3f hub-writes/release %.3f hub-reads/release %.3f target-writes/release %.3f target-reads/release %.3f events/release\n",
			f.Name, r.N, r.M, int64(f.WallSeconds*1e9), 1000*each(f.CPUSeconds[inConvoy]), 1000*each(f.CPUSeconds[inTemporal]),
			f.PeakMiB[inConvoy], each(f.Requests[inHub].sum(isWrite)), each(f.Requests[inHub].sum(isRead)),
			each(f.Requests[inTarget].sum(isWrite)), each(f.Requests[inTarget].sum(isRead)),
			f.History.Events.sum(isAny)/float64(f.Sample))
		if err != nil {
			return err
		}
	}
	return nil
}
