package connect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"kumodo.io/convoy/api/v1alpha1"
)

// Client talks to one target. It is safe for concurrent use. Dynamic, Discovery, Mapper and Probe share one
// transport: what the kubeconfig says holds for each of them alike.
//
// Every request but a watch ends within Options.RequestTimeout, a refresh of the discovery within
// Options.ProbeTimeout. A watch ends with its context only.
type Client struct {
	// Dynamic reads and writes objects, as JSON, without a rate limit on this side.
	Dynamic dynamic.Interface
	// Discovery is cached until it is invalidated, or a probe sees that the target serves something else.
	// Groups that fail are reported as *discovery.ErrGroupDiscoveryFailed beside the ones that work.
	Discovery discovery.CachedDiscoveryInterface
	// Mapper answers from Discovery. A kind that it does not know may be new: Reset it and ask again. A kind is
	// absent only when no group failed in Discovery.
	Mapper meta.ResettableRESTMapper

	live   *discovery.DiscoveryClient
	source *cacheSource
	link   *link
	// certificateEnds is when the client certificate expires, zero without one.
	certificateEnds time.Time
	probeTimeout    time.Duration
}

// ProbeResult is what a successful probe found.
type ProbeResult struct {
	// KubernetesVersion is the version of the server, such as v1.37.2.
	KubernetesVersion string
	// APIGroups are the groups that the server announces, sorted by name, at most 256.
	APIGroups []v1alpha1.APIGroup
	// ClusterID is the UID of the target's kube-system namespace, empty when it may not be read.
	ClusterID string
}

// newClient builds a client. It makes no request.
func newClient(e *endpoint, o Options) (*Client, error) {
	l, err := newLink(e, o)
	if err != nil {
		return nil, fmt.Errorf("build the transport: %w", err)
	}
	config := &rest.Config{Host: e.server, UserAgent: userAgent, QPS: -1}
	dyn, err := dynamic.NewForConfigAndClient(config, httpClient(l))
	if err != nil {
		return nil, fmt.Errorf("build the dynamic client: %w", err)
	}
	live, err := discovery.NewDiscoveryClientForConfigAndClient(config, httpClient(answersOnly{next: l}))
	if err != nil {
		return nil, fmt.Errorf("build the discovery client: %w", err)
	}
	source := &cacheSource{DiscoveryClient: live, timeout: o.ProbeTimeout}
	cached := memory.NewMemCacheClient(source)
	return &Client{
		Dynamic: dyn, Discovery: cached, Mapper: restmapper.NewDeferredDiscoveryRESTMapper(cached),
		live: live, source: source, link: l, certificateEnds: e.certificateEnds, probeTimeout: o.ProbeTimeout,
	}, nil
}

// Done is closed when another client has taken this one's place, or its Cluster was evicted. Requests still
// work, so what has begun can end; whoever watches should end and ask the Pool again.
func (c *Client) Done() <-chan struct{} { return c.link.done }

func (c *Client) close() { c.link.close() }

// Probe reads the version, the API groups and the identity of the target, past every cache, within
// Options.ProbeTimeout. When the target serves something else than the cached discovery holds, the cache is
// emptied. An error is a *failure.Error, or wraps context.Canceled when ctx was cancelled: that is no verdict.
func (c *Client) Probe(ctx context.Context) (ProbeResult, error) {
	total, cancel := context.WithTimeout(ctx, c.probeTimeout)
	defer cancel()
	result, now, err := c.readAll(total)
	if err != nil {
		if errors.Is(ctx.Err(), context.Canceled) {
			return ProbeResult{}, fmt.Errorf("probe was cancelled: %w", ctx.Err())
		}
		return ProbeResult{}, c.verdict(err)
	}
	if c.source.outdated(now) {
		c.reset(total)
	}
	return result, nil
}

// readAll makes the requests of a probe.
func (c *Client) readAll(ctx context.Context) (ProbeResult, served, error) {
	kubernetes, err := c.readVersion(ctx)
	if err != nil {
		return ProbeResult{}, served{}, err
	}
	now, err := discover(ctx, c.live)
	if err != nil {
		return ProbeResult{}, served{}, err
	}
	id, err := c.readID(ctx)
	if err != nil {
		return ProbeResult{}, served{}, err
	}
	return ProbeResult{KubernetesVersion: kubernetes, APIGroups: now.groups, ClusterID: id}, now, nil
}

// The version and the UID come from the far side: only what looks like one is taken over.
var (
	versionForm = regexp.MustCompile(`^v?[0-9]+\.[0-9]+[0-9A-Za-z.+_-]{0,48}$`)
	uidForm     = regexp.MustCompile(`^[0-9A-Za-z-]{1,64}$`)
)

func (c *Client) readVersion(ctx context.Context) (string, error) {
	body, err := c.live.RESTClient().Get().AbsPath("/version").MaxRetries(0).Do(ctx).Raw()
	if err != nil {
		return "", notAPI(err)
	}
	var info version.Info
	if err := json.Unmarshal(body, &info); err != nil {
		return "", err
	}
	if !versionForm.MatchString(info.GitVersion) {
		return "", errNotAPI
	}
	return info.GitVersion, nil
}

// readID reads the identity of the target. One that may not be read is no failure of the probe.
func (c *Client) readID(ctx context.Context) (string, error) {
	body, err := c.live.RESTClient().Get().AbsPath("/api/v1/namespaces/kube-system").MaxRetries(0).Do(ctx).Raw()
	if Unreachable(err) {
		return "", err
	}
	var namespace metav1.PartialObjectMetadata
	readable := err == nil && json.Unmarshal(body, &namespace) == nil
	if !readable || !uidForm.MatchString(string(namespace.UID)) {
		return "", nil
	}
	return string(namespace.UID), nil
}

// verdict classifies the failure of a probe, with what only the client knows about it.
func (c *Client) verdict(err error) error {
	class := classOf(err)
	if class == unauthorized && !c.certificateEnds.IsZero() && time.Now().After(c.certificateEnds) {
		class = expiredClient
	}
	return newFailure(class, err)
}

// reset empties the cached discovery. A refresh that hangs holds the cache's lock, and a probe must not wait
// for it longer than its own deadline: then the reset follows when the refresh ends.
func (c *Client) reset(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Mapper.Reset()
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
