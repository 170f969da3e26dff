//go:build !unix

package subprocess

import "time"

var began = time.Now()

// used is the time on the clock since this process began: the time of the CPU is not known here.
func used() time.Duration { return time.Since(began) }
