// Package main is the demo: it shows convoy at work on this machine. It starts the local environment and the real
// binary, registers the Cluster of the samples, and delivers a real application to it from git. Then it either stays for
// somebody to look around, or, with -once, takes the delivery through its life, checks each step, and ends.
//
// It decides what is shown and when a step counts as done. It never calls into convoy's packages but for the API types
// and the names of workflows. `make demo` and `make demo-once` call it.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Exit codes besides 0.
const (
	exitFailed      = 1
	exitInterrupted = 130 // as shells say it
)

// step is one thing that the demo shows.
type step struct {
	title string
	// limit bounds the step. It is for a loaded machine: a step that works does not come near it.
	limit time.Duration
	run   func(context.Context) error
	took  time.Duration
}

func init() {
	// Linux kills convoy when the thread that started it ends. The main thread lives as long as the demo.
	runtime.LockOSThread()
}

func main() {
	once := flag.Bool("once", false, "check each step, show more of them, and end")
	flag.Parse()
	log.SetLogger(logr.Discard()) // of the clients
	slog.SetDefault(slog.New(slog.DiscardHandler))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // so that a second Ctrl-C ends the demo at once
	code := run(ctx, *once)
	stop()
	os.Exit(code)
}

// run shows everything and returns the exit code.
func run(ctx context.Context, once bool) (code int) {
	d, err := newDemo()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		return exitFailed
	}
	defer func() {
		if err := d.stop(); err != nil {
			d.out.line("cannot stop everything: %v", err)
			code = exitFailed
		}
	}()
	steps := d.story(once)
	for i := range steps {
		err := d.perform(ctx, i+1, &steps[i])
		if ctx.Err() != nil {
			return d.interrupted(exitInterrupted)
		}
		if err != nil {
			d.explain(ctx, i+1, &steps[i], err)
			return exitFailed
		}
	}
	if once {
		d.summarize(steps)
		return 0
	}
	d.guide()
	select {
	case <-ctx.Done():
		return d.interrupted(0)
	case <-d.convoy.done:
		d.out.line("convoy has ended (%v); its log ends with:\n%s", d.convoy.err, d.convoy.tail(20))
		return exitFailed
	}
}

// story is what is shown: the beginning for somebody who stays, all of it once.
func (d *demo) story(once bool) []step {
	steps := []step{
		{title: "Start Temporal, a hub, a target and a git server", limit: 4 * time.Minute, run: d.startEnvironment},
		{title: "Start convoy", limit: time.Minute, run: d.startConvoy},
		{title: "Register the target as a Cluster", limit: time.Minute, run: d.register},
		{title: "Deliver podinfo to it from git", limit: 2 * time.Minute, run: d.deliver},
	}
	if !once {
		return steps
	}
	return append(
		steps,
		step{title: "Change the Cluster's metadata: no Release reconciles", limit: time.Minute, run: d.changeMetadata},
		step{title: "Ask for a reconcile: the metadata is seen, and is a new rollout", limit: 2 * time.Minute, run: d.requestReconcile},
		step{title: "Push a commit: one object changes, one is pruned", limit: 2 * time.Minute, run: d.pushCommit},
		step{title: "Take the target away: the Release waits at the gate", limit: 2 * time.Minute, run: d.takeTargetAway},
		step{title: "Bring the target back: Ready without a new rollout", limit: 3 * time.Minute, run: d.bringTargetBack},
		step{title: "Delete the Cluster: its Release and all objects go with it", limit: 2 * time.Minute, run: d.deleteCluster},
		step{title: "Search Temporal for credentials", limit: time.Minute, run: d.searchTemporal},
	)
}

// perform runs one step within its limit.
func (d *demo) perform(ctx context.Context, number int, s *step) error {
	d.out.line("%d. %s", number, s.title)
	ctx, cancel := context.WithTimeoutCause(ctx, s.limit, fmt.Errorf("not within %s", s.limit))
	defer cancel()
	began := time.Now()
	err := s.run(ctx)
	s.took = time.Since(began)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}

// interrupted says that somebody asked for the end.
func (d *demo) interrupted(code int) int {
	d.out.line("Stopping everything, as asked …")
	return code
}

// explain says which step failed and shows where the objects and convoy stand.
func (d *demo) explain(ctx context.Context, number int, s *step, err error) {
	d.out.line("FAILED: step %d (%s) after %.1f s", number, s.title, s.took.Seconds())
	d.out.detail("%v", err)
	if d.hub != nil {
		d.out.line("The hub says:")
		d.out.text(d.state(ctx))
	}
	if d.convoy != nil {
		d.out.line("The log of convoy ends with:")
		d.out.text(d.convoy.tail(25))
	}
}

// summarize lists the steps and how long each took.
func (d *demo) summarize(steps []step) {
	d.out.line("All %d steps did what they should:", len(steps))
	for i, s := range steps {
		d.out.text(fmt.Sprintf("%6.1f s  %2d. %s", s.took.Seconds(), i+1, s.title))
	}
}
