package watcher

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golang/groupcache/lru"
	"github.com/prometheus/client_golang/prometheus"
	"go.temporal.io/api/serviceerror"
	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"
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
	// maxPushes is how many bodies are held at once, so that who has no key cannot fill the memory with slow ones.
	maxPushes = 64
	// maxConnections leaves room for those that the rest of the process needs.
	maxConnections = 512
	// maxNamespaces is for how many namespaces requests are counted apart.
	maxNamespaces = 1024
	// tellTime is for all signals of one request; GitHub waits ten seconds for an answer.
	tellTime = 8 * time.Second
	// complaintGap is between two log lines of one kind.
	complaintGap = 10 * time.Second
	// graceTime is what requests have to end when the process stops.
	graceTime = 5 * time.Second
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
	// bodies has an entry for each body that is held.
	bodies chan struct{}
	// complaints keep the log short, by the status of the answer.
	complaints map[int]*rate.Sometimes
	// short does so for keys that are too short.
	short rate.Sometimes

	mu       sync.Mutex
	limiters *lru.Cache // of *rate.Limiter, by namespace
}

func newReceiver(address string, hub, secrets hubclient.Reader, starter Starter) *receiver {
	nobody := make([]byte, 32)
	_, _ = rand.Read(nobody)
	r := &receiver{
		address: address, hub: hub, secrets: secrets, starter: starter, nobody: nobody,
		total: rate.NewLimiter(50, 100), limiters: lru.New(maxNamespaces),
		bodies: make(chan struct{}, maxPushes), complaints: map[int]*rate.Sometimes{},
		short: rate.Sometimes{Interval: complaintGap},
		count: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "convoy_webhook_requests_total", Help: "Requests to the webhook receiver, by the kind of sender and the HTTP status of the answer.",
		}, []string{"kind", "status"}),
	}
	for _, status := range []int{
		http.StatusBadRequest, http.StatusUnauthorized, http.StatusRequestEntityTooLarge,
		http.StatusTooManyRequests, http.StatusServiceUnavailable,
	} {
		r.complaints[status] = &rate.Sometimes{Interval: complaintGap}
	}
	return r
}

