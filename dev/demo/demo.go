package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	temporalclient "go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/dev/env"
)

// demo is everything that runs, and the clients to look at it. What a step makes is there for the steps after it.
type demo struct {
	out  *printer
	root string // the checkout
	bin  string // the programs
	dir  string // the work folder; one demo at a time uses it

	env         *env.Env
	convoy      *convoy
	hub, target client.Client
	temporal    temporalclient.Client
	app         *env.Repository

	hubKubeconfig, targetKubeconfig string // paths

	// What later steps compare with.
	release   *v1alpha1.Release  // as delivered last
	delivered *appsv1.Deployment // on the target, before that was taken away
}

// newDemo finds the folders. It starts nothing.
func newDemo() (*demo, error) {
	root, err := env.Root()
	if err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("find a work folder: %w", err)
	}
	d := &demo{
		out:  &printer{began: time.Now(), w: os.Stdout},
		root: root, bin: os.Getenv("KUBEBUILDER_ASSETS"), dir: filepath.Join(cache, "convoy-demo"),
	}
	if d.bin == "" {
		d.bin = filepath.Join(root, "bin")
	}
	if _, err := os.Stat(filepath.Join(d.bin, "convoy")); err != nil { //nolint:gosec // the caller names the folder
		return nil, errors.New("the program convoy is missing: use `make demo`, which builds it")
	}
	return d, nil
}

// target0 is the control plane that convoy delivers to.
func (d *demo) target0() *env.ControlPlane { return d.env.Targets[0] }

// startEnvironment starts all but convoy and connects to it.
func (d *demo) startEnvironment(ctx context.Context) (err error) {
	defer d.meanwhile("waiting for the programs to be ready")()
	d.env, err = env.Start(ctx, env.Options{
		Bin: d.bin, Dir: d.dir, CRDs: filepath.Join(d.root, "deploy", "crd"),
		Hub:     env.ControlPlaneOptions{Controllers: true},
		Targets: []env.ControlPlaneOptions{{Name: "target", Workloads: true}},
		Log:     d.out,
	})
	if err != nil {
		return err
	}
	if d.hubKubeconfig, d.hub, err = d.connect(d.env.Hub); err != nil {
		return err
	}
	if d.targetKubeconfig, d.target, err = d.connect(d.target0()); err != nil {
		return err
	}
	d.temporal, err = temporalclient.DialContext(ctx, temporalclient.Options{
		HostPort: d.env.Temporal.Address, Namespace: env.Namespace,
		Logger: sdklog.NewStructuredLogger(slog.New(slog.NewTextHandler(io.Discard, nil))),
	})
	if err != nil {
		return fmt.Errorf("connect to Temporal: %w", err)
	}
	d.out.detail("Temporal's web UI is at %s", d.env.Temporal.UI)
	return nil
}

// connect writes the kubeconfig of a control plane's administrator to a file and makes a client of it.
func (d *demo) connect(c *env.ControlPlane) (path string, _ client.Client, err error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return "", nil, err
		}
	}
	path = filepath.Join(d.env.Dir(), c.Name+".kubeconfig")
	if err := os.WriteFile(path, c.Kubeconfig(), 0o600); err != nil {
		return "", nil, err
	}
	k, err := client.New(c.Config(), client.Options{Scheme: scheme})
	if err != nil {
		return "", nil, fmt.Errorf("connect to %s: %w", c.Name, err)
	}
	return path, k, nil
}

// stop ends whatever runs, convoy first.
func (d *demo) stop() error {
	var errs []error
	if d.convoy != nil {
		errs = append(errs, d.convoy.stop())
	}
	if d.temporal != nil {
		d.temporal.Close()
	}
	if d.env == nil { // an environment that does not start leaves nothing
		d.out.line("Nothing is left running.")
		return nil
	}
	errs = append(errs, d.env.Stop())
	if err := errors.Join(errs...); err != nil {
		return err
	}
	d.out.line("Everything is stopped. The logs stay in %s until the next demo.", d.env.Dir())
	return nil
}
