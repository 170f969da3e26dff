package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// InventoryFinalizer keeps an Inventory while objects that it lists may still be on the target.
const InventoryFinalizer = "inventory.core.convoy.kumodo.io/objects"

// Inventory is convoy's record of the objects that a Release has on one Cluster. convoy writes an entry
// before it writes the object, and drops it only once it has seen the object gone. It has no owner
// reference, so that nothing but convoy removes it. A Release with many objects has several, one per shard.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=cvi,categories=convoy
// +kubebuilder:printcolumn:name="Release",type=string,JSONPath=`.release.name`
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.cluster.name`
// +kubebuilder:printcolumn:name="Shard",type=integer,JSONPath=`.shard`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Inventory struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// Release whose objects these are.
	Release InventoryOwner `json:"release"`
	// Cluster that the objects are on.
	Cluster InventoryOwner `json:"cluster"`
	// ClusterID is the identity of the target, as status.clusterID of the Cluster had it.
	// +optional
	ClusterID string `json:"clusterID,omitempty"`
	// Shard is the number of this part, from 0.
	// +optional
	Shard int32 `json:"shard,omitempty"`
	// Objects on the target, or about to be.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2000
	Objects []InventoryEntry `json:"objects,omitempty"`
}

// InventoryList is a list of Inventories.
//
// +kubebuilder:object:root=true
type InventoryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Inventory `json:"items"`
}

// InventoryOwner names one life of a Release or Cluster.
type InventoryOwner struct {
	// Name of the object, in the namespace of the Inventory.
	Name string `json:"name"`
	// UID of the object.
	UID string `json:"uid"`
}

// InventoryEntry is one object on the target. Its identity is group, kind, namespace and name; the version
// is the one it was last applied with.
type InventoryEntry struct {
	// Group of the object; empty is the core group.
	// +optional
	Group string `json:"group,omitempty"`
	// Version it was last applied with.
	Version string `json:"version"`
	// Kind of the object.
	Kind string `json:"kind"`
	// Namespace of the object; empty for cluster-scoped ones.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Name of the object.
	Name string `json:"name"`
	// UID the object had when it was applied; empty until then.
	// +optional
	UID string `json:"uid,omitempty"`
	// Hook is the run of the hook that made the object, as number/name; empty for objects of the render.
	// +optional
	Hook string `json:"hook,omitempty"`
}
