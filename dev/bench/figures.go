package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Names of the programs, and of the two control planes, in figures.
const (
	inConvoy   = "convoy"
	inTemporal = "Temporal"
	inHub      = "hub"
	inTarget   = "target"
	inBench    = "the bench"
)

// result is the outcome of one run of the bench.
type result struct {
	Version string    `json:"version"` // of convoy
	Suite   string    `json:"suite"`
	About   string    `json:"about"`
	Unit    string    `json:"unit"` // what there are N of
	N       int       `json:"n"`
	M       int       `json:"m"`
	Dead    int       `json:"dead,omitempty"`
	Phases  []figures `json:"phases"`
}

// figures are what one phase came to, over all units of the suite.
type figures struct {
	Name        string             `json:"name"`
	WallSeconds float64            `json:"wallSeconds"`
	CPUSeconds  map[string]float64 `json:"cpuSeconds"` // by program; etcd is part of its control plane
	OtherCPUs   float64            `json:"otherCPUs"`  // how many CPUs were busy with what is not measured
	PeakMiB     map[string]float64 `json:"peakMiB"`    // resident memory, by program
	Requests    map[string]counts  `json:"requests"`   // by server; of hub and target, those of convoy
	Sample      int                `json:"sample"`     // how many workflows the history is of
	History     history            `json:"history"`
	Facts       []fact             `json:"facts,omitempty"`
}

// state is what the counters show at one moment.
type state struct {
	at        time.Time
	busy      float64 // CPU seconds of the whole machine
	cpu, peak map[string]float64
	requests  map[string]counts
	history   history
	sample    int
}

// programs maps the name of each program to its processes.
func (w *world) programs() map[string][]int {
	convoys := []int{w.convoy.pid()}
	for _, c := range w.observers {
		convoys = append(convoys, c.pid())
	}
	return map[string][]int{
		inConvoy:   convoys,
		inTemporal: slices.Collect(maps.Values(w.local.Temporal.PIDs())),
		inHub:      slices.Collect(maps.Values(w.local.Hub.PIDs())),
		inTarget:   slices.Collect(maps.Values(w.local.Targets[0].PIDs())),
		inBench:    {os.Getpid()},
	}
}

// snapshot reads all counters; CPU and memory first, so that the reading is not in them. sample are IDs of workflows.
func (w *world) snapshot(ctx context.Context, sample []string) (s state, err error) {
	s = state{cpu: map[string]float64{}, peak: map[string]float64{}, requests: map[string]counts{}, sample: len(sample), at: time.Now()}
	if s.busy, err = busySeconds(); err != nil {
		return s, err
	}
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
	if s.history, err = w.histories(ctx, sample); err != nil {
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
	f.OtherCPUs = s.busy - before.busy
	for program, seconds := range s.cpu {
		f.CPUSeconds[program] = seconds - before.cpu[program]
		f.OtherCPUs -= f.CPUSeconds[program]
	}
	f.OtherCPUs = max(0, f.OtherCPUs) / s.at.Sub(before.at).Seconds()
	for server, all := range s.requests {
		f.Requests[server] = all.minus(before.requests[server])
	}
	return f
}

// line writes the result as one line of JSON.
func (r *result) line(out io.Writer) error { return json.NewEncoder(out).Encode(r) }

// benchstat writes the result as lines of the Go benchmark format.
func (r *result) benchstat(out io.Writer) error {
	unit := strings.ToLower(r.Unit)
	size := fmt.Sprintf("N=%d/M=%d", r.N, r.M)
	if r.Dead > 0 {
		size += fmt.Sprintf("/dead=%d", r.Dead)
	}
	for _, f := range r.Phases {
		var line strings.Builder
		figure := func(format string, v float64, name string) { fmt.Fprintf(&line, " "+format+" %s", v, name) }
		each := func(n float64, name string) { figure("%.3f", n/float64(r.N), name+"/"+unit) }
		fmt.Fprintf(&line, "Benchmark%s/%s 1 %d ns/op", f.Name, size, int64(f.WallSeconds*1e9))
		each(1000*f.CPUSeconds[inConvoy], "convoy-cpu-ms")
		each(1000*f.CPUSeconds[inTemporal], "temporal-cpu-ms")
		figure("%.1f", f.PeakMiB[inConvoy], "convoy-MiB")
		each(f.Requests[inHub].sum(isWrite), "hub-writes")
		each(f.Requests[inHub].sum(isRead), "hub-reads")
		each(f.Requests[inTarget].sum(isWrite), "target-writes")
		each(f.Requests[inTarget].sum(isRead), "target-reads")
		figure("%.3f", f.History.Events.sum(isAny)/float64(f.Sample), "events/"+unit)
		for _, fact := range f.Facts {
			figure("%.4f", fact.Value, fact.benchUnit())
		}
		if _, err := fmt.Fprintln(out, line.String()); err != nil {
			return err
		}
	}
	return nil
}

// benchUnit is the name of a fact as a unit of the Go benchmark format, which has no blanks.
func (f fact) benchUnit() string {
	words := strings.FieldsFunc(f.Name, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if f.Unit != "" {
		words = append(words, f.Unit)
	}
	return strings.Join(words, "-")
}
