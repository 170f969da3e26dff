package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	temporalclient "go.temporal.io/sdk/client"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/dev/env"
)

// patience is how long a condition may take. Loaded machines are slow; a test that passes does not wait.
const patience = 2 * time.Minute

// scene is the stage of one test: a namespace of its own on the hub, and helpers that fail the test with the state of that
// namespace. The name of the namespace is also free on every target.
type scene struct {
	*testing.T
	site
	ns  string
	ctx context.Context
}

// site is where a scene plays: a hub, its Temporal and the convoy that serves them.
type site struct {
	local    *env.Env
	hub      client.Client
	hubFile  string // kubeconfig of the hub
	temporal temporalclient.Client
	convoy   *convoy
	webhooks string // address at which its watcher is told of pushes
}

// sharedSite is the site that TestMain made.
func sharedSite() site {
	return site{local: local, hub: hubClient, hubFile: hubFile, temporal: temporal, convoy: shared, webhooks: webhooksAt}
}

// newScene makes a namespace for a test that runs beside others.
func newScene(t *testing.T) *scene {
	t.Helper()
	t.Parallel()
	return newSerialScene(t)
}

// newSerialScene makes a namespace for a test that runs alone.
func newSerialScene(t *testing.T) *scene {
	t.Helper()
	return newSceneAt(t, sharedSite())
}

// newSceneAt makes a namespace on the hub of a site.
func newSceneAt(t *testing.T, at site) *scene {
	t.Helper()
	s := &scene{T: t, site: at, ns: fmt.Sprintf("t-%08x", rand.Uint32()), ctx: t.Context()}
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.ns}})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s\n--- log of convoy:\n%s", s.state(), s.convoy.tail())
			return
		}
		s.removeClusters()
	})
	return s
}

// poll calls check until it returns nil or ctx ends; then it returns the last answer that is not about that end. It looks
// often at first and less often later: many tests wait at once, and looking is work.
func poll(ctx context.Context, check func(context.Context) error) error {
	const first, slowest = 50 * time.Millisecond, 400 * time.Millisecond
	pause := first
	timer := time.NewTimer(pause)
	defer timer.Stop()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return last
		}
		pause = min(pause*5/4, slowest)
	}
}

// eventually waits until check returns nil.
func (s *scene) eventually(what string, check func(context.Context) error) {
	s.Helper()
	s.within(patience, what, check)
}

// within is eventually with a deadline of its own.
func (s *scene) within(limit time.Duration, what string, check func(context.Context) error) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	if err := poll(ctx, check); err != nil {
		s.Fatalf("not within %s: %s: %v", limit, what, err)
	}
}

// must fails the test on an error.
func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// create writes a new object to the hub.
func (s *scene) create(o client.Object) {
	s.Helper()
	s.must(s.hub.Create(s.ctx, o))
}

// change reads an object of the hub again, changes it and writes it, also when others write it meanwhile.
func change[T client.Object](s *scene, o T, apply func(T)) {
	s.Helper()
	s.must(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := s.hub.Get(s.ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		apply(o)
		return s.hub.Update(s.ctx, o)
	}))
}

// remove deletes an object of the hub without waiting.
func (s *scene) remove(o client.Object) {
	s.Helper()
	s.must(s.hub.Delete(s.ctx, o))
}

// awaitGone waits until an object is gone from the control plane of a client.
func (s *scene) awaitGone(from client.Client, o client.Object) {
	s.Helper()
	s.eventually(fmt.Sprintf("%T %s is gone", o, o.GetName()), func(ctx context.Context) error {
		err := from.Get(ctx, client.ObjectKeyFromObject(o), o)
		if err != nil {
			return client.IgnoreNotFound(err)
		}
		return fmt.Errorf("it is still there, with finalizers %v", o.GetFinalizers())
	})
}

// exists reports whether an object is there.
func (s *scene) exists(on client.Client, o client.Object) bool {
	s.Helper()
	err := on.Get(s.ctx, client.ObjectKeyFromObject(o), o)
	if client.IgnoreNotFound(err) != nil {
		s.Fatal(err)
	}
	return err == nil
}

// secret writes a Secret to the hub.
func (s *scene) secret(name string, data map[string]string) *corev1.Secret {
	s.Helper()
	o := &corev1.Secret{ObjectMeta: s.meta(name), StringData: data}
	s.create(o)
	return o
}

