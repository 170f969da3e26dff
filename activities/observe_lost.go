package activities

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/status"
)

// nobodyObserves is what is said of what a Cluster holds while no worker takes its observation.
const nobodyObserves = "no process of the role observer has room for this Cluster: run one, or raise --observer-clusters"

// MarkUnobserved takes back what observers have said of the Releases of a Cluster, since none observes it.
func (a *Activities) MarkUnobserved(ctx context.Context, in ObserveInput) (UnobservedResult, error) {
	c, life, err := a.cluster(ctx, in.Key)
	if err != nil || life == Gone {
		return UnobservedResult{}, err
	}
	var all v1alpha1.ReleaseList
	if err := a.Hub.List(ctx, &all, &client.ListOptions{Namespace: c.Namespace, FieldSelector: fields.OneTermEqualSelector("spec.clusterRef.name", c.Name)}); err != nil {
		return UnobservedResult{}, fmt.Errorf("list the Releases of a Cluster: %w", err)
	}
	out, errs := UnobservedResult{}, []error{}
	for i := range all.Items {
		r := &all.Items[i]
		if !delivery.Observable(r) {
			continue
		}
		errs = append(errs, a.Status.Release(ctx, r, func(now *v1alpha1.Release) {
			status.Observed(now, status.Observation{
				Unseen: nobodyObserves, Reason: v1alpha1.ReasonNotObserved, LooksForDrift: now.Spec.SyncPolicy.Drift != v1alpha1.DriftIgnore,
			})
		}))
		out.Releases++
	}
	return out, errors.Join(errs...)
}
