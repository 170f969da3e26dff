package main

import (
	"fmt"
	"net/url"

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
		{"  its work tree", d.app.Work() + " (commit, push, then reconcile as below)"},
		{"convoy's metrics", "http://" + d.convoy.metrics + "/metrics"},
		{"convoy's log", d.convoy.log},
	} {
		d.out.text(fmt.Sprintf("  %-18s  %s", row[0], row[1]))
	}
	d.out.line("Paste this into another shell:")
	d.out.text(fmt.Sprintf("  export PATH=%s:$PATH KUBECONFIG=%s TARGET=%s TEMPORAL_ADDRESS=%s",
		d.bin, d.hubKubeconfig, d.targetKubeconfig, d.env.Temporal.Address))
	d.out.line("Then try, and read on in docs/getting-started.md:")
	for _, command := range []string{
		"kubectl get clusters,releases",
		"convoy describe release " + releaseName,
		"kubectl --kubeconfig $TARGET get deployments,pods --namespace " + targetNamespace + " --label-columns " + roleKey,
		"convoy reconcile release " + releaseName + " --wait",
		"convoy reprobe cluster " + clusterName,
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
