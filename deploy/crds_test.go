package deploy_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/deploy"
	"kumodo.io/convoy/deploy/crds"
)

// published is what the API server says of convoy's kinds, once it does.
func published(t *testing.T) (openapi []byte) {
	t.Helper()
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		paths, err := d.OpenAPIV3().Paths()
		if err != nil {
			return false, err
		}
		group := paths["apis/"+v1alpha1.GroupVersion.String()]
		if group == nil {
			return false, nil
		}
		openapi, err = group.Schema("application/json")
		if err != nil {
			return false, err
		}
		for _, kind := range []string{"Approval", "Cluster", "Inventory", "Release"} {
			if !strings.Contains(string(openapi), `"kind":"`+kind+`"`) {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return openapi
}

func TestAHubTellsOfItsCRDsAllThatConvoyNeedsOfThem(t *testing.T) {
	openapi := published(t)
	all, err := deploy.CRDs()
	if err != nil || len(all) != 4 {
		t.Fatalf("%d CRDs, %v", len(all), err)
	}
	for _, own := range all {
		hub, err := crds.Published(openapi, own.Spec.Group, "v1alpha1", own.Spec.Names.Kind)
		if err != nil || hub == nil {
			t.Errorf("%s: %+v, %v", own.Name, hub, err)
			continue
		}
		if lacks := crds.Lacks(hub, own); len(lacks) > 0 {
			t.Errorf("%s: the hub is said to lack %v", own.Name, lacks)
		}
		for _, way := range olderWays(own) {
			hub, err := crds.Published(way.of(t, openapi, own), own.Spec.Group, "v1alpha1", own.Spec.Names.Kind)
			if err != nil || !slices.Contains(crds.Lacks(hub, own), way.lacks) {
				t.Errorf("%s: an older hub lacks %v, %v, want %s", own.Name, crds.Lacks(hub, own), err, way.lacks)
			}
		}
	}
	if hub, err := crds.Published(openapi, v1alpha1.GroupVersion.Group, "v1alpha1", "Nothing"); err != nil || hub != nil {
		t.Errorf("a kind that there is not is %+v, %v", hub, err)
	}
}

// older is one way in which a hub may be older.
type older struct {
	lacks  string
	remove func(kind map[string]any) error
}

func olderWays(own *apiextensionsv1.CustomResourceDefinition) []older {
	if own.Spec.Names.Kind == "Approval" {
		return []older{{"the selectable field spec.releaseRef.name is gone", func(kind map[string]any) error {
			if kind["x-kubernetes-selectable-fields"] == nil {
				return errors.New("the hub does not tell of selectable fields")
			}
			delete(kind, "x-kubernetes-selectable-fields")
			return nil
		}}}
	}
	field := "spec"
	if own.Spec.Names.Kind == "Inventory" {
		field = "objects"
	}
	return []older{{field + " is gone", func(kind map[string]any) error {
		delete(kind["properties"].(map[string]any), field)
		return nil
	}}}
}

// of is a document of an API server without what an older hub does not know.
func (o *older) of(t *testing.T, openapi []byte, own *apiextensionsv1.CustomResourceDefinition) []byte {
	t.Helper()
	var document map[string]any
	if err := json.Unmarshal(openapi, &document); err != nil {
		t.Fatal(err)
	}
	for name, schema := range document["components"].(map[string]any)["schemas"].(map[string]any) {
		if strings.HasSuffix(name, "."+own.Spec.Names.Kind) {
			if err := o.remove(schema.(map[string]any)); err != nil {
				t.Fatal(err)
			}
		}
	}
	out, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
