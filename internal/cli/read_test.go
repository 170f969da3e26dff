package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"kumodo.io/convoy/activities"
	"kumodo.io/convoy/api/v1alpha1"
)

// noon is when the goldens are printed.
var noon = time.Date(2026, 5, 1, 12, 10, 7, 0, time.UTC)

// printed compares text without its trailing blanks, which a reader of this file would not see.
func printed(t *testing.T, got, want string) {
	t.Helper()
	var lines []string
	for line := range strings.Lines(got) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	if diff := cmp.Diff(strings.TrimSpace(want), strings.Join(lines, "\n")); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
}

func sample() *v1alpha1.Release {
	r := newRelease("web")
	rolled(r)
	pending(r)
	r.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(-9 * time.Minute))
	r.Status.Mutations = []v1alpha1.MutationStatus{{Name: "region", Matched: 2}, {Name: "zone", Skipped: v1alpha1.SkippedByWhen}, {Name: "typo"}}
	r.Status.Inventory = &v1alpha1.InventoryStatus{State: v1alpha1.InventoryRecorded, Objects: 3}
	return r
}

func TestHistoryIsATableOfWhatWasAndWhatIsNext(t *testing.T) {
	r := sample()
	r.Spec.PinnedRender = digest("aa1")
	h := historyOf(r)
	var out strings.Builder
	if err := h.table(&out, noon); err != nil {
		t.Fatal(err)
	}
	printed(t, out.String(), `
ROLLOUT   PHASE              RENDER                KEPT     REVISION   TRIGGER       CLUSTER   OBJECTS   APPROVED-BY   AGE    TOOK   MESSAGE
next      AwaitingApproval   sha256:cc3000000000   yes      v3         -             -         -         -             9m7s   -      rollout 3 waits for an Approval
2         Succeeded          sha256:bb2000000000   yes      v2         NewRevision   east      3         jo            10m    0s     -
1         Succeeded          sha256:aa1000000000   pinned   v1         Created       east      2         -             10m    7s     -
`)
}

func TestHistoryShowsTheRolloutThatIsUnderWayFirst(t *testing.T) {
	w := newWorld(t)
	w.release(func(r *v1alpha1.Release) {
		rolled(r)
		r.Status.Rollout.Number, r.Status.Rollout.Phase = 3, v1alpha1.RolloutRunning
	})
	var asJSON, asYAML history
	for format, into := range map[string]*history{"json": &asJSON, "yaml": &asYAML} {
		out, errOut, code := w.run("history", "app", "-o", format)
		if code != 0 {
			t.Fatal(errOut)
		}
		decode := json.Unmarshal
		if format == "yaml" {
			decode = func(text []byte, into any) error { return yaml.UnmarshalStrict(text, into) }
		}
		w.check(decode([]byte(out), into))
	}
	for name, h := range map[string]history{"json": asJSON, "yaml": asYAML} {
		if len(h.Rollouts) != 3 || h.Rollouts[0].Number != 3 || h.Rollouts[0].EndTime != nil || h.Rollouts[1].EndTime == nil || !h.Rollouts[2].Kept {
			t.Errorf("%s: %+v", name, h)
		}
	}
	if out, _, _ := w.run("history", "app"); !strings.Contains(out, "3         Running") {
		t.Errorf("printed %s", out)
	}
	w.refused(`"text" is neither yaml nor json`, "history", "app", "-o", "text")
}

func TestDescribeIsOnePage(t *testing.T) {
	var out strings.Builder
	if err := describeRelease(sample(), &out, noon); err != nil {
		t.Fatal(err)
	}
	printed(t, out.String(), `
Release:           web/app
Cluster:           east
Target namespace:  web
Source:            ConfigMap app
Inventory:         Recorded, 3 objects
Workflow:          release/web/app

Rollout
Number:    2
Phase:     Succeeded
Render:    `+digest("bb2")+`
Revision:  v2
Started:   10m ago
Workflow:  rollout/x/app/2

Pending
Waits for:  AwaitingApproval: rollout 3 waits for an Approval
Render:     `+digest("cc3")+`
Revision:   v3
Since:      9m7s ago

Conditions
TYPE    STATUS    REASON             SINCE   MESSAGE
Ready   Unknown   AwaitingApproval   9m      rollout 3 waits for an Approval

Mutations
NAME     MATCHED   NOTE
region   2         -
zone     0         left out: its when is false
typo     0         its target selects no object

History
ROLLOUT   PHASE       RENDER                KEPT   REVISION   TRIGGER       CLUSTER   OBJECTS   APPROVED-BY   AGE   TOOK   MESSAGE
2         Succeeded   sha256:bb2000000000   yes    v2         NewRevision   east      3         jo            10m   0s     -
1         Succeeded   sha256:aa1000000000   yes    v1         Created       east      2         -             10m   7s     -
`)
}

