// Command bench measures what convoy costs: it starts a local environment with one target, runs the convoy program as
// a child, has it deliver, look at and remove many Releases, and prints time, CPU, memory, requests and workflow
// events beside the budgets. It judges nothing by its exit code but whether the work was done, and never calls into
// convoy but for the API types and the names of workflows. People run it through `make bench`.
package main

import (
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
)

// options is what the command line says.
type options struct {
	N         int           // Releases
	M         int           // ConfigMaps of each Release
	Convoy    string        // path of the program
	JSON      string        // file that gets one more line of JSON
	Benchstat string        // file that gets more lines for benchstat
	Timeout   time.Duration // of each phase
}

func parse(args []string, errs io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(errs)
	f.IntVar(&o.N, "n", 100, "number of Releases")
	f.IntVar(&o.M, "m", 4, "number of ConfigMaps of each Release")
	f.StringVar(&o.Convoy, "convoy", "", "program to measure; default: convoy in KUBEBUILDER_ASSETS")
	f.StringVar(&o.JSON, "json", "", "file to append the figures to, as one line of JSON")
	f.StringVar(&o.Benchstat, "benchstat", "", "file to append the figures to, in the format that benchstat reads")
	f.DurationVar(&o.Timeout, "timeout", 10*time.Minute, "time that each phase may take")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.N < 1 || o.M < 1 {
		return o, errors.New("-n and -m must be at least 1")
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

func main() {
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
	o, err := parse(args, os.Stderr)
	if err != nil {
		return err
	}
	w, err := newWorld(ctx, o, os.Stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	result, err := w.measureAll(ctx, os.Stdout)
	if err != nil {
		return fmt.Errorf("%w\n--- the log of convoy ends with:\n%s", err, w.convoy.tail())
	}
	if err := appendTo(o.JSON, result.line); err != nil {
		return err
	}
	return appendTo(o.Benchstat, result.benchstat)
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
