package worker

import (
	"fmt"
	"runtime"
	"strings"

	"kumodo.io/convoy/activities"
	"kumodo.io/convoy/internal/failure"
)

// errPanic stands for a panic, whose text may hold anything.
var errPanic error = failure.Transient(activities.ReasonPanic, nil, "the step panicked; the log of the worker says where")

// panicSite is the innermost frame of a recovered panic that is code of convoy.
func panicSite() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for {
		f, more := frames.Next()
		if strings.HasPrefix(f.Function, "kumodo.io/convoy/") && !strings.Contains(f.Function, "/worker.") {
			return fmt.Sprintf("%s:%d", f.Function, f.Line)
		}
		if !more {
			return "unknown"
		}
	}
}
