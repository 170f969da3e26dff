// Package deploy_test proves that a real API server takes what this folder ships, that the chart and the kustomize base are
// the same, and what each ServiceAccount may do. That convoy works with these rights is proven by the end-to-end tests.
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

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

// buildBase builds deploy/base as kubectl apply -k does.
func buildBase() ([]*unstructured.Unstructured, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "base")
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, r := range built.Resources() {
		m, err := r.Map()
		if err != nil {
			return nil, err
		}
		objects = append(objects, &unstructured.Unstructured{Object: m})
	}
	return objects, nil
}

func applyBase(ctx context.Context) error {
	objects, err := buildBase()
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := apply(ctx, o); err != nil {
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
	return objectsOf(t, raw)
}

func objectsOf(t *testing.T, manifests []byte) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096); ; {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(o)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
}
