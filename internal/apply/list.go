package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
)

// pageSize bounds what one answer to a list holds.
const pageSize = 500

// listable is a resource whose objects can be listed and deleted.
type listable struct {
	resource   schema.GroupVersionResource
	kind       string
	namespaced bool
}

// listables are all such resources in the version that the server prefers, and the groups that do not answer.
func (r *resolver) listables(ctx context.Context) ([]listable, []string, error) {
	groups, lists, err := r.disco.ServerGroupsAndResourcesWithContext(ctx)
	var partial *discovery.ErrGroupDiscoveryFailed
	if err != nil && !errors.As(err, &partial) {
		return nil, nil, fmt.Errorf("discover the kinds of the cluster: %w", err)
	}
	var failing []string
	if partial != nil {
		for gv := range partial.Groups {
			failing = append(failing, gv.Group)
		}
		slices.Sort(failing)
		failing = slices.Compact(failing)
	}
	byVersion := map[string]*metav1.APIResourceList{}
	for _, l := range lists {
		byVersion[l.GroupVersion] = l
	}
	var out []listable
	for _, g := range groups {
		seen := map[string]bool{}
		out = appendListables(out, seen, byVersion[g.PreferredVersion.GroupVersion])
		for _, v := range g.Versions {
			out = appendListables(out, seen, byVersion[v.GroupVersion])
		}
	}
	return out, failing, nil
}

func appendListables(out []listable, seen map[string]bool, list *metav1.APIResourceList) []listable {
	if list == nil {
		return out
	}
	gv, err := schema.ParseGroupVersion(list.GroupVersion)
	if err != nil {
		return out
	}
	for _, res := range list.APIResources {
		verbs := []string(res.Verbs)
		if seen[res.Name] || strings.Contains(res.Name, "/") || !slices.Contains(verbs, "list") || !slices.Contains(verbs, "delete") {
			continue
		}
		seen[res.Name] = true
		out = append(out, listable{gv.WithResource(res.Name), res.Kind, res.Namespaced})
	}
	return out
}

// walk calls visit for the metadata of each object that is listed, page by page, until visit returns false.
func walk(ctx context.Context, objects metadata.ResourceInterface, selector string, visit func(*metav1.PartialObjectMetadata) bool) error {
	next := ""
	for {
		page, err := listPage(ctx, objects, metav1.ListOptions{Limit: pageSize, LabelSelector: selector, Continue: next})
		if err != nil {
			return err
		}
		for i := range page.Items {
			if !visit(&page.Items[i]) {
				return nil
			}
		}
		if next = page.Continue; next == "" {
			return nil
		}
	}
}

func listPage(ctx context.Context, objects metadata.ResourceInterface, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return objects.List(ctx, o)
}
