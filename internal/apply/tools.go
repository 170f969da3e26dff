package apply

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// tools are the marks by which other tools tell what they own. One that works through another, as Flux through Helm,
// stands before it. owner is "" for what does not bear the mark.
var tools = []struct {
	name  string
	owner func(labels, annotations map[string]string) string
}{
	{"the Flux HelmRelease", func(labels, _ map[string]string) string {
		return within(labels["helm.toolkit.fluxcd.io/namespace"], labels["helm.toolkit.fluxcd.io/name"])
	}},
	{"the Flux Kustomization", func(labels, _ map[string]string) string {
		return within(labels["kustomize.toolkit.fluxcd.io/namespace"], labels["kustomize.toolkit.fluxcd.io/name"])
	}},
	{"the Argo CD application", func(labels, annotations map[string]string) string {
		app, _, _ := strings.Cut(annotations["argocd.argoproj.io/tracking-id"], ":")
		return cmp.Or(app, labels["argocd.argoproj.io/instance"])
	}},
	{"the Helm release", func(labels, annotations map[string]string) string {
		if labels["app.kubernetes.io/managed-by"] != "Helm" {
			return ""
		}
		return within(annotations["meta.helm.sh/release-namespace"], annotations["meta.helm.sh/release-name"])
	}},
	{"the ApplySet", func(labels, _ map[string]string) string { return labels["applyset.kubernetes.io/part-of"] }},
}

func within(namespace, name string) string {
	if namespace == "" || name == "" {
		return name
	}
	return namespace + "/" + name
}

// toolOf names the other tool that owns an object and what it owns it by; "" when none does.
func toolOf(live *unstructured.Unstructured) string {
	labels, annotations := live.GetLabels(), live.GetAnnotations()
	for _, tool := range tools {
		if owner := tool.owner(labels, annotations); owner != "" {
			return fmt.Sprintf("%s %s", tool.name, oneLine(owner))
		}
	}
	return ""
}
