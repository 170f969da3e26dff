package activities

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/testsuite"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	hubclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/apply"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/dial"
	"kumodo.io/convoy/internal/hook"
	"kumodo.io/convoy/internal/status"
)

// hookScene is a hub with one Release in rollout 3, and a server that counts what it is sent.
type hookScene struct {
	*testing.T
	hub    hubclient.WithWatch
	acts   *Activities
	env    *testsuite.TestActivityEnvironment
	sent   atomic.Int32
	answer atomic.Int32
	// hanging: no answer comes; retryAfter is what the server asks for, in seconds.
	hanging    atomic.Bool
	retryAfter atomic.Int32
	url        string
	flows      *fakeWorkflows
	kind       string // of the hook, when the rollout began
}

// fakeWorkflows is a Temporal in which every workflow has one status.
type fakeWorkflows struct {
	started, cancelled []string
	status             enumspb.WorkflowExecutionStatus
	polled             time.Time // when a worker asked for tasks
}

func (f *fakeWorkflows) ExecuteWorkflow(_ context.Context, o client.StartWorkflowOptions, _ any, _ ...any) (client.WorkflowRun, error) {
	f.started = append(f.started, o.ID)
	return nil, nil
}

func (f *fakeWorkflows) DescribeWorkflowExecution(context.Context, string, string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{
		Type: &commonpb.WorkflowType{Name: "Migrate"}, Status: f.status,
	}}, nil
}

func (f *fakeWorkflows) CancelWorkflow(_ context.Context, id, _ string) error {
	f.cancelled = append(f.cancelled, id)
	return nil
}

func (f *fakeWorkflows) DescribeTaskQueue(context.Context, string, enumspb.TaskQueueType) (*workflowservice.DescribeTaskQueueResponse, error) {
	out := &workflowservice.DescribeTaskQueueResponse{}
	if !f.polled.IsZero() {
		out.Pollers = []*taskqueuepb.PollerInfo{{LastAccessTime: timestamppb.New(f.polled)}}
	}
	return out, nil
}

func newHookScene(t *testing.T, change func(*v1alpha1.Release), objects ...hubclient.Object) *hookScene {
	t.Helper()
	s := &hookScene{T: t, flows: &fakeWorkflows{status: enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED}}
	s.answer.Store(http.StatusOK)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body) // else nobody sees that the client has gone
		s.sent.Add(1)
		if s.hanging.Load() {
			<-req.Context().Done()
			return
		}
		if seconds := s.retryAfter.Load(); seconds > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(seconds)))
		}
		w.WriteHeader(int(s.answer.Load()))
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	r := rollingOut(3, "sha256:a")
	r.Status.Rollout.Cluster = "c-1"
	r.Spec.Hooks = []v1alpha1.Hook{{Name: "notify", Phase: v1alpha1.HookPreApply, HTTP: &v1alpha1.HookHTTP{URL: s.url}}}
	r.Spec.Hooks[0].Timeout.Duration = time.Minute
	change(r)
	cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "east", UID: "c-1"}}
	key := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: v1alpha1.HookSecretName}, Data: map[string][]byte{
		"key": []byte("k3y"), "ca.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}}
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "hub"}}
	s.hub = hubWith(t, interceptor.Funcs{}, append(objects, r, cluster, key, system)...)
	permits := &hook.Permits{{Namespace: "default", Type: "Migrate", TaskQueue: "jobs"}}
	s.acts = New(Deps{
		Hub: s.hub, Ledger: apply.NewLedger(s.hub), Status: status.NewWriter(s.hub, events.NewFakeRecorder(64)), Workflows: s.flows, Permits: permits,
		Metrics: NewMetrics(), Sender: hook.NewSender(dial.New(dial.Policy{AllowLoopback: true})),
	})
	var suite testsuite.WorkflowTestSuite
	s.env = suite.NewTestActivityEnvironment()
	s.env.RegisterActivity(s.acts)
	return s
}

// run runs the hook of rollout 3.
func (s *hookScene) run(phase v1alpha1.HookPhase, last bool) (StepResult, error) {
	s.Helper()
	value, err := s.env.ExecuteActivity(s.acts.RunHook, HookInput{
		Rollout: delivery.RolloutInput{Key: delivery.Key{Namespace: "default", Name: "podinfo", UID: "r-1"}, Cluster: "east", Number: 3, Digest: "sha256:a"},
		Hook:    delivery.HookRef{Name: "notify", Phase: phase, Kind: s.kind}, Last: last,
	})
	var out StepResult
	if err == nil {
		err = value.Get(&out)
	}
	return out, err
}

