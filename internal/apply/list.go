package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// pageSize bounds what one answer to a list holds.
const pageSize = 500

// metadataOnly asks for lists without the bodies of objects: nothing here needs them, least of all those of Secrets.
const metadataOnly = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

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

// walk calls visit for each object of a resource, in a namespace or, with "", everywhere, until visit returns false.
func (r *resolver) walk(ctx context.Context, res schema.GroupVersionResource, namespace, selector string, visit func(*metav1.PartialObjectMetadata) bool) error {
	next := ""
	for {
		page, err := r.page(ctx, res, namespace, selector, next)
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

func (r *resolver) page(ctx context.Context, res schema.GroupVersionResource, namespace, selector, next string) (*metav1.PartialObjectMetadataList, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	segments := []string{"apis", res.Group, res.Version}
	if res.Group == "" {
		segments = []string{"api", res.Version}
	}
	if namespace != "" {
		segments = append(segments, "namespaces", namespace)
	}
	request := r.disco.RESTClient().Get().AbsPath(append(segments, res.Resource)...).
		SetHeader("Accept", metadataOnly).Param("limit", strconv.Itoa(pageSize))
	if selector != "" {
		request = request.Param("labelSelector", selector)
	}
	if next != "" {
		request = request.Param("continue", next)
	}
	body, err := request.Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, errors.New("the cluster answered a list with something else") // not the answer: it may hold anything
	}
	return &list, nil
}
