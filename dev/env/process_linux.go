package env

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
)

// childAttributes puts a child in its own process group, so that Ctrl-C reaches only the parent, which then stops its
// children in order; and has the kernel kill the child when the parent dies, however it dies.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// identity tells a live process from another one that got the same id later: its name and the moment it started.
// It is empty when there is no such process, or only its unreaped remains.
func identity(pid int) string {
	const stateField, startField = 0, 19 // counted after the name, which may hold blanks and parentheses
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	open, shut := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if open < 0 || shut < open {
		return ""
	}
	fields := bytes.Fields(stat[shut+1:])
	if len(fields) <= startField || string(fields[stateField]) == "Z" || string(fields[stateField]) == "X" {
		return ""
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s %s %s", stat[open+1:shut], fields[startField], bytes.TrimSpace(boot))
}