func TestDescribeShowsHooksAndWhatIsLeftAndWarnedOf(t *testing.T) {
	r := newRelease("web")
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(-d)) }
	r.Status.Rollout = &v1alpha1.RolloutStatus{Number: 3, Phase: v1alpha1.RolloutRunning, Warnings: []string{"CronTab a: spec.old\nis deprecated"}}
	r.Status.Hooks = []v1alpha1.HookStatus{
		{
			Name: "migrate", Phase: v1alpha1.HookPreApply, Rollout: 3, State: v1alpha1.HookSucceeded, StartTime: ago(5 * time.Minute), EndTime: new(ago(time.Minute)),
			Object: &v1alpha1.HookObject{Group: "batch", Kind: "Job", Namespace: "web", Name: "migrate-1"},
		},
		{Name: "sign", Phase: v1alpha1.HookPostApply, Rollout: 3, State: v1alpha1.HookRunning, StartTime: ago(50 * time.Second), Message: "look at east"},
		{Name: "leave", Phase: v1alpha1.HookPreDelete, State: v1alpha1.HookSkipped, StartTime: ago(9 * time.Second), EndTime: new(ago(9 * time.Second)), Message: "when is false"},
	}
	r.Status.Leftovers = []v1alpha1.Leftover{{Cluster: "west", Objects: 4, Since: ago(3 * time.Hour)}}
	var out strings.Builder
	if err := describeRelease(r, &out, noon); err != nil {
		t.Fatal(err)
	}
	_, page, _ := strings.Cut(out.String(), "\nWarnings")
	page, _, _ = strings.Cut(page, "\nHistory")
	printed(t, "Warnings"+page, `
Warnings of the target in rollout 3
- CronTab a: spec.old is deprecated

Hooks
NAME      PHASE       ROLLOUT    STATE       AGE   TOOK   OBJECT                    MESSAGE
migrate   PreApply    3          Succeeded   5m    4m     Job.batch web/migrate-1   -
sign      PostApply   3          Running     50s   -      -                         look at east
leave     PreDelete   deletion   Skipped     9s    0s     -                         when is false

Left on former clusters
CLUSTER   OBJECTS   SINCE
west      4         3h
`)
}

