package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/serviceerror"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/failure"
	"kumodo.io/convoy/internal/room"
	"kumodo.io/convoy/internal/source"
	"kumodo.io/convoy/internal/status"
)

// FetchSource has the files of a Release's source at hand afterwards, at the revision that is known from the poll of the
// source or, when that is not of this source or is not to be relied on, at the newest one. A poll that failed is a result:
// the poll goes on trying for all who use it, and tells.
func (a *Activities) FetchSource(ctx context.Context, in FetchInput) (FetchResult, error) {
	defer startHeartbeat(ctx).stopped()
	r, life, err := a.release(ctx, in.Key)
	if err != nil || life != Alive {
		return FetchResult{Life: life}, err
	}
	out := FetchResult{
		Life: Alive, Cluster: r.Spec.ClusterRef.Name, Interval: r.Spec.SyncPolicy.Interval.Duration,
		Leftovers: len(r.Status.Leftovers) > 0 && !r.Spec.Suspend,
	}
	if r.Spec.Suspend {
		out.Suspended, out.Word = true, in.Word
		return out, a.Status.Release(ctx, r, status.Suspended)
	}
	if digest := r.Spec.PinnedRender; digest != "" {
		out.Revision = delivery.PinnedRevision(digest) // how the source fares is of no interest while the pin holds
		return out, nil
	}
	poll, polled := delivery.PollOf(r.Namespace, r.Spec.Source)
	known := polled && !in.Fresh && in.Word.Poll == poll.ID()
	if known && in.Word.Reason != "" {
		out.Word = in.Word
		f := failure.Transient(in.Word.Reason, nil, "%s", in.Word.Message)
		return out, a.Status.Release(ctx, r, func(r *v1alpha1.Release) { status.SourceFailed(r, f) })
	}
	began := time.Now()
	var bundle *source.Bundle
	if known {
		bundle, err = a.Sources.Open(ctx, r.Namespace, r.Spec.Source, in.Word.Revision)
		f, failed := failure.As(err)
		known = !failed || f.Reason != v1alpha1.ReasonSourceNotFound // else it moved on, and a look finds where to
	}
	if !known {
		bundle, err = a.Sources.Fetch(ctx, r.Namespace, r.Spec.Source)
	}
	if err != nil {
		return FetchResult{}, a.sourceFailed(ctx, r, err)
	}
	out.Revision, out.Digest = bundle.Revision, bundle.Digest
	switch {
	case known:
		out.Word = in.Word
	case polled:
		out.Word = delivery.Word{Poll: poll.ID(), Revision: bundle.Revision, At: began}
	}
	return out, nil
}

// sourceFailed writes why a source cannot be read, and gives the error back.
func (a *Activities) sourceFailed(ctx context.Context, r *v1alpha1.Release, err error) error {
	if full, busy := errors.AsType[*room.BusyError](err); busy {
		return aside(ctx, full, "as many steps as are allowed wait for the server of the source; this one follows")
	}
	f, ok := failure.As(err)
	if !ok || ctx.Err() != nil {
		return err
	}
	f = ofSource(f)
	if err := a.Status.Release(ctx, r, func(r *v1alpha1.Release) { status.SourceFailed(r, f) }); err != nil {
		return err
	}
	return paced(ctx, r, f)
}

// ofSource gives a source that can never work a reason of its own.
func ofSource(f *failure.Error) *failure.Error {
	if f.Terminal {
		return failure.Terminal(v1alpha1.ReasonSourceInvalid, f, "%s", f.Message)
	}
	return f
}

// LookSource asks a source for its newest revision, once for all Releases that use it, and wakes them when it is another
// one than they were told, or none. A look that failed is a result: the next one comes anyway.
func (a *Activities) LookSource(ctx context.Context, in LookInput) (LookResult, error) {
	defer startHeartbeat(ctx).stopped()
	word := delivery.Word{Poll: in.Poll.ID(), At: time.Now()}
	revision, err := a.Sources.Look(ctx, in.Poll.Namespace, in.Poll.Source)
	if full, busy := errors.AsType[*room.BusyError](err); busy {
		return LookResult{}, aside(ctx, full, "as many steps as are allowed wait for the server of the source; this one follows")
	}
	switch f, known := failure.As(err); {
	case known && ctx.Err() == nil:
		f = ofSource(f)
		word.Reason, word.Message = f.Reason, cut(f.Message)
	case err != nil:
		return LookResult{}, err
	}
	word.Revision = revision
	out := LookResult{Word: word}
	all := !word.Same(in.Last)
	if !all && !in.Joined && !in.Count {
		return out, nil
	}
	users, err := a.usersOf(ctx, in.Poll)
	if err != nil {
		return LookResult{}, err
	}
	out.Users = new(len(users))
	return out, a.tellUsers(ctx, users, word, all)
}

// usersOf lists the Releases that a poll is for.
func (a *Activities) usersOf(ctx context.Context, poll delivery.Poll) ([]v1alpha1.Release, error) {
	id := poll.ID()
	var users []v1alpha1.Release
	page := v1alpha1.ReleaseList{}
	for {
		err := a.Hub.List(ctx, &page, client.InNamespace(poll.Namespace), client.Limit(500), client.Continue(page.Continue))
		if err != nil {
			return nil, fmt.Errorf("list the Releases that use a source: %w", err)
		}
		for i := range page.Items {
			r := &page.Items[i]
			if of, polled := delivery.PollOf(r.Namespace, r.Spec.Source); polled && r.DeletionTimestamp.IsZero() && of.ID() == id {
				users = append(users, *r)
			}
		}
		if page.Continue == "" {
			return users, nil
		}
	}
}

// tellUsers wakes the workflows of Releases: all of them, or those whose status says otherwise. One that does not run is woken
// by the watcher, and looks by itself.
func (a *Activities) tellUsers(ctx context.Context, users []v1alpha1.Release, word delivery.Word, all bool) error {
	telling, ctx := errgroup.WithContext(ctx)
	telling.SetLimit(8)
	for i := range users {
		r := &users[i]
		if !all && status.Knows(r, word.Revision) {
			continue
		}
		telling.Go(func() error {
			id := delivery.ReleaseWorkflowID(r.Namespace, r.Name)
			err := a.Kicks.SignalWorkflow(ctx, id, "", delivery.SignalNews, delivery.News{UID: string(r.UID), Word: word})
			if _, ended := errors.AsType[*serviceerror.NotFound](err); ended || err == nil {
				return nil
			}
			return fmt.Errorf("tell %s of its source: %w", id, err)
		})
	}
	return telling.Wait()
}
