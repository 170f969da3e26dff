// Package connect turns a Cluster into a client of its target. It decides which connection modes, kinds of
// credentials and kubeconfig fields are served, what a failure to connect is called, and whether it means that
// the target is unreachable. It is the only connection code: the probe, the apply and the observer use it alike.
// It never retries, never writes to hub or target, never opens a file, runs a program or reads the environment
// on behalf of a kubeconfig, and never falls back to another server or other credentials. Activities call it.
package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/failure"
)

// Options are the operator's choices for all connections. The zero value is safe and complete.
type Options struct {
	// ProbeTimeout is the total time of one probe, and of one refresh of the cached discovery. Default 20 s.
	ProbeTimeout time.Duration
	// RequestTimeout is the total time of any other request, except a watch. Default 60 s, which is
	// the limit of the API server itself.
	RequestTimeout time.Duration
	// AllowInsecureSkipTLSVerify honours that kubeconfig field instead of refusing it.
	AllowInsecureSkipTLSVerify bool
	// AllowProxyURL honours that kubeconfig field instead of refusing it.
	AllowProxyURL bool
}

// ErrClosed is returned by a Pool that was closed.
var ErrClosed = errors.New("the connection pool is closed")

// Pool keeps one Client per Cluster for as long as what it was built from stays the same. It is safe for
// concurrent use; no lock is held during a request.
type Pool struct {
	hub     client.Reader
	options Options

	mu      sync.Mutex
	clients map[types.UID]pooled
	closed  bool
}

// pooled is a client and what it was built from.
type pooled struct {
	key    key
	client *Client
}

// key changes with everything that a connection depends on. A Secret that was deleted and made again has
// another UID. The rest of the Cluster's spec is not part of it: new metadata must not cut watches.
type key struct {
	secretUID       types.UID
	resourceVersion string
	entry           string
}

// NewPool makes an empty pool. hub reads Secrets, without a cache: each call of Client costs one GET.
func NewPool(hub client.Reader, o Options) *Pool {
	o.ProbeTimeout = cmp.Or(o.ProbeTimeout, 20*time.Second)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, time.Minute)
	return &Pool{hub: hub, options: o, clients: map[types.UID]pooled{}}
}

// Client gives the client of a Cluster, a new one when spec or Secret changed; the one before is closed. It
// makes no request to the target. A *failure.Error is a verdict about the Cluster: Unsupported (terminal) or
// ProbeFailed (transient). Any other error is ErrClosed or a failure of the hub, and no verdict.
func (p *Pool) Client(ctx context.Context, c *v1alpha1.Cluster) (*Client, error) {
	ref, err := secretRef(c)
	if err != nil {
		p.Evict(c.UID)
		return nil, err
	}
	secret, err := p.readSecret(ctx, c.Namespace, ref)
	if err != nil {
		if _, verdict := failure.As(err); verdict {
			p.Evict(c.UID)
		}
		return nil, err
	}
	entry, data, err := kubeconfigOf(secret, ref)
	if err != nil {
		p.Evict(c.UID)
		return nil, err
	}
	k := key{secretUID: secret.UID, resourceVersion: secret.ResourceVersion, entry: entry}
	if found, err := p.lookup(c.UID, k); found != nil || err != nil {
		return found, err
	}
	e, err := parseKubeconfig(data, p.options)
	if err != nil {
		p.Evict(c.UID)
		return nil, located(err, c.Namespace, ref.Name, entry)
	}
	fresh, err := newClient(e, p.options)
	if err != nil {
		return nil, err
	}
	return p.keep(c.UID, k, fresh)
}

// Evict closes the client of a Cluster, if there is one. Requests that run may end.
func (p *Pool) Evict(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if held, ok := p.clients[uid]; ok {
		delete(p.clients, uid)
		held.client.close()
	}
}

// Close closes all clients; the pool gives no more.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, held := range p.clients {
		held.client.close()
	}
	clear(p.clients)
}

// lookup gives the client that was built from k, nil when there is none.
func (p *Pool) lookup(uid types.UID, k key) (*Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	if held, ok := p.clients[uid]; ok && held.key == k {
		return held.client, nil
	}
	return nil, nil
}

