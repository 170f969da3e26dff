package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authnv1 "k8s.io/api/authentication/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"kumodo.io/convoy/internal/render"
)

func TestCPUTimeIsReadAlsoWhenTheNameOfTheProgramIsOdd(t *testing.T) {
	for name, tc := range map[string]struct {
		stat string
		want float64
		ok   bool
	}{
		"a plain name":              {"12 (convoy) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20", 2, true},
		"a name with ) and a blank": {"12 (a) b) S 1 2 3 4 5 6 7 8 9 10 150 25 0 0 20", 1.75, true},
		"too few fields":            {"12 (convoy) S 1 2", 0, false},
		"no number":                 {"12 (convoy) S 1 2 3 4 5 6 7 8 9 10 x 25 0 0 20", 0, false},
		"nothing":                   {"", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseStat([]byte(tc.stat))
			if got != tc.want && err == nil || (err == nil) != tc.ok {
				t.Errorf("parseStat = %v, %v; want %v, ok %v", got, err, tc.want, tc.ok)
			}
		})
	}
}

func TestTheMachineIsBusyWithWhatIsNeitherIdleNorCountedTwice(t *testing.T) {
	for name, tc := range map[string]struct {
		stat string
		want float64
		ok   bool
	}{
		"user, nice, system, interrupts and stolen time": {"cpu  100 20 300 9999 8888 1 2 77 55 44\ncpu0 1 1 1 1 1 1 1 1 1 1\n", 5, true},
		"too few fields": {"cpu 1 2 3\n", 0, false},
		"another line":   {"intr 1 2 3 4 5 6 7 8 9 10\n", 0, false},
		"no number":      {"cpu  x 20 300 9999 8888 1 2 77 55 44\n", 0, false},
		"nothing":        {"", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseBusy([]byte(tc.stat))
			if got != tc.want && err == nil || (err == nil) != tc.ok {
				t.Errorf("parseBusy = %v, %v; want %v, ok %v", got, err, tc.want, tc.ok)
			}
		})
	}
}

func TestWhatIsNotMeasuredIsTheRestOfTheBusyTime(t *testing.T) {
	before := state{at: time.Unix(100, 0), busy: 50, cpu: map[string]float64{inConvoy: 10, inHub: 20}}
	after := state{at: time.Unix(110, 0), busy: 68, cpu: map[string]float64{inConvoy: 11, inHub: 22}}
	if f := after.since(before, phaseCold, time.Second); f.OtherCPUs != 1.5 {
		t.Errorf("other programs kept %v CPUs busy, want 1.5", f.OtherCPUs)
	}
}

func TestMemoryIsReadInMiB(t *testing.T) {
	const status = "Name:\tconvoy\nVmPeak:\t 9999 kB\nVmHWM:\t  2048 kB\nVmRSS:\t  1024 kB\n"
	for field, want := range map[string]float64{"VmHWM": 2, "VmRSS": 1} {
		if got, err := parseMemory(status, field); err != nil || got != want {
			t.Errorf("parseMemory of %s = %v, %v; want %v", field, got, err, want)
		}
	}
	if _, err := parseMemory("Name:\tconvoy\nState:\tZ (zombie)\n", "VmHWM"); err == nil {
		t.Error("a process that has ended has a peak")
	}
}

