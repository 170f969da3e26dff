package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// Names of the phases of the suite of observers, in the figures that programs read.
const (
	phaseObserveCold     = "ObserveCold"
	phaseObserveRest     = "ObserveAtRest"
	phaseObserveDrift    = "ObserveDrift"
	phaseObserveTakeover = "ObserveTakeover"
	phaseObserveDropped  = "ObserveDropped"
	phaseObserveSpread   = "ObserveSpread"
)

const (
	// restWatched is how long the phase at rest lasts.
	restWatched = time.Minute
	// tenure is about how long an observer keeps a Cluster here.
	tenure = time.Minute
	// maxEdits is how many objects are edited, one after the other.
	maxEdits = 200
)

// observeSuite measures what it costs to see that nothing changes, and how soon a change is seen, by two processes of the role observer.
// All Clusters lead to one API server, but each has rights in a namespace of its own only, called as it is, so that it sees no more than it
// would on a server of its own. Each phase edits objects of a Release of its own of each Cluster.
type observeSuite struct {
	*releasesSuite
	clusters []string
	way      *door
	seen     map[string]latencies // of a phase, by what is measured
}

func newObserveSuite(w *world) suite {
	o := &observeSuite{releasesSuite: &releasesSuite{world: w}, clusters: numbered("cluster", w.N), seen: map[string]latencies{}}
	for _, c := range o.clusters {
		for i := range w.R {
			o.names = append(o.names, releaseOn(c, i))
		}
	}
	return suite{
		name: suiteObserve, about: fmt.Sprintf("%d Clusters of %d Releases", w.N, w.R), unit: "Release", n: len(o.names),
		sample: workflowIDs(delivery.ReleaseWorkflowID, spread(o.names, sampleSize)), furnish: o.furnish,
		phases: []phase{
			{
				name: phaseObserveCold, title: "first delivery, from the first Release created to all Ready",
				do: o.deliver, rest: o.resting, check: o.checkCold,
			},
			{
				name: phaseObserveRest, title: fmt.Sprintf("nothing changes, for %s", restWatched), prepare: o.observed,
				do: func(ctx context.Context) error { return pause(ctx, restWatched) }, check: o.checkRest,
				budgets: map[string]float64{rowHubWrites: 0, rowHubEvents: 0, rowTargetReads: 0, rowTargetWrites: 0, rowEvents: 0},
			},
			{name: phaseObserveDrift, title: "an object is edited, on one Cluster after the other", do: o.edit, check: o.checkSeen(toDrifted), alone: true},
			{name: phaseObserveTakeover, title: "one of two observers is killed, and an object of each Cluster edited", do: o.takeover, check: o.checkSeen(toDrifted), alone: true},
			{
				name: phaseObserveDropped, title: "packets of all Clusters are dropped, an object of each edited, and packets let through again",
				do: o.dropped, check: o.checkSeen(toUnreachable, toReachable, toDrifted), alone: true,
			},
			{name: phaseObserveSpread, title: fmt.Sprintf("a third observer joins two, with a tenure of about %s", tenure), do: o.join, check: o.checkSpread, alone: true},
		},
	}
}

func releaseOn(cluster string, i int) string { return fmt.Sprintf("%s-release-%d", cluster, i) }

// furnish writes the Clusters, which it awaits, and the sources.
func (o *observeSuite) furnish(ctx context.Context) error {
	for range 2 {
		if err := o.observer(); err != nil {
			return err
		}
	}
	var err error
	if o.way, err = newDoor(strings.TrimPrefix(o.local.Targets[0].Config().Host, "https://")); err != nil {
		return err
	}
	if err := o.way.turn(forward); err != nil {
		return err
	}
	err = each(ctx, o.clusters, func(ctx context.Context, name string) error {
		if err := o.home(ctx, name); err != nil {
			return err
		}
		kubeconfig, err := o.kubeconfigOf(name, o.way.address)
		if err != nil {
			return err
		}
		if err := o.hub.Create(ctx, kubeconfigSecret(name, kubeconfig)); err != nil {
			return err
		}
		return o.hub.Create(ctx, cluster(name))
	})
	if err != nil {
		return err
	}
	if err := o.world.clusters.await(ctx, o.clusters, reachable); err != nil {
		return err
	}
	return each(ctx, o.names, func(ctx context.Context, name string) error { return o.hub.Create(ctx, source(name, o.M, "first")) })
}

