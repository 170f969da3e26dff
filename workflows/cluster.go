package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"kumodo.io/convoy/activities"
	"kumodo.io/convoy/internal/delivery"
)

// Cluster lives as long as a Cluster object: it probes when the object or what it reads changes and at each
// resync, keeps a failed probe retrying, and does what a deletion asks for.
func Cluster(ctx workflow.Context, in delivery.ClusterInput) error {
	c := &cluster{key: in.Key, failures: in.Failures}
	c.inbox = newInbox(ctx, delivery.SignalReprobe, "Probe now, also in the middle of a backoff.")
	err := workflow.SetUpdateHandlerWithOptions(ctx, delivery.UpdateReprobe, c.reprobe, workflow.UpdateHandlerOptions{
		Description: "Probe now, also in the middle of a backoff, and answer with the verdict of this probe.",
	})
	if err != nil {
		return err
	}
	if in.Probing {
		c.startProbe(ctx)
	}
	return c.run(ctx)
}

// cluster is the state of the workflow.
type cluster struct {
	key   delivery.Key
	inbox *inbox
	// failures is how many probes in a row failed before the one that is running.
	failures int
	// probe is the retrying probe, nil when none is running.
	probe   workflow.Future
	cancel  workflow.CancelFunc
	started time.Time
	// pause is how long the running probe waits before its first real attempt.
	pause   time.Duration
	verdict activities.ProbeResult
	// deleting stays true once the object is being deleted.
	deleting bool
}

func (c *cluster) run(ctx workflow.Context) error {
	for {
		c.show(ctx)
		if err := workflow.Await(ctx, c.due); err != nil {
			return err
		}
		if c.probe != nil && c.probe.IsReady() {
			c.concludeProbe(ctx)
		}
		if !c.inbox.empty() {
			c.act(ctx, c.inbox.drain())
		}
		if c.deleting {
			if err := c.finalize(ctx); err != nil {
				return err
			}
		}
		if c.verdict.Life == activities.Gone && c.probe == nil && c.inbox.quiet(ctx) {
			return nil
		}
		if grown(ctx) && c.inbox.empty() {
			if err := c.next(ctx); err != nil {
				return err
			}
		}
	}
}

// due reports whether there is something to do.
func (c *cluster) due() bool {
	return !c.inbox.empty() || c.deleting || c.probe != nil && c.probe.IsReady()
}

func (c *cluster) act(ctx workflow.Context, m mail) {
	if m.uid != "" && m.uid != c.key.UID { // a new life under the same name
		c.stopProbe(ctx)
		c.forget(ctx)
		c.key.UID, c.failures, c.verdict, c.deleting = m.uid, 0, activities.ProbeResult{}, false
	}
	c.deleting = c.deleting || m.deleting
	switch {
	case m.forced:
		c.probeOnce(ctx)
	case c.deleting:
		c.stopProbe(ctx)
	case m.changed:
		c.stopProbe(ctx)
		c.failures = 0
		c.startProbe(ctx)
	case m.resync && c.probe == nil:
		c.startProbe(ctx)
	}
}

// forget clears up after a life that ended without its finalizer. It is not waited for: the new life begins.
func (c *cluster) forget(ctx workflow.Context) {
	if workflow.GetVersion(ctx, "forget-former-life", workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return
	}
	finalizeCluster.start(ctx, "clear up after a former "+c.key.String(), activities.ObjectInput{Key: c.key})
}

func (c *cluster) startProbe(ctx workflow.Context) {
	c.probeWith(ctx, activities.ProbeInput{Key: c.key, Failures: c.failures})
}

// probeAfter starts the retrying probe with a pause after a forced one that failed. The attempt that only pauses counts as one.
func (c *cluster) probeAfter(ctx workflow.Context, forced activities.ProbeResult) {
	c.probeWith(ctx, activities.ProbeInput{Key: c.key, Failures: c.failures - 1, After: forced.RetryAfter.Duration, Last: forced.Message})
}

