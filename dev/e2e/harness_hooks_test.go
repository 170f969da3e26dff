package e2e

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/dev/env"
)

// hookedWorkflow and hookedQueue are what hooks of all namespaces may run, as the shared convoy is told.
const hookedWorkflow, hookedQueue = "Migrate", "e2e-hooks"

// listener is a server that http hooks of a scene are sent to.
type listener struct {
	url string

	mu       sync.Mutex
	requests []string // path, hook and phase of each
	ids      []string
	answer   http.HandlerFunc // nil is 200
}

// listen starts a listener, and writes the Secret with which hooks of the scene are signed.
func (s *scene) listen() *listener {
	s.Helper()
	l := &listener{}
	server := httptest.NewTLSServer(http.HandlerFunc(l.serve))
	s.Cleanup(server.Close)
	l.url = server.URL
	s.secret(v1alpha1.HookSecretName, map[string]string{
		"key": secretSentinel + "-hooks", "ca.crt": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})),
	})
	return l
}

func (l *listener) serve(w http.ResponseWriter, req *http.Request) {
	var facts struct{ Hook, Phase, ID string }
	err := json.NewDecoder(req.Body).Decode(&facts)
	l.mu.Lock()
	l.requests = append(l.requests, fmt.Sprintf("%s %s", facts.Hook, facts.Phase))
	if err != nil || !strings.HasPrefix(req.Header.Get("X-Convoy-Signature"), "sha256=") {
		l.requests = append(l.requests, "a request that is none of a hook")
	}
	l.ids = append(l.ids, req.Header.Get("Idempotency-Key"))
	answer := l.answer
	l.mu.Unlock()
	if answer != nil {
		answer(w, req)
	}
}

// told is what was sent so far.
func (l *listener) told() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.requests)
}

func (l *listener) answering(answer http.HandlerFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answer = answer
}

// httpHook tells the listener.
func (l *listener) hook(name string, phase v1alpha1.HookPhase, changes ...func(*v1alpha1.Hook)) v1alpha1.Hook {
	return newHook(name, phase, append(changes, func(h *v1alpha1.Hook) { h.HTTP = &v1alpha1.HookHTTP{URL: l.url} })...)
}

func newHook(name string, phase v1alpha1.HookPhase, changes ...func(*v1alpha1.Hook)) v1alpha1.Hook {
	h := v1alpha1.Hook{Name: name, Phase: phase, OnFailure: v1alpha1.HookFail}
	h.Timeout.Duration = patience
	for _, apply := range changes {
		apply(&h)
	}
	return h
}

// jobHook makes a Job. spec is put before its template.
func jobHook(name string, phase v1alpha1.HookPhase, spec, pod string, changes ...func(*v1alpha1.Hook)) v1alpha1.Hook {
	return newHook(name, phase, append(changes, func(h *v1alpha1.Hook) {
		h.Job = &v1alpha1.HookJob{Template: fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: %s}
spec:
  %s
  template:
    spec:
      restartPolicy: Never
      %s
      containers: [{name: main, image: pause}]
`, name, spec, pod)}
	})...)
}

func hooked(all ...v1alpha1.Hook) func(*v1alpha1.Release) {
	return func(r *v1alpha1.Release) { r.Spec.Hooks = all }
}

// waiting is what keeps the pods of a Job from running until letJobsRun.
func (s *scene) waiting() string { return fmt.Sprintf("nodeSelector: {%s: \"true\"}", s.ns) }

func (s *scene) letJobsRun(on client.Client) {
	s.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: env.NodeName}}
	label := fmt.Appendf(nil, `{"metadata":{"labels":{%q:"true"}}}`, s.ns)
	s.must(on.Patch(s.ctx, node, client.RawPatch(types.MergePatchType, label)))
}

// awaitHook waits until the run of a hook has a state, and returns it.
func (s *scene) awaitHook(release, name string, state v1alpha1.HookState) v1alpha1.HookStatus {
	s.Helper()
	var found v1alpha1.HookStatus
	s.eventually(fmt.Sprintf("hook %s is %s", name, state), func(context.Context) error {
		r := s.getRelease(release)
		i := slices.IndexFunc(r.Status.Hooks, func(run v1alpha1.HookStatus) bool { return run.Name == name })
		if i < 0 || r.Status.Hooks[i].State != state {
			return fmt.Errorf("status.hooks is %+v", r.Status.Hooks)
		}
		found = r.Status.Hooks[i]
		return nil
	})
	return found
}

// awaitJob waits until a Job of the scene is on a target.
func (s *scene) awaitJob(on client.Client, name string) *batchv1.Job {
	s.Helper()
	job := &batchv1.Job{ObjectMeta: s.meta(name)}
	s.eventually("Job "+name+" is there", func(ctx context.Context) error { return on.Get(ctx, client.ObjectKeyFromObject(job), job) })
	return job
}

// jobsMade is how often convoy made a Job of the scene.
func (s *scene) jobsMade(target *env.ControlPlane) int {
	s.Helper()
	n := 0
	for _, l := range s.recorded(target) {
		if l.Verb == "create" && l.ObjectRef.Resource == "jobs" && l.ObjectRef.Namespace == s.ns && l.ResponseStatus.Code < 300 {
			n++
		}
	}
	return n
}