// home makes the namespace of a Cluster on the target, in which it may do everything.
func (o *observeSuite) home(ctx context.Context, cluster string) error {
	if err := o.target.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cluster}}); err != nil {
		return err
	}
	return o.target.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: "convoy"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: cluster}},
	})
}

func (o *observeSuite) deliver(ctx context.Context) error {
	err := each(ctx, o.names, func(ctx context.Context, name string) error {
		of, _, _ := strings.Cut(name, "-release-")
		r := release(name, of)
		r.Spec.SyncPolicy.Drift, r.Spec.TargetNamespace = v1alpha1.DriftReport, of
		return o.hub.Create(ctx, r)
	})
	if err != nil {
		return err
	}
	return o.releases.await(ctx, o.names, delivered)
}

// observer starts one more process of the role observer.
func (o *observeSuite) observer(more ...string) error {
	c, err := startConvoy(o.local, o.Convoy, fmt.Sprintf("observer-%d", time.Now().UnixNano()), append(more, "--roles=observer")...)
	if err == nil {
		o.observers = append(o.observers, c)
	}
	return err
}

// share is how many Clusters each process of the role observer observes, and how many objects they keep account of in all.
func (o *observeSuite) share(ctx context.Context) (clusters []int, objects float64, err error) {
	for _, c := range o.observers {
		families, err := scrape(ctx, c.metrics)
		if err != nil {
			return nil, 0, fmt.Errorf("read the metrics of an observer: %w", err)
		}
		series := families["convoy_observer_objects"].GetMetric()
		clusters = append(clusters, len(series))
		for _, s := range series {
			objects += s.GetGauge().GetValue()
		}
	}
	return clusters, objects, nil
}

// observed waits until every Cluster is observed, and its first list is over.
func (o *observeSuite) observed(ctx context.Context) error {
	return poll(ctx, time.Second, func() error {
		clusters, objects, err := o.share(ctx)
		if err == nil && objects < float64(len(o.names)*o.M) {
			err = fmt.Errorf("observers of %v Clusters keep account of %v objects", clusters, objects)
		}
		return err
	})
}

// What is measured, as the figures call it.
const (
	toDrifted     = "to Drifted"
	toUnreachable = "to Ready=False of the Cluster"
	toReachable   = "to Ready=True of the Cluster"
)

