//go:build !linux

package e2e

import "syscall"

// childAttributes keeps Ctrl-C from reaching the child: the tests stop it in their order.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
