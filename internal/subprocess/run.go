package subprocess

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"time"
)

// Limits are what one process may take.
type Limits struct {
	Memory int64         // bytes that it holds
	CPU    time.Duration // of all its threads together; time on the clock would depend on what else runs
	Output int64         // bytes that it answers
}

// The kinds of limits.
const (
	Memory = "memory"
	CPU    = "CPU"
	Output = "output"
)

// LimitError says that a process ended at a limit.
type LimitError struct {
	Kind string // Memory, CPU or Output
}

func (e *LimitError) Error() string { return "the process took more than its limit of " + e.Kind }

// Run starts this program as the process that name stands for, which Serve makes of it. request writes what it is asked
// for, and answer reads what it says, until there is no more; both get errors of a process that ended early. The process
// has no environment, and has ended when Run returns.
//
// The error is a *LimitError, the one of ctx, the one of answer, or one that says how the process ended.
func Run(ctx context.Context, name string, l Limits, request func(io.Writer) error, answer func(io.Reader) error) error {
	if served != name {
		return fmt.Errorf("this program does not serve %q", name) // or it would do all of its work once more, and again
	}
	self, err := executable()
	if err != nil {
		return err
	}
	started, kill := context.WithCancel(ctx)
	defer kill()
	cmd := exec.CommandContext(started, self) //nolint:gosec // this very program
	cmd.Args = []string{os.Args[0], name, strconv.FormatInt(l.Memory, 10), l.CPU.String()}
	cmd.Env, cmd.Dir = []string{}, "/"
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	asked := make(chan error, 1)
	go func() { asked <- request(stdin) }() // and the pipe stays open: its end tells the process that this one is gone
	out := &limited{r: stdout, left: l.Output}
	failed := answer(out)
	if failed != nil {
		kill() // it may not end by itself when nobody reads what it says
	}
	ended := cmd.Wait() // which closes the pipes
	return verdict(ctx, out, ended, cmp.Or(failed, <-asked))
}

// verdict says why there is no answer, if there is none. What failed because of something else comes last.
func verdict(ctx context.Context, out *limited, ended, failed error) error {
	exit, _ := errors.AsType[*exec.ExitError](ended)
	switch {
	case out.left < 0:
		return &LimitError{Output}
	case exit != nil && exit.ExitCode() == exitMemory:
		return &LimitError{Memory}
	case exit != nil && exit.ExitCode() == exitCPU:
		return &LimitError{CPU}
	case ctx.Err() != nil:
		return ctx.Err()
	case failed != nil && !errors.Is(failed, io.ErrUnexpectedEOF) && (exit == nil || exit.ExitCode() == -1): // it was killed because of that
		return failed
	}
	return ended
}

// executable is this program, also when its file was replaced meanwhile.
func executable() (string, error) {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe", nil
	}
	return os.Executable()
}

// limited reads until more was read than is allowed.
type limited struct {
	r    io.Reader
	left int64 // below 0 when it was too much
}

// Read implements io.Reader.
func (l *limited) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, &LimitError{Output}
	}
	return n, err
}
