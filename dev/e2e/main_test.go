// Package e2e tests convoy as its users meet it: the real binary runs as a process of its own, and the tests write
// Clusters and Releases to a real hub, look at real targets, and use kubectl and the temporal command. It never calls
// into convoy's packages but for the API types and the names of workflows.
//
// All tests share one environment and one convoy. A test that calls newScene is parallel and has a namespace of its
// own. A test that disturbs what is shared (stops convoy, Temporal or the hub) calls newSerialScene instead: the go
// command runs such tests one by one, before the parallel ones. A few tests need a convoy that hardly ever probes by
// itself: newCalmScene gives them another hub, Temporal and convoy.
package e2e

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	temporalclient "go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/dev/env"
)

// resync is the resync period of the shared convoy, the shortest that it accepts.
const resync = 10 * time.Second

// What all tests share. alpha and beta stay up all the time; both record their requests. Pods run on alpha only.
var (
	local       *env.Env
	alpha, beta *env.ControlPlane
	shared      *convoy
	hubClient   client.Client
	temporal    temporalclient.Client
	hubFile     string // kubeconfig of the hub
	metricsAt   string // address of the metrics of the shared convoy
	webhooksAt  string // where it is told of pushes
	scheme      = newScheme()
)

// temporalKind is which Temporal all sites have.
var temporalKind = flag.String("temporal", "dev", "dev for Temporal's dev server, postgres for a server on PostgreSQL, which `make tools-postgres` builds")

func temporalOptions() env.TemporalOptions {
	return env.TemporalOptions{Postgres: *temporalKind == "postgres"}
}

// width is how many tests run at once unless the flag -parallel says otherwise: they wait more than they work.
const width = "10"

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard()) // of the clients
	flag.Parse()
	if *temporalKind != "dev" && *temporalKind != "postgres" {
		fmt.Fprintf(os.Stderr, "-temporal: %q is neither dev nor postgres\n", *temporalKind)
		os.Exit(2)
	}
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", width); err != nil {
			panic(err) // the flag belongs to the testing package
		}
	}
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Fprintln(os.Stderr, "KUBEBUILDER_ASSETS is not set: run `make test`, or `make tools` and set it to the checkout's bin folder")
		return 1
	}
	if _, err := os.Stat(binary("convoy-race")); err != nil {
		fmt.Fprintln(os.Stderr, "bin/convoy-race is missing: run `make test`, or go build -race -o bin/convoy-race ./cmd/convoy")
		return 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var err error
	local, err = env.Start(ctx, env.Options{
		Bin: os.Getenv("KUBEBUILDER_ASSETS"), Temporal: temporalOptions(),
		Hub: env.ControlPlaneOptions{Controllers: true, Audit: true},
		Targets: []env.ControlPlaneOptions{
			{Name: "alpha", Workloads: true, Audit: true},
			{Name: "beta", Controllers: true, Audit: true},
		},
		Log: os.Stderr,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot start the environment:", err)
		return 1
	}
	defer func() {
		if err := local.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "cannot stop the environment:", err)
			code = 1
		}
	}()
	if err := connect(); err != nil {
		fmt.Fprintln(os.Stderr, "cannot connect to the environment:", err)
		return 1
	}
	defer temporal.Close()
	defer func() {
		if err := stopCalm(); err != nil {
			fmt.Fprintln(os.Stderr, "cannot stop the other environment:", err)
			code = 1
		}
	}()
	if metricsAt, err = freeAddress(); err == nil {
		webhooksAt, err = freeAddress()
	}
	if err == nil {
		shared, err = newConvoy("shared", "--allow-hook-workflow=*/"+hookedWorkflow+"@"+hookedQueue, "--metrics-address="+metricsAt, "--webhook-address="+webhooksAt)
	}
	if err == nil {
		err = shared.start(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot start convoy:", err)
		return 1
	}
	code = m.Run()
	for _, end := range []func() error{keepMetrics, endConvoys, checkLeaks} {
		if err := end(); err != nil {
			fmt.Fprintln(os.Stderr, "convoy:", err)
			code = 1
		}
	}
	return code
}

// connect makes the clients that the tests share.
func connect() error {
	alpha, beta = local.Targets[0], local.Targets[1]
	at, err := siteOf(local)
	hubClient, hubFile, temporal = at.hub, at.hubFile, at.temporal
	return err
}

// siteOf makes the clients of an environment.
func siteOf(e *env.Env) (site, error) {
	at := site{local: e, hubFile: filepath.Join(e.Dir(), "hub.kubeconfig")}
	var err error
	if at.hub, err = clientOf(e.Hub); err != nil {
		return at, err
	}
	if err := os.WriteFile(at.hubFile, e.Hub.Kubeconfig(), 0o600); err != nil {
		return at, err
	}
	at.temporal, err = temporalclient.Dial(temporalclient.Options{
		HostPort: e.Temporal.Address,
		Logger:   sdklog.NewStructuredLogger(slog.New(slog.NewTextHandler(io.Discard, nil))),
	})
	return at, err
}

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err) // the types of both are compiled in
		}
	}
	return s
}

// clientOf is an administrator's client of a control plane. It reads without a cache.
func clientOf(c *env.ControlPlane) (client.Client, error) {
	return client.New(c.Config(), client.Options{Scheme: scheme})
}

// binary is the path of a program of the environment.
func binary(name string) string { return filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), name) }
