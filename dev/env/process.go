package env

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// pollInterval is how often a starting program is asked whether it is ready.
const pollInterval = 50 * time.Millisecond

// process is one program that can be started, stopped, killed, frozen and started again with the same arguments.
type process struct {
	name    string   // for people: "target-1 kube-apiserver"
	path    string   // the executable
	args    []string // without the program's name
	env     []string // besides the bare environment
	dir     string   // HOME, so that nobody's own settings are read, and the working folder unless workDir is another
	workDir string
	as      *syscall.Credential // whom it runs as; nil for ourselves
	logPath string              // standard output and error, appended to at each start
	grace   time.Duration
	ledger  *ledger
	report  func(format string, args ...any)

	mu       sync.Mutex
	cmd      *exec.Cmd     // nil when not running
	done     chan struct{} // closed when cmd has ended
	stopping bool          // an end is expected
}

// start runs the program. It does not wait until the program is ready.
func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		return fmt.Errorf("%s is already running", p.name)
	}
	log, err := os.OpenFile(p.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the log of %s: %w", p.name, err)
	}
	defer func() { _ = log.Close() }() // the child has its own descriptor

	cmd := exec.Command(p.path, p.args...) //nolint:gosec,noctx // a program of the environment outlives the call that starts it
	cmd.Dir = cmp.Or(p.workDir, p.dir)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir, "TMPDIR=" + os.TempDir(), "TEMPORAL_VERSION_CHECK_DISABLED=1"}, p.env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = childAttributes()
	cmd.SysProcAttr.Credential = p.as
	if err := spawn(cmd); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	if err := p.ledger.add(cmd.Process.Pid); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return fmt.Errorf("record %s: %w", p.name, err)
	}
	p.cmd, p.done, p.stopping = cmd, make(chan struct{}), false
	go p.reap(cmd, p.done)
	return nil
}

// reap waits for the program's end and says so when nobody asked for it.
func (p *process) reap(cmd *exec.Cmd, done chan struct{}) {
	err := cmd.Wait()
	p.ledger.remove(cmd.Process.Pid)
	p.mu.Lock()
	unexpected := !p.stopping
	p.cmd = nil
	p.mu.Unlock()
	if unexpected {
		p.report("%s ended by itself (%v); its log is %s", p.name, err, p.logPath)
	}
	close(done)
}

// waitReady polls ready until it returns nil. It gives up when the program ends or ctx does; the error then holds
// the last answer and the end of the program's log.
func (p *process) waitReady(ctx context.Context, ready func(context.Context) error) error {
	p.mu.Lock()
	done, running := p.done, p.cmd != nil
	p.mu.Unlock()
	if !running {
		return fmt.Errorf("%s ended while starting; its log ends with:\n%s", p.name, p.logTail())
	}
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-done:
			return fmt.Errorf("%s ended while starting; its log ends with:\n%s", p.name, p.logTail())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w (last answer: %w); its log ends with:\n%s", p.name, context.Cause(ctx), err, p.logTail())
		case <-ticker.C:
		}
	}
}

// stop asks the program to end (SIGTERM) and kills it when it has not ended after its grace period. It returns
// once the program is gone; a program that is not running is fine.
func (p *process) stop() error {
	done, err := p.end(syscall.SIGTERM)
	if err != nil || done == nil {
		return err
	}
	timer := time.NewTimer(p.grace)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
		return p.kill()
	}
}

// kill ends the program with SIGKILL, also when it is frozen, and returns once it is gone.
func (p *process) kill() error {
	done, err := p.end(syscall.SIGKILL)
	if err != nil || done == nil {
		return err
	}
	<-done
	return nil
}

// end sends a signal that is meant to end the program. The channel is closed when it has ended, and nil when it was
// not running.
func (p *process) end(signal syscall.Signal) (<-chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return nil, nil
	}
	p.stopping = true
	for _, s := range []syscall.Signal{signal, syscall.SIGCONT} { // a frozen program handles SIGTERM only once thawed
		if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return nil, fmt.Errorf("signal %s: %w", p.name, err)
		}
	}
	return p.done, nil
}

// signal sends a signal that does not end the program.
func (p *process) signal(signal syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return fmt.Errorf("%s is not running", p.name)
	}
	if err := p.cmd.Process.Signal(signal); err != nil {
		return fmt.Errorf("signal %s: %w", p.name, err)
	}
	return nil
}

// pid is the program's process id, or 0 when it is not running.
func (p *process) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// logTail returns the last lines of the program's log.
func (p *process) logTail() string {
	const lines, size = 15, 8 << 10
	file, err := os.Open(p.logPath)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err == nil && info.Size() > size {
		_, _ = file.Seek(-size, io.SeekEnd)
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(string(bytes.TrimSpace(content)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// starts hands commands to the one thread that starts them all.
var starts = sync.OnceValue(func() chan<- startRequest {
	requests := make(chan startRequest)
	go func() {
		// Linux kills a child when the *thread* that started it ends, so this thread must live as long as the program.
		runtime.LockOSThread()
		for request := range requests {
			request.result <- request.cmd.Start()
		}
	}()
	return requests
})

type startRequest struct {
	cmd    *exec.Cmd
	result chan<- error
}

// spawn starts a command from a thread that never ends.
func spawn(cmd *exec.Cmd) error {
	result := make(chan error, 1)
	starts() <- startRequest{cmd, result}
	return <-result
}

// ChildAttributes are for a program that the caller runs beside the environment: Ctrl-C reaches only the caller, and where
// the kernel can, it kills the program when the thread that started it ends.
func ChildAttributes() *syscall.SysProcAttr { return childAttributes() }