// configMap writes a ConfigMap to the hub.
func (s *scene) configMap(name string, data map[string]string) *corev1.ConfigMap {
	s.Helper()
	o := &corev1.ConfigMap{ObjectMeta: s.meta(name), Data: data}
	s.create(o)
	return o
}

func (s *scene) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.ns, Name: name}
}

// clusterOf describes a Cluster whose kubeconfig is in the Secret <name>-kubeconfig, key kubeconfig. It writes nothing.
func (s *scene) clusterOf(name string) *v1alpha1.Cluster {
	return &v1alpha1.Cluster{ObjectMeta: s.meta(name), Spec: v1alpha1.ClusterSpec{
		ConnectionMode: v1alpha1.ConnectionModeAgentless,
		Agentless: &v1alpha1.AgentlessConnection{Auth: v1alpha1.ClusterAuth{
			Type: v1alpha1.AuthTypeKubeconfig,
			Kubeconfig: &v1alpha1.KubeconfigAuth{SecretRef: v1alpha1.KubeconfigSecretRef{
				Name: name + "-kubeconfig", Key: "kubeconfig",
			}},
		}},
	}}
}

// cluster writes a Cluster and the Secret with its kubeconfig.
func (s *scene) cluster(name string, kubeconfig []byte, changes ...func(*v1alpha1.Cluster)) *v1alpha1.Cluster {
	s.Helper()
	s.secret(name+"-kubeconfig", map[string]string{"kubeconfig": string(kubeconfig)})
	c := s.clusterOf(name)
	for _, apply := range changes {
		apply(c)
	}
	s.create(c)
	return c
}

// readyCluster writes a Cluster of a target and waits until it is Ready.
func (s *scene) readyCluster(name string, target *env.ControlPlane, changes ...func(*v1alpha1.Cluster)) *v1alpha1.Cluster {
	s.Helper()
	s.cluster(name, target.Kubeconfig(), changes...)
	return s.awaitCluster(name, metav1.ConditionTrue, v1alpha1.ReasonReachable)
}

// release writes a Release of the ConfigMap source to Cluster cluster. Its objects go to the namespace of the scene,
// which it creates on the target.
func (s *scene) release(name, cluster, source string, changes ...func(*v1alpha1.Release)) *v1alpha1.Release {
	s.Helper()
	r := &v1alpha1.Release{ObjectMeta: s.meta(name), Spec: v1alpha1.ReleaseSpec{
		ClusterRef:      v1alpha1.ClusterRef{Name: cluster},
		Source:          v1alpha1.Source{ConfigMap: &v1alpha1.ConfigMapSource{Name: source}},
		TargetNamespace: s.ns, CreateNamespace: true,
		// The Go types write zero durations out, which the schema refuses: the defaults, spelled.
		SyncPolicy:     v1alpha1.SyncPolicy{Interval: metav1.Duration{Duration: time.Hour}, Timeout: metav1.Duration{Duration: 5 * time.Minute}},
		DeletionPolicy: v1alpha1.ReleaseDeletionPolicy{Timeout: metav1.Duration{Duration: 5 * time.Minute}},
	}}
	for _, apply := range changes {
		apply(r)
	}
	s.create(r)
	return r
}

// manifest is a ConfigMap as a source has it, with one entry text.
func manifest(name, text string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {text: %q}\n", name, text)
}

// greeting writes a source called name with one ConfigMap called name.
func (s *scene) greeting(name, text string) *corev1.ConfigMap {
	s.Helper()
	return s.configMap(name, map[string]string{"greeting.yaml": manifest(name, text)})
}

// awaitCluster waits until the Ready condition of a Cluster is about its current generation and as wished.
func (s *scene) awaitCluster(name string, status metav1.ConditionStatus, reason string) *v1alpha1.Cluster {
	s.Helper()
	c := &v1alpha1.Cluster{ObjectMeta: s.meta(name)}
	s.eventually(fmt.Sprintf("Cluster %s has Ready=%s, %s", name, status, reason), func(ctx context.Context) error {
		if err := s.hub.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil {
			return err
		}
		return s.compare(c.Status.Conditions, v1alpha1.ConditionReady, status, reason, c.Generation)
	})
	return c
}

// getCluster reads a Cluster.
func (s *scene) getCluster(name string) *v1alpha1.Cluster {
	s.Helper()
	c := &v1alpha1.Cluster{ObjectMeta: s.meta(name)}
	s.must(s.hub.Get(s.ctx, client.ObjectKeyFromObject(c), c))
	return c
}

