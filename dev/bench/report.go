package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"runtime"
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
	rowAttempts     = "attempts of activities"
	rowActivities   = "activities *"
	rowChildren     = "child workflows *"
	rowEvents       = "workflow events *"
)

// row is one line of a table.
type row struct {
	what   string
	unit   string
	total  float64
	each   float64 // per unit of the suite
	single bool    // not to be shared out
	budget string
	over   bool
}

// free is how much above its budget a figure per unit may be: requests that belong to no unit, such as discovery.
const free = 0.05

// rows are the table of a phase.
func (r *result) rows(p phase, f figures) []row {
	var rows []row
	if !p.alone {
		rows = r.shared(p.budgets, f)
	}
	for _, fact := range f.Facts {
		one := row{what: fact.Name, unit: fact.Unit, total: fact.Value, single: true}
		if fact.Limit != nil {
			one.budget = "<= " + number(*fact.Limit, fact.Unit)
			one.over = fact.Value > *fact.Limit
		}
		rows = append(rows, one)
	}
	return rows
}

// shared are the rows that every phase has: what it took of each program.
func (r *result) shared(limits map[string]float64, f figures) []row {
	var rows []row
	n := float64(r.N)
	add := func(what, unit string, total float64) {
		one := row{what: what, unit: unit, total: total, each: total / n, single: unit == "MiB"}
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
	for _, program := range []string{inConvoy, inTemporal, inHub, inTarget, inBench} {
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
	add(rowAttempts, "", f.Requests[inTemporal].sum(isAttempt))
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
	fmt.Fprintf(out, "\n%s: %s: %s\n", f.Name, r.About, p.title)
	rows := r.rows(p, f)
	width := 24
	for _, row := range rows {
		width = max(width, len(row.what))
	}
	fmt.Fprintf(t, "%*s\ttotal\tper %s\tbudget\t\t\n", width, "", r.Unit)
	for _, row := range rows {
		each := number(row.each, row.unit)
		if row.single {
			each = ""
		}
		fmt.Fprintf(t, "%-*s\t%s\t%s\t%s\t%s\t\n", width, row.what, number(row.total, row.unit), each, row.budget, row.verdict())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "meanwhile %.1f of %d CPUs were busy with other programs%s\n", f.OtherCPUs, runtime.NumCPU(), caveat(f.OtherCPUs))
	if p.alone {
		return nil
	}
	fmt.Fprintf(out, "* mean of the histories of %d %ss and their children\n", f.Sample, r.Unit)
	for _, server := range []string{inHub, inTarget, inTemporal} {
		fmt.Fprintf(out, "requests to %s per %s: %s\n", server, r.Unit, most(f.Requests[server], r.N))
	}
	fmt.Fprintf(out, "workflow events per %s: %s\n", r.Unit, most(f.History.Events, f.Sample))
	return nil
}

// caveat says what figures of time are worth while other programs keep CPUs busy.
func caveat(otherCPUs float64) string {
	if otherCPUs < 0.25 {
		return ""
	}
	return ": times mean little"
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
