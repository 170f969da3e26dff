package activities

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/apply"
	"kumodo.io/convoy/internal/connect"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/dial"
	"kumodo.io/convoy/internal/room"
	"kumodo.io/convoy/internal/status"
)

// registered is a Cluster whose token is in the Secret default/token.
func registered() (*v1alpha1.Cluster, *corev1.Secret) {
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "east", UID: "c-1", Generation: 3}}
	c.Spec = v1alpha1.ClusterSpec{ConnectionMode: "agentless", Agentless: &v1alpha1.AgentlessConnection{
		Server: "https://127.0.0.1:1",
		Auth: v1alpha1.ClusterAuth{Type: "token", Token: &v1alpha1.TokenAuth{
			SecretRef: v1alpha1.TokenSecretRef{Name: "token", Key: "token"},
		}},
	}}
	return c, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "token", UID: "s-1"}, Data: map[string][]byte{"token": []byte("t0k")},
	}
}

func TestCredentialsAreWrittenOnceKeptAgainWhenRemovedAndDroppedWithTheCluster(t *testing.T) {
	c, token := registered()
	writes := 0
	hub := hubWith(t, interceptor.Funcs{
		Create: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			writes++
			return w.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			writes++
			return w.Update(ctx, o, opts...)
		},
	}, c, token)
	pool := connect.NewPool(hub, dial.New(dial.Policy{}), connect.Options{})
	defer pool.Close()
	a := &Activities{Deps: Deps{Hub: hub, Clusters: pool, Metrics: NewMetrics()}}
	keep := func() *corev1.Secret {
		t.Helper()
		conn, err := pool.Client(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := a.keepCredentials(t.Context(), c, conn); err != nil {
				t.Fatal(err)
			}
		}
		var kept corev1.Secret
		if err := hub.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: connect.KeptName(c.UID)}, &kept); err != nil {
			t.Fatal(err)
		}
		return &kept
	}
	kept := keep()
	want := map[string][]byte{"auth": []byte("token"), "server": []byte("https://127.0.0.1:1"), "token": []byte("t0k")}
	if diff := cmp.Diff(want, kept.Data); diff != "" || writes != 1 || len(kept.Finalizers) != 1 {
		t.Errorf("%d writes, finalizers %v, data (-want +got):\n%s", writes, kept.Finalizers, diff)
	}
	kept.Finalizers = nil
	if err := hub.Update(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	if err := hub.Delete(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	writes = 0
	if kept = keep(); writes != 1 || len(kept.Finalizers) != 1 {
		t.Errorf("after somebody removed them: %d writes, finalizers %v", writes, kept.Finalizers)
	}
	writes = 1
	token.Data["token"] = []byte("new")
	if err := hub.Update(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	if kept = keep(); string(kept.Data["token"]) != "new" || writes != 3 {
		t.Errorf("after a rotation: %d writes, token %s", writes, kept.Data["token"])
	}
	for range 2 {
		if err := a.forgetCluster(t.Context(), delivery.Key{Namespace: "default", Name: "east", UID: "c-1"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := hub.Get(t.Context(), client.ObjectKeyFromObject(kept), kept); !apierrors.IsNotFound(err) {
		t.Errorf("what was kept is still there: %v", err)
	}
}

func TestTheLastClusterOfANamespaceTakesAllKeptCredentialsWithIt(t *testing.T) {
	kept := func(uid string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: connect.KeptName(types.UID(uid)), UID: types.UID("of-" + uid),
				Labels: map[string]string{v1alpha1.LabelClusterUID: uid}, Finalizers: []string{v1alpha1.CredentialsFinalizer},
			},
			Type: v1alpha1.SecretTypeCredentials,
		}
	}
	c, _ := registered()
	other := c.DeepCopy()
	other.Name, other.UID = "west", "c-2"
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "mine", Labels: map[string]string{v1alpha1.LabelClusterUID: "c-0"},
	}}
	hub := hubWith(t, interceptor.Funcs{}, c, other, kept("c-0"), kept("c-1"), kept("c-2"), foreign)
	a := &Activities{Deps: Deps{Hub: hub, Clusters: connect.NewPool(hub, dial.New(dial.Policy{}), connect.Options{}), Metrics: NewMetrics()}}
	left := func() (names []string) {
		t.Helper()
		var all corev1.SecretList
		if err := hub.List(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		for i := range all.Items {
			names = append(names, all.Items[i].Name)
		}
		return names
	}
	for _, step := range []struct {
		gone *v1alpha1.Cluster
		want []string
	}{
		{c, []string{"convoy-credentials-c-0", "convoy-credentials-c-2", "mine"}},
		{other, []string{"mine"}},
	} {
		if err := a.forgetCluster(t.Context(), delivery.Key{Namespace: "default", Name: step.gone.Name, UID: string(step.gone.UID)}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, left()); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", step.gone.Name, diff)
		}
		if err := hub.Delete(t.Context(), step.gone); err != nil {
			t.Fatal(err)
		}
	}
}

func TestANamespaceThatGoesAwayTakesNoNewCredentialsAndThatIsNoFailure(t *testing.T) {
	c, token := registered()
	hub := hubWith(t, interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			err := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "x", errors.New("namespace is being terminated"))
			err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
			return err
		},
	}, c, token)
	pool := connect.NewPool(hub, dial.New(dial.Policy{}), connect.Options{})
	defer pool.Close()
	conn, err := pool.Client(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := (&Activities{Deps: Deps{Hub: hub}}).keepCredentials(t.Context(), c, conn); err != nil {
		t.Error(err)
	}
}

