// Package deploy_test proves that a real API server takes what this folder ships, and that the ServiceAccount may
// do what convoy does on the hub, and little else.
package deploy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

var (
	hub    client.Client
	config *rest.Config
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Fprintln(os.Stderr, "KUBEBUILDER_ASSETS is not set: run the tests by make test, or make tools and set it to the folder bin")
		return 1
	}
	environment := &envtest.Environment{CRDDirectoryPaths: []string{"crd"}, ErrorIfCRDPathMissing: true}
	var err error
	if config, err = environment.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "the API server did not start:", err)
		return 1
	}
	defer environment.Stop() //nolint:errcheck // the processes end with the test
	if hub, err = client.New(config, client.Options{Scheme: scheme.Scheme}); err != nil {
		fmt.Fprintln(os.Stderr, "no client:", err)
		return 1
	}
	if err := applyBase(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "deploy/base is not accepted:", err)
		return 1
	}
	return m.Run()
}

// applyBase builds deploy/base as kubectl apply -k does and applies it.
func applyBase(ctx context.Context) error {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "base")
	if err != nil {
		return err
	}
	for _, r := range built.Resources() {
		m, err := r.Map()
		if err != nil {
			return err
		}
		if err := apply(ctx, &unstructured.Unstructured{Object: m}); err != nil {
			return err
		}
	}
	return nil
}

func apply(ctx context.Context, o *unstructured.Unstructured) error {
	err := hub.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("test"))
	if err != nil {
		return fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}

func TestEverySampleIsAccepted(t *testing.T) {
	paths, err := filepath.Glob("samples/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			for _, o := range readObjects(t, path) {
				if err := apply(t.Context(), o); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func readObjects(t *testing.T, path string) []*unstructured.Unstructured {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096); ; {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(o)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, o)
	}
}

// access is a question to the API server: may the ServiceAccount do this?
type access struct {
	verb, group, resource, subresource string
}

func (a access) String() string { return a.verb + " " + a.resource + " " + a.subresource }

func (a access) allowed(ctx context.Context) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:convoy-system:convoy",
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: a.verb, Group: a.group, Resource: a.resource, Subresource: a.subresource, Namespace: "team-a",
		},
	}}
	err := hub.Create(ctx, review)
	return review.Status.Allowed, err
}

func TestTheServiceAccountMayDoWhatConvoyDoes(t *testing.T) {
	const core = "core.convoy.kumodo.io"
	var needs []access
	need := func(group, resource, subresource string, verbs ...string) {
		for _, v := range verbs {
			needs = append(needs, access{verb: v, group: group, resource: resource, subresource: subresource})
		}
	}
	need(core, "clusters", "", "get", "list", "watch", "patch")
	need(core, "releases", "", "get", "list", "watch", "patch", "delete")
	need(core, "clusters", "status", "patch")
	need(core, "releases", "status", "patch")
	need(core, "approvals", "", "get", "list", "watch")
	need(core, "approvals", "status", "patch")
	need(core, "inventories", "", "get", "list", "watch", "create", "update", "patch", "delete")
	need("", "secrets", "", "get", "list", "watch", "create", "update", "patch", "delete")
	need("", "configmaps", "", "get", "list", "watch", "create")
	need("", "events", "", "create", "patch")
	need("", "namespaces", "", "get")
	for _, a := range needs {
		t.Run(a.String(), func(t *testing.T) {
			// The authorizer learns of a new role by a watch.
			err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 30*time.Second, true, a.allowed)
			if err != nil {
				t.Errorf("not allowed: %v", err)
			}
		})
	}
}

func TestTheServiceAccountMayNotDoMore(t *testing.T) {
	const core = "core.convoy.kumodo.io"
	for _, a := range []access{
		{verb: "delete", group: core, resource: "clusters"},
		{verb: "create", group: core, resource: "releases"},
		{verb: "create", group: core, resource: "approvals"},
		{verb: "update", resource: "configmaps"},
		{verb: "delete", resource: "configmaps"},
		{verb: "list", resource: "namespaces"},
		{verb: "create", resource: "pods"},
		{verb: "create", resource: "serviceaccounts", subresource: "token"},
		{verb: "create", group: "rbac.authorization.k8s.io", resource: "clusterrolebindings"},
		{verb: "impersonate", resource: "users"},
	} {
		t.Run(a.String(), func(t *testing.T) {
			allowed, err := a.allowed(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if allowed {
				t.Error("allowed")
			}
		})
	}
}
