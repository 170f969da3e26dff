package subprocess

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"time"
)

// How a process ends, besides 0 and 1 and what the Go runtime takes.
const (
	exitMemory = 70 + iota
	exitCPU
	exitOrphan
)

// period is how often a process looks at what it has taken. In that time it can hardly get more than a few dozen megabytes
// and write to them.
const period = 5 * time.Millisecond

// served is what this program serves.
var served string

// Serve does the work in a process that Run started under this name, and ends it. In every other process it only notes that
// it was called. It belongs at the beginning of main, before anything is started.
//
// receive reads a request and gives the work that it asks for, which writes the answer. An error of either is only
// seen as a process that failed: what the caller shall know belongs in the answer.
func Serve(name string, receive func(io.Reader) (work func(io.Writer) error, err error)) {
	served = name
	if len(os.Args) < 2 || os.Args[1] != name {
		return
	}
	if err := serve(receive); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serve(receive func(io.Reader) (func(io.Writer) error, error)) error {
	if len(os.Args) != 4 {
		return fmt.Errorf("%s is what convoy starts for itself", os.Args[1])
	}
	memory, err := strconv.ParseInt(os.Args[2], 10, 64)
	if err != nil {
		return err
	}
	cpu, err := time.ParseDuration(os.Args[3])
	if err != nil {
		return err
	}
	go guard(memory, cpu)
	work, err := receive(os.Stdin)
	if err != nil {
		return err
	}
	go func() { // nothing more is sent, so this ends with the process that would send it
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(exitOrphan)
	}()
	return work(os.Stdout)
}

// guard ends this process when it takes more than it may.
func guard(memory int64, cpu time.Duration) {
	debug.SetMemoryLimit(memory / 8 * 7) // the collector tries hard before that
	const total, released = "/memory/classes/total:bytes", "/memory/classes/heap/released:bytes"
	held := []metrics.Sample{{Name: total}, {Name: released}}
	for range time.Tick(period) {
		metrics.Read(held)
		switch {
		case held[0].Value.Uint64()-held[1].Value.Uint64() > uint64(memory): //nolint:gosec // above 0
			os.Exit(exitMemory)
		case used() > cpu:
			os.Exit(exitCPU)
		}
	}
}
