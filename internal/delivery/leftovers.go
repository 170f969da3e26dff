package delivery

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
)

// Leftovers is what a Release has left behind once a rollout has succeeded: everything that it has elsewhere. What was
// known before keeps its time, because patience counts from there.
func Leftovers(known, elsewhere []v1alpha1.Leftover, now time.Time) []v1alpha1.Leftover {
	out := slices.Clone(elsewhere)
	for i := range out {
		out[i].Since = metav1.NewTime(now)
		if before, ok := LeftoverOf(known, out[i].Identity); ok {
			out[i].Since = before.Since
		}
	}
	return out
}

// LeftoverOf finds what was left on a cluster.
func LeftoverOf(all []v1alpha1.Leftover, identity string) (v1alpha1.Leftover, bool) {
	i := slices.IndexFunc(all, func(l v1alpha1.Leftover) bool { return l.Identity == identity })
	if i < 0 {
		return v1alpha1.Leftover{}, false
	}
	return all[i], true
}

// Former decides whether what a Release has on a cluster may be removed, and since when, because the Release has moved
// away: a rollout elsewhere has succeeded, and the Release does not ask for that cluster again. The cluster is named as
// it was recorded, by the name and UID of its Cluster and by its own ID; wished is the Cluster that the Release
// references, nil when there is none.
func Former(r *v1alpha1.Release, wished *v1alpha1.Cluster, name, uid, id string) (since time.Time, former bool) {
	left, listed := LeftoverOf(r.Status.Leftovers, Identity(uid, id))
	switch {
	case !listed:
		return time.Time{}, false
	case wished == nil:
		return left.Since.Time, r.Spec.ClusterRef.Name != name
	case wished.Status.Reachable == nil:
		return left.Since.Time, false // not probed yet, it may lead there
	}
	return left.Since.Time, !SameCluster(wished, uid, id)
}