// told is the phase of the rollout, and the runs as name=state: message.
func (s *hookScene) told() string {
	s.Helper()
	var r v1alpha1.Release
	if err := s.hub.Get(s.Context(), types.NamespacedName{Namespace: "default", Name: "podinfo"}, &r); err != nil {
		s.Fatal(err)
	}
	text := string(r.Status.Rollout.Phase)
	for _, run := range r.Status.Hooks {
		text += fmt.Sprintf("; %s=%s", run.Name, run.State)
		if run.Message != "" {
			text += ": " + run.Message
		}
	}
	return text
}

func TestARunIsRecordedAndNeverBegunAgain(t *testing.T) {
	s := newHookScene(t, func(*v1alpha1.Release) {})
	for range 3 { // as after a result that was lost, and with a Temporal that was emptied
		out, err := s.run(v1alpha1.HookPreApply, false)
		if err != nil || out != (StepResult{}) {
			t.Fatalf("%+v, %v", out, err)
		}
	}
	if n := s.sent.Load(); n != 1 {
		t.Errorf("it was sent %d times", n)
	}
	if got := s.told(); got != "Running; notify=Succeeded" {
		t.Error(got)
	}
}

func TestHowARunEndsItsRollout(t *testing.T) {
	policy := func(p v1alpha1.HookFailurePolicy, phase v1alpha1.HookPhase) func(*v1alpha1.Release) {
		return func(r *v1alpha1.Release) { r.Spec.Hooks[0].OnFailure, r.Spec.Hooks[0].Phase = p, phase }
	}
	fail, goOn := v1alpha1.HookFail, v1alpha1.HookContinue
	pre, post, failure := v1alpha1.HookPreApply, v1alpha1.HookPostApply, v1alpha1.HookOnFailure
	const status404 = "http: the server answers with HTTP status 404"
	failed := func(phase v1alpha1.HookPhase) StepResult {
		return StepResult{Phase: v1alpha1.RolloutFailed, Reason: "HookFailed", Message: "hook notify (" + string(phase) + ") failed: " + status404}
	}
	delivered := StepResult{Phase: v1alpha1.RolloutSucceeded, Reason: "Delivered"}
	cases := map[string]struct {
		change func(*v1alpha1.Release)
		phase  v1alpha1.HookPhase
		answer int32
		last   bool
		want   StepResult
		told   string
	}{
		"before the apply":              {policy(fail, pre), pre, 200, false, StepResult{}, "Running; notify=Succeeded"},
		"it fails":                      {policy(fail, pre), pre, 404, false, failed(pre), "Failed; notify=Failed: " + status404},
		"it may fail":                   {policy(goOn, pre), pre, 404, false, StepResult{}, "Running; notify=Failed: " + status404},
		"after the apply, not the last": {policy(fail, post), post, 200, false, StepResult{}, "Running; notify=Succeeded"},
		"the last":                      {policy(fail, post), post, 200, true, delivered, "Succeeded; notify=Succeeded"},
		"the last fails":                {policy(fail, post), post, 404, true, failed(post), "Failed; notify=Failed: " + status404},
		"the last may fail":             {policy(goOn, post), post, 404, true, delivered, "Succeeded; notify=Failed: " + status404},
		"when is false": {func(r *v1alpha1.Release) {
			r.Spec.Hooks[0].Phase, r.Spec.Hooks[0].When = post, "cluster.name == 'west'"
		}, post, 200, true, delivered, "Succeeded; notify=Skipped: when is false"},
		"it left the spec": {func(r *v1alpha1.Release) { r.Spec.Hooks = nil }, post, 200, true, delivered, "Succeeded; notify=Skipped: the hook is no longer in the spec"},
		"after a failure": {func(r *v1alpha1.Release) {
			r.Spec.Hooks[0].Phase, r.Status.Rollout.Phase = failure, v1alpha1.RolloutFailed
		}, failure, 404, false, StepResult{}, "Failed; notify=Failed: " + status404},
		"not after a success": {func(r *v1alpha1.Release) {
			r.Spec.Hooks[0].Phase, r.Status.Rollout.Phase = failure, v1alpha1.RolloutSucceeded
		}, failure, 200, false, StepResult{Superseded: true}, "Succeeded"},
		"another rollout is asked for": {func(r *v1alpha1.Release) { r.Status.Rollout.Number = 4 }, pre, 200, false, StepResult{Superseded: true}, "Running"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newHookScene(t, tc.change)
			s.answer.Store(tc.answer)
			for range 2 { // the second is after the result of the first was lost
				out, err := s.run(tc.phase, tc.last)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, out); diff != "" {
					t.Errorf("-want +got\n%s", diff)
				}
			}
			if got := s.told(); got != tc.told {
				t.Errorf("the hub says %s\nwant         %s", got, tc.told)
			}
			if s.sent.Load() > 1 {
				t.Error("it was sent twice")
			}
		})
	}
}

