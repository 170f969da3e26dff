package status

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
)

// EngineUnavailable records that a change of a Cluster or Release waits because Temporal does not answer. Nothing else is
// touched: what convoy knew of the object before still stands.
func (w *Writer) EngineUnavailable(ctx context.Context, o client.Object) error {
	return w.engine(ctx, o, func(conditions *[]metav1.Condition, generation int64) {
		meta.SetStatusCondition(conditions, metav1.Condition{
			Type: v1alpha1.ConditionEngineUnavailable, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonEngineUnavailable, ObservedGeneration: generation,
			Message: "Temporal does not answer: the last change of this object, or of what it reads, is not handed over yet; it will be once Temporal is back",
		})
	})
}

// EngineAnswers takes that back.
func (w *Writer) EngineAnswers(ctx context.Context, o client.Object) error {
	return w.engine(ctx, o, func(conditions *[]metav1.Condition, _ int64) {
		meta.RemoveStatusCondition(conditions, v1alpha1.ConditionEngineUnavailable)
	})
}

func (w *Writer) engine(ctx context.Context, o client.Object, change func(conditions *[]metav1.Condition, generation int64)) error {
	switch o := o.(type) {
	case *v1alpha1.Cluster:
		return w.Cluster(ctx, o, func(c *v1alpha1.Cluster) { change(&c.Status.Conditions, c.Generation) })
	case *v1alpha1.Release:
		return w.Release(ctx, o, func(r *v1alpha1.Release) { change(&r.Status.Conditions, r.Generation) })
	}
	return nil
}
