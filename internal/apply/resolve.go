package apply

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
)

// Target is a connection to a cluster, as internal/connect builds it. All of it shares one cache of discovery.
type Target struct {
	// Dynamic and Metadata act as the service account of a Release that has one.
	Dynamic  dynamic.Interface
	Metadata metadata.Interface
	// Own and all below act with the credentials of the Cluster.
	Own       metadata.Interface
	Mapper    meta.ResettableRESTMapper
	Discovery discovery.CachedDiscoveryInterface
	// ServiceAccount is that of Dynamic and Metadata, as namespace/name; "" when they act with the credentials of the Cluster.
	ServiceAccount string
}

// requestTimeout bounds one request to the target.
const requestTimeout = 45 * time.Second

// recent is the age of discovery that needs no second look.
const recent = 2 * time.Second

// Why a kind has no mapping.
var (
	errNotServed    = errors.New("not served")        // its group is healthy, so it is really absent
	errGroupFailing = errors.New("discovery failing") // nothing is known about its group
)

// resolver finds out how kinds are served. It asks the server again at most once by itself.
type resolver struct {
	target Target
	mapper meta.ResettableRESTMapperWithContext
	disco  discovery.CachedDiscoveryInterfaceWithContext

	mu      sync.Mutex
	asked   bool
	askedAt time.Time
	known   map[schema.GroupVersionKind]*meta.RESTMapping
}

func newResolver(t Target) *resolver {
	return &resolver{
		target: t,
		mapper: meta.ToResettableRESTMapperWithContext(t.Mapper),
		disco:  discovery.ToCachedDiscoveryInterfaceWithContext(t.Discovery),
		known:  map[schema.GroupVersionKind]*meta.RESTMapping{},
	}
}

// find maps a kind in exactly its version. Errors: errNotServed, errGroupFailing, or the target's own.
func (r *resolver) find(ctx context.Context, gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.known[gvk]; m != nil {
		return m, nil
	}
	m, err := r.ask(ctx, gvk.GroupKind(), gvk.Version)
	if err == nil {
		r.known[gvk] = m
	}
	return m, err
}

// findAny maps a kind in its version, or else in any version that is served.
func (r *resolver) findAny(ctx context.Context, gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	m, err := r.find(ctx, gvk)
	if !errors.Is(err, errNotServed) {
		return m, err
	}
	return r.find(ctx, gvk.GroupKind().WithVersion(""))
}

// peek is find without asking the server again for a kind that the cache does not know.
func (r *resolver) peek(ctx context.Context, gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	m, err := r.mapper.RESTMappingWithContext(ctx, gvk.GroupKind(), versions(gvk.Version)...)
	if err != nil && unknownOrPartial(err) {
		return nil, errNotServed
	}
	return m, err
}

// refresh forgets what is known, so that the next look asks the server.
func (r *resolver) refresh(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reset(ctx)
}

// refreshOlder is refresh, unless this resolver did so a short while ago.
func (r *resolver) refreshOlder(ctx context.Context, age time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.asked || time.Since(r.askedAt) > age {
		r.reset(ctx)
	}
}

func (r *resolver) reset(ctx context.Context) {
	r.disco.InvalidateWithContext(ctx)
	r.mapper.ResetWithContext(ctx)
	clear(r.known)
	r.asked, r.askedAt = true, time.Now()
}

func (r *resolver) ask(ctx context.Context, gk schema.GroupKind, version string) (*meta.RESTMapping, error) {
	m, err := r.mapper.RESTMappingWithContext(ctx, gk, versions(version)...)
	if err == nil {
		return m, nil
	}
	if unknownOrPartial(err) && !r.asked {
		r.reset(ctx)
		m, err = r.mapper.RESTMappingWithContext(ctx, gk, versions(version)...)
	}
	if err == nil {
		return m, nil
	}
	if !unknownOrPartial(err) {
		return nil, fmt.Errorf("look up %s: %w", gk, err)
	}
	failing, err := r.failing(ctx, gk.Group)
	if err != nil {
		return nil, err
	}
	if failing {
		return nil, errGroupFailing
	}
	return nil, errNotServed
}

// failing reports whether the server cannot say now what a group holds.
func (r *resolver) failing(ctx context.Context, group string) (bool, error) {
	_, _, err := r.disco.ServerGroupsAndResourcesWithContext(ctx)
	if err == nil {
		return false, nil
	}
	var partial *discovery.ErrGroupDiscoveryFailed
	if !errors.As(err, &partial) {
		return false, fmt.Errorf("discover the kinds of the cluster: %w", err)
	}
	for gv := range partial.Groups {
		if gv.Group == group {
			return true, nil
		}
	}
	return false, nil
}

// client is the dynamic client for objects of a mapping.
func (r *resolver) client(m *meta.RESTMapping, namespace string) dynamic.ResourceInterface {
	if m.Scope.Name() == meta.RESTScopeNameNamespace {
		return r.target.Dynamic.Resource(m.Resource).Namespace(namespace)
	}
	return r.target.Dynamic.Resource(m.Resource)
}

func versions(version string) []string {
	if version == "" {
		return nil
	}
	return []string{version}
}

func unknownOrPartial(err error) bool {
	var partial *discovery.ErrGroupDiscoveryFailed
	return meta.IsNoMatchError(err) || errors.As(err, &partial)
}

// isGone tells that there is no such object, on a cluster that knows its kind.
func isGone(err error) bool { return apierrors.IsNotFound(err) && !isRouteMissing(err) }

// isRouteMissing tells a 404 about a kind from one about an object: the server has no such path, so it names nothing.
func isRouteMissing(err error) bool {
	if !apierrors.IsNotFound(err) {
		return false
	}
	details := detailsOf(err)
	return details == nil || details.Name == "" || apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
