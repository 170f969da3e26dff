package activities

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/connect"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/failure"
	"kumodo.io/convoy/internal/observe"
)

const (
	// gather is how long changes are gathered before they are looked at: a rollout of others brings many at once.
	gather = 100 * time.Millisecond
	// everyRelease is the least time between two looks at one Release.
	everyRelease = time.Second
	// everyCheck is how often what only time changes is looked at.
	everyCheck = 5 * time.Second
	// aftermath is how long after a rollout its watches may lag behind it.
	aftermath = 2 * time.Second
	// idle is how long a Cluster is observed that has no Releases any more.
	idle = time.Minute
)

// observation is one attempt of ObserveCluster.
type observation struct {
	*Activities
	key  delivery.Key
	hub  *hubView
	beat *heartbeat
	// began is when this attempt began, emptySince when the last Release went.
	began, emptySince time.Time

	cluster *v1alpha1.Cluster
	// conn and watches are of the target, nil while it counts as unreachable. broken tells of what went wrong with them.
	conn    *connect.Client
	watches *observe.Watches
	broken  chan error

	// kinds says how well each kind was seen at the last look.
	kinds    map[string]sight
	releases map[string]*observed
}

// sight is how well a kind is seen.
type sight struct {
	fresh   bool
	problem string
}

// ObserveCluster watches what all Releases have on one Cluster, and writes to their status what became of it: whether it is
// healthy, and whether it is as it was applied. It tells the workflow of a Release what is to be corrected. It ends when no Release
// has the Cluster any more, and fails to hand over to another worker after a while, or when this one stops.
func (a *Activities) ObserveCluster(ctx context.Context, in ObserveInput) (ObserveResult, error) {
	o := &observation{
		Activities: a, key: in.Key, beat: startHeartbeat(ctx), began: time.Now(), releases: map[string]*observed{}, broken: make(chan error, 1),
	}
	defer o.beat.stopped()
	defer o.leave()
	defer a.Metrics.observer.forget(in.Key)
	var err error
	if o.hub, err = a.viewHub(ctx, in.Key); err != nil {
		return ObserveResult{}, err
	}
	defer o.hub.close()
	tenure := time.NewTimer(wait.Jitter(a.Tenure/2, 2)) // half of it to half as much again
	defer tenure.Stop()
	for {
		ended, next := o.look(ctx)
		if ended {
			return ObserveResult{}, nil
		}
		again := time.NewTimer(next)
		select {
		case <-ctx.Done():
			return ObserveResult{}, ctx.Err()
		case <-activity.GetWorkerStopChannel(ctx):
			return ObserveResult{}, o.handOver("stop", "this worker stops")
		case <-tenure.C:
			return ObserveResult{}, o.handOver("tenure", "others have their turn")
		case err := <-o.broken:
			a.suspect(ctx, o.cluster, err)
		case <-o.renewed():
			o.leave()
		case <-o.hub.changed:
		case <-o.changed():
			pause(ctx, gather)
		case <-again.C:
		}
		again.Stop()
	}
}

// handOver makes Temporal place the observer anew, at once.
func (o *observation) handOver(reason, why string) error {
	o.Metrics.observer.handovers.WithLabelValues(reason).Inc()
	again := failure.Transient(ReasonHandover, nil, "the observer of %s moves on after %s: %s", o.key, time.Since(o.began).Round(time.Second), why)
	again.RetryAfter = 100 * time.Millisecond
	return again
}

// pause lets a little time pass.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

func (o *observation) changed() <-chan struct{} {
	if o.watches == nil {
		return nil
	}
	return o.watches.Changed()
}

func (o *observation) renewed() <-chan struct{} {
	if o.conn == nil {
		return nil
	}
	return o.conn.Done()
}

// look does what is due. ended: nobody needs the observer any more. next is when to look again at the latest.
func (o *observation) look(ctx context.Context) (ended bool, next time.Duration) {
	var all []*v1alpha1.Release
	o.cluster, all = o.hub.read()
	if o.cluster == nil { // the Cluster is gone
		return true, 0
	}
	if len(all) > 0 {
		o.emptySince = time.Time{}
	} else if o.emptySince.IsZero() {
		o.emptySince = time.Now()
	}
	if !o.emptySince.IsZero() && time.Since(o.emptySince) > idle {
		return true, 0
	}
	o.approach(ctx)
	o.take(ctx, all)
	o.soil()
	next = everyCheck
	for _, r := range o.releases {
		if wait := o.turn(ctx, r); wait > 0 {
			next = min(next, wait)
		}
	}
	o.tell()
	return false, next
}

