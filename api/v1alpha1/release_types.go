package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ReleaseFinalizer keeps a Release until its objects are gone from the target, or left there as its
// deletion policy says.
const ReleaseFinalizer = "release.core.convoy.kumodo.io/prune"

// Release delivers one source to one Cluster of its own namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=cvr,categories=convoy
// +kubebuilder:selectablefield:JSONPath=`.spec.clusterRef.name`
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterRef.name`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Healthy",type=string,JSONPath=`.status.conditions[?(@.type=="Healthy")].status`
// +kubebuilder:printcolumn:name="Drifted",type=string,JSONPath=`.status.conditions[?(@.type=="Drifted")].status`
// +kubebuilder:printcolumn:name="Revision",type=string,JSONPath=`.status.rollout.revision`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type Release struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// Spec says what to deliver and where.
	Spec ReleaseSpec `json:"spec"`
	// Status is how far the delivery is. convoy writes it.
	// +optional
	Status ReleaseStatus `json:"status,omitempty"`
}

// ReleaseList is a list of Releases.
//
// +kubebuilder:object:root=true
type ReleaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Release `json:"items"`
}

// ReleaseSpec is the wish for a Release.
type ReleaseSpec struct {
	// ClusterRef names the target, a Cluster in the namespace of the Release.
	ClusterRef ClusterRef `json:"clusterRef"`
	// Source is where the manifests come from.
	Source Source `json:"source"`
	// Render says how the source becomes manifests.
	// +optional
	Render RenderSpec `json:"render,omitempty"`
	// TargetNamespace is the namespace on the target for namespaced objects that name none.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	TargetNamespace string `json:"targetNamespace,omitempty"`
	// CreateNamespace creates the targetNamespace when it does not exist. A namespace that convoy created
	// is deleted with the Release. When it holds something foreign for a minute, it stays.
	// +optional
	CreateNamespace bool `json:"createNamespace,omitempty"`
	// Mutations change the rendered objects, in this order.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Mutations []Mutation `json:"mutations,omitempty"`
	// PinnedRender is the digest of a kept render, which is in status.renderRef, status.previousRenderRefs or status.pending: it is
	// applied, whatever the source holds, until this is removed. That is how one rolls back.
	// +optional
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	PinnedRender string `json:"pinnedRender,omitempty"`
	// Suspend stops deliveries: a rollout under way stops where it is and goes on when this is removed. Deletion works
	// all the same.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// Hooks are steps of the user's own before and after a rollout or deletion, and after a failure.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Hooks []Hook `json:"hooks,omitempty"`
	// SyncPolicy says when and how to bring the target to the wish.
	// +optional
	// +kubebuilder:default={}
	SyncPolicy SyncPolicy `json:"syncPolicy,omitempty"`
	// HealthChecks judge objects whose health convoy would not know, or would judge otherwise. A change of them rolls out nothing: the
	// observer judges by the new ones.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	HealthChecks []HealthCheck `json:"healthChecks,omitempty"`
	// IgnoreDifferences are fields whose drift is not looked at.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	IgnoreDifferences []IgnoredDifference `json:"ignoreDifferences,omitempty"`
	// DeletionPolicy says what the deletion of the Release does to its objects.
	// +optional
	// +kubebuilder:default={}
	DeletionPolicy ReleaseDeletionPolicy `json:"deletionPolicy,omitempty"`
	// ServiceAccountName is a service account of the target, in the namespace there that is called as that of the Release.
	// convoy acts as it on the target: it applies, reads, prunes and deletes with its permissions only.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
}

// ClusterRef names a Cluster in the same namespace.
type ClusterRef struct {
	// Name is the name of the Cluster.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
}

// RenderType is how a source becomes manifests.
//
// +kubebuilder:validation:Enum=Kustomize;Helm;Plain
type RenderType string

// The render types.
const (
	RenderKustomize RenderType = "Kustomize"
	RenderHelm      RenderType = "Helm"
	RenderPlain     RenderType = "Plain"
)

// RenderSpec says how the source becomes manifests.
type RenderSpec struct {
	// Type of the render. When it is absent it is found out from the first source that renders, and then
	// kept: Kustomize when the folder holds a kustomization file, Helm when it holds a Chart.yaml, else Plain.
	// +optional
	Type RenderType `json:"type,omitempty"`
	// Helm says how a chart is rendered.
	// +optional
	Helm *HelmRender `json:"helm,omitempty"`
}

// HelmRender says how a chart is rendered. The chart's namespace is the targetNamespace of the Release.
type HelmRender struct {
	// ReleaseName is what the chart sees as .Release.Name; the name of the Release when empty.
	// +optional
	// +kubebuilder:validation:MaxLength=53
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	ReleaseName string `json:"releaseName,omitempty"`
	// Values of the chart. They are laid over those of valuesFrom.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Values *runtime.RawExtension `json:"values,omitempty"`
	// ValuesFrom are values in ConfigMaps and Secrets of the namespace of the Release, each laid over those before it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	ValuesFrom []ValuesReference `json:"valuesFrom,omitempty"`
	// IncludeCRDs also takes what is in the folder crds of the chart and of its dependencies.
	// +optional
	// +kubebuilder:default=true
	IncludeCRDs *bool `json:"includeCRDs,omitempty"`
	// DisableHooks leaves out the hooks of the chart: they run neither in rollouts nor in the deletion.
	// +optional
	DisableHooks bool `json:"disableHooks,omitempty"`
}

// ValuesReference names values of a chart: one entry of a ConfigMap or Secret that holds them as YAML.
type ValuesReference struct {
	// Kind is ConfigMap or Secret.
	// +kubebuilder:validation:Enum=ConfigMap;Secret
	Kind string `json:"kind"`
	// Name of the ConfigMap or Secret. It is neither a Secret that a Cluster connects with, nor one of convoy's own.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
	// Key of the entry.
	// +optional
	// +kubebuilder:default="values.yaml"
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	Key string `json:"key,omitempty"`
	// Optional: when it does not exist, it is left out.
	// +optional
	Optional bool `json:"optional,omitempty"`
}

// ReleaseDeletionPolicy says what the deletion of a Release does to its objects on the target, and what its move to another
// Cluster does to those on the former one.
type ReleaseDeletionPolicy struct {
	// KeepWorkloads leaves the objects on the target and takes convoy's marks off them.
	// +optional
	KeepWorkloads bool `json:"keepWorkloads,omitempty"`
	// BlockOnClusterUnreachable keeps the Release until its objects could be removed; one that has moved is not held up, and
	// convoy goes on trying. false gives up after the timeout, and leaves a record of what may be left on the target.
	// +optional
	// +kubebuilder:default=true
	BlockOnClusterUnreachable *bool `json:"blockOnClusterUnreachable,omitempty"`
	// Timeout after which an unreachable target is given up on, when blockOnClusterUnreachable is false: counted from the
	// deletion or, after a move, from the first rollout that succeeded elsewhere.
	// +optional
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('168h')",message="timeout is between 1s and 168h"
	Timeout metav1.Duration `json:"timeout,omitzero"`
}

// ReleaseStatus is how far the delivery is.
type ReleaseStatus struct {
	// ObservedGeneration is the generation that the conditions are about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// InputsDigest is one digest over everything that the last render depended on.
	// +optional
	InputsDigest string `json:"inputsDigest,omitempty"`
	// Source is what the source held at the last look.
	// +optional
	Source *SourceStatus `json:"source,omitempty"`
	// Render is how the source is rendered.
	// +optional
	Render *RenderStatus `json:"render,omitempty"`
	// Mutations says, in their order, how many objects each mutation of the last render matched.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Mutations []MutationStatus `json:"mutations,omitempty"`
	// RenderRef is the render that the last rollout applies, or applied.
	// +optional
	RenderRef *RenderRef `json:"renderRef,omitempty"`
	// PreviousRenderRefs are the earlier renders that are kept, newest first.
	// +optional
	// +listType=atomic
	PreviousRenderRefs []RenderRef `json:"previousRenderRefs,omitempty"`
	// Pending is a render that is not rolled out yet, because something has to happen first.
	// +optional
	Pending *PendingRender `json:"pending,omitempty"`
	// Rollout is the last rollout.
	// +optional
	Rollout *RolloutStatus `json:"rollout,omitempty"`
	// History is how the last rollouts went, newest first, without the one that is under way.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	History []RolloutRecord `json:"history,omitempty"`
	// Inventory is what convoy recorded of the objects on the target.
	// +optional
	Inventory *InventoryStatus `json:"inventory,omitempty"`
	// Drift is how the objects on the target differ from what was applied.
	// +optional
	Drift *DriftStatus `json:"drift,omitempty"`
	// Leftovers is what is still on clusters that the Release has moved away from.
	// +optional
	// +listType=map
	// +listMapKey=identity
	Leftovers []Leftover `json:"leftovers,omitempty"`
	// Hooks are the runs of hooks in the last rollout, and in the deletion.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Hooks []HookStatus `json:"hooks,omitempty"`
	// LastHandledReconcileAt echoes the annotation convoy.kumodo.io/requestedAt of the last reconcile.
	// +optional
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`
	// Conditions: Ready, SourceReady, Rendered, Applied, Healthy, Drifted; and Reconciling, Stalled or Leftovers while true.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// SourceStatus is what the source held.
