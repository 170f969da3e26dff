package connect

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"kumodo.io/convoy/api/v1alpha1"
)

// realKubeconfig is a kubeconfig for the real API server.
func realKubeconfig(t *testing.T, groups ...string) []byte {
	t.Helper()
	user, err := environment.AddUser(envtest.User{Name: "convoy", Groups: groups}, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := user.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// realPool is a pool whose hub is the real API server, and a Cluster whose target is that same server.
func realPool(t *testing.T) (*Pool, *v1alpha1.Cluster) {
	t.Helper()
	h, err := client.New(environment.Config, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "target-"},
		Data:       map[string][]byte{"kubeconfig": realKubeconfig(t, "system:masters")},
	}
	if err := h.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Delete(context.Background(), secret); err != nil {
			t.Error(err)
		}
	})
	c := cluster("real", "kubeconfig")
	c.Namespace = "default"
	c.Spec.Agentless.Auth.Kubeconfig.SecretRef.Name = secret.Name
	return newPool(t, h, Options{}), c
}

func TestAProbeOfARealServerFindsVersionGroupsAndIdentity(t *testing.T) {
	p, cluster := realPool(t)
	c, err := p.Client(t.Context(), cluster)
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Probe(t.Context(), &v1alpha1.Cluster{})
	if err != nil {
		t.Fatal(err)
	}
	namespaces := c.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	system, err := namespaces.Get(t.Context(), "kube-system", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	version, err := c.Discovery.ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if got.ClusterID != string(system.GetUID()) || got.KubernetesVersion != version.GitVersion {
		t.Errorf("probe found %q and %q, want %q and %q", got.ClusterID, got.KubernetesVersion, system.GetUID(), version.GitVersion)
	}
	for _, want := range []v1alpha1.APIGroup{{Name: "core", Versions: []string{"v1"}}, {Name: "apps", Versions: []string{"v1"}}} {
		i := slices.IndexFunc(got.APIGroups, func(g v1alpha1.APIGroup) bool { return g.Name == want.Name })
		if i < 0 {
			t.Errorf("group %s is not listed", want.Name)
		} else if diff := cmp.Diff(want, got.APIGroups[i]); diff != "" {
			t.Error(diff)
		}
	}
	apis, err := c.APIs(got.KubernetesVersion, "")
	if err != nil {
		t.Fatal(err)
	}
	if apis.Digest != got.APIDigest || got.APIDigest == "" {
		t.Errorf("the probe found what is served to be %q, the cached discovery %q", got.APIDigest, apis.Digest)
	}
	for _, want := range []string{"v1", "v1/Pod", "apps/v1", "apps/v1/Deployment"} {
		if _, served := slices.BinarySearch(apis.Versions, want); !served {
			t.Errorf("%s is not among what is served", want)
		}
	}
	if other, err := c.APIs("v1.0.0", ""); err != nil || other.Digest == apis.Digest {
		t.Errorf("another version has the same digest, %v", err)
	}
	if !slices.IsSortedFunc(got.APIGroups, func(a, b v1alpha1.APIGroup) int { return cmpStrings(a.Name, b.Name) }) {
		t.Error("the groups are not sorted by name")
	}
}

func cmpStrings(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func TestAFailingGroupIsListedAndLeavesTheOthersWorking(t *testing.T) {
	p, cluster := realPool(t)
	c, err := p.Client(t.Context(), cluster)
	if err != nil {
		t.Fatal(err)
	}
	deployment := schema.GroupKind{Group: "apps", Kind: "Deployment"}
	if _, err := c.Mapper.RESTMapping(deployment); err != nil {
		t.Fatal(err)
	}
	service := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": map[string]any{"name": "v1beta1.broken.example.test"},
		"spec": map[string]any{
			"group": "broken.example.test", "version": "v1beta1", "groupPriorityMinimum": int64(100), "versionPriority": int64(10),
			"insecureSkipTLSVerify": true, "service": map[string]any{"name": "nobody", "namespace": "default"},
		},
	}}
	services := c.Dynamic.Resource(schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"})
	if _, err := services.Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := services.Delete(context.Background(), service.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	want := v1alpha1.APIGroup{Name: "broken.example.test", Failing: true}
	eventually(t, "the probe lists the failing group", func() bool {
		got, err := c.Probe(t.Context(), &v1alpha1.Cluster{})
		if err != nil {
			t.Fatalf("a failing group failed the probe: %v", err)
		}
		if failing := slices.ContainsFunc(got.APIGroups, func(g v1alpha1.APIGroup) bool { return g.Failing }); failing != (got.APIDigest == "") {
			t.Errorf("failing %v, digest %q", failing, got.APIDigest)
		}
		return slices.ContainsFunc(got.APIGroups, func(g v1alpha1.APIGroup) bool { return cmp.Equal(g, want) })
	})
	if _, err := c.Mapper.RESTMapping(deployment); err != nil {
		t.Errorf("a healthy group does not work: %v", err)
	}
	if _, err := c.Mapper.RESTMapping(schema.GroupKind{Group: "broken.example.test", Kind: "Thing"}); !meta.IsNoMatchError(err) {
		t.Errorf("a kind of the failing group: %v", err)
	}
	// The probe has emptied the cache, so the failing group is told from an absent one.
	var partial *discovery.ErrGroupDiscoveryFailed
	if _, _, err := c.Discovery.ServerGroupsAndResources(); !errors.As(err, &partial) {
		t.Errorf("the cached discovery does not tell the failing group: %v", err)
	}
	apis, err := c.APIs("v1", "")
	if diff := cmp.Diff([]string{"broken.example.test"}, apis.Failing); err != nil || diff != "" || apis.Digest != "" {
		t.Errorf("what is served: digest %q, %v\n%s", apis.Digest, err, diff)
	}
	broken := c.Dynamic.Resource(schema.GroupVersionResource{Group: "broken.example.test", Version: "v1beta1", Resource: "things"})
	if _, err := broken.List(t.Context(), metav1.ListOptions{}); err == nil || Unreachable(err) {
		t.Errorf("a request to the failing group: %v (unreachable %v)", err, Unreachable(err))
	}
}

func TestARealServerTellsUnauthorizedForbiddenAndGoneApart(t *testing.T) {
	admin := clientOf(t, string(realKubeconfig(t, "system:masters")), Options{})
	nobody := clientOf(t, string(realKubeconfig(t, "nobody")), Options{})
	ca := environment.Config.CAData
	stranger := clientOf(t, kubeconfigFor(environment.ControlPlane.APIServer.SecureServing.URL("https", "").String(), ca, "{token: wrong}"), Options{})
	secrets := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

	_, err := nobody.Dynamic.Resource(secrets).List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) || Unreachable(err) || Classify(err).Message != "the credentials are not allowed to do this (HTTP 403)" {
		t.Errorf("forbidden: %v, %v", err, Classify(err))
	}
	if got, err := nobody.Probe(t.Context(), &v1alpha1.Cluster{}); err != nil || got.ClusterID != "" {
		t.Errorf("a user without rights to kube-system: %v, %v", got.ClusterID, err)
	}
	_, err = stranger.Dynamic.Resource(secrets).List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsUnauthorized(err) || !Unreachable(err) {
		t.Errorf("unauthorized: %v", err)
	}
	if _, err := stranger.Probe(t.Context(), &v1alpha1.Cluster{}); err == nil || err.Error() != "the API server does not accept the credentials (HTTP 401)" {
		t.Errorf("probe with a wrong token: %v", err)
	}
	gone := schema.GroupVersionResource{Group: "gone.example.test", Version: "v1", Resource: "things"}
	_, err = admin.Dynamic.Resource(gone).Get(t.Context(), "x", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) || Unreachable(err) {
		t.Errorf("a kind that is gone: %v (unreachable %v)", err, Unreachable(err))
	}
}

func TestAProbeEndsInTimeWhateverTheServerDoes(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	trickle := func(w http.ResponseWriter, r *http.Request) {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			if _, err := w.Write([]byte("{")); err != nil {
				return
			}
			w.(http.Flusher).Flush()
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
		}
	}
	late := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/version" {
			always(http.StatusOK, "application/json", `{"gitVersion":"v1.37.2"}`)(w, r)
			return
		}
		trickle(w, r)
	}
	for name, handler := range map[string]http.HandlerFunc{"hangs": hang, "trickles": trickle, "trickles later": late} {
		s, ca := stub(t, handler)
		expectTimeout(t, name, kubeconfigFor(s.URL, ca, "{}"))
	}
	expectTimeout(t, "says nothing at all", kubeconfigFor("https://"+silent(t), nil, "{}"))
}

