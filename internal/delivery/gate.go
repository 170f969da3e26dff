package delivery

import (
	"fmt"

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
