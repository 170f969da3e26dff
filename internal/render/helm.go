package render

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
)

// HelmInput is what the render of a chart depends on besides its files.
type HelmInput struct {
	// ReleaseName is what templates see as .Release.Name; the name of the Release when it is empty.
	ReleaseName string
	// Namespace is what templates see as .Release.Namespace; the target namespace when it is empty, or else "default".
	Namespace string
	// Values are laid over those of the chart. Integers are int64, int or json.Number: a float64 is taken to be meant.
	Values map[string]any
	// IncludeCRDs also takes the folders crds of the chart and of its dependencies.
	IncludeCRDs bool
	// DisableHooks leaves out the hooks of the chart.
	DisableHooks bool
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

// helm renders the chart in the source's folder. skipped names the tests of the chart, and hooks that are disabled.
func helm(ctx context.Context, in Input) (found []located, skipped []string, err error) {
	settings := HelmInput{IncludeCRDs: true}
	if in.Helm != nil {
		settings = *in.Helm
	}
	settings.ReleaseName = cmp.Or(settings.ReleaseName, in.Context.Release.Name)
	settings.Namespace = cmp.Or(settings.Namespace, in.TargetNamespace, "default")
	c, err := loadChart(ctx, in.Files)
	if err != nil {
		return nil, nil, err
	}
	given := valuesIn(settings.Values)
	texts, err := renderChart(ctx, c, settings, given)
	if err != nil {
		return nil, nil, err
	}
	out := &chartOutput{given: given, disableHooks: settings.DisableHooks}
	if settings.IncludeCRDs {
		if err := out.crds(ctx, c); err != nil {
			return nil, nil, err
		}
	}
	if err := out.rendered(ctx, texts); err != nil {
		return nil, nil, err
	}
	return out.found, out.skipped[:min(len(out.skipped), maxSkipped)], out.refuse()
}

// renderChart gives the text of each template.
func renderChart(ctx context.Context, c *chart.Chart, settings HelmInput, given values) (map[string]string, error) {
	caps, err := capabilitiesOf(settings.Capabilities)
	if err != nil {
		return nil, err
	}
	if err := checkKubernetes(c, caps.KubeVersion.String()); err != nil {
		return nil, err
	}
	values, err := valuesOf(c, settings, caps)
	if err != nil {
		return nil, err
	}
	var knowledge *versionKnowledge
	if failing := settings.Capabilities.FailingGroups; len(failing) > 0 {
		knowledge = &versionKnowledge{known: caps.APIVersions, failing: slices.Sorted(slices.Values(failing))}
		values["Capabilities"] = &uncertain{caps.KubeVersion, knownVersions{knowledge}, caps.HelmVersion}
	}
	texts, t, err := renderTemplates(ctx, c, values)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if unknown := knowledge.failure(); unknown != nil {
		return nil, unknown // whatever else is wrong may be so because of it
	}
	return texts, t.explain(err, given)
}

// valuesOf is the dot of the chart's templates: its values with those of the charts in it below those that are given, and
// what it may know of the release. As for "helm template", it is always a first installation.
func valuesOf(c *chart.Chart, settings HelmInput, caps *common.Capabilities) (values common.Values, err error) {
	defer func() {
		if p := recover(); p != nil { // charts are untrusted
			values, err = nil, invalid("the dependencies of the chart and the values for them do not fit together")
		}
	}()
	own, _ := forTemplate(settings.Values).(map[string]any)
	if own == nil {
		own = map[string]any{}
	}
	if err := chartutil.ProcessDependencies(c, own); err != nil {
		return nil, invalid("a value of the chart that must be a map, for a chart in it, is none")
	}
	release := common.ReleaseOptions{Name: settings.ReleaseName, Namespace: settings.Namespace, Revision: 1, IsInstall: true}
	values, err = util.ToRenderValuesWithSchemaValidation(c, own, release, caps, true)
	if err != nil {
		return nil, invalid("a value of the chart that must be a map, for a chart in it, is none")
	}
	all, err := values.Table("Values")
	if err != nil {
		return nil, fmt.Errorf("read the values of the chart: %w", err)
	}
	return values, checkSchemas(c, all)
}
