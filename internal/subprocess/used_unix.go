//go:build unix

package subprocess

import (
	"syscall"
	"time"
)

// used is the time of the CPU that this process took.
func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