// awaitRelease waits until a condition of a Release is about its current generation and as wished. An empty reason is any.
func (s *scene) awaitRelease(name, condition string, status metav1.ConditionStatus, reason string) *v1alpha1.Release {
	s.Helper()
	r := &v1alpha1.Release{ObjectMeta: s.meta(name)}
	s.eventually(fmt.Sprintf("Release %s has %s=%s, %s", name, condition, status, reason), func(ctx context.Context) error {
		if err := s.hub.Get(ctx, client.ObjectKeyFromObject(r), r); err != nil {
			return err
		}
		return s.compare(r.Status.Conditions, condition, status, reason, r.Generation)
	})
	return r
}

// awaitDelivered waits until a Release is Ready.
func (s *scene) awaitDelivered(name string) *v1alpha1.Release {
	s.Helper()
	return s.awaitRelease(name, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonDelivered)
}

// awaitClosed waits until a Release reports that its Cluster is not ready.
func (s *scene) awaitClosed(name string) *v1alpha1.Release {
	s.Helper()
	return s.awaitRelease(name, v1alpha1.ConditionApplied, metav1.ConditionFalse, v1alpha1.ReasonClusterNotReady)
}

func (s *scene) compare(all []metav1.Condition, kind string, status metav1.ConditionStatus, reason string, generation int64) error {
	is := meta.FindStatusCondition(all, kind)
	switch {
	case is == nil:
		return fmt.Errorf("condition %s is not there", kind)
	case is.Status != status || reason != "" && is.Reason != reason:
		return fmt.Errorf("%s=%s, %s: %s", kind, is.Status, is.Reason, is.Message)
	case is.ObservedGeneration != generation:
		return fmt.Errorf("%s is about generation %d, not %d", kind, is.ObservedGeneration, generation)
	}
	return nil
}

// request asks a Release for a reconcile through its annotation and waits until that was handled.
func (s *scene) request(name string) {
	s.Helper()
	r := &v1alpha1.Release{ObjectMeta: s.meta(name)}
	value := s.ask(name)
	s.eventually("Release "+name+" handles "+value, func(ctx context.Context) error {
		if err := s.hub.Get(ctx, client.ObjectKeyFromObject(r), r); err != nil {
			return err
		}
		if got := r.Status.LastHandledReconcileAt; got != value {
			return fmt.Errorf("lastHandledReconcileAt is %q", got)
		}
		return nil
	})
}

// ask asks a Release for a reconcile through its annotation, and does not wait.
func (s *scene) ask(name string) string {
	s.Helper()
	value := time.Now().Format(time.RFC3339Nano)
	change(s, &v1alpha1.Release{ObjectMeta: s.meta(name)}, func(r *v1alpha1.Release) {
		metav1.SetMetaDataAnnotation(&r.ObjectMeta, v1alpha1.AnnotationRequestedAt, value)
	})
	return value
}

// on is an administrator's client of a target.
func (s *scene) on(target *env.ControlPlane) client.Client {
	s.Helper()
	c, err := clientOf(target)
	s.must(err)
	return c
}

// text is the entry text of a ConfigMap in the scene's namespace of a target.
func (s *scene) text(target *env.ControlPlane, name string) string {
	s.Helper()
	var cm corev1.ConfigMap
	s.must(s.on(target).Get(s.ctx, types.NamespacedName{Namespace: s.ns, Name: name}, &cm))
	return cm.Data["text"]
}

// kubeconfigFor is a kubeconfig of an administrator with a name, by which the audit log tells requests apart.
func kubeconfigFor(t *testing.T, target *env.ControlPlane, user string) []byte {
	t.Helper()
	k, err := target.KubeconfigFor(user, "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// requests are the requests that a target answered, of those that keep accepts.
func (s *scene) requests(target *env.ControlPlane, keep func(auditv1.Event) bool) []auditv1.Event {
	s.Helper()
	all, err := target.AuditEvents()
	s.must(err)
	var kept []auditv1.Event
	for _, e := range all {
		if keep(e) {
			kept = append(kept, e)
		}
	}
	return kept
}

// ownTarget starts a target that the test may stop, kill and freeze.
func (s *scene) ownTarget(options env.ControlPlaneOptions) *env.ControlPlane {
	s.Helper()
	options.Name = "own-" + s.ns
	target, err := s.local.AddTarget(s.ctx, options)
	s.must(err)
	s.Cleanup(func() {
		if err := target.Kill(); err != nil {
			s.Error(err)
		}
	})
	return target
}
