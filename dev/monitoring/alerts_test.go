package monitoring

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
)

// An hour and more of samples: three pods tell of nothing wrong.
const calm = `
convoy_watcher_leading{pod="a"} 1x120
convoy_watcher_leading{pod="b"} 0x120
convoy_watcher_handovers_waiting{pod="a",controller="release"} 0x120
convoy_cluster_condition{pod="a",namespace="team",cluster="east",condition="Ready",status="True",reason="Reachable"} 1x120
convoy_release_info{pod="a",namespace="team",release="web",cluster="east",mode="Automatic",drift="Correct",suspended="false"} 1x120
convoy_release_condition{pod="a",namespace="team",release="web",cluster="east",condition="Drifted",status="False",reason="InSync"} 1x120
`

// with is the calm, with some of its lines replaced.
func with(changes ...string) string {
	text := calm
	for i := 0; i+1 < len(changes); i += 2 {
		text = strings.ReplaceAll(text, changes[i], changes[i+1])
	}
	if len(changes)%2 == 1 {
		text += changes[len(changes)-1]
	}
	return text
}

const (
	ready    = `status="True",reason="Reachable"} 1x120`
	inSync   = `status="False",reason="InSync"} 1x120`
	leads    = `convoy_watcher_leading{pod="a"} 1x120`
	handedIn = `controller="release"} 0x120`
	rollout  = `convoy_release_rollout_start_timestamp_seconds{pod="a",namespace="team",release="web",cluster="east"} `
	deletion = `convoy_deletion_timestamp_seconds{pod="a",kind="Cluster",namespace="team",name="east"} `
	behind   = `convoy_object_unanswered{pod="a",kind="Release",namespace="team",name="web"} `
)

