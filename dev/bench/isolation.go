package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

const (
	// hostCount is how many healthy Clusters get Releases.
	hostCount = 20
	// pace is between two edits of a round: slow enough to leave time to spare, or every round measures a queue.
	pace = 200 * time.Millisecond
)

// round is how long deliveries to healthy Clusters took in one round.
type round struct {
	apply latencies // from the apply step scheduled to its end
	ready latencies // from the edit to the Release Ready
}

// hosts are the Clusters that get the Releases.
func (c *clustersSuite) hosts() []string { return spread(c.healthy, hostCount) }

// guests are the Releases to healthy Clusters.
func (c *clustersSuite) guests() []string { return numbered("guest", c.R) }

// inhabit delivers the Releases to healthy Clusters for the first time, and brings the dead Clusters to life.
func (c *clustersSuite) inhabit(ctx context.Context) error {
	hosts := c.hosts()
	at := map[string]string{}
	for i, name := range c.guests() {
		at[name] = hosts[i%len(hosts)]
	}
	if err := c.deliverTo(ctx, c.guests(), func(name string) string { return at[name] }); err != nil {
		return err
	}
	return c.revive(ctx)
}

// deliverTo creates Releases and waits until they are Ready.
func (c *clustersSuite) deliverTo(ctx context.Context, names []string, to func(name string) string) error {
	err := each(ctx, names, func(ctx context.Context, name string) error {
		if err := c.hub.Create(ctx, source(name, c.M, "first")); err != nil {
			return err
		}
		return c.hub.Create(ctx, release(name, to(name)))
	})
	if err != nil {
		return err
	}
	return c.releases.await(ctx, names, delivered)
}

// alternate makes rounds in pairs. The order within a pair changes, so that what grows over time weighs on both kinds.
func (c *clustersSuite) alternate(ctx context.Context) error {
	for pair := range c.Pairs {
		for i := range 2 {
			number := 2*pair + i + 1
			if err := c.besideOthers(ctx, number, (pair+i)%2 == 1); err != nil {
				return fmt.Errorf("round %d: %w", number, err)
			}
		}
	}
	return nil
}

// besideOthers makes a round while the others change and lose their Releases: alive ones, which take and forget them, or
// dead ones, on which everything fails. The work that is asked for is the same.
func (c *clustersSuite) besideOthers(ctx context.Context, number int, dead bool) error {
	o, err := c.settle(ctx, number)
	if err != nil {
		return fmt.Errorf("deliver to the others: %w", err)
	}
	if dead {
		if err := c.kill(); err != nil {
			return err
		}
	}
	if err := o.stir(ctx, c); err != nil {
		return fmt.Errorf("change the others: %w", err)
	}
	r, err := c.round(ctx, number)
	if err != nil {
		return err
	}
	if dead {
		c.trouble = append(c.trouble, r)
		c.reportRound(number, "trouble", r)
		err = o.lasted(c)
	} else {
		c.calm = append(c.calm, r)
		c.reportRound(number, "calm", r)
	}
	if err != nil {
		return err
	}
	if err := o.leave(ctx, c); err != nil {
		return fmt.Errorf("remove the Releases of the others: %w", err)
	}
	return nil
}

