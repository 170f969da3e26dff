package v1alpha1

// Mutation changes the objects that its target selects, by exactly one of patch, cel and from.
//
// +kubebuilder:validation:XValidation:rule="(has(self.patch) ? 1 : 0) + (has(self.cel) ? 1 : 0) + (has(self.from) ? 1 : 0) == 1",message="a mutation is exactly one of patch, cel and from"
type Mutation struct {
	// Name of the mutation, for messages.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Target selects objects; an empty field matches everything.
	// +optional
	Target MutationTarget `json:"target,omitempty"`
	// When is a CEL expression over cluster and release. When it is false, the mutation is left out, and what it would
	// read is not read.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8192
	When string `json:"when,omitempty"`
	// Required makes it an error that the target selects nothing, unless when is false.
	// +optional
	Required bool `json:"required,omitempty"`
	// Patch is applied to each selected object.
	// +optional
	Patch Patch `json:"patch,omitzero"`
	// CEL is an expression over object, cluster and release, in the dialect of Kubernetes' MutatingAdmissionPolicy: an
	// apply configuration, Object{…}, that is merged into each selected object, or a list of JSONPatch{…}.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8192
	CEL string `json:"cel,omitempty"`
	// From reads a patch, which is applied to each selected object.
	// +optional
	From *PatchSource `json:"from,omitempty"`
}

// MutationTarget selects rendered objects.
type MutationTarget struct {
	// Group of the objects, for example apps. It is only compared when kind is set; empty is then the core group.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`
	// Kind of the objects, for example Deployment.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`
	// Name of the objects; * stands for any text and ? for one character.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// Namespace of the objects as the source writes it.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// LabelSelector over the labels of the objects, for example "app=web,tier in (a,b)".
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	LabelSelector string `json:"labelSelector,omitempty"`
	// AnnotationSelector is the same over the annotations of the objects.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	AnnotationSelector string `json:"annotationSelector,omitempty"`
}

// PatchType is the kind of a patch.
//
// +kubebuilder:validation:Enum=Strategic;Merge;JSON6902
type PatchType string

// The kinds of patches.
const (
	// PatchStrategic is a strategic merge patch; only the built-in kinds of Kubernetes have what it needs.
	PatchStrategic PatchType = "Strategic"
	// PatchMerge is a JSON merge patch (RFC 7396).
	PatchMerge PatchType = "Merge"
	// PatchJSON6902 is a JSON patch (RFC 6902): a list of operations.
	PatchJSON6902 PatchType = "JSON6902"
)

// Patch is a patch written as a template.
type Patch struct {
	// Type of the patch.
	Type PatchType `json:"type"`
	// Template is YAML, a Go template over cluster (the metadata of the Cluster and its name) and release
	// (name, namespace, labels, annotations), for example {{ .cluster.region }}. A missing key is an error.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Template string `json:"template"`
}

// PatchSourceKind is where a patch is read from.
//
// +kubebuilder:validation:Enum=ConfigMap;Secret;Source
type PatchSourceKind string

// The places of patches.
const (
	// PatchFromConfigMap is a ConfigMap in the namespace of the Release.
	PatchFromConfigMap PatchSourceKind = "ConfigMap"
	// PatchFromSecret is a Secret in the namespace of the Release; none that a Cluster names or that convoy owns.
	PatchFromSecret PatchSourceKind = "Secret"
	// PatchFromSource is the source of the Release.
	PatchFromSource PatchSourceKind = "Source"
)

// PatchSource names a patch. What it holds is taken as it is: it is no template.
//
// +kubebuilder:validation:XValidation:rule="self.kind == 'Source' ? !has(self.name) : has(self.name)",message="name is needed for a ConfigMap or Secret, and has no meaning for the source"
type PatchSource struct {
	// Kind of the object that holds the patch; Source is a file of the Release's source.
	Kind PatchSourceKind `json:"kind"`
	// Name of the ConfigMap or Secret, a template over cluster and release.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Name string `json:"name,omitempty"`
	// Path is the key of the ConfigMap or Secret, or the file of the source relative to its folder, a template over
	// cluster and release.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Path string `json:"path"`
	// Type of the patch.
	// +optional
	// +kubebuilder:default=Merge
	Type PatchType `json:"type,omitempty"`
	// Optional makes the mutation do nothing when the object, the key or the file does not exist.
	// +optional
	Optional bool `json:"optional,omitempty"`
}

// MutationStatus is what a mutation did in the last render.
type MutationStatus struct {
	// Name of the mutation.
	Name string `json:"name"`
	// Matched is how many objects its target selected.
	Matched int32 `json:"matched"`
	// Skipped says why it was left out: When or Missing.
	// +optional
	Skipped MutationSkip `json:"skipped,omitempty"`
}

// MutationSkip is why a mutation was left out.
type MutationSkip string

// Why mutations are left out.
const (
	// SkippedByWhen: its when is false.
	SkippedByWhen MutationSkip = "When"
	// SkippedAsMissing: the optional patch that it reads does not exist.
	SkippedAsMissing MutationSkip = "Missing"
)
