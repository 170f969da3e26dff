package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// Names of the phases of the suite of Clusters, in the figures that programs read.
const (
	phaseClustersCold   = "ClustersCold"
	phaseClustersRest   = "ClustersAtRest"
	phaseReprobe        = "Reprobe"
	phaseIsolation      = "Isolation"
	phaseClustersDelete = "ClustersDelete"
)

// clustersSuite measures the care for many Clusters, all of which lead to one API server: the healthy ones straight,
// the dead ones through doors.
type clustersSuite struct {
	*world
	names   []string
	healthy []string
	dead    []string
	doors   map[string]*door // of the dead Clusters
	created map[string]time.Time
	verdict map[string]time.Time
	before  resources // the first Cluster
	reprobe latencies
	calm    []round
	trouble []round
}

func newClustersSuite(w *world) suite {
	c := &clustersSuite{world: w, names: numbered("cluster", w.N), doors: map[string]*door{}}
	c.dead = spread(c.names, w.Dead)
	c.healthy = slices.DeleteFunc(slices.Clone(c.names), func(name string) bool { return slices.Contains(c.dead, name) })
	return suite{
		name: suiteClusters, about: fmt.Sprintf("%d Clusters, %d of them dead", w.N, w.Dead), unit: "Cluster", n: w.N,
		sample:  workflowIDs(delivery.ClusterWorkflowID, spread(c.healthy, sampleSize)),
		furnish: c.furnish, phases: c.phases(),
	}
}

func (c *clustersSuite) phases() []phase {
	return []phase{
		{
			name: phaseClustersCold, title: "from the first Cluster created to all with a verdict",
			prepare: c.empty, do: c.create, rest: c.resting, check: c.checkVerdicts,
			// The finalizer, the verdict and the kept credentials; the Event of the verdict.
			budgets: map[string]float64{rowHubWrites: 3, rowHubEvents: 1, rowTargetWrites: 0},
		},
		{
			name: phaseClustersRest, title: fmt.Sprintf("nothing changes, one resync period of %s", c.Resync),
			prepare: c.resync, do: c.resync, check: c.checkResync,
			budgets: map[string]float64{rowHubWrites: 1, rowHubEvents: 0, rowTargetWrites: 0},
		},
		{
			name: phaseReprobe, title: "reprobe of a healthy Cluster by update, while probes of all of them queue",
			prepare: c.fillQueue, do: c.reprobeSome, check: c.checkReprobes, alone: true,
		},
		{
			name: phaseIsolation, title: fmt.Sprintf("%d Releases to %d healthy Clusters, delivered again with the others alive (calm) and dead (trouble), %d rounds each",
				c.R, len(c.hosts()), c.Pairs),
			prepare: c.inhabit, do: c.alternate, check: c.checkIsolation, alone: true,
		},
		{
			name: phaseClustersDelete, title: "deletion, from the first Cluster deleted to all gone",
			prepare: c.vacate, do: c.remove, check: c.checkGone,
			budgets: map[string]float64{rowHubEvents: 1, rowTargetWrites: 0},
		},
	}
}

// deadWay is how a dead Cluster is dead: half of them refuse, half of them hang.
func (c *clustersSuite) deadWay(name string) way {
	if slices.Index(c.dead, name)%2 == 0 {
		return refuse
	}
	return hang
}

// furnish writes the Secrets. The dead Clusters are dead from the start.
func (c *clustersSuite) furnish(ctx context.Context) error {
	server, err := url.Parse(c.local.Targets[0].Server)
	if err != nil {
		return err
	}
	straight, err := c.kubeconfig("")
	if err != nil {
		return err
	}
	kubeconfigs := map[string][]byte{}
	for _, name := range c.healthy {
		kubeconfigs[name] = straight
	}
	for _, name := range c.dead {
		if c.doors[name], err = newDoor(server.Host); err != nil {
			return err
		}
		if kubeconfigs[name], err = c.kubeconfig(c.doors[name].address); err != nil {
			return err
		}
	}
	if err := c.kill(); err != nil {
		return err
	}
	return each(ctx, c.names, func(ctx context.Context, name string) error {
		return c.hub.Create(ctx, kubeconfigSecret(name, kubeconfigs[name]))
	})
}

