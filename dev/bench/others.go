package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"kumodo.io/convoy/internal/delivery"
)

// others are the Releases of the Clusters that are dead in half of the rounds: of each, one is deleted at the beginning of
// a round, which tries the Cluster without asking whether it is reachable, and one is changed.
type others struct {
	doomed []string
	stuck  []string
}

func (o others) all() []string { return slices.Concat(o.doomed, o.stuck) }

// settle delivers two Releases to each of these Clusters while they are alive.
func (c *clustersSuite) settle(ctx context.Context, number int) (others, error) {
	o := others{
		doomed: numbered(fmt.Sprintf("doomed-%d", number), len(c.dead)), stuck: numbered(fmt.Sprintf("stuck-%d", number), len(c.dead)),
	}
	at := map[string]string{}
	for i, name := range c.dead {
		at[o.doomed[i]], at[o.stuck[i]] = name, name
	}
	return o, c.deliverTo(ctx, o.all(), func(name string) string { return at[name] })
}

// stir changes one of the Releases of each Cluster and deletes the other.
func (o others) stir(ctx context.Context, c *clustersSuite) error {
	err := each(ctx, o.stuck, func(ctx context.Context, name string) error { return c.hub.Update(ctx, source(name, c.M, "late")) })
	if err != nil {
		return err
	}
	return each(ctx, o.doomed, c.deleteRelease)
}

// lasted checks that the trouble went on to the end of the round.
func (o others) lasted(c *clustersSuite) error {
	for _, name := range o.all() {
		if is := c.releases.get(name); !vexed(is) {
			return fmt.Errorf("a dead Cluster made no trouble for Release %s%s", name, c.releases.describe(is))
		}
	}
	return nil
}

// leave brings the dead Clusters to life and removes the Releases.
func (o others) leave(ctx context.Context, c *clustersSuite) error {
	if err := c.revive(ctx); err != nil {
		return err
	}
	if err := each(ctx, o.stuck, c.deleteRelease); err != nil {
		return err
	}
	// What backs off by now is woken, again and again, because a step may hang on the dead Cluster of before.
	group, waking := errgroup.WithContext(ctx)
	waking, enough := context.WithCancel(waking)
	group.Go(func() error {
		defer enough()
		return c.releases.await(ctx, o.all(), gone)
	})
	group.Go(func() error {
		for pause(waking, 5*time.Second) == nil {
			for _, name := range o.all() {
				if c.releases.get(name) != nil {
					_ = c.reconcileNow(waking, name) // a workflow that has just ended needs no waking
				}
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return err
	}
	return each(ctx, o.all(), func(ctx context.Context, name string) error { return c.hub.Delete(ctx, source(name, 0, "")) })
}

// revive brings the dead Clusters to life, and returns when convoy has seen it.
func (c *clustersSuite) revive(ctx context.Context) error {
	for _, name := range c.dead {
		if err := c.doors[name].turn(forward); err != nil {
			return err
		}
	}
	if err := each(ctx, c.dead, c.reprobeUntilAlive); err != nil {
		return err
	}
	return c.clusters.await(ctx, c.dead, reachable)
}

// reprobeUntilAlive has a Cluster probed until it is reachable: one probe may still meet what was before, and on a busy
// machine all of them take long.
func (c *clustersSuite) reprobeUntilAlive(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Minute, fmt.Errorf("the dead Cluster %s did not come to life", name))
	defer cancel()
	return poll(ctx, time.Second, func() error { return c.reprobeNow(ctx, name) })
}

// vacate makes the dead Clusters dead again, and returns when convoy has seen it.
func (c *clustersSuite) vacate(ctx context.Context) error {
	if err := c.kill(); err != nil {
		return err
	}
	err := each(ctx, c.dead, func(ctx context.Context, name string) error {
		return c.temporal.SignalWorkflow(ctx, delivery.ClusterWorkflowID(namespace, name), "", delivery.SignalReprobe, nil)
	})
	if err != nil {
		return err
	}
	return c.clusters.await(ctx, c.dead, unreachable)
}
