package delivery

import (
	"hash/fnv"
	"strconv"
	"time"
)

// Backoff is a delay that doubles with each failure, up to a cap.
type Backoff struct {
	Base time.Duration
	Cap  time.Duration
}

// The backoffs of the two things that are retried for ever.
var (
	// ProbeBackoff is between failed probes of one Cluster.
	ProbeBackoff = Backoff{Base: 5 * time.Second, Cap: 5 * time.Minute}
	// ReleaseBackoff is between transient failures of one Release: source, gate, apply.
	ReleaseBackoff = Backoff{Base: 5 * time.Second, Cap: 2 * time.Minute}
	// busyBackoff is before a step that found no place on a target that answers: places come free all the time.
	busyBackoff = Backoff{Base: time.Second, Cap: 15 * time.Second}
)

// Aside is how long a step steps aside that found no place among those that work on its target.
func Aside(noAnswer bool, attempt int) time.Duration {
	if noAnswer {
		return ReleaseBackoff.Delay(attempt)
	}
	return busyBackoff.Delay(attempt)
}

// Delay after the given number of failures in a row, without jitter; 0 after none.
func (b Backoff) Delay(failures int) time.Duration {
	if failures <= 0 {
		return 0
	}
	d := b.Base
	for range failures - 1 {
		if d >= b.Cap/2 {
			return b.Cap
		}
		d *= 2
	}
	return min(d, b.Cap)
}

// FailuresAfter estimates how many failures in a row there are when the first of them followed `before`
// others and `elapsed` has passed since. A workflow cannot see the attempts of a retrying activity; this is
// what keeps a cancelled one's backoff from starting over.
func (b Backoff) FailuresAfter(before int, elapsed time.Duration) int {
	failures := before
	for elapsed >= 0 && failures < 64 {
		failures++
		elapsed -= b.Delay(failures)
	}
	return failures
}

// Jitter spreads d by up to a tenth either way. The same seed and turn give the same result, so workflows may
// use it.
func Jitter(d time.Duration, seed string, turn int64) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(seed + "/" + strconv.FormatInt(turn, 10)))
	share := float64(h.Sum32())/float64(1<<32)*0.2 - 0.1
	return d + time.Duration(share*float64(d))
}
