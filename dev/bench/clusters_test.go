package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"
	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
)

func TestAQuantileIsALatencyThatWasMeasured(t *testing.T) {
	var hundred latencies
	for i := range 100 {
		hundred = append(hundred, time.Duration(100-i)*time.Second) // unsorted
	}
	for name, tc := range map[string]struct {
		of   latencies
		want []float64 // p50, p99, max
	}{
		"a hundred": {hundred, []float64{50, 99, 100}},
		"two":       {latencies{2 * time.Second, time.Second}, []float64{1, 2, 2}},
		"one":       {latencies{time.Second}, []float64{1, 1, 1}},
		"none":      {nil, []float64{0, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, []float64{tc.of.p50(), tc.of.p99(), tc.of.max()}); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
	if hundred[0] != 100*time.Second {
		t.Error("the latencies were put into another order")
	}
}

func TestRoundsAreComparedByTheirPooledLatencies(t *testing.T) {
	seconds := func(all ...float64) latencies {
		var l latencies
		for _, s := range all {
			l = append(l, time.Duration(s*float64(time.Second)))
		}
		return l
	}
	facts := compared("apply", []latencies{seconds(1, 2), seconds(1, 4)}, []latencies{seconds(3, 3), seconds(3, 5)})
	got := map[string]float64{}
	for _, f := range facts {
		got[f.Name] = f.Value
		if limited := f.Limit != nil; limited != (f.Name == "apply p99 trouble by calm") {
			t.Errorf("%s has a budget: %v", f.Name, limited)
		}
	}
	want := map[string]float64{
		"apply p50 calm": 1, "apply p50 trouble": 3, "apply p50 trouble by calm": 3,
		"apply p99 calm": 4, "apply p99 trouble": 5, "apply p99 trouble by calm": 1.25,
		"apply p99 trouble by calm, median of the pairs": 1.5, "apply p99 of calm rounds, highest by lowest": 2,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestAStepTakesFromItsScheduleToItsEndOverAllAttempts(t *testing.T) {
	at := func(id int64, after time.Duration) *historypb.HistoryEvent {
		return &historypb.HistoryEvent{EventId: id, EventTime: timestamppb.New(time.Unix(100, 0).Add(after))}
	}
	scheduled := func(id int64, after time.Duration, activity string) *historypb.HistoryEvent {
		e := at(id, after)
		e.Attributes = &historypb.HistoryEvent_ActivityTaskScheduledEventAttributes{
			ActivityTaskScheduledEventAttributes: &historypb.ActivityTaskScheduledEventAttributes{ActivityType: &commonpb.ActivityType{Name: activity}},
		}
		return e
	}
	completed := func(id int64, after time.Duration, of int64) *historypb.HistoryEvent {
		e := at(id, after)
		e.Attributes = &historypb.HistoryEvent_ActivityTaskCompletedEventAttributes{
			ActivityTaskCompletedEventAttributes: &historypb.ActivityTaskCompletedEventAttributes{ScheduledEventId: of},
		}
		return e
	}
	begin := at(1, 0)
	for name, tc := range map[string]struct {
		events []*historypb.HistoryEvent
		want   time.Duration
		ok     bool
	}{
		"one step":                {[]*historypb.HistoryEvent{begin, scheduled(5, time.Second, "Apply"), completed(7, 3*time.Second, 5)}, 2 * time.Second, true},
		"after a step of another": {[]*historypb.HistoryEvent{scheduled(2, 0, "Render"), completed(4, time.Second, 2), scheduled(5, time.Second, "Apply"), completed(7, 4*time.Second, 5)}, 3 * time.Second, true},
		"not completed":           {[]*historypb.HistoryEvent{scheduled(5, 0, "Apply")}, 0, false},
		"only another":            {[]*historypb.HistoryEvent{scheduled(5, 0, "Render"), completed(7, time.Second, 5)}, 0, false},
		"nothing":                 {nil, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got, ok := stepTook(tc.events, "Apply"); got != tc.want || ok != tc.ok {
				t.Errorf("stepTook = %v, %v; want %v, %v", got, ok, tc.want, tc.ok)
			}
		})
	}
}

// echo is a server that sends back what it gets.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return l.Addr().String()
}

// answers reports whether a connection brings back what it is given.
func answers(c net.Conn, patience time.Duration) bool {
	_ = c.SetDeadline(time.Now().Add(patience))
	got := make([]byte, 4)
	if _, err := c.Write([]byte("ping")); err != nil {
		return false
	}
	_, err := io.ReadFull(c, got)
	return err == nil && string(got) == "ping"
}

func TestADoorForwardsRefusesAndHangsAndKeepsItsAddress(t *testing.T) {
	d, err := newDoor(echo(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.turn(refuse) }()
	turn := func(w way) {
		t.Helper()
		if err := d.turn(w); err != nil {
			t.Fatal(err)
		}
	}
	dial := func() (net.Conn, error) { return net.DialTimeout("tcp", d.address, 10*time.Second) }
	turn(refuse)
	if _, err := dial(); err == nil {
		t.Fatal("a door that is to refuse does not")
	}
	for range 2 { // there and back again
		turn(forward)
		early, err := dial()
		if err != nil || !answers(early, 10*time.Second) {
			t.Fatalf("a door that forwards leads nowhere: %v", err)
		}
		turn(hang)
		late, err := dial()
		if err != nil {
			t.Fatalf("a door that hangs refuses: %v", err)
		}
		for name, c := range map[string]net.Conn{"a connection of before": early, "a new connection": late} {
			if answers(c, 50*time.Millisecond) {
				t.Errorf("%s is answered while the door hangs", name)
			}
		}
		turn(refuse)
		for name, c := range map[string]net.Conn{"a connection of before": early, "a hanging connection": late} {
			_ = c.SetDeadline(time.Now().Add(10 * time.Second))
			if _, err := c.Read(make([]byte, 1)); err == nil {
				t.Errorf("%s goes on while the door refuses", name)
			}
			_ = c.Close()
		}
		if _, err := dial(); err == nil {
			t.Error("the door does not refuse")
		}
	}
}

func TestNumbersThatHardlyChangeAreSteady(t *testing.T) {
	of := func(goroutines ...float64) (all []resources) {
		for _, g := range goroutines {
			all = append(all, resources{goroutines: g, sockets: 7})
		}
		return all
	}
	for name, tc := range map[string]struct {
		last []resources
		want bool
	}{
		"equal":       {of(100, 100, 100), true},
		"almost":      {of(1000, 1015, 1001), true},
		"falling":     {of(1000, 900, 800), false},
		"too few":     {of(100, 100), false},
		"one by one":  {of(3, 4, 3), true},
		"sockets too": {[]resources{{goroutines: 1, sockets: 10}, {goroutines: 1, sockets: 20}, {goroutines: 1, sockets: 20}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := steady(tc.last, 3); got != tc.want {
				t.Errorf("steady = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestWhatIsLeftAfterTheLastClusterHasTheNumbersBeforeTheFirstAsItsBudget(t *testing.T) {
	before := resources{rssMiB: 50, goroutines: 200, sockets: 8}
	over := map[string]string{}
	r := &result{N: 10, Unit: "Cluster"}
	for _, row := range r.rows(phase{alone: true}, figures{Facts: resources{rssMiB: 90, goroutines: 221, sockets: 13}.factsSince(before)}) {
		if row.verdict() != "" {
			over[row.what] = row.verdict()
		}
	}
	if diff := cmp.Diff(map[string]string{"goroutines, settled": "OVER", "sockets, settled": "ok"}, over); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestAPhaseThatStandsAloneShowsAndKeepsItsFactsOnly(t *testing.T) {
	p := phase{name: phaseReprobe, title: "reprobes", alone: true}
	r := &result{Version: "v1", Suite: suiteClusters, About: "10 Clusters, 2 of them dead", Unit: "Cluster", N: 10, M: 1, Dead: 2, Phases: []figures{{
		Name: phaseReprobe, Sample: 1, Facts: []fact{{Name: "reprobe p99", Unit: "s", Value: 2.5, Limit: new(2.0)}},
	}}}
	var out, lines bytes.Buffer
	if err := r.print(&out, p, r.Phases[0]); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); strings.Contains(got, rowWall) || !strings.Contains(got, "2.50 s") || !strings.Contains(got, "<= 2.00 s") || !strings.Contains(got, "OVER") {
		t.Errorf("got\n%s", got)
	}
	if err := r.benchstat(&lines); err != nil {
		t.Fatal(err)
	}
	if got := lines.String(); !strings.HasPrefix(got, "BenchmarkReprobe/N=10/M=1/dead=2 1 ") || !strings.HasSuffix(got, " 2.5000 reprobe-p99-s\n") {
		t.Errorf("got %q", got)
	}
}

func TestTheSuiteDecidesTheDefaults(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want []int // N, M, dead
		ok   bool
	}{
		"Releases":            {nil, []int{100, 4, 0}, true},
		"Clusters":            {[]string{"-suite=clusters"}, []int{1000, 1, 50}, true},
		"few Clusters":        {[]string{"-suite=clusters", "-n=100"}, []int{100, 1, 10}, true},
		"observers":           {[]string{"-suite=observe"}, []int{100, 10, 0}, true},
		"as it is asked":      {[]string{"-suite=clusters", "-n=100", "-m=2", "-dead=6"}, []int{100, 2, 6}, true},
		"too many dead":       {[]string{"-suite=clusters", "-n=10", "-dead=6"}, nil, false},
		"one dead":            {[]string{"-suite=clusters", "-n=10", "-dead=1"}, nil, false},
		"another suite":       {[]string{"-suite=all"}, nil, false},
		"Releases of nothing": {[]string{"-m=-1"}, nil, false},
		"no rounds":           {[]string{"-suite=clusters", "-pairs=0"}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBEBUILDER_ASSETS", t.TempDir())
			o, err := parse(append(tc.args, "-convoy=/proc/self/exe"), io.Discard)
			if (err == nil) != tc.ok {
				t.Fatalf("parse = %v", err)
			}
			if diff := cmp.Diff(tc.want, []int{o.N, o.M, o.Dead}); tc.ok && diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestTheDeadAreSpreadAndHalfOfThemHang(t *testing.T) {
	c := &clustersSuite{world: &world{options: options{Suite: suiteClusters, N: 10, Dead: 4}}}
	s := newClustersSuite(c.world)
	if len(s.sample) != 6 || s.n != 10 {
		t.Errorf("sample of %d of %d, want the 6 healthy ones of 10", len(s.sample), s.n)
	}
	c.dead = []string{"a", "b", "c", "d"}
	ways := map[way]int{}
	for _, name := range c.dead {
		ways[c.deadWay(name)]++
	}
	if diff := cmp.Diff(map[way]int{refuse: 2, hang: 2}, ways); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestAWaitTellsWhatIsLeft(t *testing.T) {
	k := &kept[*v1alpha1.Cluster]{
		kind: "Cluster", all: map[string]*v1alpha1.Cluster{}, changed: make(chan struct{}, 1),
		conditions: func(c *v1alpha1.Cluster) []metav1.Condition { return c.Status.Conditions },
	}
	ready := func(name string, status metav1.ConditionStatus) *v1alpha1.Cluster {
		c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		c.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status, Reason: "R", Message: "why"}}
		return c
	}
	k.note(ready("a", metav1.ConditionTrue), false)
	k.note(ready("b", metav1.ConditionFalse), false)
	ended, end := context.WithCancel(t.Context())
	end()
	err := k.await(ended, []string{"a", "b", "c"}, reachable)
	const want = "context canceled: 2 of 3 Clusters are left, the first is b with Ready=False, R: why"
	if err == nil || err.Error() != want {
		t.Errorf("await = %v, want %s", err, want)
	}
	if err := k.await(t.Context(), []string{"b"}, unreachable); err != nil {
		t.Error(err)
	}
	done := make(chan error, 1)
	go func() { done <- k.await(t.Context(), []string{"a", "b"}, gone) }()
	k.note(ready("a", metav1.ConditionTrue), true)
	k.note(ready("b", metav1.ConditionFalse), true)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
