package activities

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.temporal.io/sdk/testsuite"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	hubclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/apply"
	"kumodo.io/convoy/internal/connect"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/dial"
	"kumodo.io/convoy/internal/hook"
	"kumodo.io/convoy/internal/render"
	"kumodo.io/convoy/internal/status"
)

// plane is a control plane that is hub and target at once, without controllers: the test says how Jobs end.
type plane struct {
	hub        hubclient.WithWatch
	kubeconfig []byte
}

func startPlane(t *testing.T) plane {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Fatal("KUBEBUILDER_ASSETS is not set: it names the folder with etcd and kube-apiserver")
	}
	log.SetLogger(logr.Discard()) // of the clients
	env := &envtest.Environment{CRDDirectoryPaths: []string{filepath.Join("..", "deploy", "crd")}, ErrorIfCRDPathMissing: true}
	cfg, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	user, err := env.AddUser(envtest.User{Name: "deployer", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := plane{}
	if p.kubeconfig, err = user.KubeConfig(); err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	if p.hub, err = hubclient.NewWithWatch(cfg, hubclient.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	return p
}

// jobScene is a Release in rollout 1 whose first hook makes the Job migrate.
type jobScene struct {
	*testing.T
	plane
	ns   string
	acts *Activities
	key  delivery.Key
	job  *batchv1.Job
}

const migrateJob = `
apiVersion: batch/v1
kind: Job
metadata: {name: migrate}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: pause}]}}}
`

func newJobScene(t *testing.T, p plane, h v1alpha1.Hook) *jobScene {
	t.Helper()
	s := &jobScene{T: t, plane: p, ns: "t-" + rand.String(8)}
	pool := connect.NewPool(p.hub, dial.New(dial.Policy{AllowLoopback: true}), connect.Options{})
	t.Cleanup(pool.Close)
	s.acts = New(Deps{
		Hub: p.hub, Clusters: pool, Renders: render.NewStore(p.hub), Ledger: apply.NewLedger(p.hub), Metrics: NewMetrics(),
		Status: status.NewWriter(p.hub, events.NewFakeRecorder(64)), Permits: &hook.Permits{},
	})
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.ns}})
	s.create(&corev1.Secret{ObjectMeta: s.meta("east"), Data: map[string][]byte{"kubeconfig": p.kubeconfig}})
	c := &v1alpha1.Cluster{ObjectMeta: s.meta("east")}
	c.Spec = v1alpha1.ClusterSpec{ConnectionMode: v1alpha1.ConnectionModeAgentless, Agentless: &v1alpha1.AgentlessConnection{
		Auth: v1alpha1.ClusterAuth{Type: v1alpha1.AuthTypeKubeconfig, Kubeconfig: &v1alpha1.KubeconfigAuth{
			SecretRef: v1alpha1.KubeconfigSecretRef{Name: "east", Key: "kubeconfig"},
		}},
	}}
	s.create(c)
	r := &v1alpha1.Release{ObjectMeta: s.meta("app")}
	r.Annotations = map[string]string{}
	r.Spec = v1alpha1.ReleaseSpec{
		ClusterRef: v1alpha1.ClusterRef{Name: "east"}, Source: v1alpha1.Source{ConfigMap: &v1alpha1.ConfigMapSource{Name: "source"}},
		TargetNamespace: s.ns, Hooks: []v1alpha1.Hook{h},
		SyncPolicy:     v1alpha1.SyncPolicy{Interval: metav1.Duration{Duration: time.Hour}, Timeout: metav1.Duration{Duration: time.Minute}},
		DeletionPolicy: v1alpha1.ReleaseDeletionPolicy{Timeout: metav1.Duration{Duration: time.Minute}},
	}
	s.create(r)
	s.key = delivery.Key{Namespace: s.ns, Name: "app", UID: string(r.UID)}
	metav1.SetMetaDataAnnotation(&r.ObjectMeta, v1alpha1.AnnotationNewLife, string(r.UID))
	s.must(p.hub.Update(t.Context(), r))
	greeting := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: greeting}\n"
	rendered, err := render.Render(t.Context(), render.Input{Files: map[string][]byte{"greeting.yaml": []byte(greeting)}, Type: v1alpha1.RenderPlain})
	s.must(err)
	ref, err := s.acts.Renders.Put(t.Context(), r, rendered)
	s.must(err)
	r.Status.RenderRef = &ref
	r.Status.Rollout = &v1alpha1.RolloutStatus{
		Number: 1, Digest: ref.Digest, Phase: v1alpha1.RolloutRunning, Cluster: delivery.ClusterIdentity(c), WorkflowID: "rollout", StartTime: metav1.Now(),
	}
	s.must(p.hub.Status().Update(t.Context(), r))
	s.job = &batchv1.Job{ObjectMeta: s.meta("migrate")}
	return s
}

func (s *jobScene) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.ns, Name: name}
}

func (s *jobScene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *jobScene) create(o hubclient.Object) {
	s.Helper()
	s.must(s.hub.Create(s.Context(), o))
}

