package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HookFinalizer keeps an object that a hook made until its result is recorded on the hub.
const HookFinalizer = "hook.core.convoy.kumodo.io/result"

// HookSecretName names the Secret, in the namespace of a Release, that its http hooks are signed with.
const HookSecretName = "convoy-hooks"

// The entries of that Secret.
const (
	// HookSecretKey is the key of the signature.
	HookSecretKey = "key"
	// HookSecretAuthority may hold the PEM certificates of the authorities that https is trusted by instead of the system's.
	HookSecretAuthority = "ca.crt"
)

// HookPhase is when a hook runs.
//
// +kubebuilder:validation:Enum=PreApply;PostApply;PreDelete;PostDelete;OnFailure
type HookPhase string

// The phases of hooks.
const (
	// HookPreApply is before anything of a rollout is applied.
	HookPreApply HookPhase = "PreApply"
	// HookPostApply is once everything of a rollout is applied and healthy; the rollout succeeds after it.
	HookPostApply HookPhase = "PostApply"
	// HookPreDelete is before the objects of a Release that is being deleted are removed.
	HookPreDelete HookPhase = "PreDelete"
	// HookPostDelete is after they were removed, and before the Release goes.
	HookPostDelete HookPhase = "PostDelete"
	// HookOnFailure is after a rollout has failed.
	HookOnFailure HookPhase = "OnFailure"
)

// HookFailurePolicy is what the failure of a hook does.
//
// +kubebuilder:validation:Enum=Fail;Continue
type HookFailurePolicy string

// The failure policies of hooks.
const (
	// HookFail fails the rollout, or holds the deletion.
	HookFail HookFailurePolicy = "Fail"
	// HookContinue records the failure, and goes on.
	HookContinue HookFailurePolicy = "Continue"
)

// Hook is one step of the user's own in a rollout or deletion: exactly one of job, http, check, workflow and approval. It
// runs once for each numbered rollout, and once for the deletion.
//
// +kubebuilder:validation:XValidation:rule="(has(self.job) ? 1 : 0) + (has(self.http) ? 1 : 0) + (has(self.check) ? 1 : 0) + (has(self.workflow) ? 1 : 0) + (has(self.approval) ? 1 : 0) == 1",message="a hook is exactly one of job, http, check, workflow and approval"
// +kubebuilder:validation:XValidation:rule="!has(self.approval) || self.phase == 'PreApply' || self.phase == 'PostApply'",message="an approval is for the phases PreApply and PostApply"
type Hook struct {
	// Name of the hook.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// Phase is when it runs. Hooks of a phase run one after another, in the order of the list.
	Phase HookPhase `json:"phase"`
	// When is a CEL expression over cluster and release. When it is false, the hook is skipped.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8192
	When string `json:"when,omitempty"`
	// Timeout of one run of the hook; when it is over, the hook has failed.
	// +optional
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('168h')",message="timeout is between 1s and 168h"
	Timeout metav1.Duration `json:"timeout,omitzero"`
	// OnFailure says what its failure does: Fail fails the rollout or holds the deletion, Continue only records it.
	// +optional
	// +kubebuilder:default=Fail
	OnFailure HookFailurePolicy `json:"onFailure,omitempty"`
	// Job applies one object to the target and waits until it has completed.
	// +optional
	Job *HookJob `json:"job,omitempty"`
	// HTTP sends the facts of the rollout to a server.
	// +optional
	HTTP *HookHTTP `json:"http,omitempty"`
	// Check waits until an expression over live objects of the target is true.
	// +optional
	Check *HookCheck `json:"check,omitempty"`
	// Workflow runs a Temporal workflow of the user's own.
	// +optional
	Workflow *HookWorkflow `json:"workflow,omitempty"`
	// Approval waits until an Approval names the Release, the hook and the digest of the rollout's render.
	// +optional
	Approval *HookApproval `json:"approval,omitempty"`
}

