package env

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// startTimeout bounds each start of a part, when the caller's context does not end earlier. Loaded machines are slow.
const startTimeout = 3 * time.Minute

// Options says what to start. The zero value starts Temporal, a hub and a git server, without targets.
type Options struct {
	// Bin is the folder of the programs. Default: KUBEBUILDER_ASSETS, or bin in the checkout.
	Bin string
	// Dir is the work folder: data, certificates and logs, under Dir/run, which each start empties first. One
	// environment at a time uses it. Default: a temporary folder, which Stop removes.
	Dir string
	// CRDs is the folder of the CRDs to install on the hub. Default: deploy/crd in the checkout.
	CRDs string

	Temporal TemporalOptions
	Hub      ControlPlaneOptions
	Targets  []ControlPlaneOptions

	// Log receives progress, one line at a time. Default: nowhere.
	Log io.Writer
}

// Env is a running local environment.
type Env struct {
	Temporal *Temporal
	Hub      *ControlPlane
	Targets  []*ControlPlane // in the order of the options, then of AddTarget
	Git      *GitServer

	bin       string
	dir       string
	run       string // dir/run
	temporary bool
	ledger    *ledger
	log       io.Writer

	mu  sync.Mutex // guards log, Targets' growth and end
	end bool
}

// Start starts everything in parallel and returns when all of it is ready. When it fails or the context ends, nothing is
// left running. The context bounds the start only; Stop ends the environment.
func Start(ctx context.Context, options Options) (*Env, error) {
	e, crds, err := prepare(options)
	if err != nil {
		return nil, err
	}
	if err := e.start(ctx, options, crds); err != nil {
		return nil, errors.Join(err, e.Stop())
	}
	return e, nil
}

// prepare settles the defaults and claims the work folder.
func prepare(options Options) (e *Env, crds string, err error) {
	e = &Env{bin: options.Bin, dir: options.Dir, log: options.Log}
	crds = options.CRDs
	if e.bin == "" {
		e.bin = os.Getenv("KUBEBUILDER_ASSETS")
	}
	if e.bin == "" || crds == "" {
		root, err := Root()
		if err != nil {
			return nil, "", err
		}
		if e.bin == "" {
			e.bin = filepath.Join(root, "bin")
		}
		if crds == "" {
			crds = filepath.Join(root, "deploy", "crd")
		}
	}
	if e.log == nil {
		e.log = io.Discard
	}
	if e.dir == "" {
		e.temporary = true
		if e.dir, err = os.MkdirTemp("", "convoy-env-"); err != nil {
			return nil, "", fmt.Errorf("make a work folder: %w", err)
		}
	}
	if err := e.claim(); err != nil {
		if e.temporary {
			err = errors.Join(err, os.RemoveAll(e.dir))
		}
		return nil, "", err
	}
	return e, crds, nil
}