// mute has the Cluster name a server that takes connections and never says anything.
func (s *jobScene) mute() {
	s.Helper()
	l, err := (&net.ListenConfig{}).Listen(s.Context(), "tcp", "127.0.0.1:0")
	s.must(err)
	s.Cleanup(func() { _ = l.Close() })
	kubeconfig := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "https://%s"}}], users: [{name: u, user: {token: t}}]}`, l.Addr())
	var secret corev1.Secret
	s.must(s.hub.Get(s.Context(), types.NamespacedName{Namespace: s.ns, Name: "east"}, &secret))
	secret.Data["kubeconfig"] = []byte(kubeconfig)
	s.must(s.hub.Update(s.Context(), &secret))
}

func (s *jobScene) release() *v1alpha1.Release {
	s.Helper()
	r := &v1alpha1.Release{}
	s.must(s.hub.Get(s.Context(), types.NamespacedName{Namespace: s.ns, Name: "app"}, r))
	return r
}

// input asks for the hook of rollout 1.
func (s *jobScene) input() HookInput {
	s.Helper()
	r := s.release()
	h := r.Spec.Hooks[0]
	return HookInput{
		Rollout: delivery.RolloutInput{Key: s.key, Cluster: "east", Number: 1, Digest: r.Status.Rollout.Digest}, Hook: delivery.HookRef{Name: h.Name, Phase: h.Phase, Kind: "Job"},
		Last: h.Phase == v1alpha1.HookPostApply,
	}
}

// run runs the hook, and meanwhile once its Job is there.
func (s *jobScene) run(meanwhile func()) StepResult {
	s.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetTestTimeout(time.Minute)
	env.RegisterActivity(s.acts)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if meanwhile == nil {
			return
		}
		err := wait.PollUntilContextTimeout(s.Context(), 20*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
			return s.hub.Get(ctx, hubclient.ObjectKeyFromObject(s.job), s.job) == nil, nil
		})
		if err != nil {
			s.Error("the Job was not made")
			return
		}
		meanwhile()
	}()
	value, err := env.ExecuteActivity(s.acts.RunHook, s.input())
	<-done
	s.must(err)
	var out StepResult
	s.must(value.Get(&out))
	return out
}

// end says of the Job how it ended, as its controller would.
func (s *jobScene) end(condition batchv1.JobConditionType) {
	now := metav1.Now()
	s.job.Status.StartTime = &now
	s.job.Status.Conditions = []batchv1.JobCondition{{Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: now}}
	if condition == batchv1.JobComplete {
		s.job.Status.Conditions = append(s.job.Status.Conditions, batchv1.JobCondition{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue, LastTransitionTime: now})
		s.job.Status.CompletionTime = &now
	} else {
		s.job.Status.Conditions = append(s.job.Status.Conditions, batchv1.JobCondition{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	if err := s.hub.Status().Update(s.Context(), s.job); err != nil {
		s.Error(err)
	}
}

func (s *jobScene) remove() {
	if err := s.hub.Delete(s.Context(), s.job, hubclient.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		s.Error(err)
	}
}

// left is whether the Job is there, and whether convoy's finalizer is on it.
func (s *jobScene) left() (there, held bool) {
	s.Helper()
	err := s.hub.Get(s.Context(), hubclient.ObjectKeyFromObject(s.job), s.job)
	s.must(hubclient.IgnoreNotFound(err))
	return err == nil, err == nil && slices.Contains(s.job.Finalizers, v1alpha1.HookFinalizer)
}

func TestAJobOfAHookOnATarget(t *testing.T) {
	p := startPlane(t)
	h := v1alpha1.Hook{Name: "migrate", Phase: v1alpha1.HookPreApply, OnFailure: v1alpha1.HookFail, Job: &v1alpha1.HookJob{Template: migrateJob}}
	h.Timeout.Duration = time.Minute
	last := h
	last.Phase = v1alpha1.HookPostApply
	short := h
	short.Timeout.Duration = 2 * time.Second
	cases := map[string]struct {
		hook      v1alpha1.Hook
		meanwhile func(*jobScene)
		message   string // of a failure
		stays     bool
	}{
		"it completes":                   {h, func(s *jobScene) { s.end(batchv1.JobComplete) }, "", true},
		"it completes and is taken away": {h, func(s *jobScene) { s.end(batchv1.JobComplete); s.remove() }, "", false},
		"it completes and is the last":   {last, func(s *jobScene) { s.end(batchv1.JobComplete) }, "", true},
		"it fails":                       {h, func(s *jobScene) { s.end(batchv1.JobFailed) }, "it failed", true},
		"it fails and is taken away":     {h, func(s *jobScene) { s.end(batchv1.JobFailed); s.remove() }, "it failed", false},
		"somebody deletes it":            {h, (*jobScene).remove, "deleted before it had ended", false},
		"it takes too long":              {short, func(*jobScene) {}, "not done after 2s", false},
	}
	t.Run("a suspension stops it for a while", func(t *testing.T) {
		t.Parallel()
		suspend(t, p, h)
	})
	t.Run("it becomes a hook of another kind", func(t *testing.T) {
		t.Parallel()
		becomeCheck(t, p, h)
	})
	check := v1alpha1.Hook{Name: "check", Phase: v1alpha1.HookPreApply, OnFailure: v1alpha1.HookFail, Check: &v1alpha1.HookCheck{
		Target: v1alpha1.HookCheckTarget{APIVersion: "v1", Kind: "ConfigMap"}, CEL: "true",
	}}
	for _, tc := range []v1alpha1.Hook{h, check} {
		tc.Timeout.Duration = 5 * time.Second
		t.Run("the target does not answer "+tc.Name, func(t *testing.T) {
			t.Parallel()
			s := newJobScene(t, p, tc)
			s.mute()
			out := s.run(nil)
			if want := `not done after 5s: Cluster "east": the API server did not answer in time`; !strings.Contains(out.Message, want) {
				t.Errorf("%+v, want %s", out, want)
			}
		})
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newJobScene(t, p, tc.hook)
			out := s.run(func() { tc.meanwhile(s) })
			if failed := out.Phase == v1alpha1.RolloutFailed; failed != (tc.message != "") || !strings.Contains(out.Message, tc.message) {
				t.Errorf("%+v, want %q", out, tc.message)
			}
			if there, held := s.left(); there != tc.stays || held {
				t.Errorf("the Job is there: %v, with the finalizer: %v", there, held)
			}
			uid := s.job.UID
			if again := s.run(nil); again.Phase != out.Phase || again.Message != out.Message {
				t.Errorf("a second look at the run gives %+v", again)
			}
			if there, _ := s.left(); there != tc.stays || s.job.UID != uid {
				t.Error("the run was begun again")
			}
			run := s.release().Status.Hooks[0]
			if run.Object == nil || run.Object.Name != "migrate" || run.Object.Namespace != s.ns || run.EndTime == nil {
				t.Errorf("the ledger has %+v", run)
			}
		})
	}
}

// becomeCheck: a worker was killed after it made a Job, and the hook is a check when another one takes the run up.
func becomeCheck(t *testing.T, p plane, h v1alpha1.Hook) {
	t.Helper()
	s := newJobScene(t, p, h)
	run, err := s.acts.hookStep(t.Context(), s.input())
	s.must(err)
	run.deed, err = s.acts.deedOf(t.Context(), run, delivery.NewContext(run.cluster, run.release))
	s.must(err)
	run.run.Object = run.deed.object
	_, err = s.acts.tell(t.Context(), run.step, func(r *v1alpha1.Release) { status.HookStarted(r, run.run) })
	s.must(err)
	s.must(run.deed.start(t.Context()))
	if there, held := s.left(); !there || !held {
		t.Fatalf("the Job is there: %v, with the finalizer: %v", there, held)
	}
	r := s.release()
	r.Spec.Hooks[0].Job = nil
	r.Spec.Hooks[0].Check = &v1alpha1.HookCheck{Target: v1alpha1.HookCheckTarget{APIVersion: "v1", Kind: "ConfigMap"}, CEL: "true"}
	s.must(s.hub.Update(t.Context(), r))
	if out := s.run(nil); out != (StepResult{}) {
		t.Errorf("%+v", out)
	}
	if there, _ := s.left(); there {
		t.Error("the Job goes on beside the rollout")
	}
	if run := s.release().Status.Hooks[0]; run.State != v1alpha1.HookSucceeded || run.Object != nil {
		t.Errorf("the ledger has %+v", run)
	}
}

// suspend: a suspension stops a Job, and the run begins anew after it.
func suspend(t *testing.T, p plane, h v1alpha1.Hook) {
	t.Helper()
	s := newJobScene(t, p, h)
	var first types.UID
	out := s.run(func() {
		first = s.job.UID
		r := s.release()
		r.Spec.Suspend = true
		if err := s.hub.Update(s.Context(), r); err != nil {
			s.Error(err)
		}
		s.end(batchv1.JobComplete) // just now: nobody asks for it any more
	})
	if !out.Superseded {
		t.Fatalf("it goes on: %+v", out)
	}
	if runs := s.release().Status.Hooks; len(runs) != 0 {
		t.Errorf("the ledger has %+v", runs)
	}
	r := s.release()
	r.Spec.Suspend = false
	s.must(s.hub.Update(t.Context(), r))
	s.job = &batchv1.Job{ObjectMeta: s.meta("migrate")}
	out = s.run(func() {
		err := wait.PollUntilContextTimeout(s.Context(), 20*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
			return s.hub.Get(ctx, hubclient.ObjectKeyFromObject(s.job), s.job) == nil && s.job.UID != first, nil
		})
		if err != nil {
			s.Error("the Job was not made anew")
			return
		}
		s.end(batchv1.JobComplete)
	})
	if out != (StepResult{}) {
		t.Errorf("%+v", out)
	}
}
