package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// Names of the phases of the suite of observers, in the figures that programs read.
const (
	phaseObserveCold  = "ObserveCold"
	phaseObserveRest  = "ObserveAtRest"
	phaseObserveDrift = "ObserveDrift"
)

const (
	// restWatched is how long the phase at rest lasts.
	restWatched = time.Minute
	// driftEdits is how many objects are edited, one after the other.
	driftEdits = 200
)

// observeSuite measures what it costs to see that nothing changes, and how soon a change is seen. All Clusters lead to one API server.
type observeSuite struct {
	*releasesSuite
	clusters []string
	drift    latencies
}

func newObserveSuite(w *world) suite {
	o := &observeSuite{releasesSuite: &releasesSuite{world: w}, clusters: numbered("cluster", w.N)}
	for _, c := range o.clusters {
		for i := range w.R {
			o.names = append(o.names, fmt.Sprintf("%s-release-%d", c, i))
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
				name: phaseObserveRest, title: fmt.Sprintf("nothing changes, for %s", restWatched),
				prepare: func(ctx context.Context) error { return pause(ctx, 10*time.Second) },
				do:      func(ctx context.Context) error { return pause(ctx, restWatched) }, check: o.checkRest,
				budgets: map[string]float64{rowHubWrites: 0, rowHubEvents: 0, rowTargetReads: 0, rowTargetWrites: 0, rowEvents: 0},
			},
			{
				name: phaseObserveDrift, title: fmt.Sprintf("%d objects are edited, one after the other", driftEdits),
				do: o.edit, check: o.checkDrift, alone: true,
			},
		},
	}
}

// furnish writes the Clusters, which it awaits, and the sources.
func (o *observeSuite) furnish(ctx context.Context) error {
	kubeconfig, err := o.kubeconfig("")
	if err != nil {
		return err
	}
	err = each(ctx, o.clusters, func(ctx context.Context, name string) error {
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

func (o *observeSuite) deliver(ctx context.Context) error {
	err := each(ctx, o.names, func(ctx context.Context, name string) error {
		of, _, _ := strings.Cut(name, "-release-")
		r := release(name, of)
		r.Spec.SyncPolicy.Drift = v1alpha1.DriftReport
		return o.hub.Create(ctx, r)
	})
	if err != nil {
		return err
	}
	return o.releases.await(ctx, o.names, delivered)
}

// edit changes one object of a Release, and waits until the Release says that it has drifted.
func (o *observeSuite) edit(ctx context.Context) error {
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"data":{%q:"other"}}`, textKey))
	for _, name := range spread(o.names, min(driftEdits, len(o.names))) {
		object := &corev1.ConfigMap{ObjectMeta: named(objectName(name, 0))}
		if err := o.target.Patch(ctx, object, patch, client.FieldOwner("bench")); err != nil {
			return err
		}
		began := time.Now()
		at, err := o.releases.arrivals(ctx, []string{name}, drifted)
		if err != nil {
			return err
		}
		o.drift = append(o.drift, at[name].Sub(began))
	}
	return nil
}

func drifted(r *v1alpha1.Release) bool {
	return r != nil && meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionDrifted)
}

func (o *observeSuite) checkCold(ctx context.Context, _ figures) ([]fact, error) {
	return nil, o.onTarget(ctx, len(o.names)*o.M)
}

func (o *observeSuite) checkRest(ctx context.Context, _ figures) ([]fact, error) {
	held, err := o.settled(ctx)
	return append([]fact{{Name: "objects that are watched", Value: float64(len(o.names) * o.M)}}, held.facts()...), err
}

func (o *observeSuite) checkDrift(context.Context, figures) ([]fact, error) {
	return []fact{
		{Name: "edits", Value: float64(len(o.drift))},
		{Name: "from the edit to Drifted p50", Unit: "s", Value: o.drift.p50()},
		{Name: "from the edit to Drifted p99", Unit: "s", Value: o.drift.p99(), Limit: new(2.0)},
		{Name: "from the edit to Drifted max", Unit: "s", Value: o.drift.max()},
	}, nil
}
