package connect

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

func TestAServiceAccountHasItsGroupsAndItsOwnPermissionsOnly(t *testing.T) {
	user, err := environment.AddUser(envtest.User{Name: "convoy", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := &hub{}
	h.putCA("1", map[string]string{"ca.crt": string(realAuthority())})
	h.putSecret("target", "s", "1", map[string][]byte{"tls.crt": user.Config().CertData, "tls.key": user.Config().KeyData})
	c, err := newPool(t, h, Options{}).Client(t.Context(), withAuth(environment.Config.Host, certificateAuth()))
	if err != nil {
		t.Fatal(err)
	}
	acting, _, err := c.As("system:serviceaccount:default:deployer")
	if err != nil {
		t.Fatal(err)
	}
	review, err := acting.Resource(authenticationv1.SchemeGroupVersion.WithResource("selfsubjectreviews")).
		Create(t.Context(), selfSubjectReview(), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	groups, _, _ := unstructured.NestedStringSlice(review.Object, "status", "userInfo", "groups")
	slices.Sort(groups)
	if diff := cmp.Diff([]string{"system:authenticated", "system:serviceaccounts", "system:serviceaccounts:default"}, groups); diff != "" {
		t.Error(diff)
	}
	maps := acting.Resource(configMaps).Namespace("default")
	if _, err := maps.Get(t.Context(), "x", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("without a role: %v", err)
	}
	k, err := kubernetes.NewForConfig(environment.Config)
	if err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "by-group"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:serviceaccounts:default"}},
	}
	if _, err := k.RbacV1().RoleBindings("default").Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the role of the group is in force", func() bool {
		_, err := maps.Get(t.Context(), "x", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

func TestAServiceAccountSharesTheConnection(t *testing.T) {
	var mu sync.Mutex
	users := map[string][]string{} // by the address of the connection's other end
	server, ca := stub(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		users[r.RemoteAddr] = append(users[r.RemoteAddr], r.Header.Get("Impersonate-User")+"/"+r.Header.Get("Authorization"))
		mu.Unlock()
		always(http.StatusOK, "application/json", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}`)(w, r)
	})
	c := clientOf(t, kubeconfigFor(server.URL, ca, "{token: t0k3n}"), Options{})
	acting, _, err := c.As("system:serviceaccount:a:b")
	if err != nil {
		t.Fatal(err)
	}
	if err := readConfigMap(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if _, err := acting.Resource(configMaps).Namespace("d").Get(t.Context(), "x", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(users) != 1 {
		t.Errorf("connections: %v", users)
	}
	for _, seen := range users {
		if diff := cmp.Diff([]string{"/Bearer t0k3n", "system:serviceaccount:a:b/Bearer t0k3n"}, seen); diff != "" {
			t.Error(diff)
		}
	}
}

func TestWarningsGoToTheListenerOfTheirRequest(t *testing.T) {
	server, ca := stub(t, func(w http.ResponseWriter, r *http.Request) {
		warning := `299 - "about ` + strings.TrimPrefix(r.Header.Get("Impersonate-User"), "x-") + `"`
		always(http.StatusOK, "application/json", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}`, "Warning", warning)(w, r)
	})
	c := clientOf(t, kubeconfigFor(server.URL, ca, "{token: t}"), Options{})
	var heard []string
	listening := Listen(t.Context(), func(text string) { heard = append(heard, text) })
	if err := readConfigMap(t.Context(), c); err != nil { // nobody listens
		t.Fatal(err)
	}
	if err := readConfigMap(listening, c); err != nil {
		t.Fatal(err)
	}
	acting, _, err := c.As("x-somebody")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := acting.Resource(configMaps).Namespace("d").Get(listening, "x", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"about ", "about somebody"}, heard); diff != "" {
		t.Error(diff)
	}
}
