//go:build !linux

package env

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// childAttributes puts a child in its own process group, so that Ctrl-C reaches only the parent, which then stops its
// children in order. Children of a killed parent are cleared at the next start.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// frozen says whether a process is stopped.
func frozen(pid int) bool {
	out, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.HasPrefix(strings.TrimSpace(string(out)), "T")
}

// identity tells a live process from another one that got the same id later: its name and the moment it started.
// It is empty when there is no such process.
func identity(pid int) string {
	out, err := exec.Command("ps", "-o", "lstart=", "-o", "comm=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
