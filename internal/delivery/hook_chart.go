package delivery

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kumodo.io/convoy/api/v1alpha1"
)

// HookChart is the kind of a hook that a chart brings, and not the spec of the Release.
const HookChart = "Chart"

// chartEvents are what charts call the phases, by what a rollout is to them. A deletion is the same to all.
var chartEvents = map[HookPhase]map[v1alpha1.RolloutOperation]string{
	v1alpha1.HookPreApply: {
		v1alpha1.OperationInstall: "pre-install", v1alpha1.OperationUpgrade: "pre-upgrade", v1alpha1.OperationRollback: "pre-rollback",
	},
	v1alpha1.HookPostApply: {
		v1alpha1.OperationInstall: "post-install", v1alpha1.OperationUpgrade: "post-upgrade", v1alpha1.OperationRollback: "post-rollback",
	},
	v1alpha1.HookPreDelete:  {"": "pre-delete"},
	v1alpha1.HookPostDelete: {"": "post-delete"},
}

// ChartEvent is what charts call a phase; empty when they do not know it. For a phase of the deletion the operation is empty.
func ChartEvent(phase HookPhase, op v1alpha1.RolloutOperation) string { return chartEvents[phase][op] }

// IsChartEvent reports whether hooks of an event can be run.
func IsChartEvent(event string) bool {
	for _, events := range chartEvents {
		for _, known := range events {
			if known == event {
				return true
			}
		}
	}
	return false
}

// OperationOf decides what a rollout is to the hooks of a chart: an installation until one to the same cluster has
// succeeded, as far as the history goes back. cluster is where it goes, by ClusterIdentity. What may have been delivered in a life
// that is forgotten is taken for delivered: hooks for a first installation may destroy what is there.
func OperationOf(r *v1alpha1.Release, cluster string) v1alpha1.RolloutOperation {
	last := r.Status.Rollout
	switch {
	case last == nil && !NothingApplied(r, false), hasDelivered(r, cluster):
	case last == nil, !sameIdentity(last.Cluster, cluster), last.Operation == v1alpha1.OperationInstall:
		return v1alpha1.OperationInstall
	}
	if r.Spec.PinnedRender != "" {
		return v1alpha1.OperationRollback
	}
	return v1alpha1.OperationUpgrade
}

// hasDelivered reports whether a rollout to a cluster is known to have succeeded.
func hasDelivered(r *v1alpha1.Release, cluster string) bool {
	last := r.Status.Rollout
	if last != nil && last.Phase == v1alpha1.RolloutSucceeded && sameIdentity(last.Cluster, cluster) {
		return true
	}
	return slices.ContainsFunc(r.Status.History, func(past v1alpha1.RolloutRecord) bool {
		return past.Phase == v1alpha1.RolloutSucceeded && past.ClusterIdentity != "" && sameIdentity(past.ClusterIdentity, cluster)
	})
}

// sameIdentity reports whether two identities are of one cluster: by its own ID, whatever object leads to it, or by the object where
// one of them does not know that.
func sameIdentity(a, b string) bool {
	uidA, idA, knownA := strings.Cut(a, "/")
	uidB, idB, knownB := strings.Cut(b, "/")
	if knownA && knownB {
		return idA == idB
	}
	return uidA == uidB
}

// IsLasting reports whether objects of a kind hold what is worth more than a run of a hook, whose object is deleted before
// the next one.
func IsLasting(kind schema.GroupKind) bool { return slices.Contains(lasting, kind) }

var lasting = []schema.GroupKind{
	{Kind: "Namespace"},
	{Kind: "PersistentVolume"},
	{Kind: "PersistentVolumeClaim"},
	{Kind: "Node"},
	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"},
}

// RunsOnce reports whether objects of a kind run to an end. A hook of a chart waits for the end of such an object; any
// other object is done when it is there.
func RunsOnce(kind schema.GroupKind) bool {
	return kind == schema.GroupKind{Kind: "Pod"} || kind == schema.GroupKind{Group: "batch", Kind: "Job"}
}
