package watcher

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

func TestOnlyWhatPeopleChangeOfAReleaseCallsForAReconcile(t *testing.T) {
	base := &v1alpha1.Release{ObjectMeta: metav1.ObjectMeta{
		Generation: 1, ResourceVersion: "1", Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"note": "n"},
	}}
	cases := map[string]struct {
		change func(*v1alpha1.Release)
		want   bool
	}{
		"nothing":              {func(*v1alpha1.Release) {}, false},
		"the spec":             {func(r *v1alpha1.Release) { r.Generation = 2 }, true},
		"a label":              {func(r *v1alpha1.Release) { r.Labels = map[string]string{"team": "b"} }, true},
		"an annotation":        {func(r *v1alpha1.Release) { r.Annotations = nil }, true},
		"a request":            {func(r *v1alpha1.Release) { r.Annotations[v1alpha1.AnnotationRequestedAt] = "now" }, true},
		"the status":           {func(r *v1alpha1.Release) { r.Status.InputsDigest = "sha256:b" }, false},
		"the finalizer":        {func(r *v1alpha1.Release) { r.Finalizers = []string{v1alpha1.ReleaseFinalizer} }, false},
		"convoy's own mark":    {func(r *v1alpha1.Release) { r.Annotations[v1alpha1.AnnotationNewLife] = "uid" }, false},
		"what kubectl applied": {func(r *v1alpha1.Release) { r.Annotations["kubectl.kubernetes.io/last-applied-configuration"] = "{}" }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			now := base.DeepCopy()
			tc.change(now)
			if got := changed(base, now); got != tc.want {
				t.Errorf("changed = %v, want %v", got, tc.want)
			}
		})
	}
}

// woken is the reason that an event puts into the queue, "" when it puts in none.
func woken(t *testing.T, tell func(queue)) delivery.KickReason {
	t.Helper()
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[request]())
	defer q.ShutDown()
	tell(q)
	end := time.AfterFunc(5*debounce, q.ShutDown) // an event that wakes nobody leaves the queue empty for good
	defer end.Stop()
	req, _ := q.Get()
	return req.reason
}

func TestWhichEventWakesAClusterAndWhy(t *testing.T) {
	w := &watcher{resync: time.Nanosecond}
	on := w.onCluster()
	known := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "east", Generation: 1, ResourceVersion: "1"}}
	known.Status.ObservedGeneration = 1
	later := func(change func(*v1alpha1.Cluster)) *v1alpha1.Cluster {
		c := known.DeepCopy()
		change(c)
		return c
	}
	type update = event.TypedUpdateEvent[*v1alpha1.Cluster]
	type create = event.TypedCreateEvent[*v1alpha1.Cluster]
	cases := map[string]struct {
		tell func(queue)
		want delivery.KickReason
	}{
		"a new one": {func(q queue) { on.Create(t.Context(), create{Object: known}, q) }, delivery.KickChanged},
		"one that was known when the process started": {func(q queue) {
			on.Create(t.Context(), create{Object: known, IsInInitialList: true}, q)
		}, delivery.KickResync},
		"one that was changed while nobody watched": {func(q queue) {
			on.Create(t.Context(), create{Object: later(func(c *v1alpha1.Cluster) { c.Generation = 2 }), IsInInitialList: true}, q)
		}, delivery.KickChanged},
		"the resync": {func(q queue) { on.Update(t.Context(), update{ObjectOld: known, ObjectNew: known}, q) }, delivery.KickResync},
		"its spec": {func(q queue) {
			on.Update(t.Context(), update{ObjectOld: known, ObjectNew: later(func(c *v1alpha1.Cluster) { c.Generation, c.ResourceVersion = 2, "2" })}, q)
		}, delivery.KickChanged},
		"its status": {func(q queue) {
			on.Update(t.Context(), update{ObjectOld: known, ObjectNew: later(func(c *v1alpha1.Cluster) { c.ResourceVersion = "2" })}, q)
		}, ""},
		"the acceptance of another cluster": {func(q queue) {
			on.Update(t.Context(), update{ObjectOld: known, ObjectNew: later(func(c *v1alpha1.Cluster) {
				c.ResourceVersion, c.Annotations = "2", map[string]string{v1alpha1.AnnotationAcceptClusterID: "id"}
			})}, q)
		}, delivery.KickChanged},
		"its finalizer, taken off": {func(q queue) {
			on.Update(t.Context(), update{
				ObjectOld: later(func(c *v1alpha1.Cluster) { c.Finalizers = []string{v1alpha1.ClusterFinalizer} }),
				ObjectNew: later(func(c *v1alpha1.Cluster) { c.ResourceVersion = "2" }),
			}, q)
		}, delivery.KickResync},
		"another annotation": {func(q queue) {
			on.Update(t.Context(), update{ObjectOld: known, ObjectNew: later(func(c *v1alpha1.Cluster) {
				c.ResourceVersion, c.Annotations = "2", map[string]string{"note": "n"}
			})}, q)
		}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := woken(t, tc.tell); got != tc.want {
				t.Errorf("reason %q, want %q", got, tc.want)
			}
		})
	}
}