// tamper changes an object of the i-th Release of a Cluster.
func (o *observeSuite) tamper(ctx context.Context, cluster string, i int) error {
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"data":{%q:"other"}}`, textKey))
	return o.target.Patch(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: objectName(releaseOn(cluster, i), 0)}}, patch, client.FieldOwner("bench"))
}

// edit changes one object after the other, and waits each time until its Release says that it has drifted.
func (o *observeSuite) edit(ctx context.Context) error {
	clear(o.seen)
	for _, cluster := range spread(o.clusters, maxEdits) {
		if err := o.tamper(ctx, cluster, 0); err != nil {
			return err
		}
		if err := o.drifts(ctx, []string{cluster}, 0, time.Now()); err != nil {
			return err
		}
	}
	return nil
}

// drifts waits until the i-th Release of each Cluster says that it has drifted.
func (o *observeSuite) drifts(ctx context.Context, clusters []string, i int, since time.Time) error {
	var names []string
	for _, c := range clusters {
		names = append(names, releaseOn(c, i))
	}
	at, err := o.releases.arrivals(ctx, names, drifted)
	o.took(toDrifted, at, since)
	return err
}

func (o *observeSuite) took(what string, at map[string]time.Time, since time.Time) {
	for _, t := range at {
		o.seen[what] = append(o.seen[what], t.Sub(since))
	}
}

func (o *observeSuite) takeover(ctx context.Context) error {
	clear(o.seen)
	killed := o.observers[0]
	o.observers = o.observers[1:]
	if err := killed.kill(); err != nil {
		return err
	}
	since := time.Now()
	if err := each(ctx, o.clusters, func(ctx context.Context, c string) error { return o.tamper(ctx, c, 1) }); err != nil {
		return err
	}
	return o.drifts(ctx, o.clusters, 1, since)
}

func (o *observeSuite) dropped(ctx context.Context) error {
	clear(o.seen)
	since := time.Now()
	if err := o.way.turn(hang); err != nil {
		return err
	}
	if err := each(ctx, o.clusters, func(ctx context.Context, c string) error { return o.tamper(ctx, c, 2) }); err != nil {
		return err
	}
	at, err := o.world.clusters.arrivals(ctx, o.clusters, unreachable)
	if err != nil {
		return err
	}
	o.took(toUnreachable, at, since)
	since = time.Now()
	if err := o.way.turn(forward); err != nil {
		return err
	}
	if at, err = o.world.clusters.arrivals(ctx, o.clusters, reachable); err != nil {
		return err
	}
	o.took(toReachable, at, since)
	return o.drifts(ctx, o.clusters, 2, since)
}

// join replaces the observers by two with a short tenure, and adds a third, which gets its share within twice that.
func (o *observeSuite) join(ctx context.Context) error {
	before := len(o.observers)
	for range 2 {
		if err := o.observer("--observer-tenure=" + tenure.String()); err != nil {
			return err
		}
	}
	for _, c := range o.observers[:before] {
		if err := c.stop(); err != nil {
			return err
		}
	}
	o.observers = o.observers[before:]
	if err := pause(ctx, 10*time.Second); err != nil {
		return err
	}
	if err := o.observer("--observer-tenure=" + tenure.String()); err != nil {
		return err
	}
	return pause(ctx, 3*tenure)
}

func drifted(r *v1alpha1.Release) bool {
	return r != nil && meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionDrifted)
}

func (o *observeSuite) checkCold(ctx context.Context, _ figures) ([]fact, error) {
	var all corev1.ConfigMapList
	err := o.target.List(ctx, &all, client.HasLabels{v1alpha1.LabelOwner})
	if want := len(o.names) * o.M; err == nil && len(all.Items) != want {
		err = fmt.Errorf("the target has %d ConfigMaps, want %d", len(all.Items), want)
	}
	return nil, err
}

func (o *observeSuite) checkRest(ctx context.Context, _ figures) ([]fact, error) {
	_, objects, err := o.share(ctx)
	if err != nil {
		return nil, err
	}
	resident := 0.0
	for _, c := range o.observers {
		mib, err := memoryMiB(c.pid(), "VmRSS")
		if err != nil {
			return nil, err
		}
		resident += mib
	}
	return []fact{
		{Name: "objects that are observed", Value: objects},
		{Name: "resident memory of both observers", Unit: "MiB", Value: resident},
		{Name: "the same by 1,000 of these objects", Unit: "MiB", Value: ratio(resident, objects/1000)},
	}, nil
}

// checkSeen tells how long it took.
func (o *observeSuite) checkSeen(all ...string) check {
	return func(_ context.Context, f figures) (facts []fact, _ error) {
		for _, what := range all {
			l := o.seen[what]
			p99 := fact{Name: what + " p99", Unit: "s", Value: l.p99()}
			if f.Name == phaseObserveDrift {
				p99.Limit = new(2.0)
			}
			facts = append(facts, fact{Name: what + " p50", Unit: "s", Value: l.p50()}, p99, fact{Name: what + " max", Unit: "s", Value: l.max()})
		}
		return facts, nil
	}
}

func (o *observeSuite) checkSpread(ctx context.Context, _ figures) ([]fact, error) {
	clusters, _, err := o.share(ctx)
	facts := make([]fact, 0, len(clusters))
	for i, n := range clusters {
		facts = append(facts, fact{Name: fmt.Sprintf("Clusters of observer %d", i+1), Value: float64(n)})
	}
	return facts, err
}
