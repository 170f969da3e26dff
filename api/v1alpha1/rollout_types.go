package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// RolloutPhase is where a rollout stands.
type RolloutPhase string

// The phases of a rollout.
const (
	RolloutRunning   RolloutPhase = "Running"
	RolloutSucceeded RolloutPhase = "Succeeded"
	RolloutFailed    RolloutPhase = "Failed"
	// RolloutSuperseded: something else was wished for before it had concluded. Only the history has it.
	RolloutSuperseded RolloutPhase = "Superseded"
)

// RolloutStatus is one rollout.
type RolloutStatus struct {
	// Number counts the rollouts of this Release.
	Number int64 `json:"number"`
	// WorkflowID of the rollout in Temporal.
	WorkflowID string `json:"workflowID"`
	// RunID of the rollout in Temporal.
	// +optional
	RunID string `json:"runID,omitempty"`
	// Phase is Running, Succeeded or Failed.
	Phase RolloutPhase `json:"phase"`
	// Digest of the render that it applies.
	Digest string `json:"digest"`
	// Generation of the Release that it was rendered from.
	// +optional
	Generation int64 `json:"generation,omitempty"`
	// Cluster is the UID of the Cluster that it applies to and, behind a slash, its status.clusterID when that is known.
	// +optional
	Cluster string `json:"cluster,omitempty"`
	// ClusterName is the name of the Cluster.
	// +optional
	ClusterName string `json:"clusterName,omitempty"`
	// Revision of the source that it was rendered from.
	// +optional
	Revision string `json:"revision,omitempty"`
	// Trigger is what began it.
	// +optional
	Trigger RolloutTrigger `json:"trigger,omitempty"`
	// Operation is what it is to the hooks of a chart.
	// +optional
	Operation RolloutOperation `json:"operation,omitempty"`
	// Approval that let it begin, if it needed one.
	// +optional
	Approval *ApprovalUse `json:"approval,omitempty"`
	// StartTime of the rollout.
	StartTime metav1.Time `json:"startTime"`
	// Objects is how many objects the render holds.
	// +optional
	Objects int32 `json:"objects,omitempty"`
	// Pruned is how many objects were removed because they left the render.
	// +optional
	Pruned int32 `json:"pruned,omitempty"`
	// Warnings are what the target's API server warned of when the objects were applied, such as deprecations: one line
	// each, at most ten.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Warnings []string `json:"warnings,omitempty"`
}

// RolloutOperation is what a rollout is to the hooks of a chart: which of them run.
type RolloutOperation string

// The operations.
const (
	// OperationInstall: no rollout to this cluster has succeeded yet.
	OperationInstall RolloutOperation = "Install"
	// OperationUpgrade: one has.
	OperationUpgrade RolloutOperation = "Upgrade"
	// OperationRollback: one has, and spec.pinnedRender names the render.
	OperationRollback RolloutOperation = "Rollback"
)

// RolloutTrigger is what began a rollout.
type RolloutTrigger string

// What begins a rollout.
const (
	// TriggerCreated: the first one of the Release.
	TriggerCreated RolloutTrigger = "Created"
	// TriggerChanged: the spec of the Release changed.
	TriggerChanged RolloutTrigger = "SpecChanged"
	// TriggerPinned: spec.pinnedRender names another render than the last one.
	TriggerPinned RolloutTrigger = "Pinned"
	// TriggerRevision: the source has another revision.
	TriggerRevision RolloutTrigger = "NewRevision"
	// TriggerCluster: another Cluster, or another cluster behind it.
	TriggerCluster RolloutTrigger = "ClusterChanged"
	// TriggerInputs: something else that the render reads changed, as metadata of the Cluster or values in a ConfigMap.
	TriggerInputs RolloutTrigger = "InputsChanged"
	// TriggerRetry: the last rollout of the same render failed.
	TriggerRetry RolloutTrigger = "Retry"
)

// ApprovalUse says which Approval let something happen.
type ApprovalUse struct {
	// Name of the Approval.
	Name string `json:"name"`
	// By whom, as the Approval says.
	By string `json:"by"`
}

// PendingRender is a render that waits.
type PendingRender struct {
	RenderRef `json:",inline"`
	// Reason is what it waits for: AwaitingApproval or OutsideWindow.
	Reason string `json:"reason"`
	// Message says what has to happen.
	Message string `json:"message"`
	// Revision of the source that it was rendered from.
	// +optional
	Revision string `json:"revision,omitempty"`
	// Objects is how many objects it holds.
	// +optional
	Objects int32 `json:"objects,omitempty"`
	// Since when it waits.
	Since metav1.Time `json:"since"`
}

// RolloutRecord is how a rollout went.
type RolloutRecord struct {
	// Number of the rollout.
	Number int64 `json:"number"`
	// Phase it ended in, or Superseded.
	Phase RolloutPhase `json:"phase"`
	// Reason and Message say why it failed.
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// Digest of the render.
	Digest string `json:"digest"`
	// Revision of the source.
	// +optional
	Revision string `json:"revision,omitempty"`
	// Cluster it applied to, by name.
	// +optional
	Cluster string `json:"cluster,omitempty"`
	// ClusterIdentity is the UID of that Cluster and, behind a slash, its status.clusterID when that was known.
	// +optional
	ClusterIdentity string `json:"clusterIdentity,omitempty"`
	// Trigger is what began it.
	// +optional
	Trigger RolloutTrigger `json:"trigger,omitempty"`
	// Approval that let it begin, if it needed one.
	// +optional
	Approval *ApprovalUse `json:"approval,omitempty"`
	// Objects is how many objects the render holds; pruned how many were removed because they had left it.
	// +optional
	Objects int32 `json:"objects,omitempty"`
	// +optional
	Pruned int32 `json:"pruned,omitempty"`
	// StartTime and EndTime of the rollout.
	StartTime metav1.Time `json:"startTime"`
	EndTime   metav1.Time `json:"endTime"`
}