func TestWhatMayPassIsTriedAgainUntilTheTimeOfTheHookIsOver(t *testing.T) {
	s := newHookScene(t, func(r *v1alpha1.Release) { r.Spec.Hooks[0].Timeout.Duration = time.Hour })
	s.answer.Store(http.StatusServiceUnavailable)
	if _, err := s.run(v1alpha1.HookPreApply, false); err == nil || !strings.Contains(err.Error(), "503") {
		t.Fatalf("it is not tried again: %v", err)
	}
	if got := s.told(); got != "Running; notify=Running: http: the server answers with HTTP status 503" {
		t.Error(got)
	}
	for message, want := range map[string]string{
		"http: the server answers with HTTP status 503": "http: the server answers with HTTP status 503", "": "it was interrupted before it had a result",
	} {
		late := newHookScene(t, func(r *v1alpha1.Release) {
			r.Status.Hooks = []v1alpha1.HookStatus{runningSince(time.Now().Add(-time.Minute))}
			r.Status.Hooks[0].Message = message
		})
		out, err := late.run(v1alpha1.HookPreApply, false)
		if err != nil || out.Message != "hook notify (PreApply) failed: it was not done after 1m0s: "+want {
			t.Errorf("%+v, %v", out, err)
		}
		if n := late.sent.Load(); n != 0 {
			t.Errorf("it was sent after its time was over, %d times", n)
		}
	}
}

// runningSince is a run of the hook that the hub has already.
func runningSince(start time.Time) v1alpha1.HookStatus {
	return v1alpha1.HookStatus{Name: "notify", Phase: v1alpha1.HookPreApply, Rollout: 3, State: v1alpha1.HookRunning, StartTime: metav1.NewTime(start)}
}

