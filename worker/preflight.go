package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"golang.org/x/sync/errgroup"

	"kumodo.io/convoy/internal/delivery"
)

// Preflight says whether the workflows of this build can go on with those that run.
type Preflight struct {
	// Types are the workflows by their type.
	Types []PreflightType `json:"types"`
	// Failures are those that this build cannot go on with.
	Failures []PreflightFailure `json:"failures"`
}

// PreflightType is what became of the workflows of a type. Those that are left out are more than the limit.
type PreflightType struct {
	Type     string `json:"type"`
	Replayed int    `json:"replayed"`
	Failed   int    `json:"failed"`
	LeftOut  int    `json:"leftOut"`
}

// PreflightFailure is a workflow that this build cannot go on with.
type PreflightFailure struct {
	Type     string `json:"type"`
	Workflow string `json:"workflow"`
	Run      string `json:"run"`
	Problem  string `json:"problem"`
}

// PreflightOptions bound a preflight.
type PreflightOptions struct {
	// Namespace of Temporal.
	Namespace string
	// Limit is how many workflows of each type are replayed, the newest ones; 0 for all.
	Limit int
	// Concurrency is how many histories are in memory at once.
	Concurrency int
	// Progress, if there is one, is told after each workflow how many are done.
	Progress func(replayed, failed int)
	// Register adds the workflows of the build that is to take over.
	Register func(WorkflowRegistry)
}

// Check replays the histories of all running workflows of convoy. It fails when it cannot read them; what cannot be replayed is
// a result.
func (o *PreflightOptions) Check(ctx context.Context, c client.Client) (*Preflight, error) {
	r := &replays{options: o, types: map[string]*PreflightType{}}
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(o.Concurrency)
	listed := o.list(ctx, c, func(w *workflowpb.WorkflowExecutionInfo) {
		if r.take(w.GetType().GetName()) {
			work.Go(func() error { return r.replay(ctx, c, w) })
		}
	})
	if err := work.Wait(); err != nil {
		return nil, err
	}
	return r.result(), listed
}

// list calls do for each running workflow of convoy: those whose tasks its workers take, whatever their type.
func (o *PreflightOptions) list(ctx context.Context, c client.Client, do func(*workflowpb.WorkflowExecutionInfo)) error {
	request := &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: o.Namespace, PageSize: 1000, Query: fmt.Sprintf("TaskQueue = '%s' AND ExecutionStatus = 'Running'", delivery.QueueMain),
	}
	for {
		page, err := c.ListWorkflow(ctx, request)
		if err != nil {
			return fmt.Errorf("list the workflows of namespace %s of Temporal: %w", o.Namespace, err)
		}
		for _, w := range page.GetExecutions() {
			do(w)
		}
		if request.NextPageToken = page.GetNextPageToken(); len(request.NextPageToken) == 0 {
			return nil
		}
	}
}

// replays collects what became of workflows.
type replays struct {
	options  *PreflightOptions
	mu       sync.Mutex
	taken    map[string]int
	types    map[string]*PreflightType
	failures []PreflightFailure
	done     int
}

func (r *replays) of(kind string) *PreflightType {
	if r.types[kind] == nil {
		r.types[kind] = &PreflightType{Type: kind}
	}
	return r.types[kind]
}

// take reports whether one more workflow of a type is to be replayed.
func (r *replays) take(kind string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken == nil {
		r.taken = map[string]int{}
	}
	if r.options.Limit > 0 && r.taken[kind] >= r.options.Limit {
		r.of(kind).LeftOut++
		return false
	}
	r.taken[kind]++
	return true
}

func (r *replays) replay(ctx context.Context, c client.Client, w *workflowpb.WorkflowExecutionInfo) error {
	kind, id, run := w.GetType().GetName(), w.GetExecution().GetWorkflowId(), w.GetExecution().GetRunId()
	history, err := historyOf(ctx, c, id, run)
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return nil // it ended meanwhile, long enough ago
	}
	if err != nil {
		return fmt.Errorf("read the history of workflow %s: %w", id, err)
	}
	problem, err := Replays(history, r.options.Register)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done++
	if problem == "" {
		r.of(kind).Replayed++
	} else {
		r.of(kind).Failed++
		r.failures = append(r.failures, PreflightFailure{kind, id, run, problem})
	}
	if r.options.Progress != nil {
		r.options.Progress(r.done, len(r.failures))
	}
	return nil
}