// soil marks the Releases of which something changed: objects, or whether a kind is seen.
func (o *observation) soil() {
	if o.watches == nil {
		return
	}
	dirty, now := o.watches.TakeDirty(), time.Now()
	turned := map[schema.GroupVersionKind]bool{}
	for _, k := range o.watches.States() {
		if seen, of := (sight{k.Fresh(now), k.Problem}), kindName(k); seen != o.kinds[of] {
			o.kinds[of], turned[k.Kind] = seen, true
		}
	}
	for _, r := range o.releases {
		if since, changed := dirty[r.owner.Key()]; changed {
			r.dirty = true
			if r.since.IsZero() {
				r.since = since
			}
		}
		for gvk := range turned {
			r.dirty = r.dirty || r.kinds[gvk] != nil
		}
	}
}

// approach connects to the target while it is reachable, and leaves it while it is not.
func (o *observation) approach(ctx context.Context) {
	open, _ := delivery.Gate(o.key.Name, o.cluster)
	if !open {
		o.leave()
		return
	}
	if o.watches != nil {
		return
	}
	conn, err := o.Clusters.Client(ctx, o.cluster)
	if err != nil { // the probe says why
		return
	}
	o.conn, o.kinds = conn, map[string]sight{}
	o.watches = observe.NewWatches(observe.Target{Dynamic: conn.Dynamic, Metadata: conn.Metadata, Mapper: conn.Mapper}, o.Audit, func(err error) {
		select {
		case o.broken <- err:
		default:
		}
	})
	for _, r := range o.releases {
		r.dirty = true
	}
}

// leave ends the watches.
func (o *observation) leave() {
	if o.watches == nil {
		return
	}
	o.watches.Close()
	o.conn, o.watches = nil, nil
	for _, r := range o.releases {
		r.dirty = true
	}
}

// follow watches the kinds that the Releases have.
func (o *observation) follow(ctx context.Context) {
	if o.watches == nil {
		return
	}
	kinds := observe.Kinds{}
	for _, r := range o.releases {
		for gvk, namespaces := range r.kinds {
			for namespace := range namespaces {
				kinds.Add(gvk, namespace)
			}
		}
	}
	o.watches.Follow(ctx, kinds)
}

// Sight is what the heartbeat of an observer carries.
type Sight struct {
	Since    time.Time   `json:"since"`
	Releases int         `json:"releases"`
	Objects  int         `json:"objects"`
	Kinds    []KindSight `json:"kinds,omitempty"`
}

// KindSight is how well one kind is seen.
type KindSight struct {
	Kind    string    `json:"kind"`
	Objects int       `json:"objects"`
	Seen    time.Time `json:"seen,omitzero"`
	Problem string    `json:"problem,omitempty"`
}

// maxKinds is how many kinds a heartbeat names.
const maxKinds = 50

// tell says in the heartbeat what is seen.
func (o *observation) tell() {
	s := Sight{Since: o.began.UTC().Truncate(time.Second), Releases: len(o.releases)}
	watches, bytes := 0, 0
	if o.watches != nil {
		for _, k := range o.watches.States() {
			s.Objects += k.Objects
			watches++
			bytes += k.Bytes
			if len(s.Kinds) < maxKinds {
				s.Kinds = append(s.Kinds, KindSight{kindName(k), k.Objects, k.Seen.UTC().Truncate(time.Second), k.Problem})
			}
		}
	}
	o.beat.set(s)
	o.Metrics.observer.sees(o.key, watches, s.Objects, bytes)
}

// kindName names a kind, and the namespace in which it is followed if that is one only.
func kindName(k observe.KindState) string {
	name := k.Kind.GroupKind().String()
	if k.Namespace != "" {
		name += " in " + k.Namespace
	}
	return name
}