func expectTimeout(t *testing.T, name, kubeconfig string) {
	t.Helper()
	const limit = 300 * time.Millisecond
	c := clientOf(t, kubeconfig, Options{ProbeTimeout: limit})
	start := time.Now()
	_, err := c.Probe(t.Context(), &v1alpha1.Cluster{})
	if err == nil || err.Error() != "the API server did not answer in time" || !Unreachable(err) {
		t.Errorf("%s: %v", name, err)
	}
	if took := time.Since(start); took > 20*limit {
		t.Errorf("%s: the probe took %s", name, took)
	}
}

func TestAProbeThatIsCancelledIsNoVerdict(t *testing.T) {
	arrived := make(chan struct{})
	s, ca := stub(t, func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	})
	c := clientOf(t, kubeconfigFor(s.URL, ca, "{}"), Options{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	if _, err := c.Probe(ctx, &v1alpha1.Cluster{}); !errors.Is(err, context.Canceled) || Unreachable(err) {
		t.Errorf("got %v (unreachable %v)", err, Unreachable(err))
	}
}

func TestThoseWhoQueueForAHangingDiscoveryFailTogether(t *testing.T) {
	s, ca := stub(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	const limit = 400 * time.Millisecond
	c := clientOf(t, kubeconfigFor(s.URL, ca, "{}"), Options{ProbeTimeout: limit})
	start := time.Now()
	errs := make(chan error)
	for range 50 {
		go func() {
			_, err := c.Mapper.RESTMapping(schema.GroupKind{Kind: "Pod"})
			errs <- err
		}()
	}
	for range 50 {
		if err := <-errs; !Unreachable(err) {
			t.Errorf("got %v", err)
		}
	}
	if took := time.Since(start); took > 25*limit {
		t.Errorf("50 callers waited %s", took)
	}
}

func TestADeadTargetDoesNotHoldUpAnother(t *testing.T) {
	s, ca := stub(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	p, healthy := realPool(t)
	h := &hub{}
	h.put("s", "1", "value", kubeconfigFor(s.URL, ca, "{}"))
	dead, err := newPool(t, h, Options{}).Client(t.Context(), cluster("dead", ""))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = dead.Probe(ctx, &v1alpha1.Cluster{})
	}()
	c, err := p.Client(t.Context(), healthy)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Probe(t.Context(), &v1alpha1.Cluster{}); err != nil {
		t.Error(err)
	}
	select {
	case <-ended:
		t.Error("the dead target answered")
	default:
	}
	cancel()
	<-ended
}