func TestAWorkflowOfTheUsersOwn(t *testing.T) {
	flow := func(queue string) func(*v1alpha1.Release) {
		return func(r *v1alpha1.Release) {
			r.Spec.Hooks[0].HTTP, r.Spec.Hooks[0].Workflow = nil, &v1alpha1.HookWorkflow{Type: "Migrate", TaskQueue: queue}
		}
	}
	s := newHookScene(t, flow("jobs"))
	for range 2 {
		if out, err := s.run(v1alpha1.HookPreApply, false); err != nil || out != (StepResult{}) {
			t.Fatalf("%+v, %v", out, err)
		}
	}
	if len(s.flows.started) != 1 || !strings.HasPrefix(s.flows.started[0], "hook/default/podinfo/3/notify/") {
		t.Errorf("started: %v", s.flows.started)
	}
	refused := newHookScene(t, flow("convoy-apply"))
	out, err := refused.run(v1alpha1.HookPreApply, false)
	if err != nil || out.Reason != "HookFailed" || !strings.Contains(out.Message, "convoy's own") || len(refused.flows.started) > 0 {
		t.Errorf("%+v, %v; started %v", out, err, refused.flows.started)
	}
	failing := newHookScene(t, flow("jobs"))
	failing.flows.status = enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED
	out, err = failing.run(v1alpha1.HookPreApply, false)
	if err != nil || !strings.Contains(out.Message, "ended as Terminated") {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestADeletionRunsItsHooksInOrderAndIsHeldByOneThatFailed(t *testing.T) {
	hooks := func(phases ...v1alpha1.HookPhase) *v1alpha1.Release {
		r := rollingOut(3, "sha256:a")
		for i, phase := range phases {
			r.Spec.Hooks = append(r.Spec.Hooks, v1alpha1.Hook{Name: fmt.Sprint("h", i), Phase: phase})
		}
		return r
	}
	pre, post := v1alpha1.HookPreDelete, v1alpha1.HookPostDelete
	r := hooks(pre, post, pre, v1alpha1.HookPreApply)
	names := func(mendable bool) string {
		due, held := delivery.HooksDue(r, r.Spec.Hooks, pre, mendable)
		var all []string
		for _, h := range due {
			all = append(all, h.Name)
		}
		if held != nil {
			all = append(all, "held by "+held.Name)
		}
		return strings.Join(all, " ")
	}
	expect := func(want string) {
		t.Helper()
		if got := names(true); got != want {
			t.Errorf("due: %q, want %q", got, want)
		}
	}
	expect("h0 h2")
	ran := func(name string, state v1alpha1.HookState, rollout int64) v1alpha1.HookStatus {
		return v1alpha1.HookStatus{Name: name, Phase: pre, State: state, Rollout: rollout}
	}
	r.Status.Hooks = []v1alpha1.HookStatus{ran("h0", v1alpha1.HookSucceeded, 2)}
	expect("h0 h2") // of a rollout, when it had another phase
	r.Status.Hooks = []v1alpha1.HookStatus{ran("h0", v1alpha1.HookSucceeded, 0), ran("h2", v1alpha1.HookRunning, 0)}
	expect("h2")
	r.Status.Hooks[1].State = v1alpha1.HookFailed
	expect("held by h2")
	if got := names(false); got != "" {
		t.Errorf("in a namespace that goes away: %q", got)
	}
	metav1.SetMetaDataAnnotation(&r.ObjectMeta, v1alpha1.AnnotationRequestedAt, "noon")
	expect("h2")
	r.Status.Hooks[1].Request = "noon"
	expect("held by h2")
	r.Spec.Hooks[2].OnFailure = v1alpha1.HookContinue
	expect("")
}

func TestAnApprovalCountsForItsHookAndRenderOnly(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	approval := func(name, hook, digest string, state v1alpha1.ApprovalState, rollout int64) v1alpha1.Approval {
		a := v1alpha1.Approval{ObjectMeta: metav1.ObjectMeta{Name: name}}
		a.Spec = v1alpha1.ApprovalSpec{ReleaseRef: v1alpha1.ReleaseRef{Name: "podinfo"}, Digest: digest, Hook: hook, ApprovedBy: "jo"}
		a.Status = v1alpha1.ApprovalStatus{State: state, Rollout: rollout}
		return a
	}
	cases := map[string]struct {
		all  []v1alpha1.Approval
		use  string
		void int
	}{
		"none":                        {nil, "", 0},
		"one":                         {[]v1alpha1.Approval{approval("a", "sign", digest, "", 0)}, "a", 0},
		"of another hook":             {[]v1alpha1.Approval{approval("a", "other", digest, "", 0), approval("b", "", digest, "", 0)}, "", 0},
		"of another render":           {[]v1alpha1.Approval{approval("a", "sign", "sha256:b", "", 0)}, "", 1},
		"used for another rollout":    {[]v1alpha1.Approval{approval("a", "sign", digest, v1alpha1.ApprovalUsed, 2)}, "", 0},
		"used for this one":           {[]v1alpha1.Approval{approval("a", "sign", digest, v1alpha1.ApprovalUsed, 3), approval("b", "sign", digest, "", 0)}, "a", 0},
		"void, though it would count": {[]v1alpha1.Approval{approval("a", "sign", digest, v1alpha1.ApprovalVoid, 0)}, "", 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			use, void := delivery.JudgeApprovals(rollingOut(3, digest), "sign", 3, digest, tc.all)
			got := ""
			if use != nil {
				got = use.Name
			}
			if got != tc.use || len(void) != tc.void {
				t.Errorf("used %q, %d void; want %q, %d", got, len(void), tc.use, tc.void)
			}
		})
	}
	s := newHookScene(t, func(r *v1alpha1.Release) {
		r.Spec.Hooks[0].HTTP, r.Spec.Hooks[0].Approval = nil, &v1alpha1.HookApproval{Message: "for {{ .cluster.name }}"}
		r.Spec.Hooks[0].Timeout.Duration = time.Second
	})
	out, err := s.run(v1alpha1.HookPreApply, false)
	if want := "not done after 1s: it waits for an Approval of sha256:a: for east"; err != nil || !strings.Contains(out.Message, want) {
		t.Errorf("%+v, %v; want %s", out, err, want)
	}
	signed := approval("signed", "notify", "sha256:a", "", 0)
	signed.Namespace = "default"
	s = newHookScene(t, func(r *v1alpha1.Release) {
		r.Spec.Hooks[0].HTTP, r.Spec.Hooks[0].Approval = nil, &v1alpha1.HookApproval{}
	}, &signed)
	if out, err := s.run(v1alpha1.HookPreApply, false); err != nil || out != (StepResult{}) {
		t.Errorf("%+v, %v", out, err)
	}
	if got := s.told(); got != "Running; notify=Succeeded: approved by jo" {
		t.Error(got)
	}
}
