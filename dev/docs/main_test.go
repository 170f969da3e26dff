package docs

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"kumodo.io/convoy/dev/env"
)

// world is what the pages talk about: a hub, its targets, Temporal, convoy and a git server.
type world struct {
	*env.Env
	root     string // of the repository
	bin      string // the programs of the environment
	path     string // a folder with the programs that pages name
	hub      string // kubeconfig
	metrics  string // address of convoy's
	webhooks string // where convoy is told of pushes
	podinfo  *env.Repository
}

// shared is set by TestMain unless only the tests without an environment run.
var shared *world

func init() {
	// Linux kills convoy when the thread that started it ends. The main thread lives as long as the tests.
	runtime.LockOSThread()
}

// width is how many pages are read at once unless the flag -parallel says otherwise: they wait more than they work.
const width = "6"

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard()) // of the clients
	flag.Parse()
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
	if testing.Short() {
		return m.Run()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	w, err := newWorld(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot start the environment:", err)
		return 1
	}
	shared = w
	defer func() {
		if err := w.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "cannot stop the environment:", err)
			code = 1
		}
	}()
	end, err := w.startConvoy(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot start convoy:", err)
		return 1
	}
	code = m.Run()
	if err := end(); err != nil {
		fmt.Fprintln(os.Stderr, "convoy:", err)
		code = 1
	}
	return code
}

// newWorld starts all but convoy. Pods are played on staging. The hub is its own third target, west.
func newWorld(ctx context.Context) (*world, error) {
	root, err := env.Root()
	if err != nil {
		return nil, err
	}
	w := &world{root: root, bin: os.Getenv("KUBEBUILDER_ASSETS")}
	w.Env, err = env.Start(ctx, env.Options{
		Bin:     w.bin,
		Hub:     env.ControlPlaneOptions{Controllers: true},
		Targets: []env.ControlPlaneOptions{{Name: "staging", Workloads: true}, {Name: "east", Controllers: true}},
		Log:     os.Stderr,
	})
	if err != nil {
		return nil, err
	}
	if err := w.prepare(ctx); err != nil {
		return nil, errors.Join(err, w.Stop())
	}
	return w, nil
}

// prepare writes the files and the repository that all pages share.
func (w *world) prepare(ctx context.Context) error {
	w.path, w.hub = filepath.Join(w.Dir(), "path"), filepath.Join(w.Dir(), "hub.kubeconfig")
	if err := os.MkdirAll(w.path, 0o700); err != nil {
		return err
	}
	for name, program := range map[string]string{"kubectl": "kubectl", "temporal": "temporal", "convoy": "convoy-race"} {
		if err := os.Symlink(filepath.Join(w.bin, program), filepath.Join(w.path, name)); err != nil {
			return err
		}
	}
	if err := os.WriteFile(w.hub, w.Hub.Kubeconfig(), 0o600); err != nil {
		return err
	}
	var err error
	w.podinfo, err = w.publish(ctx)
	return err
}

// startConvoy runs convoy with all roles, and returns when it is ready, how to end it.
func (w *world) startConvoy(ctx context.Context) (end func() error, err error) {
	health, err := env.FreeAddress()
	if err != nil {
		return nil, err
	}
	for _, address := range []*string{&w.metrics, &w.webhooks} {
		if *address, err = env.FreeAddress(); err != nil {
			return nil, err
		}
	}
	logFile := filepath.Join(w.Dir(), "convoy.log")
	out, err := os.Create(logFile)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }() // the child has its own descriptor
	cmd := exec.Command(filepath.Join(w.path, "convoy"), "run",
		"--kubeconfig="+w.hub, "--temporal-address="+w.Temporal.Address, "--allow-loopback", "--stop-timeout=5s",
		"--health-address="+health, "--metrics-address="+w.metrics, "--webhook-address="+w.webhooks, "--log-format=text")
	cmd.Env, cmd.Stdout, cmd.Stderr = w.environment(w.Dir(), w.hub), out, out
	cmd.SysProcAttr = env.ChildAttributes()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	end = func() error {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		return cmd.Wait()
	}
	err = poll(ctx, func() error {
		answer, err := http.Get("http://" + health + "/readyz")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return errors.New(answer.Status)
		}
		return nil
	})
	if err != nil {
		text, _ := os.ReadFile(logFile)
		return nil, errors.Join(fmt.Errorf("it is not ready: %w: %s", err, text), end())
	}
	return end, nil
}

// poll asks until there is no error, or the context ends.
func poll(ctx context.Context, ask func() error) error {
	ticker := time.NewTicker(300 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-ticker.C:
		}
	}
}
