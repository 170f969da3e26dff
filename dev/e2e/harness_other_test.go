//go:build !linux

package e2e

import (
	"syscall"
	"testing"
)

// childAttributes keeps Ctrl-C from reaching the child: the tests stop it in their order.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// memory would watch the memory of a process; only Linux tells it.
type memory struct{}

func watchMemory(*testing.T, int) *memory { return &memory{} }

func (*memory) wantBelow(*testing.T, int64) {}

// openFiles would count what a process has open; only Linux tells it.
func openFiles(*testing.T, int) int { return 0 }