func TestWhySaysWhichHookItWaitsFor(t *testing.T) {
	began := metav1.NewTime(noon.Add(-2 * time.Minute))
	approval := v1alpha1.Hook{Name: "sign", Phase: v1alpha1.HookPostApply, Timeout: metav1.Duration{Duration: 5 * time.Minute}, Approval: &v1alpha1.HookApproval{}}
	waits := func(r *v1alpha1.Release) {
		r.Status.Rollout = &v1alpha1.RolloutStatus{Number: 3, Phase: v1alpha1.RolloutRunning}
		r.Status.Hooks = []v1alpha1.HookStatus{
			{Name: "before", Phase: v1alpha1.HookPreApply, Rollout: 3, State: v1alpha1.HookSucceeded},
			{Name: "sign", Phase: v1alpha1.HookPostApply, Rollout: 3, State: v1alpha1.HookRunning, StartTime: began, Message: "look at east"},
			{Name: "old", Phase: v1alpha1.HookPostApply, Rollout: 2, State: v1alpha1.HookRunning, StartTime: began},
		}
		ready(r, metav1.ConditionUnknown, v1alpha1.ReasonProgressing, "rollout 3 waits for hook sign (PostApply)")
	}
	deleted := func(r *v1alpha1.Release, reason string) {
		r.DeletionTimestamp = &began
		r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionDeleting, Status: metav1.ConditionTrue, Reason: reason, Message: "of the deletion", LastTransitionTime: began}}
	}
	for name, c := range map[string]struct {
		change func(*v1alpha1.Release)
		want   []string
		not    string
	}{
		"an approval": {func(r *v1alpha1.Release) { waits(r); r.Spec.Hooks = []v1alpha1.Hook{approval} }, []string{
			"Way out:       do what the hook asks for, then convoy approve release app -n web --hook sign\n",
			"Hook:          sign (PostApply), running since 2m; its time is over in 3m, at 2026-05-01T12:13:07Z\n", "Hook message:  look at east\n",
		}, "old"},
		"one that sends": {func(r *v1alpha1.Release) {
			waits(r)
			r.Spec.Hooks = []v1alpha1.Hook{{Name: "sign", Phase: v1alpha1.HookPostApply, HTTP: &v1alpha1.HookHTTP{}}}
		}, []string{"Way out:       wait for the answer of its server, or mend that; or change the hook in spec.hooks, or remove it there\n"}, "approve"},
		"one of a deletion that cannot reach the target": {func(r *v1alpha1.Release) {
			waits(r)
			deleted(r, v1alpha1.ReasonRunningHooks)
			r.Status.Hooks[2].Rollout = 0
			r.Spec.Hooks = []v1alpha1.Hook{{Name: "old", Phase: v1alpha1.HookPostApply, Job: &v1alpha1.HookJob{}}}
		}, []string{
			"Way out:  mend the Cluster, or remove the hook from spec.hooks, or set spec.deletionPolicy.blockOnClusterUnreachable to false",
			"Hook:     old (PostApply), running since 2m\n",
		}, "its time is over"},
		"one that left the spec":     {waits, []string{"Hook:          sign (PostApply), running since 2m\n"}, "Way out"},
		"one that a suspension ends": {func(r *v1alpha1.Release) { waits(r); r.Spec.Suspend = true }, nil, "Hook:"},
		"one of a deletion": {func(r *v1alpha1.Release) {
			waits(r)
			deleted(r, v1alpha1.ReasonRunningHooks)
			r.Status.Hooks[2].Rollout = 0
			r.Status.Hooks[2].Object = &v1alpha1.HookObject{Kind: "Pod", Name: "x"}
		}, []string{"Verdict:      Deleting: of the deletion\n", "Since:        2m\n", "Hook:         old (PostApply), running since 2m\n", "Hook object:  Pod x\n"}, "sign"},
		"one that holds a deletion": {func(r *v1alpha1.Release) { waits(r); deleted(r, v1alpha1.ReasonHookFailed) }, []string{
			`mend what the hook needs, then kubectl annotate --overwrite release.core.convoy.kumodo.io -n web app convoy.kumodo.io/requestedAt="$(date)"; or change spec.hooks`,
		}, "Hook:"},
	} {
		r, a := newRelease("web"), answer{Kind: "Release", Namespace: "web", Name: "app"}
		c.change(r)
		a.ofRelease(r, nil)
		var out strings.Builder
		if err := a.write(&out, noon); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: it prints %s, without %q", name, out.String(), want)
			}
		}
		if c.not != "" && strings.Contains(out.String(), c.not) {
			t.Errorf("%s: it prints %s, with %q", name, out.String(), c.not)
		}
	}
}

func sampleCluster() *v1alpha1.Cluster {
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "east"}}
	c.Spec.ConnectionMode = v1alpha1.ConnectionModeAgentless
	c.Spec.Agentless = &v1alpha1.AgentlessConnection{Auth: v1alpha1.ClusterAuth{
		Type: v1alpha1.AuthTypeKubeconfig, Kubeconfig: &v1alpha1.KubeconfigAuth{SecretRef: v1alpha1.KubeconfigSecretRef{Name: "east"}},
	}}
	c.Status.Reachable, c.Status.KubernetesVersion = new(false), "v1.37.2"
	c.Status.LastProbeTime = &metav1.Time{Time: noon.Add(-3 * time.Second)}
	c.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonProbeFailed, Message: "connection refused",
		LastTransitionTime: metav1.NewTime(noon.Add(-2 * time.Minute)),
	}}
	return c
}

func TestDescribeOfAClusterSaysHowTheProbeWent(t *testing.T) {
	var out strings.Builder
	if err := describeCluster(sampleCluster(), &out, noon); err != nil {
		t.Fatal(err)
	}
	printed(t, out.String(), `
Cluster:     web/east
Connection:  agentless
Auth:        kubeconfig
Reachable:   false
Version:     v1.37.2
Last probe:  3s ago
Workflow:    cluster/web/east

Conditions
TYPE    STATUS   REASON        SINCE   MESSAGE
Ready   False    ProbeFailed   2m      connection refused
`)
}

