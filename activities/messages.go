package activities

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"

	"kumodo.io/convoy/internal/apply"
	"kumodo.io/convoy/internal/delivery"
)

// shownErrors is how many objects a message names.
const shownErrors = 3

// objectErrors counts the objects of a render that failed and names the first few.
func objectErrors(failed []apply.ObjectError, rendered int) string {
	return fmt.Sprintf("%s failed: %s", delivery.Share(len(failed), max(rendered, len(failed)), "object"), first(failed))
}

// first names the first few of objects.
func first[T fmt.Stringer](all []T) string {
	var b strings.Builder
	for i, e := range all {
		if i == shownErrors {
			fmt.Fprintf(&b, "; and %d more", len(all)-i)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(e.String())
	}
	return b.String()
}

// unfinished says what a removal still has to do, the gravest first.
func unfinished(r apply.Removal) string {
	switch {
	case len(r.Failed) > 0:
		return fmt.Sprintf("the cluster does not let convoy delete %s: %s", counted(len(r.Failed)), first(r.Failed))
	case len(r.Survivors) > 0:
		return fmt.Sprintf("something that is not convoy's keeps %s: %s", counted(len(r.Survivors)), first(r.Survivors))
	}
	return fmt.Sprintf("waiting for %s to go: %s", counted(len(r.Waiting)), first(r.Waiting))
}

// awaited says which objects a rollout waits for.
func awaited[T fmt.Stringer](all []T) string {
	return fmt.Sprintf("waiting for the health of %s: %s", counted(len(all)), first(all))
}

func counted(n int) string { return delivery.Count(n, "object") }

// How long an attempt waits for deleted objects to go before it says so and is retried. The first one says so soon;
// later ones outlast a request to a target that hangs, which is then told from objects that take their time.
const (
	firstPatience = 15 * time.Second
	laterPatience = time.Minute
)

// bounded runs a removal for a while; what is not gone by then is in its result, and no error.
func bounded(ctx context.Context, do func(context.Context) (apply.Removal, error)) (apply.Removal, error) {
	patience := firstPatience
	if activity.GetInfo(ctx).Attempt > 1 {
		patience = laterPatience
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	out, err := do(limited)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && !out.Done() {
		return out, nil
	}
	return out, err
}
