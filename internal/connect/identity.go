package connect

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/failure"
)

// identity keeps requests away from a cluster that has taken the place of the expected one. What answers can only
// change with a connection. So a request never opens one: it fails instead, then somebody opens one by asking who is
// there, and the others wait.
type identity struct {
	link *link
	// read asks the server for its identity, past this check.
	read func(context.Context) (string, error)
	// expected are the identities that may answer: none when the Cluster was never probed.
	expected atomic.Pointer[[]string]
	// confirmed is how many connections the link had opened when the right cluster answered last.
	confirmed atomic.Int64
	// turn holds one token: who has it asks.
	turn chan struct{}
}

func newIdentity(l *link, read func(context.Context) (string, error)) *identity {
	i := &identity{link: l, read: read, turn: make(chan struct{}, 1)}
	i.turn <- struct{}{}
	return i
}

// expect sets which identities may answer: the recorded one, and one that somebody accepted in its place.
func (i *identity) expect(recorded, accepted string) {
	if recorded == "" {
		return
	}
	ids := []string{recorded, accepted}
	if before := i.expected.Load(); before != nil && slices.Equal(*before, ids) {
		return
	}
	i.expected.Store(&ids)
	i.confirmed.Store(0)
}

// judge decides whether the cluster with this ID may answer. One that does not tell its ID cannot be told apart.
func (i *identity) judge(id string) error {
	ids := i.expected.Load()
	if ids == nil || id == "" || slices.Contains(*ids, id) {
		return nil
	}
	return failure.Transient(v1alpha1.ReasonClusterIdentityChanged, &classified{class: otherCluster},
		"another cluster answers: its ID is %s, and was %s; if this is meant, set the annotation %s to the new ID",
		id, (*ids)[0], v1alpha1.AnnotationAcceptClusterID)
}

// confirm returns once the cluster behind all connections is known to be the expected one.
func (i *identity) confirm(ctx context.Context) error {
	if i.known() {
		return nil
	}
	select {
	case <-i.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { i.turn <- struct{}{} }()
	if i.known() {
		return nil
	}
	id, err := i.read(opening(ctx))
	if err != nil {
		return err
	}
	if err := i.judge(id); err != nil {
		return err
	}
	i.confirmed.Store(i.link.opened.Load())
	return nil
}

// known reports whether nothing is expected, or no connection was opened since the last confirmation.
func (i *identity) known() bool {
	opened := i.link.opened.Load()
	return i.expected.Load() == nil || opened > 0 && opened == i.confirmed.Load()
}

// confirmed lets a request through once the cluster behind the link is known to be the expected one.
type confirmed struct {
	identity *identity
	next     http.RoundTripper
}

// RoundTrip fails, without sending the request, while another cluster answers.
func (c confirmed) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.identity.expected.Load() == nil {
		return c.next.RoundTrip(r.WithContext(opening(r.Context())))
	}
	for {
		if err := c.identity.confirm(r.Context()); err != nil {
			return nil, err
		}
		resp, err := c.next.RoundTrip(r)
		if !errors.Is(err, errNoConnection) {
			return resp, err
		}
		c.identity.confirmed.Store(0)
		if r, err = again(r); err != nil {
			return nil, err
		}
	}
}

// again is a request that was not sent.
func again(r *http.Request) (*http.Request, error) {
	out := r.Clone(r.Context())
	if r.GetBody == nil {
		return out, nil
	}
	body, err := r.GetBody()
	out.Body = body
	return out, err
}

// mayOpen marks the context of a request that may open a connection.
type mayOpen struct{}

func opening(ctx context.Context) context.Context { return context.WithValue(ctx, mayOpen{}, true) }

// errNoConnection says that a request was not sent, because it would have to open a connection and may not.
var errNoConnection = errors.New("there is no connection to a cluster whose identity is known")
