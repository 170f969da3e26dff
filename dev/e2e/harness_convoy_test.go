package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// convoy is a `convoy run` in a process of its own, that can be stopped, killed, frozen and started again with the same flags.
type convoy struct {
	name   string
	log    string // path; appended to at each start
	health string
	args   []string
	env    []string // besides the bare environment

	mu   sync.Mutex
	cmd  *exec.Cmd // nil when not running
	done chan struct{}
	err  error // how the last run ended
}

// newConvoy prepares a convoy for the shared hub and Temporal; flags outweigh the defaults. It starts nothing.
func newConvoy(name string, flags ...string) (*convoy, error) {
	dir := filepath.Join(local.Dir(), "convoy-"+name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	health, err := freeAddress()
	if err != nil {
		return nil, err
	}
	c := &convoy{name: name, log: filepath.Join(dir, "convoy.log"), health: health}
	c.args = append([]string{
		"run", "--kubeconfig=" + hubFile, "--temporal-address=" + local.Temporal.Address,
		"--resync-period=" + resync.String(), "--stop-timeout=5s",
		"--health-address=" + health, "--metrics-address=0", "--allow-loopback",
	}, flags...)
	return c, nil
}

// start runs convoy and returns when it is ready, which means that Temporal answers it.
func (c *convoy) start(ctx context.Context) error {
	if err := c.launch(); err != nil {
		return err
	}
	return c.awaitReady(ctx)
}

// launch runs convoy without waiting for anything.
func (c *convoy) launch() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cmd != nil {
		return fmt.Errorf("convoy %s runs already", c.name)
	}
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the child has its own descriptor
	cmd := exec.Command(binary("convoy-race"), c.args...)
	cmd.Dir = filepath.Dir(c.log)
	cmd.Env = append(append(bareEnvironment(cmd.Dir), "GORACE=exitcode=66"), c.env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = childAttributes()
	if err := spawn(cmd); err != nil {
		return fmt.Errorf("start convoy %s: %w", c.name, err)
	}
	c.cmd, c.done = cmd, make(chan struct{})
	go func(done chan struct{}) {
		err := cmd.Wait()
		c.mu.Lock()
		c.cmd, c.err = nil, err
		c.mu.Unlock()
		close(done)
	}(c.done)
	return nil
}

func (c *convoy) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return poll(ctx, func(ctx context.Context) error {
		if c.pid() == 0 {
			return fmt.Errorf("convoy %s has ended; its log ends with:\n%s", c.name, c.tail())
		}
		return c.isReady(ctx)
	})
}

// isReady fails when convoy does not say that it is ready.
func (c *convoy) isReady(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.health+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("convoy %s is not ready: %s", c.name, response.Status)
	}
	return nil
}

// stop asks convoy to end and waits until it has. A convoy that does not run is fine.
func (c *convoy) stop() error {
	if err := c.end(syscall.SIGTERM, 40*time.Second); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if exit := (*exec.ExitError)(nil); errors.As(c.err, &exit) && exit.ExitCode() > 0 {
		return fmt.Errorf("convoy %s ended with code %d; its log ends with:\n%s", c.name, exit.ExitCode(), c.tail())
	}
	return nil
}

// kill ends convoy at once.
func (c *convoy) kill() error { return c.end(syscall.SIGKILL, 10*time.Second) }

func (c *convoy) end(s syscall.Signal, patience time.Duration) error {
	c.mu.Lock()
	cmd, done := c.cmd, c.done
	c.mu.Unlock()
	if cmd == nil {
		return nil
	}
	if err := cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
		_ = cmd.Process.Kill()
		<-done
		return fmt.Errorf("convoy %s did not end within %s of %s; its log ends with:\n%s", c.name, patience, s, c.tail())
	}
}

func (c *convoy) pid() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cmd == nil {
		return 0
	}
	return c.cmd.Process.Pid
}

// check looks for what a log of convoy must never hold.
func (c *convoy) check() error {
	log, err := os.ReadFile(c.log)
	if err != nil {
		return err
	}
	for _, bad := range []string{"DATA RACE", "panic: ", "activity panicked", "PanicError", "nondeterministic", "NonDeterministic"} {
		if i := bytes.Index(log, []byte(bad)); i >= 0 {
			return fmt.Errorf("the log of convoy %s holds %q:\n%s", c.name, bad, log[max(0, i-500):min(len(log), i+3000)])
		}
	}
	return nil
}

// keep copies the log into the folder that E2E_LOGS names, when it is set: the environment's own folder is removed.
func (c *convoy) keep() error {
	dir := os.Getenv("E2E_LOGS")
	if dir == "" {
		return nil
	}
	log, err := os.ReadFile(c.log)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "convoy-"+c.name+".log"), log, 0o600)
}

// tail is the last lines of the log.
func (c *convoy) tail() string {
	const lines = 20
	log, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(log)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// bareEnvironment is an environment without anybody's own settings.
func bareEnvironment(home string) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + os.TempDir()}
}

// freeAddress is a loopback address that nobody listens on. Its port is between those of the environment and those that
// systems use for outgoing connections, so that it stays free while nobody listens.
func freeAddress() (string, error) {
	const first, last = 30000, 32700
	var err error
	for range 100 {
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(last-first))); err == nil {
			return l.Addr().String(), l.Close()
		}
	}
	return "", err
}

// starts hands commands to one thread that never ends: Linux kills a child when the thread that started it ends.
var starts = sync.OnceValue(func() chan<- func() {
	requests := make(chan func())
	go func() {
		runtime.LockOSThread()
		for start := range requests {
			start()
		}
	}()
	return requests
})

func spawn(cmd *exec.Cmd) error {
	result := make(chan error, 1)
	starts() <- func() { result <- cmd.Start() }
	return <-result
}
