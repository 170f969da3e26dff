package v1alpha1

// Source is where manifests come from: exactly one of its fields.
//
// +kubebuilder:validation:XValidation:rule="(has(self.git) ? 1 : 0) + (has(self.configMap) ? 1 : 0) == 1",message="a source is exactly one of git and configMap"
type Source struct {
	// Git takes a folder of a git repository.
	// +optional
	Git *GitSource `json:"git,omitempty"`
	// ConfigMap takes the entries of a ConfigMap on the hub; every key is a file.
	// +optional
	ConfigMap *ConfigMapSource `json:"configMap,omitempty"`
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
	SecretRef *GitSecretRef `json:"secretRef,omitempty"`
	// Submodules also takes the files of the repository's submodules, and of theirs. Otherwise their folders are empty.
	// Credentials are only used for submodules on the very host of the source.
	// +optional
	Submodules bool `json:"submodules,omitempty"`
}

// GitSecretRef names a Secret with credentials in the namespace of the Release. For https it holds username and
// password, or bearerToken; and in ca.crt, when the server's certificate is signed by an authority of one's own, that
// authority as PEM. For ssh it holds a private key in identity, the passphrase of that key in password if it has
// one, and the host's public keys in known_hosts, as OpenSSH writes them.
type GitSecretRef struct {
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

// ConfigMapSource names a ConfigMap in the namespace of the Release.
type ConfigMapSource struct {
	// Name is the name of the ConfigMap.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
}
