package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// Names of the figures, as tables show them. Those marked * are from a sample.
const (
	rowWall         = "wall time"
	rowPeak         = "peak memory of " + inConvoy
	rowHubReads     = "reads of the hub"
	rowHubWrites    = "writes to the hub"
	rowHubEvents    = "Events on the hub"
	rowTargetReads  = "reads of the target"
	rowTargetWrites = "writes to the target"
	rowActivities   = "activities *"
	rowChildren     = "child workflows *"
	rowEvents       = "workflow events *"
)

// row is one line of a table.
type row struct {
	what   string
	unit   string
	total  float64
	each   float64 // per Release
	budget string
	over   bool
}

// budgets are what a phase with n Releases of m objects may cost: wall time and memory in all, the rest per Release.
func budgets(phase string, n, m int) map[string]float64 {
	b := map[string]float64{rowPeak: 223}
	switch phase {
	case phaseCold:
		b[rowHubWrites], b[rowHubEvents], b[rowTargetWrites] = 6, 1, float64(m)
		b[rowActivities], b[rowChildren], b[rowEvents] = 6, 1, 60
		if m == 4 && n >= 100 { // fewer, or of another size, have no budget
			b[rowWall] = 15 * float64(n) / 100
		}
	case phaseRequest, phaseSignal:
		b[rowHubWrites], b[rowHubEvents], b[rowTargetReads], b[rowTargetWrites] = 0, 0, 0, 0
		b[rowActivities], b[rowChildren], b[rowEvents] = 2, 0, 18
		if phase == phaseRequest {
			b[rowHubWrites] = 1 // the answer
		}
	}
	return b
}

// free is how much above its budget a figure per Release may be: requests that belong to no Release, such as discovery.
const free = 0.05

// rows are the table of a phase.
func (r *result) rows(f figures) []row {
	limits, n := budgets(f.Name, r.N, r.M), float64(r.N)
	var rows []row
	add := func(what, unit string, total float64) {
		one := row{what: what, unit: unit, total: total, each: total / n}
		if limit, ok := limits[what]; ok {
			one.budget = "<= " + number(limit, unit)
			one.over = total > limit
			if unit == "" {
				one.over = one.each > limit+free
			}
		}
		rows = append(rows, one)
	}
	add(rowWall, "s", f.WallSeconds)
	for _, program := range []string{inConvoy, inTemporal, inHub, inTarget} {
		add("CPU of "+program, "s", f.CPUSeconds[program])
	}
	for _, program := range []string{inConvoy, inTemporal} {
		add("peak memory of "+program, "MiB", f.PeakMiB[program])
	}
	hub, target := f.Requests[inHub], f.Requests[inTarget]
	add(rowHubReads, "", hub.sum(isRead))
	add(rowHubWrites, "", hub.sum(isWrite))
	add(rowHubEvents, "", hub.sum(isEvent))
	add(rowTargetReads, "", target.sum(isRead))
	add(rowTargetWrites, "", target.sum(isWrite))
	add("requests to "+inTemporal, "", f.Requests[inTemporal].sum(isAny))
	scale := n / float64(f.Sample)
	add(rowActivities, "", scale*f.History.Events.sum(isActivity))
	add("retries *", "", scale*float64(f.History.Retries))
	add(rowChildren, "", scale*f.History.Events.sum(isChild))
	add(rowEvents, "", scale*f.History.Events.sum(isAny))
	return rows
}

// verdict compares a figure with its budget.
func (r row) verdict() string {
	switch {
	case r.budget == "":
		return ""
	case r.over:
		return "OVER"
	}
	return "ok"
}

// print writes the table of a phase, and what its requests were.
func (r *result) print(out io.Writer, p phase, f figures) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "\n%s: %d Releases of %d ConfigMaps: %s\n", f.Name, r.N, r.M, p.title)
	fmt.Fprintf(t, "%24s\ttotal\tper Release\tbudget\t\t\n", "")
	for _, row := range r.rows(f) {
		each := number(row.each, row.unit)
		if row.unit == "MiB" {
			each = "" // memory is not shared out
		}
		fmt.Fprintf(t, "%-24s\t%s\t%s\t%s\t%s\t\n", row.what, number(row.total, row.unit), each, row.budget, row.verdict())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "* mean of the histories of %d Releases and their children\n", f.Sample)
	for _, server := range []string{inHub, inTarget, inTemporal} {
		fmt.Fprintf(out, "requests to %s per Release: %s\n", server, most(f.Requests[server], r.N))
	}
	fmt.Fprintf(out, "workflow events per Release: %s\n", most(f.History.Events, f.Sample))
	return nil
}

// number formats a figure.
func number(v float64, unit string) string {
	switch {
	case unit == "s" && v < 0.1:
		return fmt.Sprintf("%.1f ms", 1000*v)
	case unit == "s":
		return fmt.Sprintf("%.2f s", v)
	case unit == "MiB":
		return fmt.Sprintf("%.0f MiB", v)
	case v == float64(int64(v)):
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// most lists what was counted over n Releases, the most frequent first, without what hardly happens.
func most(all counts, n int) string {
	whats := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(all[b], all[a]), cmp.Compare(a, b))
	})
	var list []string
	rare := 0
	for _, what := range whats {
		each := float64(all[what]) / float64(n)
		if each < free {
			rare += all[what]
			continue
		}
		list = append(list, number(each, "")+" "+what)
	}
	if rare > 0 {
		list = append(list, fmt.Sprintf("and %d others in all", rare))
	}
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}
