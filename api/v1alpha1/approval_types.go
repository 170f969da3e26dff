package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Approval lets one render of a Release be rolled out, or one hook of a rollout pass. It is a kind of its own, so that RBAC
// can tell those who may approve from those who may write Releases. It counts for the digest that it names, and only until the
// Release has another render; convoy writes into its status what became of it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=cva,categories=convoy
// +kubebuilder:selectablefield:JSONPath=`.spec.releaseRef.name`
// +kubebuilder:printcolumn:name="Release",type=string,JSONPath=`.spec.releaseRef.name`
// +kubebuilder:printcolumn:name="Hook",type=string,JSONPath=`.spec.hook`
// +kubebuilder:printcolumn:name="By",type=string,JSONPath=`.spec.approvedBy`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Rollout",type=integer,JSONPath=`.status.rollout`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Digest",type=string,priority=1,JSONPath=`.spec.digest`
type Approval struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// Spec says what is approved. It cannot be changed.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="an Approval cannot be changed: delete it, and write another one"
	Spec ApprovalSpec `json:"spec"`
	// Status is what became of it. convoy writes it.
	// +optional
	Status ApprovalStatus `json:"status,omitempty"`
}

// ApprovalList is a list of Approvals.
//
// +kubebuilder:object:root=true
type ApprovalList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Approval `json:"items"`
}

// ApprovalSpec says what is approved, and by whom.
type ApprovalSpec struct {
	// ReleaseRef names the Release, in the namespace of the Approval.
	ReleaseRef ReleaseRef `json:"releaseRef"`
	// Digest of the render that may be rolled out: status.pending.digest of the Release.
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Digest string `json:"digest"`
	// Hook that may pass in a rollout of that render; empty approves the rollout itself.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Hook string `json:"hook,omitempty"`
	// ApprovedBy is the user name of who approves. The admission policy that convoy ships refuses any other than the caller's.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ApprovedBy string `json:"approvedBy"`
}

// ReleaseRef names a Release in the same namespace.
type ReleaseRef struct {
	// Name is the name of the Release.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
}

// ApprovalState is what became of an Approval.
//
// +kubebuilder:validation:Enum=Used;Void
type ApprovalState string

// The states of an Approval. It has none while it waits to be used.
const (
	// ApprovalUsed: it let a rollout begin, or a hook pass.
	ApprovalUsed ApprovalState = "Used"
	// ApprovalVoid: the Release got another render before it was used.
	ApprovalVoid ApprovalState = "Void"
)

// ApprovalStatus is what became of an Approval.
type ApprovalStatus struct {
	// State is Used or Void, and empty before.
	// +optional
	State ApprovalState `json:"state,omitempty"`
	// Rollout that it was used for.
	// +optional
	Rollout int64 `json:"rollout,omitempty"`
}