type SourceStatus struct {
	// Revision is immutable: ref@sha1:commit of git, where ref is the branch, tag or full name; sha1:commit when the source
	// names the commit itself; tag@sha256:digest of an artifact, or its sha256:digest when the source names that;
	// version@sha256:digest of a chart; or sha256:digest of the ConfigMap's content.
	Revision string `json:"revision"`
	// Digest of the files that were taken.
	// +optional
	Digest string `json:"digest,omitempty"`
}

// RenderStatus is how the source is rendered.
type RenderStatus struct {
	// Type that was given or found out.
	Type RenderType `json:"type"`
	// Skipped are files of a plain source that hold no object, and tests and disabled hooks of a chart, at most ten.
	// +optional
	// +listType=atomic
	Skipped []string `json:"skipped,omitempty"`
}

// RenderRef names a kept render.
type RenderRef struct {
	// Name of the Secret on the hub that holds the render, or its first part.
	Name string `json:"name"`
	// Digest of the render's canonical form.
	Digest string `json:"digest"`
}

// InventoryState says whether anything was ever applied.
type InventoryState string

// The states of an inventory.
const (
	InventoryEmpty    InventoryState = "Empty"
	InventoryRecorded InventoryState = "Recorded"
)

// InventoryStatus sums up the Inventory objects of a Release.
type InventoryStatus struct {
	// State is Empty while nothing was ever applied.
	State InventoryState `json:"state"`
	// Objects is how many objects are recorded.
	// +optional
	Objects int32 `json:"objects,omitempty"`
}
