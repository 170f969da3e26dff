package delivery_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

func window(schedule, zone string, d time.Duration) v1alpha1.SyncWindow {
	return v1alpha1.SyncWindow{Schedule: schedule, TimeZone: zone, Duration: metav1.Duration{Duration: d}}
}

func TestARolloutBeginsOnlyInsideAWindow(t *testing.T) {
	nights := window("0 22 * * 1-5", "Europe/Berlin", 4*time.Hour)
	spring := window("30 2 * * *", "Europe/Berlin", time.Hour) // does not exist on the day that the clocks go forward
	cases := map[string]struct {
		windows []v1alpha1.SyncWindow
		now     string
		open    bool
		opens   string
	}{
		"no window is no bound":                {nil, "2026-03-02T12:00:00Z", true, ""},
		"before it opens":                      {[]v1alpha1.SyncWindow{nights}, "2026-03-02T20:59:59Z", false, "2026-03-02T21:00:00Z"},
		"when it opens":                        {[]v1alpha1.SyncWindow{nights}, "2026-03-02T21:00:00Z", true, "2026-03-03T21:00:00Z"},
		"in it, past midnight":                 {[]v1alpha1.SyncWindow{nights}, "2026-03-03T00:59:59Z", true, "2026-03-03T21:00:00Z"},
		"when it closes":                       {[]v1alpha1.SyncWindow{nights}, "2026-03-03T01:00:00Z", false, "2026-03-03T21:00:00Z"},
		"over the weekend":                     {[]v1alpha1.SyncWindow{nights}, "2026-03-07T12:00:00Z", false, "2026-03-09T21:00:00Z"},
		"by the clock of the place, in summer": {[]v1alpha1.SyncWindow{nights}, "2026-07-01T20:30:00Z", true, "2026-07-02T20:00:00Z"},
		"one of several":                       {[]v1alpha1.SyncWindow{nights, window("0 12 * * *", "UTC", time.Hour)}, "2026-03-02T12:30:00Z", true, "2026-03-02T21:00:00Z"},
		"the first of several to open":         {[]v1alpha1.SyncWindow{nights, window("0 12 * * *", "", time.Hour)}, "2026-03-02T11:30:00Z", false, "2026-03-02T12:00:00Z"},
		"a time that the clocks leave out":     {[]v1alpha1.SyncWindow{spring}, "2026-03-29T00:45:00Z", false, "2026-03-30T00:30:00Z"},
		"never":                                {[]v1alpha1.SyncWindow{window("0 0 30 2 *", "UTC", time.Hour)}, "2026-03-02T12:00:00Z", false, ""},
		"longer than until it opens again":     {[]v1alpha1.SyncWindow{window("0 * * * *", "UTC", 2*time.Hour)}, "2026-03-02T12:59:00Z", true, "2026-03-02T13:00:00Z"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			now, err := time.Parse(time.RFC3339, tc.now)
			if err != nil {
				t.Fatal(err)
			}
			open, opens, err := delivery.Windows(tc.windows, now)
			if err != nil {
				t.Fatal(err)
			}
			told := ""
			if !opens.IsZero() {
				told = opens.UTC().Format(time.RFC3339)
			}
			if open != tc.open || told != tc.opens {
				t.Errorf("open %v, opens %s; want %v, %s", open, told, tc.open, tc.opens)
			}
		})
	}
}

func TestAWindowThatCannotBeReadIsNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		window v1alpha1.SyncWindow
		want   string
	}{
		"too few fields":        {window("0 22 * *", "UTC", time.Hour), `windows[1]: schedule "0 22 * *"`},
		"seconds":               {window("0 0 22 * * *", "UTC", time.Hour), `schedule "0 0 22 * * *"`},
		"a descriptor":          {window("@daily", "UTC", time.Hour), `schedule "@daily"`},
		"no hour":               {window("0 25 * * *", "UTC", time.Hour), `schedule "0 25 * * *"`},
		"a zone in it":          {window("CRON_TZ=Asia/Tokyo 0 1 * * *", "UTC", time.Hour), "belongs into timeZone"},
		"a zone and no more":    {window("TZ=0", "UTC", time.Hour), "belongs into timeZone"},
		"a place that is none":  {window("0 1 * * *", "Europe/Atlantis", time.Hour), `timeZone "Europe/Atlantis"`},
		"the machine's own":     {window("0 1 * * *", "Local", time.Hour), `timeZone "Local"`},
		"a way out of the tree": {window("0 1 * * *", "../../etc/passwd", time.Hour), `timeZone "../../etc/passwd"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := delivery.Windows([]v1alpha1.SyncWindow{window("0 1 * * *", "UTC", time.Hour), tc.window}, time.Now())
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("the error is %v, want %q in it", err, tc.want)
			}
		})
	}
}

func FuzzASchedulePanicsNowhere(f *testing.F) {
	f.Add("0 22 * * 1-5", "UTC")
	f.Add("TZ=", "")
	f.Fuzz(func(t *testing.T, schedule, zone string) {
		_, _, err := delivery.Windows([]v1alpha1.SyncWindow{window(schedule, zone, time.Hour)}, time.Unix(1_800_000_000, 0))
		if err != nil && !strings.HasPrefix(err.Error(), "syncPolicy.windows[0]: ") {
			t.Error(err)
		}
	})
}
