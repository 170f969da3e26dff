package deploy_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"kumodo.io/convoy/deploy"
)

const core = "core.convoy.kumodo.io"

// access is a question to the API server: may a ServiceAccount do this?
type access struct {
	verb, group, resource, subresource string
	// name and namespace narrow it: to any object, in the namespace of a team, when empty.
	name, namespace string
}

func (a access) String() string {
	return strings.Join([]string{a.verb, a.group, a.resource, a.subresource, a.name, a.namespace}, " ")
}

func (a access) allowed(ctx context.Context, role string) (bool, error) {
	namespace := a.namespace
	if namespace == "" {
		namespace = "team-a"
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:" + deploy.Namespace + ":convoy-" + role,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: a.verb, Group: a.group, Resource: a.resource, Subresource: a.subresource, Name: a.name, Namespace: namespace,
		},
	}}
	err := hub.Create(ctx, review)
	return review.Status.Allowed, err
}

// verbs are questions that differ in their verb.
func verbs(group, resource string, all ...string) (questions []access) {
	resource, subresource, _ := strings.Cut(resource, "/")
	for _, v := range all {
		questions = append(questions, access{verb: v, group: group, resource: resource, subresource: subresource})
	}
	return questions
}

// rights of each role, as a reader of the table would want them.
var rights = map[string][]access{
	"watcher": slices.Concat(
		verbs(core, "clusters", "list", "watch", "patch"),
		verbs(core, "releases", "list", "watch", "patch"),
		verbs(core, "clusters/status", "patch"),
		verbs(core, "releases/status", "patch"),
		verbs(core, "approvals", "list", "watch"),
		verbs("", "secrets", "list", "watch"),
		verbs("", "configmaps", "list", "watch"),
		[]access{
			{verb: "get", resource: "secrets", name: "convoy-webhook"},
			{verb: "get", resource: "namespaces", name: "kube-system"},
			{verb: "create", group: "coordination.k8s.io", resource: "leases", namespace: deploy.Namespace},
			{verb: "update", group: "coordination.k8s.io", resource: "leases", name: "convoy-watcher", namespace: deploy.Namespace},
			{verb: "create", resource: "events", namespace: deploy.Namespace},
		},
	),
	"worker": slices.Concat(
		verbs(core, "clusters", "get", "list", "patch"),
		verbs(core, "releases", "get", "list", "patch", "delete"),
		verbs(core, "clusters/status", "patch"),
		verbs(core, "releases/status", "patch"),
		verbs(core, "approvals/status", "patch"),
		verbs(core, "approvals", "list"),
		verbs(core, "inventories", "list", "create", "update", "delete"),
		verbs("", "secrets", "get", "list", "create", "update", "patch", "delete"),
		verbs("", "configmaps", "get", "create"),
		verbs("events.k8s.io", "events", "create", "patch"),
		verbs("", "namespaces", "get"),
	),
	"observer": slices.Concat(
		verbs(core, "clusters", "list", "watch"),
		verbs(core, "releases", "get", "list", "watch"),
		verbs(core, "releases/status", "patch"),
		verbs("", "secrets", "get"),
		verbs("", "configmaps", "get"),
		verbs("events.k8s.io", "events", "create", "patch"),
		[]access{{verb: "get", resource: "namespaces", name: "kube-system"}},
	),
}

func TestEachServiceAccountMayDoWhatItsRoleDoes(t *testing.T) {
	for role, all := range rights {
		for _, a := range all {
			t.Run(role+" "+a.String(), func(t *testing.T) {
				if err := eventuallyAllowed(t.Context(), a, role); err != nil {
					t.Errorf("not allowed: %v", err)
				}
			})
		}
	}
}

// eventuallyAllowed waits for the authorizer, which learns of a new role by a watch.
func eventuallyAllowed(ctx context.Context, a access, role string) error {
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		return a.allowed(ctx, role)
	})
}

func TestNoServiceAccountMayDoMore(t *testing.T) {
	candidates := slices.Concat(
		verbs(core, "clusters", "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"),
		verbs(core, "releases", "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"),
		verbs(core, "approvals", "get", "list", "watch", "create", "update", "patch", "delete"),
		verbs(core, "inventories", "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"),
		verbs(core, "clusters/status", "get", "update", "patch"),
		verbs(core, "releases/status", "get", "update", "patch"),
		verbs(core, "approvals/status", "get", "update", "patch"),
		verbs(core, "releases/finalizers", "update"),
		verbs("", "secrets", "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"),
		verbs("", "configmaps", "get", "list", "watch", "create", "update", "patch", "delete"),
		verbs("", "namespaces", "get", "list", "create", "update", "delete"),
		verbs("", "events", "create"),
		verbs("", "pods", "get", "create"),
		verbs("", "pods/exec", "create"),
		verbs("", "nodes", "get"),
		verbs("", "serviceaccounts", "get", "impersonate"),
		verbs("", "serviceaccounts/token", "create"),
		verbs("", "users", "impersonate"),
		verbs("apps", "deployments", "get", "create", "update"),
		verbs("coordination.k8s.io", "leases", "get", "create", "update"),
		verbs("rbac.authorization.k8s.io", "clusterrolebindings", "create", "bind", "escalate"),
		verbs("admissionregistration.k8s.io", "validatingadmissionpolicies", "update", "delete"),
		[]access{
			{verb: "update", group: "coordination.k8s.io", resource: "leases", name: "another", namespace: deploy.Namespace},
			{verb: "delete", group: "coordination.k8s.io", resource: "leases", name: "convoy-watcher", namespace: deploy.Namespace},
		},
	)
	for role, may := range rights {
		if err := eventuallyAllowed(t.Context(), may[0], role); err != nil { // before that, everything is denied
			t.Fatalf("the %s may not even %s: %v", role, may[0], err)
		}
		for _, a := range candidates {
			if slices.Contains(may, a) {
				continue
			}
			allowed, err := a.allowed(t.Context(), role)
			if err != nil {
				t.Fatal(err)
			}
			if allowed {
				t.Errorf("the %s may %s", role, a)
			}
		}
	}
}
