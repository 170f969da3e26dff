package delivery

import (
	"slices"
	"strings"
	"text/template/parse"

	"kumodo.io/convoy/api/v1alpha1"
)

// Read is what a render read on the hub beside its source: one entry of a ConfigMap or Secret.
type Read struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	Key  string `json:"key"`
	// Digest of what it holds; empty when it does not exist.
	Digest string `json:"digest,omitempty"`
}

// ReadAPIs is what a chart read of its target: what it serves, of which digest is the digest. A render of another type does
// not depend on it.
func ReadAPIs(digest string) Read { return Read{Kind: "APIs", Digest: digest} }

// IsChart reports whether a Release renders a chart, as far as that is known before the render.
func IsChart(r *v1alpha1.Release) bool {
	return r.Spec.Render.Type == v1alpha1.RenderHelm ||
		r.Spec.Render.Type == "" && r.Status.Render != nil && r.Status.Render.Type == v1alpha1.RenderHelm
}

// Reads reports whether the mutations or the chart settings of a Release may read an object of its namespace. kind is ConfigMap or Secret. A
// name that is a template stands for all names that have its fixed parts in their places.
func Reads(r *v1alpha1.Release, kind, name string) bool {
	for i := range r.Spec.Mutations {
		from := r.Spec.Mutations[i].From
		if from != nil && from.Kind != v1alpha1.PatchFromSource && string(from.Kind) == kind && mayBe(from.Name, name) {
			return true
		}
	}
	if r.Spec.Render.Helm == nil {
		return false
	}
	return slices.ContainsFunc(r.Spec.Render.Helm.ValuesFrom, func(from v1alpha1.ValuesReference) bool {
		return from.Kind == kind && from.Name == name
	})
}

// mayBe reports whether a template may come out as name.
func mayBe(template, name string) bool {
	if !strings.Contains(template, "{{") {
		return template == name
	}
	tree := parse.New("name")
	tree.Mode = parse.SkipFuncCheck
	if _, err := tree.Parse(template, "", "", map[string]*parse.Tree{}); err != nil || tree.Root == nil {
		return false // no render gets beyond it
	}
	parts := []string{""} // the fixed parts; between two of them stands any text
	for _, node := range tree.Root.Nodes {
		switch node := node.(type) {
		case *parse.TextNode:
			parts[len(parts)-1] += string(node.Text)
		case *parse.ActionNode:
			parts = append(parts, "")
		case *parse.CommentNode:
		default: // a choice or a loop: anything may come out
			return true
		}
	}
	return hasParts(name, parts)
}

func hasParts(name string, parts []string) bool {
	first, last := parts[0], parts[len(parts)-1]
	if len(parts) == 1 {
		return name == first
	}
	rest, ok := strings.CutPrefix(name, first)
	if !ok {
		return false
	}
	for _, part := range parts[1 : len(parts)-1] {
		if _, rest, ok = strings.Cut(rest, part); !ok {
			return false
		}
	}
	return strings.HasSuffix(rest, last)
}

// NamedBy gives the name of a Cluster that names a Secret of its namespace for its connection, empty when none of them
// does. Such a Secret is read for the connection only.
func NamedBy(clusters []v1alpha1.Cluster, secret string) string {
	for i := range clusters {
		if namesSecret(&clusters[i], secret) {
			return clusters[i].Name
		}
	}
	return ""
}

// namesSecret also counts what the auth type of the Cluster does not use.
func namesSecret(c *v1alpha1.Cluster, name string) bool {
	a := c.Spec.Agentless
	if a == nil {
		return false
	}
	switch {
	case a.Auth.Kubeconfig != nil && a.Auth.Kubeconfig.SecretRef.Name == name,
		a.Auth.Token != nil && a.Auth.Token.SecretRef.Name == name,
		a.Auth.ClientCertificate != nil && a.Auth.ClientCertificate.SecretRef.Name == name,
		a.CAPublicCertRef != nil && a.CAPublicCertRef.Kind == "Secret" && a.CAPublicCertRef.Name == name:
		return true
	}
	return false
}

// OwnsSecret reports whether Secrets of a type are convoy's own.
func OwnsSecret(secretType string) bool { return strings.HasPrefix(secretType, "convoy.kumodo.io/") }