// kicks records signals.
type kicks struct {
	sent []string
	err  error
}

func (k *kicks) SignalWorkflow(_ context.Context, workflowID, _, _ string, arg any) error {
	kick, _ := arg.(delivery.Kick)
	k.sent = append(k.sent, workflowID+" "+string(kick.Reason)+" "+kick.UID)
	return k.err
}

func TestOnlyAnUnreachableTargetThatCountsAsReachableIsSuspected(t *testing.T) {
	refused := &url.Error{Op: "Get", URL: "https://127.0.0.1:1", Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}
	lost, _ := registered()
	none := connect.NewPool(hubWith(t, interceptor.Funcs{}), dial.New(dial.Policy{}), connect.Options{})
	defer none.Close()
	_, missing := none.Client(t.Context(), lost)
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "x", errors.New("changed"))
	for name, tc := range map[string]struct {
		reachable *bool
		err, sent error
		want      []string
	}{
		"nothing listens any more":   {new(true), refused, nil, []string{"cluster/default/east Suspected c-1"}},
		"and Temporal takes no hint": {new(true), refused, errors.New("down"), []string{"cluster/default/east Suspected c-1"}},
		"it is known already":        {new(false), refused, nil, nil},
		"it was never probed":        {nil, refused, nil, nil},
		"an answer is no silence":    {new(true), conflict, nil, nil},
		"a target without room":      {new(true), &room.BusyError{NoAnswer: true}, nil, nil},
		"a failure of the hub":       {new(true), fmt.Errorf("%w: %w", apply.ErrHub, refused), nil, nil},
		"a Secret that is not there": {new(true), missing, nil, nil},
	} {
		c, _ := registered()
		c.Status.Reachable = tc.reachable
		k := &kicks{err: tc.sent}
		pool := connect.NewPool(hubWith(t, interceptor.Funcs{}), dial.New(dial.Policy{}), connect.Options{})
		defer pool.Close()
		a := &Activities{Deps: Deps{Kicks: k, Clusters: pool}}
		var suite testsuite.WorkflowTestSuite
		env := suite.NewTestActivityEnvironment()
		suspect := func(ctx context.Context) error {
			a.suspect(ctx, c, tc.err)
			a.suspect(ctx, c, tc.err) // once is enough
			return nil
		}
		env.RegisterActivity(suspect)
		if _, err := env.ExecuteActivity(suspect); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, k.sent); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestASecretOfAReachableClusterIsMissedOnlyOnTheSecondLook(t *testing.T) {
	c, _ := registered()
	c.Status.Reachable = new(true)
	c.Status.ObservedGeneration = c.Generation
	key := delivery.Key{Namespace: "default", Name: "east", UID: "c-1"}
	for name, tc := range map[string]struct {
		in      ProbeInput
		written bool
	}{
		"a probe":                       {ProbeInput{Key: key}, false},
		"a forced one":                  {ProbeInput{Key: key, Forced: true}, true},
		"one that follows a forced one": {ProbeInput{Key: key, After: time.Minute}, false},
	} {
		hub := hubWith(t, interceptor.Funcs{}, c.DeepCopy())
		pool := connect.NewPool(hub, dial.New(dial.Policy{}), connect.Options{})
		defer pool.Close()
		a := &Activities{Deps: Deps{
			Hub: hub, Clusters: pool, Metrics: NewMetrics(), Status: status.NewWriter(hub, events.NewFakeRecorder(8)),
		}}
		var suite testsuite.WorkflowTestSuite
		env := suite.NewTestActivityEnvironment()
		probe := func(ctx context.Context, in ProbeInput) (ProbeResult, error) {
			out, err := a.ProbeCluster(ctx, in)
			return out, Translate(ctx, err)
		}
		env.RegisterActivity(probe)
		_, err := env.ExecuteActivity(probe, tc.in)
		app, retried := errors.AsType[*temporal.ApplicationError](err)
		if retried == tc.in.Forced {
			t.Errorf("%s: ended with %v", name, err)
		}
		if retried && app.NextRetryDelay() < 2*time.Second {
			t.Errorf("%s: tried again after %s", name, app.NextRetryDelay())
		}
		var now v1alpha1.Cluster
		if err := hub.Get(t.Context(), client.ObjectKeyFromObject(c), &now); err != nil {
			t.Fatal(err)
		}
		if *now.Status.Reachable == tc.written {
			t.Errorf("%s: reachable is %v", name, *now.Status.Reachable)
		}
	}
}
