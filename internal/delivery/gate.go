package delivery

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"kumodo.io/convoy/api/v1alpha1"
)

// Gate decides whether a Release may be rendered and applied. c is nil when the Cluster does not exist. When
// the gate is closed, message says why; it is stable.
func Gate(name string, c *v1alpha1.Cluster) (open bool, message string) {
	switch {
	case c == nil:
		return false, fmt.Sprintf("Cluster %q does not exist in this namespace", name)
	case !c.DeletionTimestamp.IsZero():
		return false, fmt.Sprintf("Cluster %q is being deleted", name)
	case c.Status.Reachable == nil:
		return false, fmt.Sprintf("Cluster %q has not been probed yet", name)
	case !*c.Status.Reachable:
		if ready := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
			return false, fmt.Sprintf("Cluster %q is not reachable: %s", name, ready.Message)
		}
		return false, fmt.Sprintf("Cluster %q is not reachable", name)
	}
	return true, ""
}

// ClusterIdentity names the cluster that a Cluster object leads to: another object, or another cluster that was accepted
// in the place of the former, is another identity.
func ClusterIdentity(c *v1alpha1.Cluster) string { return Identity(string(c.UID), c.Status.ClusterID) }

// Identity is ClusterIdentity of what was recorded: the UID of the Cluster, and the ID of the cluster if it was known.
func Identity(uid, id string) string {
	if id == "" {
		return uid
	}
	return uid + "/" + id
}

// SameCluster reports whether a Cluster leads to the cluster that was recorded by the UID of its object and by its own
// ID, which may not be known: also when the object was made anew since, but not when another cluster was accepted.
func SameCluster(c *v1alpha1.Cluster, uid, id string) bool {
	if id != "" && c.Status.ClusterID != "" {
		return id == c.Status.ClusterID
	}
	return string(c.UID) == uid
}

// Patience is how much longer a removal that is due since a time waits for a Cluster that is unreachable: nothing is
// left when it is to give up. It is not bounded when the policy blocks.
func Patience(p v1alpha1.ReleaseDeletionPolicy, since, now time.Time) (left time.Duration, bounded bool) {
	if p.BlockOnClusterUnreachable == nil || *p.BlockOnClusterUnreachable {
		return 0, false
	}
	return max(0, since.Add(p.Timeout.Duration).Sub(now)), true
}
