package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DriftStatus is how objects on the target differ from what was applied, and what was done about it.
type DriftStatus struct {
	// Count is how many objects differ.
	// +optional
	Count int32 `json:"count,omitempty"`
	// Objects that differ, at most ten.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Objects []DriftedObject `json:"objects,omitempty"`
	// Corrections is how often objects were applied again since the last rollout.
	// +optional
	Corrections int32 `json:"corrections,omitempty"`
	// LastCorrectionTime is when that was done last.
	// +optional
	LastCorrectionTime *metav1.Time `json:"lastCorrectionTime,omitempty"`
	// Corrected are objects that were applied again lately, at most twenty: one that somebody changes back is applied again
	// later and later.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Corrected []CorrectedObject `json:"corrected,omitempty"`
	// Error is why the last correction did not succeed.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Error string `json:"error,omitempty"`
}

// CorrectedObject is an object that was applied again because it had drifted, or that the target refused to have applied again.
type CorrectedObject struct {
	// Group of the object; empty is the core group.
	// +optional
	Group string `json:"group,omitempty"`
	// Kind of the object.
	Kind string `json:"kind"`
	// Namespace of the object; empty for cluster-scoped ones.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Name of the object.
	Name string `json:"name"`
	// Times is how often that was tried in a row.
	Times int32 `json:"times"`
	// NotBefore is when it may be applied again next.
	NotBefore metav1.Time `json:"notBefore"`
}

// DriftedObject is an object that is not as it was applied.
type DriftedObject struct {
	// Group of the object; empty is the core group.
	// +optional
	Group string `json:"group,omitempty"`
	// Kind of the object.
	Kind string `json:"kind"`
	// Namespace of the object; empty for cluster-scoped ones.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Name of the object.
	Name string `json:"name"`
	// Gone: it is not on the target, or does not bear convoy's mark any more.
	// +optional
	Gone bool `json:"gone,omitempty"`
	// Fields that are no longer as they were applied, at most five, never with a value.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	Fields []string `json:"fields,omitempty"`
	// Managers are the field managers that own these fields now, at most three.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=3
	Managers []string `json:"managers,omitempty"`
}
