package connect

import (
	"context"
	"slices"
	"sync/atomic"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/failure"
)

// identity knows which cluster is expected to answer.
type identity struct {
	// read asks the server, over the connection of the context, for the ID of its cluster.
	read func(context.Context) (string, error)
	// expected is the ID of the cluster, nil when the Cluster was never probed. It is set once.
	expected atomic.Pointer[string]
}

// expect reports whether the cluster with this ID is the expected one, which it becomes when none was known.
func (i *identity) expect(id string) bool {
	if id == "" {
		return true // whoever asks does not know, which says nothing
	}
	i.expected.CompareAndSwap(nil, &id)
	return *i.expected.Load() == id
}

// confirm returns nil when the expected cluster answers over the connection of the context.
func (i *identity) confirm(ctx context.Context) error {
	expected := i.expected.Load()
	if expected == nil {
		return nil
	}
	id, err := i.read(ctx)
	if err != nil {
		return err
	}
	return judge(id, *expected)
}

// judge decides whether the cluster with this ID may answer in the place of the recorded one. One that does not tell its
// ID cannot be told apart.
func judge(id, recorded string, accepted ...string) error {
	if id == "" || recorded == "" || id == recorded || slices.Contains(accepted, id) {
		return nil
	}
	return failure.Transient(v1alpha1.ReasonClusterIdentityChanged, &classified{class: otherCluster},
		"another cluster answers: its ID is %s, and was %s; if this is meant, set the annotation %s to the new ID",
		id, recorded, v1alpha1.AnnotationAcceptClusterID)
}
