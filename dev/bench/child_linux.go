package main

import "syscall"

// childAttributes has the kernel kill the child when the bench dies, however it dies.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// maxRSSPerMiB is a mebibyte in the unit of a process's peak of memory.
const maxRSSPerMiB = 1 << 10
