package env

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// childAttributes puts a child in its own process group, so that Ctrl-C reaches only the parent, which then stops its
// children in order; and has the kernel kill the child when the parent dies, however it dies.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// frozen says whether each thread of a process is stopped. A signal stops them one after the other.
func frozen(pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		return false
	}
	for _, thread := range threads {
		// A thread that is gone by now does not run either.
		if _, fields := stat(thread); len(fields) > 0 && fields[0] != "T" {
			return false
		}
	}
	return true
}

// identity tells a live process from another one that got the same id later: its name and the moment it started.
// It is empty when there is no such process, or only its unreaped remains.
func identity(pid int) string {
	const stateField, startField = 0, 19
	name, fields := stat(fmt.Sprintf("/proc/%d/stat", pid))
	if len(fields) <= startField || fields[stateField] == "Z" || fields[stateField] == "X" {
		return ""
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s %s %s", name, fields[startField], bytes.TrimSpace(boot))
}

// stat reads a process's or thread's name and the fields after it; the name may hold blanks and parentheses.
func stat(path string) (name string, fields []string) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", nil
	}
	begin, end := bytes.IndexByte(content, '('), bytes.LastIndexByte(content, ')')
	if begin < 0 || end < begin {
		return "", nil
	}
	return string(content[begin+1 : end]), strings.Fields(string(content[end+1:]))
}
