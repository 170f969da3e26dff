package main

import "syscall"

// childAttributes keeps Ctrl-C from reaching convoy, which the demo stops in its order, and has the kernel kill it when
// the demo dies, however it dies.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
