package e2e

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
)

// childAttributes has the kernel kill the child when the tests die, however they die.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// memory is the highest resident size of a process since watchMemory, in bytes.
type memory struct {
	pid    int
	before int64
}

// watchMemory has the kernel forget the highest resident size that a process had.
func watchMemory(t *testing.T, pid int) *memory {
	t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
	m := &memory{pid: pid}
	m.before = m.highest(t)
	return m
}

func (m *memory) highest(t *testing.T) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		var kib int64
		if n, err := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 && err == nil {
			return kib << 10
		}
	}
	t.Fatal("the kernel does not tell the highest resident size")
	return 0
}

// wantBelow fails the test when the process needed that much more than before.
func (m *memory) wantBelow(t *testing.T, bytes int64) {
	t.Helper()
	more := m.highest(t) - m.before
	t.Logf("convoy needed %d MiB more than the %d MiB before", more>>20, m.before>>20)
	if more >= bytes {
		t.Errorf("convoy needed %d MiB more than before", more>>20)
	}
}

// openFiles counts the files, sockets and pipes that a process has open.
func openFiles(t *testing.T, pid int) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