func TestAReleaseIsIndexedByWhatItReads(t *testing.T) {
	from := func(kind v1alpha1.PatchSourceKind, name string) []v1alpha1.Mutation {
		return []v1alpha1.Mutation{{Name: "m", From: &v1alpha1.PatchSource{Kind: kind, Name: name}}}
	}
	for name, tc := range map[string]struct {
		spec v1alpha1.ReleaseSpec
		want []string
	}{
		"a ConfigMap":           {v1alpha1.ReleaseSpec{Source: v1alpha1.Source{ConfigMap: &v1alpha1.ConfigMapSource{Name: "app"}}}, []string{"ConfigMap/app"}},
		"an open repository":    {v1alpha1.ReleaseSpec{Source: v1alpha1.Source{Git: &v1alpha1.GitSource{}}}, nil},
		"a repository's Secret": {v1alpha1.ReleaseSpec{Source: v1alpha1.Source{Git: &v1alpha1.GitSource{SecretRef: &v1alpha1.SourceSecretRef{Name: "git"}}}}, []string{"Secret/git"}},
		"a patch":               {v1alpha1.ReleaseSpec{Mutations: from(v1alpha1.PatchFromSecret, "over")}, []string{"Secret/over"}},
		"a templated patch":     {v1alpha1.ReleaseSpec{Mutations: from(v1alpha1.PatchFromConfigMap, "over-{{ .cluster.region }}")}, []string{"ConfigMap/*"}},
		"a patch of the source": {v1alpha1.ReleaseSpec{Mutations: from(v1alpha1.PatchFromSource, "")}, nil},
		"a patch of its own":    {v1alpha1.ReleaseSpec{Mutations: []v1alpha1.Mutation{{Name: "m"}}}, nil},
	} {
		got := reads(&v1alpha1.Release{Spec: tc.spec})
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestAClusterIsIndexedByWhatItConnectsWith(t *testing.T) {
	ca := &v1alpha1.CAPublicCertRef{Kind: "ConfigMap", Name: "ca"}
	kubeconfig := &v1alpha1.KubeconfigAuth{SecretRef: v1alpha1.KubeconfigSecretRef{Name: "kc"}}
	token := &v1alpha1.TokenAuth{SecretRef: v1alpha1.TokenSecretRef{Name: "tok"}}
	certificate := &v1alpha1.ClientCertificateAuth{SecretRef: v1alpha1.CertificateSecretRef{Name: "crt"}}
	for name, tc := range map[string]struct {
		agentless *v1alpha1.AgentlessConnection
		want      []string
	}{
		"nothing": {nil, nil},
		"a kubeconfig, which has its own CA": {&v1alpha1.AgentlessConnection{
			CAPublicCertRef: ca, Auth: v1alpha1.ClusterAuth{Type: "kubeconfig", Kubeconfig: kubeconfig, Token: token},
		}, []string{"Secret/kc"}},
		"a token": {&v1alpha1.AgentlessConnection{
			CAPublicCertRef: ca, Auth: v1alpha1.ClusterAuth{Type: "token", Kubeconfig: kubeconfig, Token: token},
		}, []string{"ConfigMap/ca", "Secret/tok"}},
		"a certificate without a CA": {&v1alpha1.AgentlessConnection{
			Auth: v1alpha1.ClusterAuth{Type: "clientCertificate", ClientCertificate: certificate},
		}, []string{"Secret/crt"}},
		"a type that is not built": {&v1alpha1.AgentlessConnection{Auth: v1alpha1.ClusterAuth{Type: "oidc", Token: token}}, nil},
	} {
		got := connectsWith(&v1alpha1.Cluster{Spec: v1alpha1.ClusterSpec{Agentless: tc.agentless}})
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// starter records what Temporal is asked for.
type starter struct {
	client.Client // never called
	signals       []string
	err           error
}

func (s *starter) SignalWorkflow(_ context.Context, id, _, _ string, arg any) error {
	kick, _ := arg.(delivery.Kick)
	s.signals = append(s.signals, id+" "+string(kick.Reason))
	return s.err
}

func TestTheWorkflowOfAClusterThatVanishedIsToldIfThereIsOne(t *testing.T) {
	name := types.NamespacedName{Namespace: "team", Name: "east"}
	for what, tc := range map[string]struct {
		answer error
		failed bool
	}{
		"there is one":           {nil, false},
		"it has ended by itself": {serviceerror.NewNotFound("no such workflow"), false},
		"Temporal is down":       {serviceerror.NewUnavailable("down"), true},
	} {
		s := &starter{err: tc.answer}
		w := &watcher{starter: s}
		if err := w.tellGone(t.Context(), name); (err != nil) != tc.failed {
			t.Errorf("%s: %v", what, err)
		}
		if diff := cmp.Diff([]string{"cluster/team/east Gone"}, s.signals); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}
