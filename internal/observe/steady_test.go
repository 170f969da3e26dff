package observe

import (
	"testing"
	"time"
)

func TestAVerdictTurnsWhenItLastsAndLaterTheMoreOftenItTurned(t *testing.T) {
	var s Steady
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	said := false
	// look says what is seen for a while, second by second, and gives after how many seconds the verdict turned; -1 when it did not.
	look := func(is bool, seconds int) int {
		for i := range seconds {
			before := said
			said, _ = s.Turn(said, is, now)
			now = now.Add(time.Second)
			if said != before {
				return i
			}
		}
		return -1
	}
	for i, want := range []int{3, 6, 12, 24, 48, 60, 60} {
		if got := look(i%2 == 0, 120); got != want {
			t.Errorf("turn %d took %d s, want %d", i, got, want)
		}
	}
	if got := look(!said, 30); got != -1 {
		t.Errorf("what lasts 30 s turned after %d", got)
	}
	look(said, 1)
	if got := look(!said, 59); got != -1 {
		t.Errorf("time is counted from before it was otherwise: %d", got)
	}
	now = now.Add(time.Hour)
	look(said, 1)
	if got := look(!said, 10); got != 3 {
		t.Errorf("after an hour of peace it took %d s", got)
	}
}
