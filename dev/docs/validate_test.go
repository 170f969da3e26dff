package docs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	sigsyaml "sigs.k8s.io/yaml"
)

// validate asks the hub by a dry run whether it would take the objects of a block. A part of an object is completed to a
// Release, or to a Cluster where it says how to connect. Other YAML only has to be YAML.
func (r *reader) validate(ctx context.Context, text string) error {
	documents := kyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		object, err := complete(document)
		if err != nil {
			return fmt.Errorf("%w:\n%s", err, document)
		}
		if object == nil {
			continue
		}
		if err := r.dryRun(ctx, object); err != nil {
			return fmt.Errorf("%w:\n%s", err, document)
		}
	}
}

// complete makes a whole object of what a page shows, or nil of what is none of the hub's.
func complete(document []byte) (*unstructured.Unstructured, error) {
	if bytes.HasPrefix(document, []byte(" ")) { // as it stands below spec
		document = append([]byte("spec:\n"), document...)
	}
	var content map[string]any
	if err := sigsyaml.UnmarshalStrict(document, &content); err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{Object: content}
	if object.GetKind() != "" {
		return object, nil
	}
	spec, ok := content["spec"].(map[string]any)
	if !ok || len(content) > 1 {
		return nil, nil
	}
	object.SetAPIVersion("core.convoy.kumodo.io/v1alpha1")
	object.SetName("of-the-page")
	object.SetKind("Release")
	if spec["connectionMode"] != nil || spec["agentless"] != nil {
		object.SetKind("Cluster")
		spec["connectionMode"] = "agentless"
		return object, nil
	}
	if spec["clusterRef"] == nil {
		spec["clusterRef"] = map[string]any{"name": "of-the-page"}
	}
	source, _ := spec["source"].(map[string]any)
	if source == nil || len(source) == 1 && source["pollInterval"] != nil {
		spec["source"] = map[string]any{"configMap": map[string]any{"name": "of-the-page"}}
	}
	return object, nil
}

// groups are those of which the hub is asked: the kinds that readers write to a hub.
var groups = []string{"core.convoy.kumodo.io", "rbac.authorization.k8s.io", ""}

// dryRun asks the hub whether it would take an object. Fields that it does not know are errors.
func (r *reader) dryRun(ctx context.Context, object *unstructured.Unstructured) error {
	group := schema.FromAPIVersionAndKind(object.GetAPIVersion(), object.GetKind()).Group
	if !slices.Contains(groups, group) {
		return nil
	}
	// A digest that a page cuts short is written out.
	for _, path := range [][]string{{"spec", "digest"}, {"spec", "pinnedRender"}} {
		if digest, ok, _ := unstructured.NestedString(object.Object, path...); ok && strings.HasSuffix(digest, "…") {
			if err := unstructured.SetNestedField(object.Object, "sha256:"+strings.Repeat("0", 64), path...); err != nil {
				return err
			}
		}
	}
	object.SetNamespace(r.namespace)
	hub, err := client.New(r.Hub.Config(), client.Options{})
	if err != nil {
		return err
	}
	hub = client.WithFieldValidation(hub, "Strict")
	return hub.Create(ctx, object, client.DryRunAll)
}