func (r *replays) result() *Preflight {
	out := &Preflight{Types: []PreflightType{}, Failures: append([]PreflightFailure{}, r.failures...)}
	for _, kind := range slices.Sorted(maps.Keys(r.types)) {
		out.Types = append(out.Types, *r.types[kind])
	}
	slices.SortFunc(out.Failures, func(a, b PreflightFailure) int { return strings.Compare(a.Workflow+a.Run, b.Workflow+b.Run) })
	return out
}

func historyOf(ctx context.Context, c client.Client, id, run string) (*historypb.History, error) {
	history := &historypb.History{}
	events := c.GetWorkflowHistory(ctx, id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			return nil, err
		}
		history.Events = append(history.Events, e)
	}
	return history, nil
}

// Replays says in short what keeps registered workflows from going on with a history; empty when nothing does.
func Replays(history *historypb.History, register func(WorkflowRegistry)) (problem string, err error) {
	decided := func(e *historypb.HistoryEvent) bool {
		return e.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
	}
	if !slices.ContainsFunc(history.GetEvents(), decided) {
		return "", nil // no worker has decided anything yet
	}
	replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{DisableRegistrationAliasing: true})
	if err != nil {
		return "", fmt.Errorf("replay: %w", err)
	}
	register(replayer)
	if err := replayer.ReplayWorkflowHistory(log.NewStructuredLogger(slog.New(slog.DiscardHandler)), history); err != nil {
		return short(err.Error(), history), nil
	}
	return "", nil
}

// What the SDK says about a history that it cannot replay holds all fields of events, with the inputs of steps. These find in it
// what happened and what it was called.
var (
	recorded = regexp.MustCompile(`(?:history event is|missing replay command for) (\w+)(.*?)(?:, replay command is|$)`)
	replayed = regexp.MustCompile(`(?:replay command is|extra replay command for) (\w+)(.*)$`)
	named    = regexp.MustCompile(`(?:ActivityType|WorkflowType):\(Name:(\w+)|MarkerName:(\w+)|SignalName:([\w-]+)`)
	unknown  = regexp.MustCompile(`unable to find workflow type: (\w+)`)
	absent   = regexp.MustCompile(`unknown command CommandType: (\w+), ID: ([\w-]+)|a matching (\w+) command was expected in history event position ([\w-]+)`)
	lookup   = regexp.MustCompile(`scheduleEventID: (\d+)`)
)

// short is a sentence about a failed replay without what others wrote.
func short(text string, history *historypb.History) string {
	if m := unknown.FindStringSubmatch(text); m != nil {
		return "this build has no workflow " + m[1]
	}
	if m := absent.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("the history goes on with %s %s, which this build does not do", m[1]+m[3], m[2]+m[4])
	}
	if m := lookup.FindStringSubmatch(text); m != nil {
		for _, e := range history.GetEvents() {
			if a := e.GetActivityTaskScheduledEventAttributes(); a != nil && strconv.FormatInt(e.GetEventId(), 10) == m[1] {
				return fmt.Sprintf("the history has ActivityTaskScheduled %s, which this build does not do there", a.GetActivityType().GetName())
			}
		}
	}
	text = strings.ReplaceAll(text, "\n", " ")
	was, is := event(recorded.FindStringSubmatch(text)), event(replayed.FindStringSubmatch(text))
	switch {
	case was != "" && is != "":
		return fmt.Sprintf("the history has %s where this build does %s", was, is)
	case was != "":
		return fmt.Sprintf("the history has %s, which this build does not do", was)
	case is != "":
		return fmt.Sprintf("this build does %s, which the history does not have", is)
	}
	return "it cannot be replayed"
}

func event(m []string) string {
	if m == nil {
		return ""
	}
	if name := named.FindStringSubmatch(m[2]); name != nil {
		return m[1] + " " + name[1] + name[2] + name[3]
	}
	return m[1]
}
