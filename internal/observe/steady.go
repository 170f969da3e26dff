package observe

import "time"

// How long a verdict has to last before it is said, and how much longer the more often it turned lately.
const (
	settleFirst = 3 * time.Second
	settleMost  = time.Minute
	// lately is how long a turn is remembered.
	lately = 10 * time.Minute
)

// Steady keeps a verdict from flapping. The zero value has not turned yet.
type Steady struct {
	since time.Time
	turns []time.Time
}

// Turn gives the verdict that is to be said: the one that was said before, until the other has lasted. settles is how long that
// takes from now on, 0 when nothing is to be waited for.
func (s *Steady) Turn(before, is bool, now time.Time) (verdict bool, settles time.Duration) {
	if before == is {
		s.since = time.Time{}
		return is, 0
	}
	if s.since.IsZero() {
		s.since = now
	}
	for len(s.turns) > 0 && now.Sub(s.turns[0]) > lately {
		s.turns = s.turns[1:]
	}
	need := settleFirst
	for range s.turns {
		need = min(2*need, settleMost)
	}
	if left := need - now.Sub(s.since); left > 0 {
		return before, left
	}
	s.since, s.turns = time.Time{}, append(s.turns, now)
	return is, 0
}
