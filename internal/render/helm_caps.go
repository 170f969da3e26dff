package render

import (
	"fmt"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/failure"
)

// capabilitiesOf is what a chart is checked and rendered with: what Helm's library knows, where the input says nothing.
func capabilitiesOf(in Capabilities) (*common.Capabilities, error) {
	caps := common.DefaultCapabilities.Copy()
	caps.HelmVersion.GoVersion = "" // a render does not depend on the compiler
	if in.KubernetesVersion != "" {
		version, err := common.ParseKubeVersion(in.KubernetesVersion)
		if err != nil {
			return nil, fmt.Errorf("the version %q of the target cannot be read: %w", in.KubernetesVersion, err)
		}
		caps.KubeVersion = *version
	}
	if len(in.APIVersions) > 0 {
		caps.APIVersions = slices.Clone(in.APIVersions)
	}
	return caps, nil
}

// uncertain are capabilities of a target of which some API groups are not known. Templates see the same fields.
type uncertain struct {
	KubeVersion common.KubeVersion
	APIVersions knownVersions
	HelmVersion any
}

// knownVersions answers what is known, and fails for the rest: false would drop objects from the render, and
// they would be pruned.
type knownVersions struct{ *versionKnowledge }

type versionKnowledge struct {
	known   common.VersionSet
	failing []string
	asked   string // the first failing group that a template depends on
}

// Has says whether the target has an API version.
func (k knownVersions) Has(version string) (bool, error) {
	if k.known.Has(version) {
		return true, nil
	}
	group, _, isGroup := strings.Cut(version, "/")
	if !isGroup || !slices.Contains(k.failing, group) {
		return false, nil
	}
	return false, k.unknown(group)
}

// String is called by whatever prints all versions.
func (k knownVersions) String() string {
	_ = k.unknown(k.failing[0])
	return ""
}

// MarshalJSON is called by whatever writes all versions.
func (k knownVersions) MarshalJSON() ([]byte, error) { return nil, k.unknown(k.failing[0]) }

func (k knownVersions) unknown(group string) error {
	if k.asked == "" {
		k.asked = group
	}
	return k.failure()
}

// failure is nil when no template depends on a failing group.
func (k *versionKnowledge) failure() error {
	if k == nil || k.asked == "" {
		return nil
	}
	return failure.Transient(v1alpha1.ReasonRenderFailed, nil,
		"the chart asks which versions of the API group %s the target has, and the target does not say at the moment: is the API service behind it available?", delivery.Short(k.asked))
}
