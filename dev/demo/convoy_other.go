//go:build !linux

package main

import "syscall"

// childAttributes keeps Ctrl-C from reaching convoy, which the demo stops in its order. The convoy of a killed demo is
// ended by the next one.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
