package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/dev/env"
	"kumodo.io/convoy/internal/delivery"
)

// guide says where everything is and what to try.
func (d *demo) guide() {
	rollout := d.release.Status.Rollout
	d.out.line("Look around until Ctrl-C:")
	for _, row := range [][2]string{
		{"Temporal's web UI", d.env.Temporal.UI},
		{"  the rollout", d.workflowURL(rollout.WorkflowID, rollout.RunID)},
		{"  the Release", d.workflowURL(delivery.ReleaseWorkflowID(namespace, releaseName), "")},
		{"  the Cluster", d.workflowURL(delivery.ClusterWorkflowID(namespace, clusterName), "")},
		{"kubeconfig, hub", d.hubKubeconfig},
		{"kubeconfig, target", d.targetKubeconfig},
		{"git repository", d.app.URL},
		{"  its work tree", d.app.Work() + " (commit, push, then annotate the Release as below)"},
		{"convoy's metrics", "http://" + d.convoy.metrics + "/metrics"},
		{"convoy's log", d.convoy.log},
	} {
		d.out.text(fmt.Sprintf("  %-18s  %s", row[0], row[1]))
	}
	d.out.line("Try:")
	onHub := d.program("kubectl") + " --kubeconfig " + d.hubKubeconfig
	onTarget := d.program("kubectl") + " --kubeconfig " + d.targetKubeconfig
	for _, command := range []string{
		onHub + " get clusters,releases",
		onHub + " describe release " + releaseName,
		onTarget + " get deployments,pods --namespace " + targetNamespace + " --label-columns " + roleKey,
		onHub + " annotate release " + releaseName + " --overwrite " + v1alpha1.AnnotationRequestedAt + `="$(date)"`,
		d.program("temporal") + " workflow signal --address " + d.env.Temporal.Address + " --workflow-id " +
			delivery.ClusterWorkflowID(namespace, clusterName) + " --name " + delivery.SignalReprobe,
	} {
		d.out.text("  " + command)
	}
}

// workflowURL is where the web UI shows a workflow; an empty run is the newest one.
func (d *demo) workflowURL(id, run string) string {
	u := d.env.Temporal.UI + "/namespaces/" + env.Namespace + "/workflows/" + url.PathEscape(id)
	if run == "" {
		return u
	}
	return u + "/" + run + "/history"
}

// program is how somebody calls a program of the environment from where the demo was called.
func (d *demo) program(name string) string {
	path := filepath.Join(d.bin, name)
	here, err := os.Getwd()
	if err != nil {
		return path
	}
	if relative, err := filepath.Rel(here, path); err == nil && filepath.IsLocal(relative) {
		return relative
	}
	return path
}
