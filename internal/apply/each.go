package apply

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// each runs do for every item, a few at a time, and stops at the first error. When ctx ends it returns ctx's error.
func each[T any](ctx context.Context, parallel int, items []T, do func(context.Context, T) error) error {
	if parallel <= 0 {
		parallel = defaultParallel
	}
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, it := range items {
		if inner.Err() != nil {
			break
		}
		group.Go(func() error { return do(inner, it) })
	}
	err := group.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
