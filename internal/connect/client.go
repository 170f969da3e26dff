package connect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/dial"
	"kumodo.io/convoy/internal/room"
)

// Client talks to one target. It is safe for concurrent use. Dynamic, Metadata, Discovery, Mapper and Probe share
// one transport: what Secret and spec say holds for each of them alike. While another cluster than the recorded one
// answers, only Probe gets an answer.
//
// Every request but a watch ends within Options.RequestTimeout, a refresh of the discovery within
// Options.ProbeTimeout. A watch ends with its context only.
type Client struct {
	// Dynamic reads and writes objects, as JSON, without a rate limit on this side.
	Dynamic dynamic.Interface
	// Metadata reads the metadata of objects, without a rate limit on this side.
	Metadata metadata.Interface
	// Discovery is cached until it is invalidated, or a probe sees that the target serves something else.
	// Groups that fail are reported as *discovery.ErrGroupDiscoveryFailed beside the ones that work.
	Discovery discovery.CachedDiscoveryInterface
	// Mapper answers from Discovery. A kind that it does not know may be new: Reset it and ask again. A kind is
	// absent only when no group failed in Discovery.
	Mapper meta.ResettableRESTMapper

	config *rest.Config
	live   *discovery.DiscoveryClient
	source *cacheSource
	link   *link
	// material is what the client was built from.
	material material
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
	// APIDigest changes with what the target serves, empty while a group fails.
	APIDigest string
	// ClusterID is the UID of the target's kube-system namespace, empty when it may not be read.
	ClusterID string
}

// newClient builds a client. It makes no request.
func newClient(e *endpoint, d *dial.Dialer, r *room.Room, o Options) (*Client, error) {
	l, err := newLink(e, d, r, o)
	if err != nil {
		return nil, fmt.Errorf("build the transport: %w", err)
	}
	c := &Client{link: l, config: restConfig(e.server), certificateEnds: e.certificateEnds, probeTimeout: o.ProbeTimeout}
	l.identity.read = c.readID
	if c.Dynamic, err = dynamic.NewForConfigAndClient(c.config, httpClient(l)); err != nil {
		return nil, fmt.Errorf("build the dynamic client: %w", err)
	}
	if c.Metadata, err = metadata.NewForConfigAndClient(c.config, httpClient(l)); err != nil {
		return nil, fmt.Errorf("build the metadata client: %w", err)
	}
	if c.live, err = discovery.NewDiscoveryClientForConfigAndClient(c.config, httpClient(answersOnly{next: l})); err != nil {
		return nil, fmt.Errorf("build the discovery client: %w", err)
	}
	c.source = &cacheSource{DiscoveryClient: c.live, timeout: o.ProbeTimeout}
	c.Discovery = memory.NewMemCacheClient(c.source)
	c.Mapper = restmapper.NewDeferredDiscoveryRESTMapper(c.Discovery)
	return c, nil
}

// Credentials are the data of the Secret that keeps what this client connects with.
func (c *Client) Credentials() map[string][]byte { return c.material.keptData() }

// Done is closed when another client has taken this one's place, or its Cluster was evicted. Requests still
// work, so what has begun can end; whoever watches should end and ask the Pool again.
func (c *Client) Done() <-chan struct{} { return c.link.done }

func (c *Client) close() { c.link.close() }

// Probe reads the version, the API groups and the identity of the target, past every cache, within
// Options.ProbeTimeout, over a connection of its own. cluster says which identity is recorded, and which one
// somebody accepted in its place; another one is ClusterIdentityChanged. When the target serves something else
// than the cached discovery holds, the cache is emptied. An error is a *failure.Error, or wraps context.Canceled
// when ctx was cancelled: that is no verdict.
func (c *Client) Probe(ctx context.Context, cluster *v1alpha1.Cluster) (ProbeResult, error) {
	total, cancel := context.WithTimeout(ctx, c.probeTimeout)
	defer cancel()
	total, v, leave := visiting(total)
	defer leave()
	result, now, err := c.readAll(total)
	recorded := cluster.Status.ClusterID
	if err == nil {
		err = judge(result.ClusterID, recorded, cluster.Annotations[v1alpha1.AnnotationAcceptClusterID])
	}
	if err != nil {
		if errors.Is(ctx.Err(), context.Canceled) {
			return ProbeResult{}, fmt.Errorf("probe was cancelled: %w", ctx.Err())
		}
		return ProbeResult{}, c.verdict(err)
	}
	if c.source.outdated(now) {
		c.reset(total)
	}
	c.handOver(v, result.ClusterID, recorded)
	return result, nil
}

// handOver keeps the connection of a probe for the others, when they have none and it leads where theirs would.
func (c *Client) handOver(v *visit, found, recorded string) {
	if found != recorded && recorded != "" || !c.link.identity.expect(found) {
		return
	}
	if held := c.link.take(); held != nil {
		held.Release()
		return
	}
	if cc := v.keep(); cc != nil {
		c.link.adopt(cc)
	}
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
	digest := apisOf(kubernetes, now.lists, now.failing).Digest
	return ProbeResult{KubernetesVersion: kubernetes, APIGroups: now.groups, APIDigest: digest, ClusterID: id}, now, nil
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

// readID reads the identity of the target. A server that does not let convoy read it, or has none, is no failure.
func (c *Client) readID(ctx context.Context) (string, error) {
	body, err := c.live.RESTClient().Get().AbsPath("/api/v1/namespaces/kube-system").MaxRetries(0).Do(ctx).Raw()
	if err != nil {
		if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
			return "", nil
		}
		return "", err
	}
	var namespace metav1.PartialObjectMetadata
	if err := json.Unmarshal(body, &namespace); err != nil {
		return "", err
	}
	if !uidForm.MatchString(string(namespace.UID)) {
		return "", errNotAPI
	}
	return string(namespace.UID), nil
}

// verdict classifies the failure of a probe, with what only the client knows about it.
func (c *Client) verdict(err error) error {
	if classOf(err) == unauthorized && !c.certificateEnds.IsZero() && time.Now().After(c.certificateEnds) {
		return newFailure(expiredClient, err)
	}
	return Classify(err)
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
