package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// SyncPolicy says when and how to bring the target to the wish.
type SyncPolicy struct {
	// Mode is Automatic, or Manual: then a new render is rolled out only once an Approval names its digest.
	// +optional
	// +kubebuilder:default=Automatic
	Mode SyncMode `json:"mode,omitempty"`
	// Prune says what becomes of objects that left the render: Auto removes them; Confirm does so too, but a render that
	// would have objects removed waits for an Approval; Never leaves them on the target, and in the inventory.
	// +optional
	// +kubebuilder:default=Auto
	Prune PrunePolicy `json:"prune,omitempty"`
	// Drift says what is done about objects that are no longer as they were applied: Correct applies them again, Report says so
	// in the condition Drifted, Ignore does not look.
	// +optional
	// +kubebuilder:default=Correct
	Drift DriftPolicy `json:"drift,omitempty"`
	// Windows are the times in which a rollout may begin; at any time when there is none. One that has begun goes on.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Windows []SyncWindow `json:"windows,omitempty"`
	// Retry bounds the delay between attempts of what may heal by waiting.
	// +optional
	Retry *RetryPolicy `json:"retry,omitempty"`
	// Interval between two reconciles when nothing else starts one. Jittered by a tenth. It asks no repository: that is what
	// source.pollInterval is for.
	// +optional
	// +kubebuilder:default="1h"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('5s') && duration(self) <= duration('168h')",message="interval is between 5s and 168h"
	Interval metav1.Duration `json:"interval,omitzero"`
	// Timeout of the wait for health of one rollout.
	// +optional
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="timeout is between 1s and 24h"
	Timeout metav1.Duration `json:"timeout,omitzero"`
	// AllowEmpty permits a render without objects to replace one that had some, and to prune them all.
	// +optional
	AllowEmpty bool `json:"allowEmpty,omitempty"`
	// Conflicts says what becomes of fields on the target that another field manager owns: Force takes them over, Fail
	// reports them. An object of another Release is never taken over.
	// +optional
	// +kubebuilder:default=Force
	Conflicts ConflictPolicy `json:"conflicts,omitempty"`
	// Recreate says what becomes of an object that cannot be changed to the wish because a field of it is immutable:
	// Never reports it, Immutable deletes it and creates it anew. The annotation convoy.kumodo.io/recreate, true or false
	// on an object in the source, outweighs it. A PersistentVolumeClaim, PersistentVolume, Namespace or
	// CustomResourceDefinition is never deleted for this.
	// +optional
	// +kubebuilder:default=Never
	Recreate RecreatePolicy `json:"recreate,omitempty"`
	// HistoryLimit is how many renders are kept.
	// +optional
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=50
	HistoryLimit int32 `json:"historyLimit,omitempty"`
}

// SyncMode says who begins a rollout.
//
// +kubebuilder:validation:Enum=Automatic;Manual
type SyncMode string

// The modes.
const (
	SyncAutomatic SyncMode = "Automatic"
	SyncManual    SyncMode = "Manual"
)

// PrunePolicy says what becomes of objects that left the render.
//
// +kubebuilder:validation:Enum=Auto;Confirm;Never
type PrunePolicy string

// The prune policies.
const (
	PruneAuto    PrunePolicy = "Auto"
	PruneConfirm PrunePolicy = "Confirm"
	PruneNever   PrunePolicy = "Never"
)

// DriftPolicy says what is done about drift.
//
// +kubebuilder:validation:Enum=Correct;Report;Ignore
type DriftPolicy string

// The drift policies.
const (
	DriftCorrect DriftPolicy = "Correct"
	DriftReport  DriftPolicy = "Report"
	DriftIgnore  DriftPolicy = "Ignore"
)

// IgnoredDifference names fields of objects whose drift is not looked at. An apply sets them all the same. Group, kind, name and
// namespace select the objects; what is empty matches all.
//
// +kubebuilder:validation:XValidation:rule="has(self.jsonPointers) || has(self.managers)",message="jsonPointers or managers say what is ignored"
type IgnoredDifference struct {
	// Group of the objects, for example apps.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`
	// Kind of the objects, for example Deployment.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`
	// Name of the object.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// Namespace of the object.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// When is a CEL expression over object, as convoy applies it. Where it is false or has no value, the rule does not apply.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	When string `json:"when,omitempty"`
	// JSONPointers are fields, as in RFC 6901, for example /spec/replicas; * stands for every element of a list.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=512
	// +kubebuilder:validation:items:Pattern=`^/.+$`
	JSONPointers []string `json:"jsonPointers,omitempty"`
	// Managers are field managers, for example kube-controller-manager: what one of them took over is ignored.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	Managers []string `json:"managers,omitempty"`
}

// SyncWindow is a time that comes round.
type SyncWindow struct {
	// Schedule says when it opens, in the five fields of cron: minute, hour, day of month, month, day of week.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Schedule string `json:"schedule"`
	// Duration for which it stays open.
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('168h')",message="duration is between 1m and 168h"
	Duration metav1.Duration `json:"duration"`
	// TimeZone of the schedule, as in the IANA database, for example Europe/Berlin.
	// +optional
	// +kubebuilder:default=UTC
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
}

// RetryPolicy bounds the delay between attempts. It doubles with each failure.
//
// +kubebuilder:validation:XValidation:rule="duration(self.minInterval) <= duration(self.maxInterval)",message="minInterval is not above maxInterval"
type RetryPolicy struct {
	// MinInterval is the delay after the first failure.
	// +optional
	// +kubebuilder:default="5s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="minInterval is between 1s and 24h"
	MinInterval metav1.Duration `json:"minInterval,omitzero"`
	// MaxInterval is the longest delay.
	// +optional
	// +kubebuilder:default="2m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="maxInterval is between 1s and 24h"
	MaxInterval metav1.Duration `json:"maxInterval,omitzero"`
}

// ConflictPolicy says what becomes of fields that another field manager owns.
//
// +kubebuilder:validation:Enum=Force;Fail
type ConflictPolicy string

// The conflict policies.
const (
	ConflictForce ConflictPolicy = "Force"
	ConflictFail  ConflictPolicy = "Fail"
)

// RecreatePolicy says what becomes of objects with a changed immutable field.
//
// +kubebuilder:validation:Enum=Never;Immutable
type RecreatePolicy string

// The recreate policies.
const (
	RecreateNever     RecreatePolicy = "Never"
	RecreateImmutable RecreatePolicy = "Immutable"
)
