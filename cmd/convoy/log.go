package main

import (
	"context"
	"errors"
	"slices"

	temporallog "go.temporal.io/sdk/log"

	"kumodo.io/convoy/internal/delivery"
)

// steps is the logger of Temporal's SDK. Its lines are named like those of the rest: the SDK's own names begin with a capital,
// and its Namespace is another one than that of the object, which a workflow has in its ID only.
type steps struct{ to temporallog.Logger }

// fields are how the SDK's names are written.
var fields = map[string]string{
	"Namespace": "temporalNamespace", "TaskQueue": "taskQueue", "WorkerID": "workerID", "WorkerType": "workerType",
	"WorkflowType": "workflowType", "WorkflowID": "workflowID", "RunID": "runID", "ActivityType": "activityType", "ActivityID": "activityID",
	"Attempt": "attempt", "Error": "error", "TraceID": "traceID", "SpanID": "spanID",
}

// named renames the SDK's fields, and adds the object that a workflow is about.
func named(keyvals []any) []any {
	all := slices.Clone(keyvals)
	for i := 0; i+1 < len(keyvals); i += 2 {
		key, _ := keyvals[i].(string)
		if name, is := fields[key]; is {
			all[i] = name
		}
		if id, is := keyvals[i+1].(string); is && key == "WorkflowID" {
			if kind, object := delivery.ObjectOf(id); kind != "" {
				all = append(all, "kind", kind, "namespace", object.Namespace, "name", object.Name)
			}
		}
	}
	return all
}

// Debug is that of a Logger, as are Info, Warn and Error.
func (l steps) Debug(message string, keyvals ...any) { l.to.Debug(message, named(keyvals)...) }

// Info logs what is worth knowing.
func (l steps) Info(message string, keyvals ...any) { l.to.Info(message, named(keyvals)...) }

// Warn logs what may need somebody.
func (l steps) Warn(message string, keyvals ...any) { l.to.Warn(message, named(keyvals)...) }

// Error logs what failed. Steps that were cancelled did not: that is how a rollout is taken over.
func (l steps) Error(message string, keyvals ...any) {
	for _, v := range keyvals {
		if err, ok := v.(error); ok && errors.Is(err, context.Canceled) {
			l.Debug(message, keyvals...)
			return
		}
	}
	l.to.Error(message, named(keyvals)...)
}
