// Package connect turns a Cluster into a client of its target. It decides which connection modes, kinds of
// credentials and kubeconfig fields are served, what a failure to connect is called, and whether it means that
// the target is unreachable. It is the only connection code: the probe, the apply and the observer use it alike.
// It retries nothing but a request whose connection was at its end. It never writes to hub or target, never opens a
// file, runs a program or reads the environment on behalf of a kubeconfig, and never falls back to another server or
// other credentials. Activities call it.
package connect

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/dial"
	"kumodo.io/convoy/internal/failure"
)

// Options are the operator's choices for all connections. The zero value is safe and complete.
type Options struct {
	// ProbeTimeout is the total time of one probe, and of one refresh of the cached discovery. Default 20 s.
	ProbeTimeout time.Duration
	// RequestTimeout is the total time of any other request, except a watch. Default 60 s, which is
	// the limit of the API server itself.
	RequestTimeout time.Duration
	// Concurrency is how many steps at once may work on one Cluster, in this process. Default 32.
	Concurrency int
	// AllowInsecureSkipTLSVerify honours that kubeconfig field instead of refusing it.
	AllowInsecureSkipTLSVerify bool
	// AllowProxyURL honours that kubeconfig field instead of refusing it.
	AllowProxyURL bool
}

// ErrClosed is returned by a Pool that was closed.
var ErrClosed = errors.New("the connection pool is closed")

// idleAfter is how long a client that nobody asks for is kept. A Cluster that is deleted is evicted where its
// finalizer ran; this is for the other processes.
const idleAfter = 30 * time.Minute

// Pool keeps one Client per Cluster for as long as what it was built from stays the same. It is safe for
// concurrent use; no lock is held during a request.
type Pool struct {
	hub     client.Reader
	dialer  *dial.Dialer
	options Options
	metrics poolMetrics

	mu      sync.Mutex
	clients map[place]*pooled
	rooms   map[types.UID]*clusterRoom
	closed  bool
}

// place is where the client of a Cluster is in the pool. The one of kept credentials is beside the other, so
// that neither takes the other's place.
type place struct {
	cluster types.UID
	kept    bool
}

// pooled is a client and what it was built from.
type pooled struct {
	version string
	client  *Client
	idle    *time.Timer
}

// NewPool makes an empty pool. hub reads Secrets and ConfigMaps, without a cache: each call of Client costs one
// or two GETs. Every connection is opened by the dialer.
func NewPool(hub client.Reader, d *dial.Dialer, o Options) *Pool {
	o.ProbeTimeout = cmp.Or(o.ProbeTimeout, 20*time.Second)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, time.Minute)
	o.Concurrency = cmp.Or(o.Concurrency, 32)
	return &Pool{hub: hub, dialer: d, options: o, metrics: newPoolMetrics(), clients: map[place]*pooled{}, rooms: map[types.UID]*clusterRoom{}}
}

// Client gives the client of a Cluster, a new one when what the spec names changed; the one before is closed. It
// makes no request to the target. A *failure.Error is a verdict about the Cluster: Unsupported (terminal) or
// ProbeFailed (transient). Any other error is ErrClosed or a failure of the hub, and no verdict.
func (p *Pool) Client(ctx context.Context, c *v1alpha1.Cluster) (*Client, error) {
	m, err := p.read(ctx, c)
	if err != nil {
		if _, verdict := failure.As(err); verdict {
			p.evict(place{cluster: c.UID}, nil, evictedChanged)
		}
		return nil, err
	}
	return p.client(place{cluster: c.UID}, m, c)
}

// ClientForCleanup is Client for the removal of what convoy applied, once a deletion has begun: when what the spec
// names is gone or broken, it connects with the last credentials that worked, which convoy keeps for that.
func (p *Pool) ClientForCleanup(ctx context.Context, c *v1alpha1.Cluster) (*Client, error) {
	found, err := p.Client(ctx, c)
	if _, verdict := failure.As(err); !verdict {
		return found, err
	}
	m, missing := p.readKept(ctx, c)
	if _, none := failure.As(missing); none {
		return nil, err // nothing is kept: why the spec does not connect is what matters
	}
	if missing != nil {
		return nil, missing
	}
	return p.client(place{cluster: c.UID, kept: true}, m, c)
}

