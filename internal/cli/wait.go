package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// waiting is whether, and how long, a command waits for what it began.
type waiting struct {
	wait    bool
	timeout time.Duration
}

func (w *waiting) bind(f *pflag.FlagSet) {
	f.BoolVar(&w.wait, "wait", false, "wait until the Release is ready, or can get no further by itself; the exit code tells")
	f.DurationVar(&w.timeout, "timeout", 5*time.Minute, "how long to wait; 0 for ever")
}

// until follows a Release to where it settles after it has taken up what was asked of it, and says on out what it sees.
func (w *waiting) until(ctx context.Context, h *hub, name string, out io.Writer, taken func(*v1alpha1.Release) bool) error {
	if !w.wait {
		return nil
	}
	ctx, cancel := watchtools.ContextWithOptionalTimeout(ctx, w.timeout)
	defer cancel()
	var last delivery.Standing
	err := h.follow(ctx, name, func(r *v1alpha1.Release) bool {
		is := delivery.StandingOf(r)
		if is.Settled && !taken(r) && r.DeletionTimestamp.IsZero() { // what it says is of before
			is = delivery.Standing{Reason: "Asked", Message: "convoy has not taken it up yet"}
		}
		if is.String() != last.String() {
			fmt.Fprintln(out, is)
		}
		last = is
		return is.Settled
	})
	switch {
	case err == nil && last.Ready:
		return nil
	case err == nil:
		return fmt.Errorf("%s is not ready: %s", h.named(name), last)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%s is not ready after %s: %s; the command why shows more", h.named(name), w.timeout, last)
	}
	return err
}

// follow shows a Release, and each newer state of it, until it has seen enough.
func (h *hub) follow(ctx context.Context, name string, enough func(*v1alpha1.Release) bool) error {
	only := client.MatchingFields{metav1.ObjectNameField: name}
	watcher := &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		return h.Watch(ctx, &v1alpha1.ReleaseList{}, client.InNamespace(h.namespace), only, &client.ListOptions{Raw: &o})
	}}
	for {
		var list v1alpha1.ReleaseList
		if err := h.List(ctx, &list, client.InNamespace(h.namespace), only); err != nil {
			return fmt.Errorf("follow %s: %w", h.named(name), err)
		}
		if len(list.Items) == 0 {
			return h.gone(name)
		}
		if enough(&list.Items[0]) {
			return nil
		}
		_, err := watchtools.Until(ctx, list.ResourceVersion, watcher, func(e watch.Event) (bool, error) {
			switch o := e.Object.(type) {
			case *v1alpha1.Release:
				if e.Type == watch.Deleted {
					return false, h.gone(name)
				}
				return enough(o), nil
			case *metav1.Status:
				return false, apierrors.FromObject(o)
			}
			return false, nil
		})
		expired := apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || errors.Is(err, watchtools.ErrWatchClosed)
		if !expired || ctx.Err() != nil {
			return err
		}
	}
}

func (h *hub) gone(name string) error {
	return fmt.Errorf("%s does not exist any more", h.named(name))
}