func TestGetListsBothKinds(t *testing.T) {
	w := newWorld(t)
	w.refused("there is no Release NS/app", "get", "release/app")
	w.release(rolled)
	c := sampleCluster()
	c.Namespace = w.namespace
	status := c.Status
	w.check(w.Create(w.ctx, c))
	c.Status = status
	w.check(w.Status().Update(w.ctx, c))
	out, errOut, code := w.run("get")
	for _, row := range []string{"app    east      True    Delivered   2         v2", "east   False   false       v1.37.2"} {
		if code != 0 || !strings.Contains(out, row) {
			t.Errorf("code %d, printed %s%s, want %q", code, out, errOut, row)
		}
	}
	if out, _, _ := w.run("get", "clusters", "-A"); !strings.Contains(strings.Join(strings.Fields(out), " "), " "+w.namespace+" east False false ") || strings.Contains(out, "Delivered") {
		t.Errorf("printed %s", out)
	}
	var list v1alpha1.ReleaseList
	out, _, _ = w.run("get", "releases", "app", "-o", "yaml")
	w.check(yaml.UnmarshalStrict([]byte(out), &list))
	if len(list.Items) != 1 || list.Items[0].Kind != "Release" || list.Items[0].Name != "app" || list.Items[0].ManagedFields != nil {
		t.Errorf("printed %s", out)
	}
}

func TestWhySaysWhatDriftedAndWhenItIsCorrectedAgain(t *testing.T) {
	r := sample()
	r.Status.Pending = nil
	ready(r, metav1.ConditionTrue, v1alpha1.ReasonDelivered, "rollout 3 applied 4 objects")
	fought := v1alpha1.DriftedObject{Kind: "ConfigMap", Namespace: "shop", Name: "settings"}
	r.Status.Drift = &v1alpha1.DriftStatus{Count: 1, Objects: []v1alpha1.DriftedObject{fought}, Corrected: []v1alpha1.CorrectedObject{
		{Kind: "ConfigMap", Namespace: "shop", Name: "calm", Times: 1, NotBefore: metav1.NewTime(noon)},
		{Kind: "ConfigMap", Namespace: "shop", Name: "settings", Times: 4, NotBefore: metav1.NewTime(noon.Add(40 * time.Second))},
	}}
	meta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionDrifted, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonDrifted, Message: "ConfigMap shop/settings (data.color, now of rival)",
	})
	var a answer
	a.ofRelease(r, sampleCluster())
	var out strings.Builder
	if err := a.write(&out, noon); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Drift:       ConfigMap shop/settings (data.color, now of rival)\n",
		"Correction:  ConfigMap shop/settings: tried 4 times in a row, and the next time at 2026-05-01T12:10:47Z at the earliest\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it says\n%s\nand not %s", out.String(), want)
		}
	}
	if strings.Contains(out.String(), "calm") {
		t.Errorf("it says\n%s", out.String())
	}
	out.Reset()
	if err := describeRelease(r, &out, noon); err != nil || !strings.Contains(out.String(), "\nCorrections\n- ConfigMap shop/settings: tried 4 times in a row") {
		t.Errorf("described, %v, it is\n%s", err, out.String())
	}
	r.Spec.SyncPolicy.Drift = v1alpha1.DriftReport
	a = answer{}
	if a.ofRelease(r, sampleCluster()); len(a.Corrections) != 1 || !strings.HasPrefix(a.Corrections[0], "none, as syncPolicy.drift: Report asks") {
		t.Errorf("where drift is only reported it says %q", a.Corrections)
	}
}

func TestWhyIsOneAnswer(t *testing.T) {
	a := answer{Kind: "Release", Namespace: "web", Name: "app"}
	r := sample()
	r.Status.Pending = nil
	ready(r, metav1.ConditionFalse, v1alpha1.ReasonClusterNotReady, `Cluster "east" is not reachable`)
	r.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(-2 * time.Minute))
	a.ofRelease(r, sampleCluster())
	beat, err := converter.GetDefaultDataConverter().ToPayloads(activities.Progress{Step: "workloads", Done: 3, Of: 9})
	if err != nil {
		t.Fatal(err)
	}
	a.Executions = []execution{{Workflow: "release/web/app", Run: "r1", Status: "Running", Steps: []step{
		stepOf(&workflowpb.PendingActivityInfo{
			ActivityType: &commonpb.ActivityType{Name: "CheckCluster"}, State: enumspb.PENDING_ACTIVITY_STATE_SCHEDULED, Attempt: 4,
			NextAttemptScheduleTime: timestamppb.New(noon.Add(34 * time.Second)), LastWorkerIdentity: "4711@worker-1@",
			LastFailure: &failurepb.Failure{Message: "not reachable", FailureInfo: &failurepb.Failure_ApplicationFailureInfo{
				ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{Type: "ClusterNotReady"},
			}},
		}),
		stepOf(&workflowpb.PendingActivityInfo{
			ActivityType: &commonpb.ActivityType{Name: "ApplyObjects"}, State: enumspb.PENDING_ACTIVITY_STATE_STARTED, Attempt: 1, HeartbeatDetails: beat,
		}),
	}}}
	var out strings.Builder
	if err := a.write(&out, noon); err != nil {
		t.Fatal(err)
	}
	printed(t, out.String(), `
Release web/app is not ready
Verdict:       ClusterNotReady: Cluster "east" is not reachable
Since:         2m
Gate:          closed: Cluster "east" is not reachable: connection refused
Way out:       it is retried; mend the Cluster, and see convoy why for it
Workflow:      release/web/app, running, run r1
Step:          CheckCluster, waiting for its next attempt
Attempt:       4
Next attempt:  in 34s, at 2026-05-01T12:10:41Z
Last failure:  ClusterNotReady: not reachable
Worker:        4711@worker-1@
Step:          ApplyObjects, running
Attempt:       1
Progress:      workloads, 3 of 9
`)
}

