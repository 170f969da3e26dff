// Package v1alpha1 is the API of convoy on the hub: Cluster, a place to deliver to; Release, what to
// deliver there; Approval, the word of somebody that it may be delivered; and Inventory, convoy's own record of what it put
// there. It decides what a valid object looks like, holds the names of conditions and reasons, and imports nothing but apimachinery, so that any
// program can use it.
//
// +kubebuilder:object:generate=true
// +groupName=core.convoy.kumodo.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "core.convoy.kumodo.io", Version: "v1alpha1"}

// AddToScheme registers the kinds of this package.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&Cluster{}, &ClusterList{},
		&Release{}, &ReleaseList{},
		&Inventory{}, &InventoryList{},
		&Approval{}, &ApprovalList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