// kill makes the dead Clusters dead.
func (c *clustersSuite) kill() error {
	var errs []error
	for _, name := range c.dead {
		errs = append(errs, c.doors[name].turn(c.deadWay(name)))
	}
	return errors.Join(errs...)
}

// empty reads what convoy holds before the first Cluster.
func (c *clustersSuite) empty(ctx context.Context) (err error) {
	c.before, err = c.settled(ctx)
	return err
}

func (c *clustersSuite) create(ctx context.Context) error {
	var mu sync.Mutex
	c.created = map[string]time.Time{}
	group, together := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		c.verdict, err = c.clusters.arrivals(together, c.names, verdict)
		return err
	})
	group.Go(func() error {
		return each(together, c.names, func(ctx context.Context, name string) error {
			mu.Lock()
			c.created[name] = time.Now()
			mu.Unlock()
			return c.hub.Create(ctx, cluster(name))
		})
	})
	return group.Wait()
}

// resting waits until the workflows of the sample rest; those of the dead Clusters never do.
func (c *clustersSuite) resting(ctx context.Context) error {
	return c.atRest(ctx, workflowIDs(delivery.ClusterWorkflowID, spread(c.healthy, sampleSize)))
}

// checkVerdicts checks that all verdicts are right.
func (c *clustersSuite) checkVerdicts(ctx context.Context, _ figures) ([]fact, error) {
	if err := c.alive(); err != nil {
		return nil, err
	}
	held, err := c.settled(ctx)
	if err != nil {
		return nil, err
	}
	took := func(names []string) (all latencies) {
		for _, name := range names {
			all = append(all, c.verdict[name].Sub(c.created[name]))
		}
		return all
	}
	healthy, dead := took(c.healthy), took(c.dead)
	return append([]fact{
		{Name: "verdict of a healthy one p50", Unit: "s", Value: healthy.p50()},
		{Name: "verdict of a healthy one p99", Unit: "s", Value: healthy.p99()},
		{Name: "verdict of a dead one p50", Unit: "s", Value: dead.p50()},
		{Name: "verdict of a dead one max", Unit: "s", Value: dead.max()},
	}, held.facts()...), nil
}

// alive checks that exactly the healthy Clusters are Ready.
func (c *clustersSuite) alive() error {
	for _, name := range c.healthy {
		if is := c.clusters.get(name); !reachable(is) {
			return fmt.Errorf("healthy Cluster %s%s", name, c.clusters.describe(is))
		}
	}
	for _, name := range c.dead {
		if is := c.clusters.get(name); !unreachable(is) {
			return fmt.Errorf("dead Cluster %s%s", name, c.clusters.describe(is))
		}
	}
	return nil
}

// resync lets one resync period pass.
func (c *clustersSuite) resync(ctx context.Context) error { return pause(ctx, c.Resync) }

// checkResync checks that there was a resync, and that it changed no verdict.
func (c *clustersSuite) checkResync(_ context.Context, f figures) ([]fact, error) {
	if probed := f.Requests[inTarget].sum(isRead); probed < float64(len(c.healthy))/2 {
		return nil, fmt.Errorf("the target had %.0f requests in a resync period: not every healthy Cluster was probed", probed)
	}
	return nil, c.alive()
}

// remove deletes all Clusters.
func (c *clustersSuite) remove(ctx context.Context) error {
	err := each(ctx, c.names, func(ctx context.Context, name string) error {
		return c.hub.Delete(ctx, &v1alpha1.Cluster{ObjectMeta: named(name)})
	})
	if err != nil {
		return err
	}
	return c.clusters.await(ctx, c.names, gone)
}

// checkGone checks that nothing is left of the Clusters, on the hub and in convoy.
func (c *clustersSuite) checkGone(ctx context.Context, _ figures) ([]fact, error) {
	var left v1alpha1.ClusterList
	if err := c.hub.List(ctx, &left, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	if len(left.Items) > 0 {
		return nil, fmt.Errorf("%d Clusters are left", len(left.Items))
	}
	held, err := c.settled(ctx)
	if err != nil {
		return nil, err
	}
	var secrets corev1.SecretList
	if err := c.hub.List(ctx, &secrets, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	kept := fact{Name: "Secrets left by convoy", Value: float64(len(secrets.Items) - c.N), Limit: new(0.0)}
	return append([]fact{kept}, held.factsSince(c.before)...), nil
}