func TestWhyAnswersWithoutTemporal(t *testing.T) {
	w := newWorld(t)
	w.release(func(r *v1alpha1.Release) { rolled(r); pending(r) })
	out, errOut, code := w.run("why", "release", "app")
	for _, part := range []string{
		"Release " + w.namespace + "/app is not ready\n", "AwaitingApproval: rollout 3 waits for an Approval\n", "closed: Cluster \"east\" does not exist in this namespace\n",
		"look at convoy diff, then convoy approve\n", "not known: Temporal at 127.0.0.1:1: ",
	} {
		if code != 0 || !strings.Contains(out, part) {
			t.Errorf("code %d, printed %s%s, want %q", code, out, errOut, part)
		}
	}
	w.refused("there is no Cluster NS/east", "why", "cluster", "east")
	w.refused("there is no Cluster NS/east", "reprobe", "cluster", "east")
}

func TestArgumentsNameObjectsAsInKubectl(t *testing.T) {
	for _, c := range []struct {
		args    string
		kinds   []kind
		want    string
		problem string
	}{
		{"release app", []kind{releaseKind}, "release app", ""},
		{"cvr/app", []kind{releaseKind}, "release app", ""},
		{"Releases.core.convoy.kumodo.io/app", []kind{releaseKind}, "release app", ""},
		{"app", []kind{releaseKind}, "release app", ""},
		{"cluster app", []kind{releaseKind, clusterKind}, "cluster app", ""},
		{"app", []kind{releaseKind, clusterKind}, "", "which app? give release app or cluster app"},
		{"release", []kind{releaseKind}, "", "which release? give its name, as in release/NAME"},
		{"release/", []kind{releaseKind}, "", "which release?"},
		{"release a/b", []kind{releaseKind}, "", "which release?"},
		{"cluster/app", []kind{releaseKind}, "", `"cluster/app" names nothing that this command works on; give release NAME`},
		{"pod app", []kind{releaseKind}, "", `"pod app" names nothing`},
	} {
		k, name, err := object(strings.Fields(c.args), c.kinds...)
		got := k.singular + " " + name
		if c.problem == "" && (err != nil || got != c.want) || c.problem != "" && (err == nil || !strings.Contains(err.Error(), c.problem)) {
			t.Errorf("%s: %s, %v", c.args, got, err)
		}
	}
}

func TestVerdictsOfAProbe(t *testing.T) {
	for want, v := range map[string]activities.ProbeResult{
		"reachable, Kubernetes v1.37.2":                                    {Life: activities.Alive, Reachable: true, KubernetesVersion: "v1.37.2"},
		"not reachable: ProbeFailed: connection refused; next probe in 5s": {Life: activities.Alive, Reason: "ProbeFailed", Message: "connection refused", RetryAfter: metav1.Duration{Duration: 5 * time.Second}},
		"not reachable: Unsupported: auth type x":                          {Life: activities.Alive, Reason: "Unsupported", Message: "auth type x"},
		"it is being deleted, or was made anew: ask again":                 {Life: activities.Gone},
	} {
		if got := verdictOf(v); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestTextOfOthersStaysOnItsLine(t *testing.T) {
	if got := oneLine("a\x1b[2Jb\nc\td\u009be"); got != "a [2Jb c d e" {
		t.Errorf("%q", got)
	}
}
