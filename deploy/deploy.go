// Package deploy holds what installs convoy on a hub: the chart, and from it manifests for those who do not use Helm.
// It decides how the chart is rendered without Helm; what it installs is decided in the chart. The command install and the
// generator of the kustomize base call it.
package deploy

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	chartutil "helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
)

// Namespace is where convoy lives unless somebody says otherwise.
const Namespace = "convoy-system"

// all: the names of helpers begin with an underscore.
//
//go:embed all:chart
var files embed.FS

//go:embed base/namespace.yaml
var namespaceManifest string

// Manifest is what one template of the chart renders to.
type Manifest struct {
	// Name is that of the template, such as worker.yaml.
	Name string
	Text string
}

// Chart is the chart as Helm reads it.
func Chart() (*chart.Chart, error) {
	var all []*archive.BufferedFile
	err := fs.WalkDir(files, "chart", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := files.ReadFile(name)
		all = append(all, &archive.BufferedFile{Name: strings.TrimPrefix(name, "chart/"), Data: content})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the chart: %w", err)
	}
	return loader.LoadFiles(all)
}

// Render renders the chart for a namespace, with values that outweigh its own. Manifests are in the order of their names;
// templates that the values switch off are left out.
func Render(namespace string, values map[string]any) ([]Manifest, error) {
	c, err := Chart()
	if err != nil {
		return nil, err
	}
	options := common.ReleaseOptions{Name: "convoy", Namespace: namespace, IsInstall: true, Revision: 1}
	given, err := chartutil.ToRenderValues(c, values, options, common.DefaultCapabilities)
	if err != nil {
		return nil, err // it names the value
	}
	rendered, err := engine.Render(c, given)
	if err != nil {
		return nil, err
	}
	var all []Manifest
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		text := strings.TrimSpace(rendered[name])
		if path.Ext(name) == ".yaml" && text != "" {
			all = append(all, Manifest{path.Base(name), text + "\n"})
		}
	}
	return all, nil
}

// Bundle is everything that a hub needs as one stream for kubectl apply, the namespace first.
func Bundle(namespace string, values map[string]any) (string, error) {
	manifests, err := Render(namespace, values)
	if err != nil {
		return "", err
	}
	all := []string{strings.ReplaceAll(namespaceManifest, "name: "+Namespace, "name: "+namespace)}
	for _, m := range manifests {
		all = append(all, m.Text)
	}
	return strings.Join(all, "---\n"), nil
}
