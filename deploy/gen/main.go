// Command gen writes what in deploy follows from something else: the CRDs and alerts of the chart, from deploy/crd and
// deploy/monitoring, and the kustomize base, from the chart with its own values. It decides nothing about either. make generate calls it, at the root of the
// repository, after the CRDs.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"kumodo.io/convoy/deploy"
)

// keep has Helm leave the CRDs when the chart is uninstalled: all Clusters and Releases would go with them.
const keep = "\n    helm.sh/resource-policy: keep"

func main() {
	root := flag.String("root", ".", "root of the repository")
	flag.Parse()
	for _, write := range []func(string) error{writeCRDs, writeAlerts, writeBase} {
		if err := write(filepath.Join(*root, "deploy")); err != nil {
			slog.Error("deploy was not written", "error", err)
			os.Exit(1)
		}
	}
}

// writeCRDs copies the CRDs into the chart, which holds nothing that is outside its folder.
func writeCRDs(folder string) error {
	paths, err := filepath.Glob(filepath.Join(folder, "crd", "*.yaml"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		crd, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		annotations := []byte("\n  annotations:")
		if !bytes.Contains(crd, annotations) {
			return fmt.Errorf("%s has no annotations, where the policy of Helm would go", path)
		}
		crd = bytes.Replace(crd, annotations, append(annotations, keep...), 1)
		if err := os.WriteFile(filepath.Join(folder, "chart", "crd", filepath.Base(path)), crd, 0o644); err != nil { //nolint:gosec // a name of the repository
			return err
		}
	}
	return nil
}

// writeAlerts copies the alerts into the chart.
func writeAlerts(folder string) error {
	rules, err := os.ReadFile(filepath.Join(folder, "monitoring", "alerts.yaml"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "chart", "alerts.yaml"), rules, 0o644) //nolint:gosec // the folder is an argument of the generator
}

// writeBase writes one file for each template.
func writeBase(folder string) error {
	manifests, err := deploy.Render(deploy.Namespace, map[string]any{"crds": map[string]any{"enabled": false}})
	if err != nil {
		return err
	}
	for _, m := range manifests {
		text := "# Written by deploy/gen from deploy/chart/templates/" + m.Name + ". Do not edit; run make generate.\n" + m.Text
		if err := os.WriteFile(filepath.Join(folder, "base", m.Name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
