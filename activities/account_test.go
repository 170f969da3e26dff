package activities

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.temporal.io/sdk/testsuite"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/apply"
	"kumodo.io/convoy/internal/connect"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/dial"
	"kumodo.io/convoy/internal/status"
)

// strict are activities that want a service account, on a hub with these objects and the identity of its own.
func strict(t *testing.T, objects ...client.Object) (*Activities, client.WithWatch) {
	t.Helper()
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "hub"}}
	hub := hubWith(t, interceptor.Funcs{}, append(objects, system)...)
	pool := connect.NewPool(hub, dial.New(dial.Policy{}), connect.Options{})
	t.Cleanup(pool.Close)
	return New(Deps{
		Hub: hub, Clusters: pool, Ledger: apply.NewLedger(hub), Status: status.NewWriter(hub, events.NewFakeRecorder(8)),
		Kicks: &kicks{}, Metrics: NewMetrics(), ServiceAccounts: delivery.ServiceAccounts{Required: true},
	}), hub
}

func TestARolloutWithoutTheServiceAccountThatIsRequiredEndsBeforeItAsksTheTarget(t *testing.T) {
	c, token := registered()
	r := rollingOut(1, "sha256:a")
	r.Annotations = map[string]string{v1alpha1.AnnotationNewLife: string(r.UID)}
	r.Status.Rollout.Cluster = delivery.ClusterIdentity(c)
	a, hub := strict(t, r, c, token)
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivity(a)
	value, err := env.ExecuteActivity(a.ApplyObjects, delivery.RolloutInput{
		Key: delivery.Key{Namespace: "default", Name: "podinfo", UID: "r-1"}, Number: 1, Digest: "sha256:a", Cluster: "east",
	})
	var out StepResult
	if err == nil {
		err = value.Get(&out)
	}
	if err != nil || out.Phase != v1alpha1.RolloutFailed || out.Reason != v1alpha1.ReasonServiceAccountRequired {
		t.Errorf("got %+v, %v", out, err)
	}
	if n := testutil.CollectAndCount(a.Metrics, "convoy_rollout_duration_seconds"); n != 1 {
		t.Errorf("%d series of rollouts, want that of the one that failed", n)
	}
	if err := hub.Get(t.Context(), client.ObjectKeyFromObject(r), r); err != nil {
		t.Fatal(err)
	}
	stalled := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionStalled)
	if stalled == nil || !strings.Contains(stalled.Message, "name one in spec.serviceAccountName") || r.Status.Inventory.State != v1alpha1.InventoryEmpty {
		t.Errorf("stalled: %v, inventory %v", stalled, r.Status.Inventory)
	}
}

func TestADeletionWithoutTheServiceAccountThatIsRequiredSaysSoAndIsRetried(t *testing.T) {
	c, token := registered()
	r := rollingOut(1, "sha256:a")
	a, _ := strict(t, r, c, token)
	_, _, done, err := a.targetNamed(t.Context(), r, "east")
	done()
	if err == nil {
		t.Fatal("it may act as anybody")
	}
	now := metav1.Now()
	r.DeletionTimestamp = &now
	leaves := &leaving{release: r, since: now.Time, began: "the deletion"}
	if got := a.awaited(t.Context(), r, a.unreachable(t.Context(), leaves, nil, "east", err)); got == nil || !strings.Contains(got.Error(), "spec.serviceAccountName") {
		t.Errorf("got %v", got)
	}
	if d := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionDeleting); d == nil || d.Reason != v1alpha1.ReasonServiceAccountRequired {
		t.Errorf("Deleting is %v", d)
	}
}
