package render

// HelmInput is what the render of a chart depends on besides its files.
type HelmInput struct {
	// ReleaseName is what templates see as .Release.Name.
	ReleaseName string
	// Namespace is what templates see as .Release.Namespace; "default" when it is empty.
	Namespace string
	// Values are laid over those of the chart. Integers are int64, int or json.Number: a float64 is taken to be meant.
	Values map[string]any
	// IncludeCRDs also takes the folders crds of the chart and of its dependencies.
	IncludeCRDs bool
	// Capabilities of the target.
	Capabilities Capabilities
}

// Capabilities are what templates see as .Capabilities.
type Capabilities struct {
	// KubernetesVersion as the API server gives it, such as "v1.37.2"; that of Helm's library when it is empty.
	KubernetesVersion string
	// APIVersions that the API server has: "v1", "apps/v1", "apps/v1/Deployment", sorted; those of Helm's library when there
	// are none.
	APIVersions []string
	// FailingGroups are API groups whose discovery fails at the moment. Whether the API server has a version
	// of them is not known, so a template that asks for one fails the render, and waiting may heal it.
	FailingGroups []string
}
