//go:build !linux

package main

import "syscall"

// childAttributes keeps Ctrl-C from reaching the child: the bench stops it in its order.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// maxRSSPerMiB is a mebibyte in the unit of a process's peak of memory.
const maxRSSPerMiB = 1 << 20