// HookApproval is a wait for somebody.
type HookApproval struct {
	// Message is for those who approve, a Go template over cluster and release.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// HookJob is an object that is made on the target for each run: a Job, or any other kind that can complete or become ready.
type HookJob struct {
	// Template is YAML of exactly one object, a Go template over cluster and release. With metadata.generateName the name
	// is another one for each run; with metadata.name the object of the run before is deleted first.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Template string `json:"template"`
}

// HookHTTP is a POST of JSON, signed with the key of the Secret convoy-hooks.
type HookHTTP struct {
	// URL is an https address, a Go template over cluster and release.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url"`
}

// HookCheck is a condition of the target.
type HookCheck struct {
	// Target selects the live objects that the expression sees.
	Target HookCheckTarget `json:"target"`
	// CEL is an expression that gives true or false over objects (the list of the selected objects), cluster and release.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8192
	CEL string `json:"cel"`
}

// HookCheckTarget selects live objects of one kind. Name and labelSelector exclude one another; with neither it is all
// objects of the kind in the namespace.
//
// +kubebuilder:validation:XValidation:rule="!has(self.name) || !has(self.labelSelector)",message="name and labelSelector exclude one another"
type HookCheckTarget struct {
	// APIVersion of the objects, for example apps/v1.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	APIVersion string `json:"apiVersion"`
	// Kind of the objects, for example Deployment.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// Namespace of the objects, a Go template over cluster and release; the targetNamespace of the Release when empty.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Namespace string `json:"namespace,omitempty"`
	// Name of one object, a Go template over cluster and release.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Name string `json:"name,omitempty"`
	// LabelSelector over the objects, for example "app=web,tier in (a,b)", a Go template over cluster and release.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	LabelSelector string `json:"labelSelector,omitempty"`
}

// HookWorkflow is a Temporal workflow in the Temporal namespace of convoy. Its type and task queue must be on the list
// of the operator for the namespace of the Release.
type HookWorkflow struct {
	// Type of the workflow.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Type string `json:"type"`
	// TaskQueue of the worker that runs it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	TaskQueue string `json:"taskQueue"`
	// Input is JSON, a Go template over cluster and release; the facts that an http hook sends when empty. It is kept in the
	// history of the workflow, where everybody reads it who may use Temporal.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	Input string `json:"input,omitempty"`
}

// HookState is how far a run of a hook is.
type HookState string

// The states of a run.
const (
	// HookRunning: it was begun.
	HookRunning HookState = "Running"
	// HookSucceeded: it did what it was to do.
	HookSucceeded HookState = "Succeeded"
	// HookFailed: it did not, and is not tried again for this rollout.
	HookFailed HookState = "Failed"
	// HookSkipped: there was nothing to do; the message says why.
	HookSkipped HookState = "Skipped"
)

// HookStatus is one run of a hook: convoy writes it before it acts, and a run that has ended is never begun again.
type HookStatus struct {
	// Name of the hook.
	Name string `json:"name"`
	// Phase that it ran in.
	Phase HookPhase `json:"phase"`
	// Rollout is the number of the rollout; 0 is the deletion.
	Rollout int64 `json:"rollout"`
	// State is Running, Succeeded, Failed or Skipped.
	State HookState `json:"state"`
	// StartTime is when it was begun, which the timeout counts from.
	StartTime metav1.Time `json:"startTime"`
	// EndTime is when it ended.
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`
	// Message says why it failed, was skipped, or is not done yet, and who approved.
	// +optional
	Message string `json:"message,omitempty"`
	// Request is what the annotation requestedAt said when a hook of the deletion was begun: another value begins one that
	// has failed again.
	// +optional
	Request string `json:"request,omitempty"`
	// Object is what a job hook made on the target.
	// +optional
	Object *HookObject `json:"object,omitempty"`
}

// HookObject names an object on the target.
type HookObject struct {
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
}
