package subprocess

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

const testWork = "work-of-the-tests"

func TestMain(m *testing.M) {
	Serve(testWork, receiveTest)
	os.Exit(m.Run())
}

// receiveTest reads a line that names the work, with an argument.
func receiveTest(r io.Reader) (func(io.Writer) error, error) {
	var line []byte
	for b := make([]byte, 1); ; line = append(line, b[0]) {
		if _, err := r.Read(b); err != nil {
			return nil, err
		}
		if b[0] == '\n' {
			break
		}
	}
	name, arg, _ := strings.Cut(string(line), " ")
	work := map[string]func(io.Writer, string) error{
		"tell": func(w io.Writer, arg string) error {
			dir, err := os.Getwd()
			fmt.Fprintf(w, "%s %d %d %s", arg, os.Getpid(), len(os.Environ()), dir)
			return err
		},
		"grow": func(io.Writer, string) error {
			for held := [][]byte{}; ; held = append(held, bytes.Repeat([]byte("x"), 1<<20)) {
				_ = held
			}
		},
		"churn": func(w io.Writer, _ string) error { // much, but not at once
			kept := 0
			for range 400 {
				kept += len(bytes.Repeat([]byte("x"), 1<<20))
			}
			_, err := fmt.Fprint(w, kept>>20)
			return err
		},
		"spin": spin,
		"talk": func(w io.Writer, _ string) (err error) {
			for err == nil {
				_, err = w.Write(make([]byte, 1<<16))
			}
			return err
		},
		"fail": func(io.Writer, string) error { return errors.New("S3NT1NEL") },
		"die":  func(io.Writer, string) error { panic("S3NT1NEL") },
		"nest": func(_ io.Writer, arg string) error { return run(context.Background(), "spin "+arg, io.Discard) },
	}[name]
	if name == "deaf" {
		return nil, errors.New("it does not want to hear more")
	}
	if work == nil {
		return nil, fmt.Errorf("no work %q", name)
	}
	return func(w io.Writer) error { return work(w, arg) }, nil
}

// spin connects to an address, so that the test sees when it ends, and never ends.
func spin(_ io.Writer, address string) error {
	if address != "" {
		conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", address)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }() // the process ends with it
	}
	for n := uint64(0); ; n++ {
		_ = n
	}
}

var testLimits = Limits{Memory: 128 << 20, CPU: time.Minute, Output: 1 << 20}

func run(ctx context.Context, line string, out io.Writer, change ...func(*Limits)) error {
	l := testLimits
	for _, c := range change {
		c(&l)
	}
	return Run(ctx, testWork, l,
		func(w io.Writer) error { _, err := io.WriteString(w, line+"\n"); return err },
		func(r io.Reader) error { _, err := io.Copy(out, r); return err })
}

func TestWorkIsDoneInAnotherProcessThatKnowsNothingOfThisOne(t *testing.T) {
	t.Setenv("TOKEN", "S3NT1NEL")
	var answer bytes.Buffer
	if err := run(t.Context(), "tell hello", &answer); err != nil {
		t.Fatal(err)
	}
	var said, dir string
	var pid, variables int
	if _, err := fmt.Sscan(answer.String(), &said, &pid, &variables, &dir); err != nil {
		t.Fatalf("%q: %v", &answer, err)
	}
	if said != "hello" || pid == os.Getpid() || variables != 0 || dir != "/" {
		t.Errorf("it answered %q", &answer)
	}
}

func TestAProcessEndsAtItsLimits(t *testing.T) {
	for line, want := range map[string]string{"grow": Memory, "spin": CPU, "talk": Output} {
		t.Run(line, func(t *testing.T) {
			err := run(t.Context(), line, io.Discard, func(l *Limits) { l.CPU = 2 * time.Second })
			if over, ok := errors.AsType[*LimitError](err); !ok || over.Kind != want {
				t.Errorf("error %v, want the limit of %s", err, want)
			}
		})
	}
}

func TestMemoryThatIsGivenBackDoesNotCount(t *testing.T) {
	var answer bytes.Buffer
	if err := run(t.Context(), "churn", &answer); err != nil || answer.String() != "400" {
		t.Errorf("%q, %v", &answer, err)
	}
}

func TestAProcessThatFailsIsTold(t *testing.T) {
	for line, code := range map[string]int{"fail": 1, "die": 2, "nonsense": 1} {
		err := run(t.Context(), line, io.Discard)
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != code || strings.Contains(err.Error(), "S3NT1NEL") {
			t.Errorf("%s: error %v, want exit status %d", line, err, code)
		}
	}
}

func TestAProcessThatDoesNotListenHoldsNothingUp(t *testing.T) {
	err := Run(t.Context(), testWork, testLimits,
		func(w io.Writer) error {
			_, err := io.Copy(w, io.MultiReader(strings.NewReader("deaf\n"), endless{}))
			return err
		},
		func(r io.Reader) error { _, err := io.Copy(io.Discard, r); return err })
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
		t.Errorf("error %v", err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestAnAnswerThatIsNotWantedEndsTheProcess(t *testing.T) {
	no := errors.New("no")
	err := Run(t.Context(), testWork, testLimits,
		func(w io.Writer) error { _, err := io.WriteString(w, "spin\n"); return err },
		func(io.Reader) error { return no })
	if !errors.Is(err, no) {
		t.Errorf("error %v", err)
	}
}

// meet waits for the process that spins, and gives a function that waits until it has ended.
func meet(t *testing.T) (address string, arrived func(), ended func()) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	var conn net.Conn
	arrived = func() {
		if conn, err = l.Accept(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	ended = func() {
		if _, err := io.Copy(io.Discard, conn); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Error(err)
		}
	}
	return l.Addr().String(), arrived, ended
}

// A process of which nothing ends would let these tests hang until it is at its limit of CPU, which is longer than they get.
func TestAProcessEndsWithTheContextOfItsCaller(t *testing.T) {
	address, arrived, ended := meet(t)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- run(ctx, "spin "+address, io.Discard, func(l *Limits) { l.CPU = time.Hour }) }()
	arrived()
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	ended()
}

func TestAProcessEndsWithTheOneThatStartedIt(t *testing.T) {
	address, arrived, ended := meet(t)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- run(ctx, "nest "+address, io.Discard) }()
	arrived() // a process of the process
	cancel()  // which kills the one between
	if err := <-result; err == nil {
		t.Error("the one between ended well")
	}
	ended()
}

func TestManyProcessesAtOnceGetTheirOwnAnswers(t *testing.T) {
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			var answer bytes.Buffer
			if err := run(t.Context(), fmt.Sprintf("tell number-%d", i), &answer); err != nil || !strings.HasPrefix(answer.String(), fmt.Sprintf("number-%d ", i)) {
				t.Errorf("%q, %v", &answer, err)
			}
		})
	}
	wg.Wait()
}

func TestAProgramThatDoesNotServeTheNameIsNotStarted(t *testing.T) {
	if err := Run(t.Context(), "other", testLimits, nil, nil); err == nil || !strings.Contains(err.Error(), `does not serve "other"`) {
		t.Errorf("error %v", err)
	}
}
