package delivery

import (
	"maps"
	"strings"

	"kumodo.io/convoy/api/v1alpha1"
)

// Context is all that templates and expressions may know. It never holds credentials, the server address
// or the status of a Cluster.
type Context struct {
	// Cluster is spec.metadata, and name, which is always the name of the Cluster.
	Cluster map[string]string `json:"cluster"`
	// Release says which Release is rendered.
	Release ReleaseContext `json:"release"`
}

// ReleaseContext is what templates may know of the Release. Labels and annotations are without convoy's own,
// and never nil.
type ReleaseContext struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// NewContext builds the context of a Release on a Cluster.
func NewContext(c *v1alpha1.Cluster, r *v1alpha1.Release) Context {
	cluster := make(map[string]string, len(c.Spec.Metadata)+1)
	for k, v := range c.Spec.Metadata {
		cluster[k] = string(v)
	}
	cluster["name"] = c.Name
	return Context{
		Cluster: cluster,
		Release: ReleaseContext{
			Name: r.Name, Namespace: r.Namespace,
			Labels: foreign(r.Labels), Annotations: foreign(r.Annotations),
		},
	}
}

// Values is the context as templates see it: {{ .cluster.region }}, {{ .release.name }}.
func (c Context) Values() map[string]any {
	return map[string]any{
		"cluster": anyMap(c.Cluster),
		"release": map[string]any{
			"name": c.Release.Name, "namespace": c.Release.Namespace,
			"labels": anyMap(c.Release.Labels), "annotations": anyMap(c.Release.Annotations),
		},
	}
}

func foreign(in map[string]string) map[string]string {
	out := make(map[string]string, len(in))
	maps.Copy(out, in)
	maps.DeleteFunc(out, func(k, _ string) bool {
		return strings.HasPrefix(k, "convoy.kumodo.io/") || k == "kubectl.kubernetes.io/last-applied-configuration"
	})
	return out
}

func anyMap(in map[string]string) map[string]any {
	out := make(map[string]any, len(in))
	for k, v := range in {
		out[k] = v
	}
	return out
}