// round edits the sources of all Releases to healthy Clusters, one by one, and waits until all are delivered.
func (c *clustersSuite) round(ctx context.Context, number int) (round, error) {
	guests, text := c.guests(), "round-"+strconv.Itoa(number)
	before := map[string]int64{}
	for _, name := range guests {
		before[name] = c.releases.get(name).Status.Rollout.Number
	}
	var arrived map[string]time.Time
	group, waiting := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		arrived, err = c.releases.arrivals(waiting, guests, func(r *v1alpha1.Release) bool {
			return delivered(r) && r.Status.Rollout.Number > before[r.Name] && r.Status.Rollout.Phase == v1alpha1.RolloutSucceeded
		})
		return err
	})
	edited := map[string]time.Time{}
	group.Go(func() error {
		for _, name := range guests {
			edited[name] = time.Now()
			if err := c.hub.Update(waiting, source(name, c.M, text)); err != nil {
				return err
			}
			if err := pause(waiting, pace); err != nil {
				return err
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return round{}, err
	}
	if err := c.hold(ctx, guests, text); err != nil {
		return round{}, err
	}
	r := round{}
	for _, name := range guests {
		took, err := c.applyStep(ctx, name)
		if err != nil {
			return r, err
		}
		r.apply, r.ready = append(r.apply, took), append(r.ready, arrived[name].Sub(edited[name]))
	}
	return r, nil
}

// hold checks that the target holds a text for each ConfigMap of Releases.
func (c *clustersSuite) hold(ctx context.Context, names []string, text string) error {
	texts, err := c.textsOnTarget(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		for i := range c.M {
			if has := texts[objectName(name, i)]; has != text {
				return fmt.Errorf("ConfigMap %s of the target holds %q, want %q", objectName(name, i), has, text)
			}
		}
	}
	return nil
}

// applyStep is how long the apply step of the last rollout of a Release took.
func (c *clustersSuite) applyStep(ctx context.Context, name string) (time.Duration, error) {
	id := delivery.RolloutWorkflowID(namespace, name, c.releases.get(name).Status.Rollout.Number)
	var all []*historypb.HistoryEvent
	events := c.temporal.GetWorkflowHistory(ctx, id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			return 0, fmt.Errorf("history of %s: %w", id, err)
		}
		all = append(all, e)
	}
	took, ok := stepTook(all, "ApplyObjects")
	if !ok {
		return 0, fmt.Errorf("history of %s: no apply was completed", id)
	}
	return took, nil
}

// stepTook is how long the first activity of a type took from when it was scheduled to when it was completed.
func stepTook(events []*historypb.HistoryEvent, activity string) (time.Duration, bool) {
	scheduled := map[int64]time.Time{}
	for _, e := range events {
		if a := e.GetActivityTaskScheduledEventAttributes(); a.GetActivityType().GetName() == activity {
			scheduled[e.GetEventId()] = e.GetEventTime().AsTime()
		}
		if a := e.GetActivityTaskCompletedEventAttributes(); a != nil {
			if at, ok := scheduled[a.GetScheduledEventId()]; ok {
				return e.GetEventTime().AsTime().Sub(at), true
			}
		}
	}
	return 0, false
}

// checkIsolation removes the Releases; what was delivered is checked after each round.
func (c *clustersSuite) checkIsolation(ctx context.Context, _ figures) ([]fact, error) {
	if len(c.calm) != c.Pairs || len(c.trouble) != c.Pairs {
		return nil, errors.New("the rounds were not all made")
	}
	if err := each(ctx, c.guests(), c.deleteRelease); err != nil {
		return nil, err
	}
	if err := c.releases.await(ctx, c.guests(), gone); err != nil {
		return nil, err
	}
	facts := []fact{{Name: "deliveries of each kind", Value: float64(c.R * c.Pairs)}}
	for _, of := range []struct {
		name string
		take func(round) latencies
	}{
		{"apply", func(r round) latencies { return r.apply }},
		{"Ready", func(r round) latencies { return r.ready }},
	} {
		facts = append(facts, compared(of.name, taken(c.calm, of.take), taken(c.trouble, of.take))...)
	}
	return facts, nil
}

func taken(rounds []round, take func(round) latencies) []latencies {
	all := make([]latencies, 0, len(rounds))
	for _, r := range rounds {
		all = append(all, take(r))
	}
	return all
}

// compared are the rows about one kind of latency with and without trouble.
func compared(name string, calm, trouble []latencies) []fact {
	without, with := pooled(calm), pooled(trouble)
	return []fact{
		{Name: name + " p50 calm", Unit: "s", Value: without.p50()},
		{Name: name + " p50 trouble", Unit: "s", Value: with.p50()},
		{Name: name + " p50 trouble by calm", Value: ratio(with.p50(), without.p50())},
		{Name: name + " p99 calm", Unit: "s", Value: without.p99()},
		{Name: name + " p99 trouble", Unit: "s", Value: with.p99()},
		{Name: name + " p99 trouble by calm", Value: ratio(with.p99(), without.p99()), Limit: new(1.05)},
		{Name: name + " p99 trouble by calm, median of the pairs", Value: ofPairs(calm, trouble)},
		{Name: name + " p99 of calm rounds, highest by lowest", Value: wobble(calm)},
	}
}

func (c *clustersSuite) reportRound(number int, kind string, r round) {
	c.report("round %d, %s: apply p50 %.3f s, p99 %.3f s; Ready p50 %.3f s, p99 %.3f s",
		number, kind, r.apply.p50(), r.apply.p99(), r.ready.p50(), r.ready.p99())
}

// vexed reports whether a Release is not Ready, or is being deleted in vain.
func vexed(r *v1alpha1.Release) bool {
	return r != nil && (!r.DeletionTimestamp.IsZero() || !meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionReady))
}
