package watcher

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/golang/groupcache/lru"
	"github.com/prometheus/client_golang/prometheus"
	"go.temporal.io/api/serviceerror"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	ctrl "sigs.k8s.io/controller-runtime"
	hubclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// The Secret with the key of a namespace. The previous key is accepted too, while senders are told the new one.
const (
	webhookSecret      = "convoy-webhook"
	webhookKey         = "key"
	webhookPreviousKey = "previous"
	// minWebhookKey is how many bytes a key has at least.
	minWebhookKey = 16
)

const (
	maxPushBytes = 1 << 20
	// maxNamespaces is for how many namespaces requests are counted apart.
	maxNamespaces = 1024
)

// receiver makes the workflows of sources look when somebody who has the key of a namespace tells of a push. What he tells
// is a hint: it says where to look, never what to deliver.
type receiver struct {
	address string
	hub     hubclient.Reader // of the cache
	secrets hubclient.Reader // past it: Secrets are not cached
	starter Starter
	total   *rate.Limiter
	count   *prometheus.CounterVec
	// nobody is a key that nobody has: a namespace without one answers as to a wrong signature.
	nobody []byte

	mu       sync.Mutex
	limiters *lru.Cache // of *rate.Limiter, by namespace
}

func newReceiver(address string, hub, secrets hubclient.Reader, starter Starter) *receiver {
	nobody := make([]byte, 32)
	_, _ = rand.Read(nobody)
	return &receiver{
		address: address, hub: hub, secrets: secrets, starter: starter, nobody: nobody,
		total: rate.NewLimiter(50, 100), limiters: lru.New(maxNamespaces),
		count: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "convoy_webhook_requests_total", Help: "Requests to the webhook receiver, by the kind of sender and the HTTP status of the answer.",
		}, []string{"kind", "status"}),
	}
}

// Start serves until ctx ends.
func (r *receiver) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", r.address)
	if err != nil {
		return fmt.Errorf("webhook receiver: %w", err)
	}
	server := &http.Server{
		Handler: r.routes(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: 30 * time.Second, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("webhook receiver: %w", err)
	case <-ctx.Done():
		return server.Close() // a push that is cut off is told again, or found by the poll
	}
}

// NeedLeaderElection tells the manager that every replica listens.
func (r *receiver) NeedLeaderElection() bool { return false }

func (r *receiver) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /webhooks/{namespace}/{kind}", func(w http.ResponseWriter, req *http.Request) {
		kind := req.PathValue("kind")
		if _, known := pushKinds[kind]; !known {
			kind = "unknown"
		}
		status, text := r.receive(w, req)
		r.count.WithLabelValues(kind, fmt.Sprint(status)).Inc()
		if status == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "1")
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text+"\n")
	})
	return mux
}

// receive does what a request asks for, and gives the answer.
func (r *receiver) receive(w http.ResponseWriter, req *http.Request) (status int, text string) {
	namespace := req.PathValue("namespace")
	kind, known := pushKinds[req.PathValue("kind")]
	if !known || len(validation.IsDNS1123Label(namespace)) > 0 {
		return http.StatusNotFound, "there is no such receiver"
	}
	if !r.permits(namespace) { // before anything is read for it
		return http.StatusTooManyRequests, "too many requests"
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxPushBytes))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return http.StatusRequestEntityTooLarge, "the body is too large"
	}
	if err != nil {
		return http.StatusBadRequest, "the body cannot be read"
	}
	keys, err := r.keys(req.Context(), namespace)
	if err != nil {
		log.FromContext(req.Context()).Error(err, "cannot read the key of a webhook", "namespace", namespace)
		return http.StatusServiceUnavailable, "the hub does not answer"
	}
	proven := false
	for _, key := range keys {
		proven = kind.proves(req.Header, body, key) || proven
	}
	if !proven {
		return http.StatusUnauthorized, "the signature is missing or wrong"
	}
	n, err := r.look(req.Context(), namespace, kind.names(body))
	if err != nil {
		log.FromContext(req.Context()).Error(err, "cannot tell of a push", "namespace", namespace)
		return http.StatusServiceUnavailable, "the sources cannot be told"
	}
	return http.StatusAccepted, fmt.Sprintf("%d sources are looked at", n)
}

func (r *receiver) permits(namespace string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	own, _ := r.limiters.Get(namespace)
	limiter, ok := own.(*rate.Limiter)
	if !ok {
		limiter = rate.NewLimiter(2, 20)
		r.limiters.Add(namespace, limiter)
	}
	return limiter.Allow() && r.total.Allow()
}

// keys are those of a namespace, or the one that nobody has.
func (r *receiver) keys(ctx context.Context, namespace string) ([][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var secret corev1.Secret
	err := r.secrets.Get(ctx, hubclient.ObjectKey{Namespace: namespace, Name: webhookSecret}, &secret)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	keys := [][]byte{r.nobody}
	for _, name := range []string{webhookKey, webhookPreviousKey} {
		switch key := secret.Data[name]; {
		case len(key) >= minWebhookKey:
			keys = append(keys, key)
		case len(key) > 0:
			log.FromContext(ctx).Info("a key of a webhook is too short and is not used", "namespace", namespace, "secret", webhookSecret, "entry", name, "bytes", minWebhookKey)
		}
	}
	return keys, nil
}

// look makes the sources look that Releases of a namespace take from the places of URLs, and counts them.
func (r *receiver) look(ctx context.Context, namespace string, urls []string) (n int, err error) {
	places := map[string]bool{}
	for _, u := range urls {
		if place := placeOf(u); place != "" {
			places[place] = true
		}
	}
	var releases v1alpha1.ReleaseList
	if err := r.hub.List(ctx, &releases, hubclient.InNamespace(namespace)); err != nil {
		return 0, fmt.Errorf("list Releases: %w", err)
	}
	asked := map[string]bool{}
	for i := range releases.Items {
		release := &releases.Items[i]
		_, id := pollOf(release)
		if id == "" || asked[id] || !places[placeOfSource(release.Spec.Source)] {
			continue
		}
		asked[id] = true
		err := r.starter.SignalWorkflow(ctx, delivery.SourceWorkflowID(id), "", delivery.SignalLook, nil)
		if _, ended := errors.AsType[*serviceerror.NotFound](err); err != nil && !ended {
			return len(asked), fmt.Errorf("wake the workflow of a source: %w", err)
		}
	}
	return len(asked), nil
}

// addReceiver adds the receiver to a manager.
func addReceiver(mgr ctrl.Manager, address string, starter Starter, registry prometheus.Registerer) error {
	r := newReceiver(address, mgr.GetClient(), mgr.GetAPIReader(), starter)
	if err := registry.Register(r.count); err != nil {
		return fmt.Errorf("webhook receiver: %w", err)
	}
	if err := mgr.Add(r); err != nil {
		return fmt.Errorf("webhook receiver: %w", err)
	}
	return nil
}