func (c *cluster) probeWith(ctx workflow.Context, in activities.ProbeInput) {
	probing, cancel := workflow.WithCancel(ctx)
	c.cancel, c.started, c.pause = cancel, workflow.Now(ctx), in.After
	c.probe = probeCluster.start(probing, "probe "+c.key.String(), in)
}

// stopProbe cancels a running probe and waits until it has ended, so that no verdict comes from the past. Its
// failures are kept.
func (c *cluster) stopProbe(ctx workflow.Context) {
	if c.probe == nil {
		return
	}
	c.cancel()
	c.concludeProbe(ctx)
}

func (c *cluster) concludeProbe(ctx workflow.Context) {
	verdict, err := result[activities.ProbeResult](ctx, c.probe)
	c.probe = nil
	if err != nil {
		if tried := workflow.Now(ctx).Sub(c.started) - c.pause; tried >= 0 {
			c.failures = delivery.ProbeBackoff.FailuresAfter(c.failures, tried)
		}
		return
	}
	c.verdict, c.failures = verdict, 0
}

// probeOnce answers everybody who asked for a probe, then lets a failing Cluster go on retrying.
func (c *cluster) probeOnce(ctx workflow.Context) {
	c.stopProbe(ctx)
	in := activities.ProbeInput{Key: c.key, Failures: c.failures, Forced: true}
	verdict, err := result[activities.ProbeResult](ctx, probeCluster.once().start(ctx, "forced probe of "+c.key.String(), in))
	if err != nil {
		verdict = activities.ProbeResult{Life: activities.Alive, Retry: true}
		verdict.Reason, verdict.Message = describe(err)
	}
	c.verdict = verdict
	c.inbox.answer()
	if verdict.Retry {
		c.failures = max(1, c.failures)
		c.probeAfter(ctx, verdict)
		return
	}
	c.failures = 0
}

// reprobe is the update of that name.
func (c *cluster) reprobe(ctx workflow.Context) (activities.ProbeResult, error) {
	err := c.inbox.ask(ctx)
	return c.verdict, err
}

// finalize runs the deletion until it is done or news arrive.
func (c *cluster) finalize(ctx workflow.Context) error {
	c.stopProbe(ctx)
	finalizing, cancel := workflow.WithCancel(ctx)
	defer cancel()
	done := finalizeCluster.start(finalizing, "wait for the Releases of "+c.key.String(), activities.ObjectInput{Key: c.key})
	ended, err := settled(ctx, done, workflow.Now(ctx), c.inbox.stirred)
	if err != nil || !ended {
		return err
	}
	out, err := result[activities.ObjectResult](ctx, done)
	if err != nil {
		return err
	}
	c.deleting = false
	c.verdict = activities.ProbeResult{Life: out.Life}
	return nil
}

// next continues as new, unless news arrive. A running probe begins again.
func (c *cluster) next(ctx workflow.Context) error {
	in := delivery.ClusterInput{Key: c.key, Probing: c.probe != nil}
	c.stopProbe(ctx)
	if !c.inbox.quiet(ctx) {
		if in.Probing {
			c.startProbe(ctx)
		}
		return nil
	}
	in.Failures = c.failures
	return workflow.NewContinueAsNewError(ctx, Cluster, in)
}

func (c *cluster) show(ctx workflow.Context) {
	state := c.verdict.Reason
	switch {
	case c.probe != nil && c.failures > 0:
		state = fmt.Sprintf("probing, after %d failures", c.failures)
	case c.probe != nil:
		state = "probing"
	case state == "":
		state = "waiting for a change, a resync or a reprobe"
	}
	workflow.SetCurrentDetails(ctx, table(
		"Cluster", c.key.String(), "State", state, "Last verdict", c.verdict.Message, "Kubernetes", c.verdict.KubernetesVersion,
	))
}
