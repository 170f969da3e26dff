package workflows

import (
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"kumodo.io/convoy/internal/delivery"
)

// attributes are the search attributes of a rollout.
func attributes(k delivery.Key, cluster, revision string) temporal.SearchAttributes {
	return temporal.NewSearchAttributes(
		temporal.NewSearchAttributeKeyKeyword(delivery.AttributeNamespace).ValueSet(k.Namespace),
		temporal.NewSearchAttributeKeyKeyword(delivery.AttributeRelease).ValueSet(k.Name),
		temporal.NewSearchAttributeKeyKeyword(delivery.AttributeCluster).ValueSet(cluster),
		temporal.NewSearchAttributeKeyKeyword(delivery.AttributeRevision).ValueSet(revision),
	)
}

// standing is what can be searched for of an entity. It is written when it changes, because each write is an
// event.
type standing struct {
	phase    string
	revision string
	ready    bool
}

func (s *standing) turn(ctx workflow.Context, now standing) error {
	if *s == now {
		return nil
	}
	*s = now
	updates := []temporal.SearchAttributeUpdate{
		temporal.NewSearchAttributeKeyKeyword(delivery.AttributePhase).ValueSet(now.phase),
		temporal.NewSearchAttributeKeyBool(delivery.AttributeReady).ValueSet(now.ready),
	}
	if now.revision != "" {
		updates = append(updates, temporal.NewSearchAttributeKeyKeyword(delivery.AttributeRevision).ValueSet(now.revision))
	}
	return workflow.UpsertTypedSearchAttributes(ctx, updates...)
}
