package main

import (
	"math"
	"slices"
	"time"
)

// latencies are how long the same thing took, each time.
type latencies []time.Duration

// quantile is the smallest of the latencies that q of them do not exceed, in seconds; 0 of none.
func (l latencies) quantile(q float64) float64 {
	if len(l) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(l))
	at := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(at, 0), len(sorted)-1)].Seconds()
}

func (l latencies) p50() float64 { return l.quantile(0.5) }

func (l latencies) p99() float64 { return l.quantile(0.99) }

func (l latencies) max() float64 { return l.quantile(1) }

// pooled are the latencies of several rounds.
func pooled(rounds []latencies) latencies { return slices.Concat(rounds...) }

// wobble is by how much the p99 of equal rounds differ: the highest by the lowest. It says what a ratio means.
func wobble(rounds []latencies) float64 {
	low, high := math.Inf(1), 0.0
	for _, r := range rounds {
		low, high = min(low, r.p99()), max(high, r.p99())
	}
	return ratio(high, low)
}

// ofPairs is the median, over pairs of rounds, of the p99 with trouble by that without. What else the machine had to do
// at one time moves it less than the ratio of all rounds together.
func ofPairs(calm, trouble []latencies) float64 {
	var ratios []float64
	for i := range min(len(calm), len(trouble)) {
		ratios = append(ratios, ratio(trouble[i].p99(), calm[i].p99()))
	}
	slices.Sort(ratios)
	if len(ratios) == 0 {
		return 0
	}
	return ratios[len(ratios)/2]
}

// ratio is a by b, and 0 when there is no b.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
