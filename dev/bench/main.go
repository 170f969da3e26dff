// Command bench measures what convoy costs: it starts a local environment with one target, runs the convoy program as
// a child, gives it work, and prints time, CPU, memory, requests and workflow events beside the budgets. The suite
// releases has it deliver, look at and remove many Releases; the suite clusters has it look after many Clusters, some
// of them dead, and deliver beside them; the suite sources has many Releases share a repository; the suite observe
// watches what many Clusters hold, and edits it. The suite render needs none of that: it renders, beside Helm and
// kustomize. It judges nothing by its exit code but whether the work was done, and calls into convoy for renders, the
// API types and the names of workflows alone. People run it through `make bench`.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"kumodo.io/convoy/internal/render"
)

// options is what the command line says.
type options struct {
	Suite     string
	N         int           // units of the suite: Releases or Clusters
	M         int           // ConfigMaps of each Release
	Dead      int           // Clusters that do not answer
	R         int           // Releases that are delivered beside the dead Clusters
	Pairs     int           // pairs of rounds in which they are
	Resync    time.Duration // convoy's resync period
	Poll      time.Duration // how often a repository is looked at
	Convoy    string        // path of the program
	JSON      string        // file that gets one more line of JSON
	Benchstat string        // file that gets more lines for benchstat
	Timeout   time.Duration // of each phase
}

func parse(args []string, errs io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(errs)
	f.StringVar(&o.Suite, "suite", suiteReleases, "what to measure: releases, clusters, sources, observe or render")
	f.IntVar(&o.N, "n", 0, "number of Releases, by default 100, in the suite sources 300, or of Clusters, by default 1000, in the suite observe 100")
	f.IntVar(&o.M, "m", 0, "number of ConfigMaps of each Release; default: 4, in the suites clusters and sources 1, in the suite observe 10")
	f.IntVar(&o.Dead, "dead", 0, "suite clusters: how many of the Clusters do not answer; default: 50, or a tenth of fewer than 500")
	f.IntVar(&o.R, "r", 0, "suite clusters: number of Releases to healthy Clusters, by default 200; suite observe: of each Cluster, by default 10, at least 3")
	f.IntVar(&o.Pairs, "pairs", 3, "suite clusters: pairs of rounds with and without trouble")
	f.DurationVar(&o.Resync, "resync", time.Minute, "suite clusters: the resync period of convoy")
	f.DurationVar(&o.Poll, "poll", 10*time.Second, "suite sources: the pollInterval of the Releases, at least 5s")
	f.StringVar(&o.Convoy, "convoy", "", "program to measure; default: convoy in KUBEBUILDER_ASSETS")
	f.StringVar(&o.JSON, "json", "", "file to append the figures to, as one line of JSON")
	f.StringVar(&o.Benchstat, "benchstat", "", "file to append the figures to, in the format that benchstat reads")
	f.DurationVar(&o.Timeout, "timeout", 30*time.Minute, "time that each phase may take")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if err := o.complete(); err != nil {
		return o, err
	}
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		return o, errors.New("KUBEBUILDER_ASSETS is not set: run `make bench`, or set it to the checkout's bin folder")
	}
	if o.Convoy == "" {
		o.Convoy = filepath.Join(assets, "convoy")
	}
	var err error
	if o.Convoy, err = filepath.Abs(o.Convoy); err != nil {
		return o, err
	}
	if _, err := os.Stat(o.Convoy); err != nil { //nolint:gosec // the user names the program
		return o, fmt.Errorf("no program to measure: run `make build`, or use -convoy: %w", err)
	}
	return o, nil
}

// complete adds the defaults that depend on the suite, and refuses what cannot be measured.
func (o *options) complete() error {
	switch o.Suite {
	case suiteReleases:
		o.N, o.M, o.Dead = cmp.Or(o.N, 100), cmp.Or(o.M, 4), 0
	case suiteRender:
		return nil
	case suiteSources:
		o.N, o.M, o.Dead = cmp.Or(o.N, 300), cmp.Or(o.M, 1), 0
	case suiteObserve:
		o.N, o.M, o.R, o.Dead = cmp.Or(o.N, 100), cmp.Or(o.M, 10), max(cmp.Or(o.R, 10), 3), 0
	case suiteClusters:
		o.R = cmp.Or(o.R, 200)
		o.N, o.M = cmp.Or(o.N, 1000), cmp.Or(o.M, 1)
		o.Dead = cmp.Or(o.Dead, min(50, max(2, o.N/10)))
		if o.Dead < 2 || o.Dead > o.N/2 {
			return errors.New("-dead must be at least 2, of which one refuses and one hangs, and at most half of -n")
		}
	default:
		return fmt.Errorf("-suite: %q is none of %s, %s, %s, %s and %s", o.Suite, suiteReleases, suiteClusters, suiteSources, suiteObserve, suiteRender)
	}
	if o.N < 1 || o.M < 1 || o.R < 0 || o.Pairs < 1 {
		return errors.New("-n, -m, -r and -pairs must be at least 1")
	}
	return nil
}

func main() {
	render.ServeBuilds()
	log.SetLogger(logr.Discard()) // of the clients
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	if len(args) == 2 && args[0] == renderCaseArg {
		return runRenderCase(ctx, args[1], os.Stdout)
	}
	o, err := parse(args, os.Stderr)
	if err != nil {
		return err
	}
	if o.Suite == suiteRender {
		r, err := measureRenders(ctx, o, os.Stdout)
		if err != nil {
			return err
		}
		return o.keep(r)
	}
	w, err := newWorld(ctx, o, os.Stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	s := newSuite(w)
	var result *result
	if err = w.begin(ctx, s); err == nil {
		result, err = w.measureAll(ctx, s, os.Stdout)
	}
	if err != nil {
		return fmt.Errorf("%w\n--- the log of convoy ends with:\n%s", err, w.convoy.tail())
	}
	return o.keep(result)
}

// outcome is what a suite came to, as programs read it.
type outcome interface {
	line(out io.Writer) error
	benchstat(out io.Writer) error
}

// keep appends an outcome to the files that the options name.
func (o options) keep(of outcome) error {
	if err := appendTo(o.JSON, of.line); err != nil {
		return err
	}
	return appendTo(o.Benchstat, of.benchstat)
}

// appendTo appends what write writes to a file; "" is no file.
func appendTo(path string, write func(io.Writer) error) (err error) {
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("keep the figures: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return write(f)
}
