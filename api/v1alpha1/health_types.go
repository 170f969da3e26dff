package v1alpha1

// HealthCheck judges the health of the objects that it selects, by CEL expressions over object, the live object. Failed wins over
// inProgress, and that over current; when none is true, the object is in progress. An object that is being deleted, and one whose
// status.observedGeneration is not its generation, are in progress before an expression is asked. Group, name and namespace select
// among the objects of the kind; what is empty matches all. Of several checks that select an object the first one judges it.
type HealthCheck struct {
	// Group of the objects, for example example.com.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`
	// Kind of the objects, for example Database.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// Name of the object.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// Namespace of the object.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// Current is true when the object is as its spec wishes.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Current string `json:"current"`
	// InProgress is true while its controller works on it, whatever current says.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	InProgress string `json:"inProgress,omitempty"`
	// Failed is true when its controller does not get there.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Failed string `json:"failed,omitempty"`
	// Message gives a text for people, while the object is not healthy. Of object it sees apiVersion, kind, name, namespace,
	// generation and status only.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message,omitempty"`
}
