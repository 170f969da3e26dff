package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Leftover is what a Release still has on a cluster that it has moved away from. convoy removes it by the deletion policy
// of the Release.
type Leftover struct {
	// Cluster is the name of the Cluster that led there.
	Cluster string `json:"cluster"`
	// Identity is the UID of that Cluster and, behind a slash, its status.clusterID when that was known.
	Identity string `json:"identity"`
	// Objects is how many objects are recorded there.
	// +optional
	Objects int32 `json:"objects,omitempty"`
	// Since is when the first rollout elsewhere had succeeded. deletionPolicy.timeout counts from it.
	Since metav1.Time `json:"since"`
}