// keep stores a client, unless another call has just stored an equal one: then that one is used.
func (p *Pool) keep(uid types.UID, k key, fresh *Client) (*Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		fresh.close()
		return nil, ErrClosed
	}
	held, ok := p.clients[uid]
	if ok && held.key == k {
		fresh.close()
		return held.client, nil
	}
	if ok {
		held.client.close()
	}
	p.clients[uid] = pooled{key: k, client: fresh}
	return fresh, nil
}

// secretRef decides whether convoy serves the connection that a Cluster asks for.
func secretRef(c *v1alpha1.Cluster) (v1alpha1.KubeconfigSecretRef, error) {
	var none v1alpha1.KubeconfigSecretRef
	if c.Spec.ConnectionMode != v1alpha1.ConnectionModeAgentless {
		return none, unsupported("connectionMode %s is not supported: use %s",
			shown(c.Spec.ConnectionMode), v1alpha1.ConnectionModeAgentless)
	}
	if c.Spec.Agentless == nil {
		return none, unsupported("connectionMode %s needs spec.agentless", v1alpha1.ConnectionModeAgentless)
	}
	auth := c.Spec.Agentless.Auth
	if auth.Type != v1alpha1.AuthTypeKubeconfig {
		return none, unsupported("auth.type %s is not supported: use %s", shown(auth.Type), v1alpha1.AuthTypeKubeconfig)
	}
	if auth.Kubeconfig == nil || auth.Kubeconfig.SecretRef.Name == "" {
		return none, unsupported("auth.type %s needs auth.kubeconfig.secretRef", v1alpha1.AuthTypeKubeconfig)
	}
	return auth.Kubeconfig.SecretRef, nil
}

func (p *Pool) readSecret(ctx context.Context, namespace string, ref v1alpha1.KubeconfigSecretRef) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := p.hub.Get(ctx, types.NamespacedName{Namespace: namespace, Name: ref.Name}, secret)
	switch {
	case err == nil:
		return secret, nil
	case apierrors.IsNotFound(err):
		return nil, badSecretf(err, "Secret %s does not exist in namespace %s: create it", ref.Name, namespace)
	case apierrors.IsForbidden(err):
		return nil, badSecretf(err, "convoy may not read Secret %s in namespace %s: let it get Secrets there", ref.Name, namespace)
	}
	return nil, fmt.Errorf("read Secret %s in namespace %s: %w", ref.Name, namespace, &classified{class: hubFailed, cause: err})
}

// Default entries of a Secret, in this order. Never just any entry: it might be another secret.
var defaultEntries = []string{"value", "value.yaml"}

// kubeconfigOf selects the entry of a Secret, and its name.
func kubeconfigOf(s *corev1.Secret, ref v1alpha1.KubeconfigSecretRef) (string, []byte, error) {
	entry := ref.Key
	if entry == "" {
		entry = defaultEntries[0]
		for _, name := range defaultEntries {
			if _, ok := s.Data[name]; ok {
				entry = name
				break
			}
		}
	}
	data, ok := s.Data[entry]
	switch {
	case !ok && ref.Key == "":
		return "", nil, badSecretf(nil, "Secret %s in namespace %s has neither key %s nor key %s: set secretRef.key",
			s.Name, s.Namespace, defaultEntries[0], defaultEntries[1])
	case !ok:
		return "", nil, badSecretf(nil, "Secret %s in namespace %s has no key %s", s.Name, s.Namespace, shown(entry))
	case len(data) == 0:
		return "", nil, badSecretf(nil, "Secret %s in namespace %s has nothing in key %s", s.Name, s.Namespace, shown(entry))
	}
	return entry, data, nil
}

func badSecretf(cause error, format string, args ...any) error {
	return failure.Transient(v1alpha1.ReasonProbeFailed, &classified{class: badSecret, cause: cause}, format, args...)
}

// located adds to a failure of a kubeconfig where that kubeconfig is.
func located(err error, namespace, name, entry string) error {
	f, ok := failure.As(err)
	if !ok {
		return err
	}
	at := *f
	at.Message = fmt.Sprintf("Secret %s in namespace %s, key %s: %s", name, namespace, shown(entry), f.Message)
	return &at
}
