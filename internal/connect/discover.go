package connect

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/discovery"

	"kumodo.io/convoy/api/v1alpha1"
)

const (
	// maxGroups is the bound of status.apiGroups.
	maxGroups = 256
	// maxVersions bounds the versions of one group.
	maxVersions = 32
	// coreGroup is the name that the group without a name is shown under.
	coreGroup = "core"
)

// served is what a server said that it serves.
type served struct {
	groups []v1alpha1.APIGroup
	// lists and failing tell the same in full.
	lists   []*metav1.APIResourceList
	failing map[schema.GroupVersion]error
	// print changes when a group, version or resource comes, goes, fails or heals.
	print [sha256.Size]byte
}

type resourceLists = map[schema.GroupVersion]*metav1.APIResourceList

// discover reads groups, versions and resources. A group that fails is part of the result, not an error.
func discover(ctx context.Context, d discovery.AggregatedDiscoveryInterfaceWithContext) (served, error) {
	list, resources, failing, err := d.GroupsAndMaybeResourcesWithContext(ctx)
	if err != nil {
		return served{}, notAPI(err)
	}
	if servesNothing(list, failing) {
		return served{}, errNotAPI
	}
	now := served{print: fingerprint(list, resources, failing)}
	if resources == nil {
		// A server without aggregated discovery is asked for each version.
		if now.lists, failing, err = discoverEach(ctx, d); err != nil {
			return served{}, err
		}
	}
	for _, l := range resources {
		now.lists = append(now.lists, l)
	}
	now.groups, now.failing = apiGroups(list, failing), failing
	return now, nil
}

// servesNothing reports whether a list of groups is that of any web server that answers with JSON.
func servesNothing(list *metav1.APIGroupList, failing map[schema.GroupVersion]error) bool {
	for _, g := range list.Groups {
		if len(g.Versions) > 0 {
			return false
		}
	}
	return len(failing) == 0
}

// notAPI turns a rejection into the verdict about a path that every API server has.
func notAPI(err error) error {
	if classOf(err) == rejected {
		return errNotAPI
	}
	return err
}

// discoverEach asks for each version, and tells which of them fail.
func discoverEach(ctx context.Context, d discovery.DiscoveryInterfaceWithContext) ([]*metav1.APIResourceList, map[schema.GroupVersion]error, error) {
	_, lists, err := discovery.ServerGroupsAndResourcesWithContext(ctx, d)
	var partial *discovery.ErrGroupDiscoveryFailed
	if err != nil && !errors.As(err, &partial) {
		return nil, nil, err
	}
	// When time runs out, every group that was not read yet counts as failing: that is no partial result.
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	if partial != nil {
		return lists, partial.Groups, nil //nolint:nilerr // groups that fail are a result here
	}
	return lists, nil, nil
}

// apiGroups is the list for status: sorted, bounded, and only names that a server may give.
func apiGroups(list *metav1.APIGroupList, failing map[schema.GroupVersion]error) []v1alpha1.APIGroup {
	byName := make(map[string]*v1alpha1.APIGroup, len(list.Groups))
	group := func(name string) *v1alpha1.APIGroup {
		if name == "" {
			name = coreGroup
		}
		if byName[name] == nil {
			byName[name] = &v1alpha1.APIGroup{Name: name}
		}
		return byName[name]
	}
	for _, g := range list.Groups {
		if len(g.Versions) == 0 {
			continue // failing, or nothing at all
		}
		entry := group(g.Name)
		for _, v := range g.Versions {
			_, fails := failing[schema.GroupVersion{Group: g.Name, Version: v.Version}]
			if !fails && len(entry.Versions) < maxVersions && len(validation.IsDNS1035Label(v.Version)) == 0 {
				entry.Versions = append(entry.Versions, v.Version)
			}
		}
	}
	for gv := range failing {
		group(gv.Group).Failing = true
	}
	out := make([]v1alpha1.APIGroup, 0, len(byName))
	for name, g := range byName {
		if len(validation.IsDNS1123Subdomain(name)) == 0 {
			out = append(out, *g)
		}
	}
	slices.SortFunc(out, func(a, b v1alpha1.APIGroup) int { return strings.Compare(a.Name, b.Name) })
	return out[:min(len(out), maxGroups)]
}

// fingerprint is over what one request tells: of a server without aggregated discovery that is no resource.
func fingerprint(list *metav1.APIGroupList, resources resourceLists, failing map[schema.GroupVersion]error) [sha256.Size]byte {
	lines := make([]string, 0, len(list.Groups)+len(resources)+len(failing))
	for _, g := range list.Groups {
		for _, v := range g.Versions {
			lines = append(lines, v.GroupVersion)
		}
	}
	for gv, l := range resources {
		for _, r := range l.APIResources {
			lines = append(lines, gv.String()+" "+r.Name+" "+r.Kind+" "+strconv.FormatBool(r.Namespaced))
		}
	}
	for gv := range failing {
		lines = append(lines, gv.String()+" failing")
	}
	slices.Sort(lines)
	return sha256.Sum256([]byte(strings.Join(lines, "\n")))
}

// cacheSource is what the cached discovery is filled from. It bounds a whole refresh by one deadline,
// remembers what it handed out, and lets those who queued behind a refresh that failed fail with it,
// instead of waiting for one deadline each.
type cacheSource struct {
	*discovery.DiscoveryClient
	timeout time.Duration

	mu     sync.Mutex
	filled bool
	print  [sha256.Size]byte
	err    error
	until  time.Time
}

// failFor is how long a failed refresh answers for the next ones.
const failFor = time.Second

// GroupsAndMaybeResourcesWithContext is what the cache calls for a refresh.
func (s *cacheSource) GroupsAndMaybeResourcesWithContext(parent context.Context) (
	*metav1.APIGroupList, resourceLists, map[schema.GroupVersion]error, error,
) {
	if err := s.recentError(); err != nil {
		return nil, nil, nil, err
	}
	ctx, cancel := context.WithTimeout(parent, s.timeout)
	defer cancel()
	list, resources, failing, err := s.DiscoveryClient.GroupsAndMaybeResourcesWithContext(ctx)
	if err == nil && servesNothing(list, failing) {
		err = errNotAPI
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		// The cache logs the error.
		err = &classified{class: classOf(err), cause: err}
		// A caller that gave up says nothing about the server.
		if parent.Err() == nil {
			s.err, s.until = err, time.Now().Add(failFor)
		}
		return nil, nil, nil, err
	}
	s.filled, s.print = true, fingerprint(list, resources, failing)
	return list, resources, failing, nil
}

// ServerResourcesForGroupVersionWithContext is what the cache calls for one version; it logs the error.
func (s *cacheSource) ServerResourcesForGroupVersionWithContext(ctx context.Context, gv string) (*metav1.APIResourceList, error) {
	list, err := s.DiscoveryClient.ServerResourcesForGroupVersionWithContext(ctx, gv)
	if err != nil {
		return nil, &classified{class: classOf(err), cause: err}
	}
	return list, nil
}

func (s *cacheSource) recentError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.until) {
		return s.err
	}
	return nil
}

// outdated reports whether the cache holds something else than now.
func (s *cacheSource) outdated(now served) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.filled && s.print != now.print
}
