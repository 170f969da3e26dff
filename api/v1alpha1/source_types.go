package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultPollInterval is the pollInterval of a source that gives none.
const DefaultPollInterval = 5 * time.Minute

// Source is where manifests come from: exactly one of git, oci, helm and configMap.
//
// +kubebuilder:validation:XValidation:rule="[has(self.git), has(self.oci), has(self.helm), has(self.configMap)].filter(x, x).size() == 1",message="a source is exactly one of git, oci, helm and configMap"
type Source struct {
	// Git takes a folder of a git repository.
	// +optional
	Git *GitSource `json:"git,omitempty"`
	// OCI takes a folder of an artifact in an OCI registry.
	// +optional
	OCI *OCISource `json:"oci,omitempty"`
	// Helm takes a chart of a chart repository or an OCI registry.
	// +optional
	Helm *HelmSource `json:"helm,omitempty"`
	// ConfigMap takes the entries of a ConfigMap on the hub; every key is a file.
	// +optional
	ConfigMap *ConfigMapSource `json:"configMap,omitempty"`
	// PollInterval is how often a repository or registry is asked for a new revision; 5m when absent. It is asked once for
	// all Releases that share url, ref and credentials, at the shortest of their intervals. A ConfigMap is watched instead.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('5s') && duration(self) <= duration('168h')",message="pollInterval is between 5s and 168h"
	PollInterval metav1.Duration `json:"pollInterval,omitzero"`
}

// GitSource is a folder of a git repository at a reference.
type GitSource struct {
	// URL of the repository: https://host/path, http://host/path, ssh://user@host/path, its short form user@host:path, or
	// file:///path where convoy's operator permits it. It holds no password. The user of ssh is git when none is given.
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^(https?://[^\s@]+|ssh://([^\s@:/]+@)?[^\s@/]+/[^\s]+|file:///[^\s]+|([^\s@:/]+@)?([^\s@:/\[\]]+|\[[0-9a-fA-F:.]+\]):/?[^\s/][^\s]*)$`
	URL string `json:"url"`
	// Ref selects the commit: at most one of its fields. Without any it is the newest commit of the repository's default
	// branch, the one that its HEAD names at the time.
	// +optional
	Ref GitRef `json:"ref,omitzero"`
	// Path of the folder within the repository; the whole repository when empty. It neither starts with a
	// slash nor climbs out with "..".
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/') && !self.split('/').exists(s, s == '..')",message="path stays within the repository: no leading slash, no .."
	Path string `json:"path,omitempty"`
	// SecretRef names the credentials. Without it the repository is read as anybody may read it; ssh needs it.
	// +optional
	SecretRef *SourceSecretRef `json:"secretRef,omitempty"`
	// Submodules also takes the files of the repository's submodules, and of theirs. Otherwise their folders are empty.
	// Credentials are only used for submodules on the very host of the source.
	// +optional
	Submodules bool `json:"submodules,omitempty"`
}

// SourceSecretRef names a Secret with credentials in the namespace of the Release.
//
// For https it holds username and password, or bearerToken; and in ca.crt, when the server's certificate is signed by an
// authority of one's own, that authority as PEM. For git over ssh it holds a private key in identity, the passphrase of
// that key in password if it has one, and the host's public keys in known_hosts, as OpenSSH writes them. For a registry
// it is of the type kubernetes.io/dockerconfigjson, and may hold ca.crt besides.
type SourceSecretRef struct {
	// Name is the name of the Secret. It is neither one that a Cluster connects with, nor one of convoy's own.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
}

// GitRef selects a commit.
//
// +kubebuilder:validation:XValidation:rule="[has(self.branch), has(self.tag), has(self.semver), has(self.commit), has(self.name)].filter(x, x).size() <= 1",message="a ref is at most one of branch, tag, semver, commit and name"
type GitRef struct {
	// Branch is the name of a branch; its newest commit is used.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=244
	Branch string `json:"branch,omitempty"`
	// Tag is the name of a tag. When it is moved, the commit that it names then is used.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=244
	Tag string `json:"tag,omitempty"`
	// SemVer is a range of versions, such as ">=1.2.0 <2.0.0" or "~1.4". The tag with the highest version in it is used; tags
	// may begin with a v. A pre-release only counts when the range names one.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	SemVer string `json:"semver,omitempty"`
	// Commit is the full digest of a commit, in 40 lower-case hexadecimal digits. A branch or tag has to
	// lead to it.
	// +optional
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{40}$`
	Commit string `json:"commit,omitempty"`
	// Name is the full name of a reference, such as refs/pull/1/head.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^refs/[^\s]+$`
	Name string `json:"name,omitempty"`
}

// OCISource is a folder of an artifact in an OCI registry.
type OCISource struct {
	// URL of the repository: oci://host/path, without a tag or digest.
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^oci://[^\s@/]+/[^\s@]+$`
	URL string `json:"url"`
	// Ref selects the artifact: at most one of its fields. Without any it is the tag latest.
	// +optional
	Ref OCIRef `json:"ref,omitzero"`
	// Path of the folder within the artifact; the whole artifact when empty. It neither starts with a slash nor climbs out
	// with "..".
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/') && !self.split('/').exists(s, s == '..')",message="path stays within the artifact: no leading slash, no .."
	Path string `json:"path,omitempty"`
	// SecretRef names the credentials. Without it the artifact is read as anybody may read it.
	// +optional
	SecretRef *SourceSecretRef `json:"secretRef,omitempty"`
}

// OCIRef selects an artifact.
//
// +kubebuilder:validation:XValidation:rule="[has(self.tag), has(self.semver), has(self.digest)].filter(x, x).size() <= 1",message="a ref is at most one of tag, semver and digest"
type OCIRef struct {
	// Tag is the name of a tag. When it is moved, the artifact that it names then is used.
	// +optional
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`
	Tag string `json:"tag,omitempty"`
	// SemVer is a range of versions, such as ">=1.2.0 <2.0.0" or "~1.4". The tag with the highest version in it is used. A
	// pre-release only counts when the range names one.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	SemVer string `json:"semver,omitempty"`
	// Digest is the digest of the artifact's manifest.
	// +optional
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Digest string `json:"digest,omitempty"`
}

// HelmSource is a chart of a chart repository or of an OCI registry.
type HelmSource struct {
	// URL of the chart repository, https://host/path or http://host/path, the folder that holds its index.yaml; or of the
	// folder of charts in a registry, oci://host/path.
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^(https?|oci)://[^\s@/]+(/[^\s@]*)?$`
	URL string `json:"url"`
	// Chart is the name of the chart.
	// +kubebuilder:validation:MaxLength=250
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?$`
	Chart string `json:"chart"`
	// Version is a version of the chart, or a range of versions such as "6.x", of which the highest is used; the highest of
	// all when empty. A pre-release only counts when the range names one.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version,omitempty"`
	// SecretRef names the credentials. Without it the chart is read as anybody may read it.
	// +optional
	SecretRef *SourceSecretRef `json:"secretRef,omitempty"`
}

// ConfigMapSource names a ConfigMap in the namespace of the Release.
type ConfigMapSource struct {
	// Name is the name of the ConfigMap.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
}