func TestAlertsFireWhenTheyShouldAndOnlyThen(t *testing.T) {
	cluster := map[string]string{"namespace": "team", "cluster": "east", "severity": "warning"}
	release := map[string]string{"namespace": "team", "release": "web", "cluster": "east", "severity": "warning"}
	engine := func(cause string, more ...string) map[string]string {
		all := map[string]string{"severity": "critical", "cause": cause}
		for i := 0; i < len(more); i += 2 {
			all[more[i]] = more[i+1]
		}
		return all
	}
	for name, tc := range map[string]struct {
		alert  string // none when empty
		series string
		at     time.Duration
		labels map[string]string
		says   string
	}{
		"all is well": {series: calm, at: 2 * time.Hour},
		"a Cluster fails for long, by whatever reason": {
			"ConvoyProbeFailing", with(ready, `status="False",reason="ProbeFailed"} 1x8 stale
convoy_cluster_condition{pod="a",namespace="team",cluster="east",condition="Ready",status="False",reason="Unsupported"} _x9 1x60`),
			15 * time.Minute, cluster, "Cluster team/east is not reachable",
		},
		"a Cluster fails for a moment": {series: with(ready, `status="False",reason="ProbeFailed"} 1x60`), at: 9 * time.Minute},
		"another watcher leads and goes on telling": {
			"ConvoyProbeFailing", with(ready, `status="False",reason="ProbeFailed"} 1x8 stale
convoy_cluster_condition{pod="b",namespace="team",cluster="east",condition="Ready",status="False",reason="ProbeFailed"} _x8 1x60`),
			12 * time.Minute, cluster, "",
		},
		"a rollout takes more than an hour": {"ConvoyRolloutStuck", with(rollout + "0x120"), 70 * time.Minute, release, "began 1h 10m 0s ago on Cluster east"},
		"a rollout takes an hour":           {series: with(rollout + "0x120"), at: time.Hour},
		"one rollout after another":         {series: with(rollout + "0x40 2400x40 4800x40"), at: 2 * time.Hour},
		"a rollout waits for its Cluster": {
			"ConvoyProbeFailing", with(ready, `status="False",reason="ProbeFailed"} 1x120`, rollout+"0x120"), 70 * time.Minute, cluster, "",
		},
		"Temporal takes nothing": {
			"ConvoyEngineStuck", with(handedIn, `controller="release"} 0x10 7x60`), 16 * time.Minute,
			engine("handover", "controller", "release"), "7 changes (release) could not be handed over",
		},
		"Temporal is restarted": {series: with(handedIn, `controller="release"} 0x10 7x3 0x60`), at: 20 * time.Minute},
		"no worker works": {
			"ConvoyEngineStuck", with(behind + "1x60"), 15 * time.Minute,
			engine("unanswered", "kind", "Release", "namespace", "team", "name", "web"), "the last change of Release team/web",
		},
		"a worker takes its time":         {series: with(behind + "1x14 stale"), at: 20 * time.Minute},
		"there is no watcher":             {"ConvoyEngineStuck", "up 0x60", 5 * time.Minute, engine("watcher"), "No watcher of convoy leads."},
		"all watchers stand by":           {"ConvoyEngineStuck", with(leads, `convoy_watcher_leading{pod="a"} 0x60`), 6 * time.Minute, engine("watcher"), ""},
		"the lead passes from a to b":     {series: with(leads, "convoy_watcher_leading{pod=\"a\"} 1x10 0x60\nconvoy_watcher_leading{pod=\"c\"} 0x12 1x60"), at: 30 * time.Minute},
		"drift stays":                     {"ConvoyDriftUncorrected", with(inSync, `status="True",reason="Drifted"} 1x60`), 16 * time.Minute, release, "Release team/web have drifted"},
		"drift is corrected":              {series: with(inSync, `status="True",reason="Drifted"} 1x14 stale`), at: 20 * time.Minute},
		"drift is only to be reported":    {series: with(inSync, `status="True",reason="Drifted"} 1x60`, `drift="Correct"`, `drift="Report"`), at: time.Hour},
		"drift of a Release on hold":      {series: with(inSync, `status="True",reason="Drifted"} 1x60`, `suspended="false"`, `suspended="true"`), at: time.Hour},
		"a deletion takes more than half": {"ConvoyDeletionBlocked", with(deletion + "0x60"), 36 * time.Minute, map[string]string{"kind": "Cluster", "namespace": "team", "name": "east", "severity": "warning"}, "Cluster team/east does not end"},
		"a deletion takes half an hour":   {series: with(deletion + "0x60"), at: 30 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			over := read(t, tc.series)
			var fired []string
			for _, r := range rules(t) {
				for _, f := range r.fired(t, over, tc.at) {
					fired = append(fired, r.Alert)
					if r.Alert != tc.alert {
						t.Errorf("%s fires: %s", r.Alert, f.summary)
						continue
					}
					if diff := cmp.Diff(tc.labels, f.labels); diff != "" {
						t.Errorf("labels (-want +got):\n%s", diff)
					}
					if text := f.summary + " " + f.description; !strings.Contains(text, tc.says) || strings.Contains(text, "<no value>") {
						t.Errorf("it says %q, want %q", text, tc.says)
					}
				}
			}
			if tc.alert != "" && len(fired) != 1 {
				t.Errorf("%d alerts fire: %v, want one", len(fired), fired)
			}
		})
	}
}

func TestEachAlertSaysWhatToDo(t *testing.T) {
	text, err := os.ReadFile("../../docs/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, r := range rules(t) {
		all[r.Alert] = true
		if _, err := model.ParseDuration(r.For); err != nil {
			t.Errorf("%s: for: %v", r.Alert, err)
		}
		if s := r.Labels["severity"]; s != "warning" && s != "critical" {
			t.Errorf("%s: severity %q", r.Alert, s)
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s has no summary or no description", r.Alert)
		}
		if anchor := "docs/alerts.md#" + strings.ToLower(r.Alert); !strings.HasSuffix(r.Annotations["runbook_url"], anchor) {
			t.Errorf("%s: the runbook is %s, want %s", r.Alert, r.Annotations["runbook_url"], anchor)
		}
		if !strings.Contains(string(text), "\n## "+r.Alert+"\n") {
			t.Errorf("docs/alerts.md has no section %s", r.Alert)
		}
	}
	for line := range strings.Lines(string(text)) {
		if name, is := strings.CutPrefix(strings.TrimSpace(line), "## "); is && !all[name] {
			t.Errorf("docs/alerts.md tells of %s, and there is no such alert", name)
		}
	}
}
