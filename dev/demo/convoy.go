package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// convoy is `convoy run` in a process of its own.
type convoy struct {
	log             string // path
	health, metrics string // host:port
	cmd             *exec.Cmd
	done            chan struct{} // closed when it has ended
	err             error         // how it ended, never nil; to be read after done is closed
}

// startConvoy runs convoy and waits until it is ready, which means that Temporal answers it.
func (d *demo) startConvoy(ctx context.Context) error {
	pidFile := filepath.Join(d.dir, "convoy.pid")
	endLeftover(ctx, pidFile, d.hubKubeconfig)
	c := &convoy{log: filepath.Join(d.env.Dir(), "convoy.log"), done: make(chan struct{})}
	var err error
	if c.health, err = freeAddress(ctx); err != nil {
		return err
	}
	if c.metrics, err = freeAddress(ctx); err != nil {
		return err
	}
	log, err := os.Create(c.log)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()                   // the child has its own descriptor
	c.cmd = exec.Command(filepath.Join(d.bin, "convoy"), //nolint:gosec,noctx // it outlives the step
		"run", "--kubeconfig="+d.hubKubeconfig, "--temporal-address="+d.env.Temporal.Address,
		"--health-address="+c.health, "--metrics-address="+c.metrics, "--allow-loopback", "--stop-timeout=5s", "--log-format=text")
	c.cmd.Dir = d.env.Dir()
	c.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + d.env.Dir(), "TMPDIR=" + os.TempDir()} // nobody's own settings
	c.cmd.Stdout, c.cmd.Stderr = log, log
	c.cmd.SysProcAttr = childAttributes()
	if err := c.cmd.Start(); err != nil {
		return fmt.Errorf("start convoy: %w", err)
	}
	d.convoy = c
	go func() {
		if c.err = c.cmd.Wait(); c.err == nil {
			c.err = errors.New("exit status 0")
		}
		close(c.done)
	}()
	if err := os.WriteFile(pidFile, []byte(strconv.Itoa(c.cmd.Process.Pid)), 0o600); err != nil {
		return err
	}
	return d.await(ctx, "convoy to be ready", c.ready)
}

// endLeftover ends a convoy that outlived a killed demo, where the kernel does not see to that. Its command line names a
// file of the work folder, so nothing else is taken for it.
func endLeftover(ctx context.Context, pidFile, mark string) {
	content, err := os.ReadFile(pidFile)
	if err != nil {
		return
	}
	pid, err := strconv.Atoi(string(content))
	if err != nil {
		return
	}
	args, err := exec.CommandContext(ctx, "ps", "-ww", "-o", "args=", "-p", strconv.Itoa(pid)).Output() //nolint:gosec // a number
	if err == nil && strings.Contains(string(args), mark) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // gone by now is as well
	}
}

// ready asks convoy whether it is.
func (c *convoy) ready(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.health+"/readyz", http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return errors.New("it does not answer yet")
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s", response.Status)
	}
	return nil
}

// stop asks convoy to end, and kills it when it does not. A convoy that has ended is fine.
func (c *convoy) stop() error {
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop convoy: %w", err)
	}
	timer := time.NewTimer(15 * time.Second)
	defer timer.Stop()
	select {
	case <-c.done:
		return nil
	case <-timer.C:
	}
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill convoy: %w", err)
	}
	<-c.done
	return errors.New("convoy did not end when it was asked to, and was killed")
}

// ended tells whether convoy is gone.
func (c *convoy) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// tail is the last lines of convoy's log.
func (c *convoy) tail(lines int) string {
	log, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(log)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// freeAddress is a loopback address that nobody listens on. Its port is above those of the environment and below those
// that systems use for outgoing connections, so that it stays free until convoy listens.
func freeAddress(ctx context.Context) (string, error) {
	const first, last = 30000, 32700
	var (
		config net.ListenConfig
		err    error
	)
	for range 100 {
		var l net.Listener
		if l, err = config.Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(last-first))); err == nil { //nolint:gosec // not a secret
			return l.Addr().String(), l.Close()
		}
	}
	return "", fmt.Errorf("find a free port: %w", err)
}
