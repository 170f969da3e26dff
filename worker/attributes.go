package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"kumodo.io/convoy/activities"
	"kumodo.io/convoy/internal/delivery"
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

// searchAttributes are what convoy's workflows can be searched by.
var searchAttributes = map[string]enumspb.IndexedValueType{
	delivery.AttributeCluster:   enumspb.INDEXED_VALUE_TYPE_KEYWORD,
	delivery.AttributeRelease:   enumspb.INDEXED_VALUE_TYPE_KEYWORD,
	delivery.AttributeNamespace: enumspb.INDEXED_VALUE_TYPE_KEYWORD,
	delivery.AttributePhase:     enumspb.INDEXED_VALUE_TYPE_KEYWORD,
	delivery.AttributeRevision:  enumspb.INDEXED_VALUE_TYPE_KEYWORD,
	delivery.AttributeReady:     enumspb.INDEXED_VALUE_TYPE_BOOL,
}

// ensureSearchAttributes registers those that the namespace lacks. It reports false while the server does not
// answer, and fails when the server refuses.
func ensureSearchAttributes(ctx context.Context, c client.Client, namespace string) (bool, error) {
	have, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return false, refused(err, "list search attributes")
	}
	missing := map[string]enumspb.IndexedValueType{}
	for name, kind := range searchAttributes {
		if _, ok := have.GetCustomAttributes()[name]; !ok {
			missing[name] = kind
		}
	}
	if len(missing) == 0 {
		return true, nil
	}
	_, err = c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace: namespace, SearchAttributes: missing,
	})
	if exists := (*serviceerror.AlreadyExists)(nil); errors.As(err, &exists) {
		return true, nil
	}
	return err == nil, refused(err, "register search attributes")
}

// refused keeps the errors that asking again does not heal.
func refused(err error, what string) error {
	denied, unknown := (*serviceerror.PermissionDenied)(nil), (*serviceerror.NamespaceNotFound)(nil)
	if errors.As(err, &denied) || errors.As(err, &unknown) {
		return fmt.Errorf("%s in Temporal: %w", what, err)
	}
	return nil
}
