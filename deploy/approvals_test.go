package deploy_test

import (
	"context"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
)

func approval(name, by string) *v1alpha1.Approval {
	return &v1alpha1.Approval{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: v1alpha1.ApprovalSpec{
		ReleaseRef: v1alpha1.ReleaseRef{Name: "app"}, Digest: "sha256:" + strings.Repeat("0", 64), ApprovedBy: by,
	}}
}

// clientOf acts as a user who has the role of approvers in the namespace default.
func clientOf(t *testing.T, user string) client.Client {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "approver-" + user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "convoy-approver"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	if err := hub.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	as := rest.CopyConfig(config)
	as.Impersonate = rest.ImpersonationConfig{UserName: user}
	c, err := client.New(as, client.Options{Scheme: s})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// objectOf names an Approval for a client that does not know the kind.
func objectOf(a *v1alpha1.Approval) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Approval"))
	o.SetNamespace(a.Namespace)
	o.SetName(a.Name)
	return o
}

func TestNobodyApprovesInTheNameOfAnother(t *testing.T) {
	jane := clientOf(t, "jane")
	// A new policy and a new role take effect a moment after they are written.
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		err := jane.Create(ctx, approval("in-the-name-of-john", "john"), client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "approvedBy has to be who creates the Approval: jane"), nil
	})
	if err != nil {
		t.Error("jane may approve in the name of john")
	}
	mine := approval("of-jane", "jane")
	if err := jane.Create(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	changed := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"hook":"smoke"}}`))
	if err := hub.Patch(t.Context(), objectOf(mine), changed); err == nil || !strings.Contains(err.Error(), "cannot be changed") {
		t.Errorf("an Approval could be changed: %v", err)
	}
	if err := jane.Status().Update(t.Context(), mine); !apierrors.IsForbidden(err) {
		t.Errorf("who approves may write what became of it: %v", err)
	}
}
