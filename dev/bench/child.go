package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"kumodo.io/convoy/dev/env"
)

// user is the name under which convoy uses hub and target, by which the audit logs tell its requests from others'.
const user = "convoy"

// child is the convoy under measurement.
type child struct {
	cmd     *exec.Cmd
	log     string // path
	metrics string // URL
	done    chan struct{}
	err     error // how it ended, once done is closed
}

// startConvoy starts convoy, under a name of its own, with the flags that a default deployment has, but for ports, which would collide, loopback,
// where everything is, and what more says. It must be called by the main goroutine: Linux kills the child when the thread that started it ends.
func startConvoy(local *env.Env, program, name string, more ...string) (*child, error) {
	dir := filepath.Join(local.Dir(), name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	kubeconfig, err := local.Hub.KubeconfigFor(user, "system:masters")
	if err != nil {
		return nil, err
	}
	hub := filepath.Join(dir, "hub.kubeconfig")
	if err := os.WriteFile(hub, kubeconfig, 0o600); err != nil {
		return nil, err
	}
	metrics, err := freeAddress()
	if err != nil {
		return nil, err
	}
	c := &child{log: filepath.Join(dir, "convoy.log"), metrics: "http://" + metrics + "/metrics", done: make(chan struct{})}
	log, err := os.Create(c.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has its own descriptor
	flags := append([]string{
		"run", "--kubeconfig=" + hub, "--temporal-address=" + local.Temporal.Address,
		"--health-address=0", "--metrics-address=" + metrics, "--allow-loopback", "--stop-timeout=2s",
	}, more...)
	c.cmd = exec.Command(program, flags...) //nolint:gosec,noctx // the user names the program; close ends it
	c.cmd.Dir = dir
	c.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + os.TempDir()}
	c.cmd.Stdout, c.cmd.Stderr = log, log
	c.cmd.SysProcAttr = childAttributes()
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start convoy: %w", err)
	}
	go func() {
		c.err = c.cmd.Wait()
		close(c.done)
	}()
	return c, nil
}

// version asks a convoy program for its version.
func version(ctx context.Context, program string) (string, error) {
	out, err := exec.CommandContext(ctx, program, "version").Output() //nolint:gosec // the user names the program
	if err != nil {
		return "", fmt.Errorf("ask convoy for its version: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// kill ends convoy as a crash does.
func (c *child) kill() error {
	err := c.cmd.Process.Kill()
	<-c.done
	return err
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// stop ends convoy, and kills it when it does not end.
func (c *child) stop() error {
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop convoy: %w", err)
	}
	timer := time.NewTimer(30 * time.Second)
	defer timer.Stop()
	select {
	case <-c.done:
		return nil
	case <-timer.C:
		_ = c.cmd.Process.Kill()
		<-c.done
		return errors.New("convoy did not end when it was asked to")
	}
}

// tail is the end of the log.
func (c *child) tail() string {
	log, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	const lines = 20
	all := strings.Split(strings.TrimSpace(string(log)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
