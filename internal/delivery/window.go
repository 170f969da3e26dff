package delivery

import (
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"kumodo.io/convoy/api/v1alpha1"
)

var fiveFields = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// Windows decides whether a rollout may begin at a time: always without windows, else while one is open. When it may not,
// opens is when the next one does; it is zero when none does within five years. An error names the window that cannot be read.
func Windows(windows []v1alpha1.SyncWindow, now time.Time) (open bool, opens time.Time, err error) {
	open = len(windows) == 0
	for i, w := range windows {
		schedule, err := scheduleOf(w)
		if err != nil {
			return false, time.Time{}, fmt.Errorf("syncPolicy.windows[%d]: %w", i, err)
		}
		opened := schedule.Next(now.Add(-w.Duration.Duration))
		open = open || !opened.IsZero() && !opened.After(now)
		if next := schedule.Next(now); !next.IsZero() && (opens.IsZero() || next.Before(opens)) {
			opens = next
		}
	}
	return open, opens, nil
}

// zoned is a schedule in the time of a place.
type zoned struct {
	cron.Schedule
	place *time.Location
}

// Next is the first time after t.
func (z zoned) Next(t time.Time) time.Time { return z.Schedule.Next(t.In(z.place)) }

func scheduleOf(w v1alpha1.SyncWindow) (cron.Schedule, error) {
	if strings.Contains(w.Schedule, "TZ=") {
		return nil, fmt.Errorf("schedule %q: the time zone belongs into timeZone", w.Schedule)
	}
	schedule, err := fiveFields.Parse(w.Schedule)
	if err != nil {
		return nil, fmt.Errorf("schedule %q is not minute, hour, day of month, month and day of week (0 is Sunday) of cron: %w", w.Schedule, err)
	}
	if w.TimeZone == "Local" { // that of the machine that convoy happens to run on
		return nil, fmt.Errorf("timeZone %q is not in the IANA database", w.TimeZone)
	}
	place, err := time.LoadLocation(w.TimeZone)
	if err != nil {
		return nil, fmt.Errorf("timeZone %q is not in the IANA database", w.TimeZone)
	}
	return zoned{schedule, place}, nil
}
