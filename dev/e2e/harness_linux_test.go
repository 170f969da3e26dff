package e2e

import "syscall"

// childAttributes has the kernel kill the child when the tests die, however they die.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