// client gives the client that was built from m, building it when there is none.
func (p *Pool) client(at place, m material, c *v1alpha1.Cluster) (*Client, error) {
	version := m.version()
	found, err := p.lookup(at, version, c.Status.ClusterID)
	if found != nil || err != nil {
		return found, err
	}
	e, err := m.endpoint(p.options)
	if err != nil {
		p.evict(at, nil, evictedChanged)
		return nil, err
	}
	fresh, err := newClient(e, p.dialer, p.roomOf(c).Room, p.options)
	if err != nil {
		return nil, err
	}
	fresh.material = m
	fresh.link.identity.expect(c.Status.ClusterID)
	fresh.link.onUnauthorized = func() { p.evict(at, fresh, evictedUnauthorized) }
	return p.keep(at, version, fresh, c.Status.ClusterID)
}

// Evict closes the clients of a Cluster that is gone, if there are any. Requests that run may end.
func (p *Pool) Evict(uid types.UID) {
	p.evict(place{cluster: uid}, nil, evictedDeleted)
	p.evict(place{cluster: uid, kept: true}, nil, evictedDeleted)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.rooms, uid)
}

// evict closes the client of a place; only that one when it is given.
func (p *Pool) evict(at place, only *Client, reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if held, ok := p.clients[at]; ok && (only == nil || held.client == only) {
		p.dropLocked(at, held, reason)
	}
}

// dropLocked takes a client out of the pool.
func (p *Pool) dropLocked(at place, held *pooled, reason string) {
	delete(p.clients, at)
	held.idle.Stop()
	held.client.close()
	p.metrics.evictions.WithLabelValues(reason).Inc()
}

// retire evicts a client that nobody asked for in a while, unless requests still run on it.
func (p *Pool) retire(at place, c *Client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	held, ok := p.clients[at]
	switch {
	case !ok || held.client != c:
	case c.link.busy():
		held.idle.Reset(idleAfter)
	default:
		p.dropLocked(at, held, evictedIdle)
		if _, other := p.clients[place{cluster: at.cluster, kept: !at.kept}]; !other {
			delete(p.rooms, at.cluster) // what is not there any more is not troubled for ever
		}
	}
}

// Close closes all clients; the pool gives no more.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, held := range p.clients {
		held.idle.Stop()
		held.client.close()
	}
	clear(p.clients)
}

// lookup gives the client of a version that leads to the cluster with this ID, nil when there is none.
func (p *Pool) lookup(at place, version, id string) (*Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	held, ok := p.clients[at]
	if !ok || held.version != version || !held.client.link.identity.expect(id) {
		return nil, nil
	}
	held.idle.Reset(idleAfter)
	return held.client, nil
}

// keep stores a client, unless another call has just stored an equal one: then that one is used.
func (p *Pool) keep(at place, version string, fresh *Client, id string) (*Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		fresh.close()
		return nil, ErrClosed
	}
	held, ok := p.clients[at]
	if ok && held.version == version && held.client.link.identity.expect(id) {
		fresh.close()
		return held.client, nil
	}
	if ok {
		p.dropLocked(at, held, evictedChanged)
	}
	idle := time.AfterFunc(idleAfter, func() { p.retire(at, fresh) })
	p.clients[at] = &pooled{version: version, client: fresh, idle: idle}
	return fresh, nil
}

// Describe is that of a prometheus.Collector.
func (p *Pool) Describe(to chan<- *prometheus.Desc) {
	to <- p.metrics.size
	p.metrics.evictions.Describe(to)
}

// Collect is that of a prometheus.Collector: how many clients there are, and how many were closed, and why.
func (p *Pool) Collect(to chan<- prometheus.Metric) {
	p.mu.Lock()
	size := len(p.clients)
	p.mu.Unlock()
	to <- prometheus.MustNewConstMetric(p.metrics.size, prometheus.GaugeValue, float64(size))
	p.metrics.evictions.Collect(to)
}
