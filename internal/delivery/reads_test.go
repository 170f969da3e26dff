package delivery_test

import (
	"testing"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

func reading(sources ...v1alpha1.PatchSource) *v1alpha1.Release {
	return release(func(r *v1alpha1.Release) {
		for i := range sources {
			r.Spec.Mutations = append(r.Spec.Mutations, v1alpha1.Mutation{From: &sources[i]})
		}
	})
}

func TestReadsTellsWhetherMutationsMayReadAnObject(t *testing.T) {
	for name, tc := range map[string]struct {
		from       v1alpha1.PatchSource
		kind, name string
		want       bool
	}{
		"the very name":                        {v1alpha1.PatchSource{Kind: "ConfigMap", Name: "a"}, "ConfigMap", "a", true},
		"another name":                         {v1alpha1.PatchSource{Kind: "ConfigMap", Name: "a"}, "ConfigMap", "ab", false},
		"another kind":                         {v1alpha1.PatchSource{Kind: "ConfigMap", Name: "a"}, "Secret", "a", false},
		"the source":                           {v1alpha1.PatchSource{Kind: "Source"}, "Source", "", false},
		"a template before a fixed part":       {v1alpha1.PatchSource{Kind: "Secret", Name: "{{ .cluster.name }}-over"}, "Secret", "eu-over", true},
		"a template behind a fixed part":       {v1alpha1.PatchSource{Kind: "Secret", Name: "over-{{ .cluster.name }}"}, "Secret", "over-eu", true},
		"a template that comes out empty":      {v1alpha1.PatchSource{Kind: "Secret", Name: "over-{{ .cluster.name }}"}, "Secret", "over-", true},
		"another fixed part":                   {v1alpha1.PatchSource{Kind: "Secret", Name: "over-{{ .cluster.name }}"}, "Secret", "under-eu", false},
		"fixed parts between":                  {v1alpha1.PatchSource{Kind: "Secret", Name: "a-{{ .x }}-b-{{ .y }}-c"}, "Secret", "a-1-b-2-c", true},
		"fixed parts that are not all there":   {v1alpha1.PatchSource{Kind: "Secret", Name: "a-{{ .x }}-b-{{ .y }}-c"}, "Secret", "a-1-2-c", false},
		"fixed parts that would have to share": {v1alpha1.PatchSource{Kind: "Secret", Name: "a-b{{ .x }}b-c"}, "Secret", "a-b-c", false},
		"a choice":                             {v1alpha1.PatchSource{Kind: "Secret", Name: "{{ if .x }}a{{ else }}b{{ end }}"}, "Secret", "z", true},
		"a trimming template":                  {v1alpha1.PatchSource{Kind: "Secret", Name: "a- {{- /* x */ -}} {{ .x }}"}, "Secret", "a-1", true},
		"a quoted bracket":                     {v1alpha1.PatchSource{Kind: "Secret", Name: `a{{ index .cluster "}}" }}`}, "Secret", "ab", true},
		"a broken template":                    {v1alpha1.PatchSource{Kind: "Secret", Name: "a{{"}, "Secret", "a", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := delivery.Reads(reading(tc.from), tc.kind, tc.name); got != tc.want {
				t.Errorf("Reads = %v", got)
			}
		})
	}
	if !delivery.Reads(reading(v1alpha1.PatchSource{Kind: "ConfigMap", Name: "a"}, v1alpha1.PatchSource{Kind: "Secret", Name: "b"}), "Secret", "b") {
		t.Error("the second mutation is not looked at")
	}
}

func TestTheInputsDigestMovesWithWhatMutationsRead(t *testing.T) {
	digest := func(reads ...delivery.Read) string {
		return delivery.InputsDigest(release(nil), cluster(nil), "main@sha1:1", reads...)
	}
	base := digest(delivery.Read{Kind: "ConfigMap", Name: "a", Key: "k", Digest: "1"})
	seen := map[string]string{base: "one read", digest(): "no read"}
	for name, other := range map[string]string{
		"other content": digest(delivery.Read{Kind: "ConfigMap", Name: "a", Key: "k", Digest: "2"}),
		"another key":   digest(delivery.Read{Kind: "ConfigMap", Name: "a", Key: "l", Digest: "1"}),
		"another kind":  digest(delivery.Read{Kind: "Secret", Name: "a", Key: "k", Digest: "1"}),
		"it is gone":    digest(delivery.Read{Kind: "ConfigMap", Name: "a", Key: "k"}),
		"one more":      digest(delivery.Read{Kind: "ConfigMap", Name: "a", Key: "k", Digest: "1"}, delivery.Read{Kind: "ConfigMap", Name: "a", Key: "l"}),
	} {
		if before, twice := seen[other]; twice {
			t.Errorf("%s gives the digest of %s", name, before)
		}
		seen[other] = name
	}
	if again := digest(delivery.Read{Kind: "ConfigMap", Name: "a", Key: "k", Digest: "1"}); again != base {
		t.Error("the same reads give two digests")
	}
}

func TestSecretsOfClustersAndOfConvoyAreKnown(t *testing.T) {
	c := cluster(func(c *v1alpha1.Cluster) {
		c.Spec.Agentless = &v1alpha1.AgentlessConnection{
			CAPublicCertRef: &v1alpha1.CAPublicCertRef{Kind: "Secret", Name: "ca"},
			Auth: v1alpha1.ClusterAuth{
				Type:              "oidc",
				Kubeconfig:        &v1alpha1.KubeconfigAuth{SecretRef: v1alpha1.KubeconfigSecretRef{Name: "kubeconfig"}},
				Token:             &v1alpha1.TokenAuth{SecretRef: v1alpha1.TokenSecretRef{Name: "token"}},
				ClientCertificate: &v1alpha1.ClientCertificateAuth{SecretRef: v1alpha1.CertificateSecretRef{Name: "certificate"}},
			},
		}
	})
	clusters := []v1alpha1.Cluster{*cluster(nil), *c} // the first has no connection
	for name, want := range map[string]string{"ca": c.Name, "kubeconfig": c.Name, "token": c.Name, "certificate": c.Name, "other": "", "": ""} {
		if got := delivery.NamedBy(clusters, name); got != want {
			t.Errorf("NamedBy(%q) = %q", name, got)
		}
	}
	for kind, want := range map[string]bool{"convoy.kumodo.io/render": true, "convoy.kumodo.io/credentials": true, "Opaque": false, "": false} {
		if got := delivery.OwnsSecret(kind); got != want {
			t.Errorf("OwnsSecret(%q) = %v", kind, got)
		}
	}
}