// Start serves until ctx ends.
func (r *receiver) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", r.address)
	if err != nil {
		return fmt.Errorf("webhook receiver: %w", err)
	}
	lasting := context.WithoutCancel(ctx)
	server := r.server(lasting)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(netutil.LimitListener(listener, maxConnections)) }()
	select {
	case err := <-ended:
		return fmt.Errorf("webhook receiver: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(lasting, graceTime)
	defer cancel()
	if server.Shutdown(grace) != nil {
		_ = server.Close() // a push that is cut off is told again, or found by the poll
	}
	return nil
}

func (r *receiver) server(ctx context.Context) *http.Server {
	return &http.Server{
		Handler: r, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: 30 * time.Second, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
}

// NeedLeaderElection tells the manager that every replica listens.
func (r *receiver) NeedLeaderElection() bool { return false }

// answer is what a sender is told, and why, for the log.
type answer struct {
	status int
	text   string
	err    error
}

// ServeHTTP answers a request, and counts it. Nothing of what was sent is part of an answer.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	kind := "unknown"
	out := answer{status: http.StatusNotFound, text: "there is no such receiver"}
	if path := strings.Split(req.URL.Path, "/"); len(path) == 4 && path[0] == "" && path[1] == "webhooks" {
		if of, known := pushKinds[path[3]]; known && len(validation.IsDNS1123Label(path[2])) == 0 {
			kind, out = path[3], r.receive(w, req, path[2], of)
		}
	}
	r.count.WithLabelValues(kind, strconv.Itoa(out.status)).Inc()
	if complaint := r.complaints[out.status]; complaint != nil {
		logger := log.FromContext(req.Context())
		complaint.Do(func() {
			logger.Info("a webhook is refused; convoy_webhook_requests_total counts others like it",
				"kind", kind, "status", out.status, "answer", out.text, "error", out.err)
		})
	}
	switch out.status {
	case http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "1")
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", http.MethodPost)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(out.status)
	_, _ = io.WriteString(w, out.text+"\n")
}

// receive does what a request asks for.
func (r *receiver) receive(w http.ResponseWriter, req *http.Request, namespace string, kind pushKind) answer {
	unproven := answer{status: http.StatusUnauthorized, text: "the signature is missing or wrong"}
	if req.Method != http.MethodPost {
		return answer{status: http.StatusMethodNotAllowed, text: "only POST is understood"}
	}
	if !kind.claims(req.Header) { // which takes nothing from those who do
		return unproven
	}
	if !r.permits(namespace) { // before anything is read for it
		return answer{status: http.StatusTooManyRequests, text: "too many requests"}
	}
	select {
	case r.bodies <- struct{}{}:
		defer func() { <-r.bodies }()
	default:
		return answer{status: http.StatusTooManyRequests, text: "too many requests"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxPushBytes))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return answer{status: http.StatusRequestEntityTooLarge, text: "the body is too large"}
	}
	if err != nil {
		return answer{status: http.StatusBadRequest, text: "the body cannot be read"}
	}
	keys, err := r.keys(req.Context(), namespace)
	if err != nil {
		return answer{http.StatusServiceUnavailable, "the hub does not answer", err}
	}
	proven := false
	for _, key := range keys {
		proven = kind.proves(req.Header, body, key) || proven
	}
	if !proven {
		return unproven
	}
	n, err := r.look(req.Context(), namespace, kind.names(payloadOf(req.Header, body)))
	if err != nil {
		return answer{http.StatusServiceUnavailable, "the sources cannot be told", err}
	}
	return answer{status: http.StatusAccepted, text: fmt.Sprintf("%d sources are looked at", n)}
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

// keys are the two of a namespace. In the place of one that it lacks is the one that nobody has, so that the time of an
// answer does not tell how many there are.
func (r *receiver) keys(ctx context.Context, namespace string) ([2][]byte, error) {
	keys := [2][]byte{r.nobody, r.nobody}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var secret corev1.Secret
	err := r.secrets.Get(ctx, hubclient.ObjectKey{Namespace: namespace, Name: webhookSecret}, &secret)
	if err != nil && !apierrors.IsNotFound(err) {
		return keys, fmt.Errorf("read the key of a webhook: %w", err)
	}
	for i, name := range []string{webhookKey, webhookPreviousKey} {
		switch key := bytes.TrimRight(secret.Data[name], "\r\n"); { // which files end with
		case len(key) >= minWebhookKey:
			keys[i] = key
		case len(key) > 0:
			r.short.Do(func() {
				log.FromContext(ctx).Info("a key of a webhook is too short and is not used",
					"namespace", namespace, "secret", webhookSecret, "entry", name, "bytes", minWebhookKey)
			})
		}
	}
	return keys, nil
}

// look makes the sources look that Releases of a namespace take from the places of URLs, and counts those that do.
func (r *receiver) look(ctx context.Context, namespace string, urls []string) (int, error) {
	places := map[string]bool{}
	for _, u := range urls {
		if place := placeOf(u); place != "" {
			places[place] = true
		}
	}
	if len(places) == 0 {
		return 0, nil
	}
	var releases v1alpha1.ReleaseList
	if err := r.hub.List(ctx, &releases, hubclient.InNamespace(namespace)); err != nil {
		return 0, fmt.Errorf("list Releases: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, tellTime)
	defer cancel()
	var (
		n       atomic.Int64
		telling errgroup.Group
		asked   = map[string]bool{}
	)
	telling.SetLimit(8)
	for i := range releases.Items {
		release := &releases.Items[i]
		_, id := pollOf(release)
		if id == "" || asked[id] || !places[placeOfSource(release.Spec.Source)] {
			continue
		}
		asked[id] = true
		telling.Go(func() error {
			err := r.starter.SignalWorkflow(ctx, delivery.SourceWorkflowID(id), "", delivery.SignalLook, nil)
			if _, ended := errors.AsType[*serviceerror.NotFound](err); ended {
				return nil
			}
			if err != nil {
				return fmt.Errorf("wake the workflow of a source: %w", err)
			}
			n.Add(1)
			return nil
		})
	}
	err := telling.Wait()
	return int(n.Load()), err
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