// claim makes the folder this environment's own and empties what an earlier one left there.
func (e *Env) claim() (err error) {
	if e.bin, err = filepath.Abs(e.bin); err != nil {
		return err
	}
	if e.dir, err = filepath.Abs(e.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(e.dir, 0o700); err != nil {
		return fmt.Errorf("make the work folder: %w", err)
	}
	if e.ledger, err = openLedger(e.dir); err != nil {
		return err
	}
	e.run = filepath.Join(e.dir, "run")
	if err := os.RemoveAll(e.run); err != nil {
		e.ledger.close()
		return fmt.Errorf("empty the work folder: %w", err)
	}
	return nil
}

func (e *Env) start(ctx context.Context, options Options, crds string) (err error) {
	if e.Temporal, err = newTemporal(e, options.Temporal); err != nil {
		return err
	}
	if options.Hub.Name == "" {
		options.Hub.Name = "hub"
	}
	if e.Hub, err = newControlPlane(e, options.Hub); err != nil {
		return err
	}
	for _, target := range options.Targets {
		if _, err := e.newTarget(target); err != nil {
			return err
		}
	}
	if e.Git, err = StartGitServer(filepath.Join(e.run, "git")); err != nil {
		return err
	}
	starting, ctx := errgroup.WithContext(ctx)
	starting.Go(func() error { return e.timed(ctx, "temporal", e.Temporal.Start) })
	starting.Go(func() error {
		if err := e.timed(ctx, e.Hub.Name, e.Hub.Start); err != nil {
			return err
		}
		_, err := envtest.InstallCRDs(e.Hub.Config(), envtest.CRDInstallOptions{
			Paths: []string{crds}, ErrorIfPathMissing: true, MaxTime: time.Minute,
		})
		return err
	})
	for _, target := range e.Targets {
		starting.Go(func() error { return e.timed(ctx, target.Name, target.Start) })
	}
	return starting.Wait()
}

// AddTarget starts one more target control plane and appends it to Targets.
func (e *Env) AddTarget(ctx context.Context, options ControlPlaneOptions) (*ControlPlane, error) {
	target, err := e.newTarget(options)
	if err != nil {
		return nil, err
	}
	return target, e.timed(ctx, target.Name, target.Start)
}

// newTarget prepares a target and appends it, so that Stop finds it whatever happens next.
func (e *Env) newTarget(options ControlPlaneOptions) (*ControlPlane, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.end {
		return nil, errors.New("the environment is stopped")
	}
	if options.Name == "" {
		options.Name = fmt.Sprintf("target-%d", len(e.Targets)+1)
	}
	if _, err := os.Stat(filepath.Join(e.run, options.Name)); err == nil {
		return nil, fmt.Errorf("the name %q is taken: name the targets differently", options.Name)
	}
	target, err := newControlPlane(e, options)
	if err != nil {
		return nil, err
	}
	e.Targets = append(e.Targets, target)
	return target, nil
}

// Stop ends everything and, when the work folder is temporary, removes it. Parts that are stopped, killed or frozen are
// fine. Stop may be called more than once.
func (e *Env) Stop() error {
	e.mu.Lock()
	parts := append([]*ControlPlane(nil), e.Targets...)
	done := e.end
	e.end = true
	e.mu.Unlock()
	if done {
		return nil
	}
	if e.Hub != nil {
		parts = append(parts, e.Hub)
	}
	var stopping errgroup.Group
	for _, part := range parts {
		// Nobody reads the data any more: killing is as good, and frozen parts need it.
		stopping.Go(func() error { defer part.release(); return part.Kill() })
	}
	if e.Temporal != nil {
		stopping.Go(e.Temporal.end)
	}
	if e.Git != nil {
		stopping.Go(e.Git.Close)
	}
	errs := []error{stopping.Wait()}
	e.ledger.close()
	if e.temporary {
		errs = append(errs, os.RemoveAll(e.dir))
	}
	return errors.Join(errs...)
}

// Dir is the folder that holds the parts' data and logs: Dir/<part>/<program>.log.
func (e *Env) Dir() string { return e.run }

// timed starts a part within startTimeout and reports how long it took.
func (e *Env) timed(ctx context.Context, name string, start func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	began := time.Now()
	if err := start(ctx); err != nil {
		return err
	}
	e.report("%s is ready after %.1f s", name, time.Since(began).Seconds())
	return nil
}

func (e *Env) report(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	fmt.Fprintf(e.log, format+"\n", args...)
}

// process describes a program of a part; its log is beside the part's other files.
func (e *Env) process(part, program string, args []string) *process {
	dir := filepath.Join(e.run, part)
	return &process{
		name: part + " " + program, path: filepath.Join(e.bin, program), args: args,
		dir: dir, logPath: filepath.Join(dir, program+".log"),
		grace:  5 * time.Second, // an API server waits a minute for open watches: they are cut instead
		ledger: e.ledger, report: e.report,
	}
}

// Root finds the checkout: the nearest folder, from the working folder upwards, that holds deploy/crd.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	for {
		if info, err := os.Stat(filepath.Join(dir, "deploy", "crd")); err == nil && info.IsDir() {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no checkout of convoy here or above: change to it, or name the folders in the options")
		}
		dir = parent
	}
}
