package observe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

const (
	// requestTimeout bounds one request to the target.
	requestTimeout = 30 * time.Second
	// parallel is how many objects are read at the same time.
	parallel = 8
	// settle is how long a failure that is not final has to last.
	settle = 5 * time.Second
	// firstDelay and lastDelay bound the pause between two rounds of looks.
	firstDelay = 200 * time.Millisecond
	lastDelay  = 3 * time.Second
	// forgetEvery is how often discovery is asked again for a kind that is not known.
	forgetEvery = 5 * time.Second
)

// Target is a connection to a cluster, as internal/connect builds it.
type Target struct {
	Dynamic dynamic.Interface
	// Metadata is needed by Watches only.
	Metadata metadata.Interface
	Mapper   meta.ResettableRESTMapper
	// ServiceAccount is what Dynamic acts as; "" when it acts with the credentials of the Cluster.
	ServiceAccount string
}

// Finding is an object that is not healthy.
type Finding struct {
	Ref delivery.ObjectRef
	// Message says why, on one line.
	Message string
}

// String is the object and the message.
func (f Finding) String() string { return f.Ref.String() + ": " + f.Message }

// Result is how the objects stand. Failed and Pending are in the order of their identity.
type Result struct {
	Healthy int
	// Failed objects do not get there, as their controllers say.
	Failed []Finding
	// Pending objects were still awaited.
	Pending []Finding
}

// Open are the objects that are not healthy, failed ones first.
func (r Result) Open() []Finding { return slices.Concat(r.Failed, r.Pending) }

// Wait looks at the objects until all are healthy by the checks, one has failed for good, or ctx ends, and tells which. It looks
// only at those that were not healthy yet, at growing intervals of at most three seconds. A failure counts when it
// lasts, or at once where the controller has given up. expiring are objects that have done their work when they are gone.
// progress may be nil; it is called after each round, with how the objects stand then. When ctx ends, the Result is returned
// with ctx's error; any other error means that the target could not be used.
func Wait(ctx context.Context, t Target, entries []v1alpha1.InventoryEntry, checks *Checks, expiring map[delivery.ObjectRef]bool, progress func(Result)) (Result, error) {
	w := &waiter{target: t, of: len(entries), checks: checks, expiring: expiring, progress: progress}
	for _, e := range entries {
		w.open = append(w.open, &subject{entry: e, message: "it was not looked at yet"})
	}
	err := w.run(ctx)
	return w.result(), err
}

// subject is an object that is waited for.
type subject struct {
	entry       v1alpha1.InventoryEntry
	verdict     Verdict
	message     string
	final       bool
	failedSince time.Time
}

type waiter struct {
	target   Target
	of       int
	checks   *Checks
	expiring map[delivery.ObjectRef]bool
	open     []*subject
	progress func(Result)

	unknown atomic.Bool // a kind was not known
	forgot  time.Time
}

func (w *waiter) run(ctx context.Context) error {
	delay := wait.Backoff{Duration: firstDelay, Factor: 1.5, Jitter: 0.1, Cap: lastDelay, Steps: 64}.DelayFunc()
	w.tell()
	return delay.Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		err := w.round(ctx)
		w.forgetKinds()
		return len(w.open) == 0 || w.hasFailed(), err
	})
}

// round looks once at everything that is open, and closes what is healthy.
func (w *waiter) round(ctx context.Context) error {
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, s := range w.open {
		if inner.Err() != nil {
			break
		}
		group.Go(func() error { return w.look(inner, s) })
	}
	err := group.Wait()
	w.open = slices.DeleteFunc(w.open, func(s *subject) bool { return s.verdict.Healthy() })
	w.tell()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// forgetKinds lets a kind be found that was installed in the meantime.
func (w *waiter) forgetKinds() {
	if w.unknown.Swap(false) && time.Since(w.forgot) > forgetEvery {
		w.target.Mapper.Reset()
		w.forgot = time.Now()
	}
}

func (w *waiter) tell() {
	if w.progress != nil {
		w.progress(w.result())
	}
}

// look judges one object. It returns only errors of the target as a whole.
func (w *waiter) look(ctx context.Context, s *subject) error {
	live, err := w.get(ctx, s.entry)
	if err == nil {
		verdict, message, final := w.checks.Health(ctx, live)
		if ctx.Err() == nil { // else the verdict is of the end of the wait
			s.note(verdict, message, final)
		}
		return ctx.Err()
	}
	var status apierrors.APIStatus
	switch {
	case meta.IsNoMatchError(err):
		w.unknown.Store(true)
		s.note(InProgress, "its kind is not served by the cluster", false)
	case apierrors.IsNotFound(err) && w.expiring[refOf(s.entry)]:
		s.note(Current, "", false)
	case apierrors.IsNotFound(err):
		s.note(InProgress, "it is not on the cluster", false)
	case !errors.As(err, &status), apierrors.IsUnauthorized(err):
		return fmt.Errorf("read %s: %w", refOf(s.entry), err)
	case apierrors.IsForbidden(err):
		who := "convoy"
		if w.target.ServiceAccount != "" {
			who = "service account " + w.target.ServiceAccount
		}
		s.note(Failed, who+" may not read it: permit get on its kind", true)
	default:
		s.note(InProgress, fmt.Sprintf("it cannot be read now (%s)", apierrors.ReasonForError(err)), false)
	}
	return nil
}

func (w *waiter) get(ctx context.Context, e v1alpha1.InventoryEntry) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	mapper := meta.ToResettableRESTMapperWithContext(w.target.Mapper)
	m, err := mapper.RESTMappingWithContext(ctx, schema.GroupKind{Group: e.Group, Kind: e.Kind}, e.Version)
	if err != nil {
		return nil, err
	}
	resource := w.target.Dynamic.Resource(m.Resource)
	if m.Scope.Name() == meta.RESTScopeNameNamespace {
		return resource.Namespace(e.Namespace).Get(ctx, e.Name, metav1.GetOptions{})
	}
	return resource.Get(ctx, e.Name, metav1.GetOptions{})
}

func (s *subject) note(verdict Verdict, message string, final bool) {
	if verdict != Failed {
		s.failedSince = time.Time{}
	} else if s.failedSince.IsZero() {
		s.failedSince = time.Now()
	}
	s.verdict, s.message, s.final = verdict, message, final
}

// hasGivenUp reports a failure that counts.
func (s *subject) hasGivenUp() bool {
	return s.verdict == Failed && (s.final || time.Since(s.failedSince) >= settle)
}

func (w *waiter) hasFailed() bool {
	return slices.ContainsFunc(w.open, (*subject).hasGivenUp)
}

func (w *waiter) result() Result {
	out := Result{Healthy: w.of - len(w.open)}
	for _, s := range w.open {
		f := Finding{Ref: refOf(s.entry), Message: s.message}
		if s.hasGivenUp() {
			out.Failed = append(out.Failed, f)
		} else {
			out.Pending = append(out.Pending, f)
		}
	}
	byRef := func(a, b Finding) int { return a.Ref.Compare(b.Ref) }
	slices.SortFunc(out.Failed, byRef)
	slices.SortFunc(out.Pending, byRef)
	return out
}

func refOf(e v1alpha1.InventoryEntry) delivery.ObjectRef {
	return delivery.ObjectRef{Group: e.Group, Kind: e.Kind, Namespace: e.Namespace, Name: e.Name}
}