func TestSocketsThatAreOpenAreCounted(t *testing.T) {
	before, err := sockets(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if after, err := sockets(os.Getpid()); err != nil || after != before+1 {
		t.Errorf("sockets = %d, %v; want %d", after, err, before+1)
	}
}

func TestARequestIsCountedOnceAndOnlyWhenItIsOfConvoy(t *testing.T) {
	event := func(by, verb string, stage auditv1.Stage, ref *auditv1.ObjectReference) *auditv1.Event {
		return &auditv1.Event{User: authnv1.UserInfo{Username: by}, Verb: verb, Stage: stage, ObjectRef: ref, RequestURI: "/version?timeout=1s"}
	}
	releases := &auditv1.ObjectReference{Resource: "releases"}
	status := &auditv1.ObjectReference{Resource: "releases", Subresource: "status"}
	for name, tc := range map[string]struct {
		event *auditv1.Event
		want  string
	}{
		"a read":                 {event(user, "get", auditv1.StageResponseComplete, releases), "get releases"},
		"a write of the status":  {event(user, "patch", auditv1.StageResponseComplete, status), "patch releases/status"},
		"the begin of a watch":   {event(user, "watch", auditv1.StageResponseStarted, releases), "watch releases"},
		"the end of a watch":     {event(user, "watch", auditv1.StageResponseComplete, releases), ""},
		"discovery":              {event(user, "get", auditv1.StageResponseComplete, nil), "get /version"},
		"a request of the bench": {event("admin", "get", auditv1.StageResponseComplete, releases), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := request(tc.event); got != tc.want {
				t.Errorf("request = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestReadsWritesAndEventsAreToldApart(t *testing.T) {
	r := counts{"get releases": 3, "list secrets": 2, "watch releases": 1, "patch releases/status": 5, "delete secrets": 7, "create events": 11, "get /version": 13}
	got := []float64{r.sum(isRead), r.sum(isWrite), r.sum(isEvent), r.sum(isAny)}
	if diff := cmp.Diff([]float64{19, 12, 11, 42}, got); diff != "" {
		t.Errorf("reads, writes, Events, all: -want +got\n%s", diff)
	}
}

func TestOnlyRequestsOfTheFrontendOfTemporalCount(t *testing.T) {
	const metrics = `# TYPE service_requests counter
service_requests{operation="SignalWorkflowExecution",service_name="frontend",namespace="a"} 3
service_requests{operation="SignalWorkflowExecution",service_name="frontend",namespace="b"} 1
service_requests{operation="SignalWorkflowExecution",service_name="history"} 4
`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, metrics) }))
	defer server.Close()
	got, err := operations(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(counts{"SignalWorkflowExecution": 4}, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if diff := cmp.Diff(counts{"SignalWorkflowExecution": 1}, got.minus(counts{"SignalWorkflowExecution": 3})); diff != "" {
		t.Errorf("without the bench's own: -want +got\n%s", diff)
	}
}

// sampled is a result of one phase that keeps to all budgets but that of the hub's writes.
func sampled() *result {
	return &result{Version: "v1", Suite: suiteReleases, About: "100 Releases of 4 ConfigMaps", Unit: "Release", N: 100, M: 4, Phases: []figures{{
		Name: phaseCold, WallSeconds: 15, CPUSeconds: map[string]float64{inConvoy: 2}, PeakMiB: map[string]float64{inConvoy: 223},
		Requests: map[string]counts{
			inHub: {"patch releases/status": 606, "get releases": 100, "watch releases": 1, "create events": 104}, inTarget: {"patch configmaps": 400},
		},
		Sample: 10, History: history{Events: counts{
			"ActivityTaskScheduled ApplyObjects": 60, "ChildWorkflowExecutionStarted": 10, "WorkflowTaskCompleted": 530,
		}},
	}}}
}

func TestWhatIsOverItsBudgetSaysSo(t *testing.T) {
	r := sampled()
	over := map[string]bool{}
	for _, row := range r.rows(phase{budgets: releaseBudgets(phaseCold, r.N, r.M)}, r.Phases[0]) {
		if row.budget != "" {
			over[row.what] = row.verdict() == "OVER"
		} else if row.verdict() != "" {
			t.Errorf("%s has a verdict without a budget", row.what)
		}
	}
	want := map[string]bool{
		rowWall: false, rowPeak: false, rowHubWrites: true, rowHubEvents: false, rowTargetWrites: false,
		rowActivities: false, rowChildren: false, rowEvents: false,
	}
	if diff := cmp.Diff(want, over); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestATableNamesTheMostFrequentRequestsFirst(t *testing.T) {
	var out bytes.Buffer
	r := sampled()
	if err := r.print(&out, phase{name: phaseCold, title: "first delivery"}, r.Phases[0]); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Cold: 100 Releases of 4 ConfigMaps: first delivery\n",
		"requests to hub per Release: 6.06 patch releases/status, 1.04 create events, 1 get releases, and 1 others in all\n",
		"requests to Temporal per Release: none\n",
		"workflow events per Release: 53 WorkflowTaskCompleted, 6 ActivityTaskScheduled ApplyObjects, 1 ChildWorkflowExecutionStarted\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

func TestFiguresAreKeptForComparisons(t *testing.T) {
	var line, lines bytes.Buffer
	r := sampled()
	if err := r.line(&line); err != nil {
		t.Fatal(err)
	}
	var again result
	if err := json.Unmarshal(line.Bytes(), &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, &again); diff != "" || strings.Count(line.String(), "\n") != 1 {
		t.Errorf("-want +got, of %q\n%s", line.String(), diff)
	}
	if err := r.benchstat(&lines); err != nil {
		t.Fatal(err)
	}
	const want = "BenchmarkCold/N=100/M=4 1 15000000000 ns/op 20.000 convoy-cpu-ms/release "
	if !strings.HasPrefix(lines.String(), want) {
		t.Errorf("got %q, want it to begin with %q", lines.String(), want)
	}
}

func TestRendersAreKeptForComparisons(t *testing.T) {
	r := &renderResult{Version: "v1", Suite: suiteRender, Rows: []renderRow{
		{Kind: kindHelm, Objects: 10, Mutations: true, Ours: renderFigures{Seconds: 0.5, PeakMiB: 20}, Theirs: renderFigures{Seconds: 0.25, PeakMiB: 30}},
	}}
	var line, lines, table bytes.Buffer
	if err := errors.Join(r.line(&line), r.benchstat(&lines)); err != nil {
		t.Fatal(err)
	}
	var again renderResult
	if err := json.Unmarshal(line.Bytes(), &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, &again); diff != "" || strings.Count(line.String(), "\n") != 1 {
		t.Errorf("-want +got, of %q\n%s", line.String(), diff)
	}
	const want = "BenchmarkRender/helm/objects=10/mutations=true 1 500000000 ns/op 20.0 peak-MiB 250000000 theirs-ns/op 30.0 theirs-peak-MiB\n"
	if diff := cmp.Diff(want, lines.String()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	r.Rows[0].print(&table)
	if !strings.Contains(table.String(), "2.00") {
		t.Errorf("ours by theirs is not in\n%s", table.String())
	}
}

func TestMain(m *testing.M) {
	render.ServeBuilds()
	os.Exit(m.Run())
}

// A case of each kind, so that the bench cannot fall behind what it measures.
func TestEachKindOfRenderMakesAllObjects(t *testing.T) {
	for _, kind := range []string{kindPlain, kindKustomize, kindHelm} {
		for _, c := range []renderCase{{kind, 3, false, false}, {kind, 3, true, false}, {kind, 3, false, true}} {
			if n, err := c.once(t.Context(), renderInput(c)); err != nil || n != c.Objects {
				t.Errorf("%+v: %d objects, %v", c, n, err)
			}
		}
	}
}
