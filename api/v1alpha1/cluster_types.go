package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Values of spec.connectionMode and spec.agentless.auth.type that this version connects with. Any other
// value is accepted and answered by Ready=False, reason Unsupported.
const (
	ConnectionModeAgentless   = "agentless"
	AuthTypeKubeconfig        = "kubeconfig"
	AuthTypeToken             = "token"
	AuthTypeClientCertificate = "clientCertificate"
)

// ClusterFinalizer keeps a Cluster until what its deletion policy asks for is done.
const ClusterFinalizer = "cluster.core.convoy.kumodo.io/prune-releases"

// CredentialsFinalizer keeps the last good credentials of a Cluster, in a Secret of type SecretTypeCredentials, until
// no deletion needs them any more.
const (
	CredentialsFinalizer  = "cluster.core.convoy.kumodo.io/credentials"
	SecretTypeCredentials = "convoy.kumodo.io/credentials"
)

// Cluster is a target for Releases: how to connect to a Kubernetes API server, and metadata that mutations
// and lifecycle hooks can read. Each Release references one Cluster in its own namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=cvc,categories=convoy
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reachable",type=boolean,JSONPath=`.status.reachable`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.kubernetesVersion`
// +kubebuilder:printcolumn:name="Last-Probe",type=date,JSONPath=`.status.lastProbeTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type Cluster struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// Spec says how to connect, and what templates may know of the cluster.
	Spec ClusterSpec `json:"spec"`
	// Status is what the last probe found. convoy writes it.
	// +optional
	Status ClusterStatus `json:"status,omitempty"`
}

// ClusterList is a list of Clusters.
//
// +kubebuilder:object:root=true
type ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Cluster `json:"items"`
}

// ClusterSpec is the wish for a Cluster.
//
// +kubebuilder:validation:XValidation:rule="self.connectionMode != 'agentless' || has(self.agentless)",message="connectionMode agentless needs spec.agentless"
type ClusterSpec struct {
	// ConnectionMode selects how convoy connects to the target API server. Built: agentless, in which
	// convoy calls the API server itself. Any other value gives Ready=False, reason Unsupported.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ConnectionMode string `json:"connectionMode"`
	// Agentless is the connection of connectionMode agentless.
	// +optional
	Agentless *AgentlessConnection `json:"agentless,omitempty"`
	// Metadata is given to templates and CEL expressions as cluster. cluster.name is always the name of
	// this Cluster; it replaces a key called name. Do not put secrets here.
	// +optional
	// +kubebuilder:validation:MaxProperties=128
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) <= 253)",message="a metadata key has at most 253 characters"
	Metadata map[string]MetadataValue `json:"metadata,omitempty"`
	// DeletionPolicy says what happens to the Releases that reference this Cluster when it is deleted.
	// +optional
	DeletionPolicy ClusterDeletionPolicy `json:"deletionPolicy,omitempty"`
}

// MetadataValue is the value of one metadata key.
//
// +kubebuilder:validation:MaxLength=1024
type MetadataValue string

// AgentlessConnection says how convoy itself calls the API server.
//
// +kubebuilder:validation:XValidation:rule="self.auth.type != 'kubeconfig' || has(self.auth.kubeconfig)",message="auth.type kubeconfig needs auth.kubeconfig.secretRef"
// +kubebuilder:validation:XValidation:rule="self.auth.type != 'token' || has(self.auth.token) && has(self.server)",message="auth.type token needs server and auth.token.secretRef"
// +kubebuilder:validation:XValidation:rule="self.auth.type != 'clientCertificate' || has(self.auth.clientCertificate) && has(self.server)",message="auth.type clientCertificate needs server and auth.clientCertificate.secretRef"
type AgentlessConnection struct {
	// Server is the https URL of the API server, with a path when a proxy serves it below one. With auth
	// type kubeconfig it is not used to connect: the kubeconfig sets the server.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Server string `json:"server,omitempty"`
	// CAPublicCertRef names the certificate authority of the server. Without it, the authorities of the
	// system that convoy runs on are trusted. With auth type kubeconfig it is not used to connect: the
	// kubeconfig sets the CA.
	// +optional
	CAPublicCertRef *CAPublicCertRef `json:"caPublicCertRef,omitempty"`
	// Auth says which credentials convoy presents.
	Auth ClusterAuth `json:"auth"`
}

// CAPublicCertRef names the key of a Secret or ConfigMap, in the namespace of the Cluster, that holds PEM
// certificates.
type CAPublicCertRef struct {
	// Kind is Secret or ConfigMap.
	// +kubebuilder:validation:Enum=Secret;ConfigMap
	Kind string `json:"kind"`
	// Name is the name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
	// Key is the entry that holds the certificates.
	// +optional
	// +kubebuilder:default=ca.crt
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// ClusterAuth says which credentials convoy presents.
type ClusterAuth struct {
	// Type selects the kind of credentials. Built: kubeconfig, token and clientCertificate. Any other value
	// gives Ready=False, reason Unsupported.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Type string `json:"type"`
	// Kubeconfig is used with type kubeconfig.
	// +optional
	Kubeconfig *KubeconfigAuth `json:"kubeconfig,omitempty"`
	// Token is used with type token.
	// +optional
	Token *TokenAuth `json:"token,omitempty"`
	// ClientCertificate is used with type clientCertificate.
	// +optional
	ClientCertificate *ClientCertificateAuth `json:"clientCertificate,omitempty"`
}

// TokenAuth presents a bearer token.
type TokenAuth struct {
	// SecretRef selects the Secret that holds the token. Line breaks at its end are not part of it.
	SecretRef TokenSecretRef `json:"secretRef"`
}

// TokenSecretRef selects one key of a Secret in the namespace of the Cluster.
type TokenSecretRef struct {
	// Name is the name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
	// Key is the entry that holds the token.
	// +optional
	// +kubebuilder:default=token
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// ClientCertificateAuth presents a client certificate.
type ClientCertificateAuth struct {
	// SecretRef names a Secret of type kubernetes.io/tls: the certificate in tls.crt, its key in tls.key, both PEM.
	SecretRef CertificateSecretRef `json:"secretRef"`
}

// CertificateSecretRef names a Secret in the namespace of the Cluster.
type CertificateSecretRef struct {
	// Name is the name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
}

// KubeconfigAuth takes server, CA and credentials from a kubeconfig.
type KubeconfigAuth struct {
	// SecretRef selects the Secret that holds a full kubeconfig, whose current-context is used.
	SecretRef KubeconfigSecretRef `json:"secretRef"`
}

// KubeconfigSecretRef selects one key of a Secret in the namespace of the Cluster.
type KubeconfigSecretRef struct {
	// Name is the name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
	// Key is the entry that holds the kubeconfig. When it is empty: value, then value.yaml.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// ClusterDeletionPolicy says what the deletion of a Cluster does.
type ClusterDeletionPolicy struct {
	// PruneReleases: true deletes every Release that references this Cluster, each by its own deletion
	// policy, before the Cluster goes. false leaves the Releases, and their objects on the target, as they are.
	// +optional
	PruneReleases bool `json:"pruneReleases,omitempty"`
}

// ClusterStatus is what the last probe found.
type ClusterStatus struct {
	// Reachable is the verdict of the last probe. It is written as soon as there is one, also when false.
	// Releases of a Cluster that is not reachable are neither rendered nor applied.
	// +optional
	Reachable *bool `json:"reachable,omitempty"`
	// ObservedGeneration is the generation that the last verdict is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// ClusterID is the UID of the target's kube-system namespace, when convoy may read it. While another
	// cluster answers, the Cluster is not reachable, reason ClusterIdentityChanged, until the annotation
	// convoy.kumodo.io/accept-cluster-id holds the new one's ID.
	// +optional
	ClusterID string `json:"clusterID,omitempty"`
	// KubernetesVersion is the version that the API server reports.
	// +optional
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// APIGroups are the API groups and versions that the server serves, sorted by name, at most 256.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	APIGroups []APIGroup `json:"apiGroups,omitempty"`
	// APIDigest is one digest over the version and everything that the server serves. It stays while an API group fails. A
	// change of it renders the charts of the Cluster's Releases anew at their next reconcile.
	// +optional
	APIDigest string `json:"apiDigest,omitempty"`
	// LastProbeTime is when the last recorded probe ended. It moves with a change of verdict, and
	// otherwise at most once per resync period.
	// +optional
	LastProbeTime *metav1.Time `json:"lastProbeTime,omitempty"`
	// LastReachableTime is when the last recorded successful probe ended.
	// +optional
	LastReachableTime *metav1.Time `json:"lastReachableTime,omitempty"`
	// Conditions: Ready, and Deleting while the Cluster is being deleted.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// APIGroup is one API group of the target.
type APIGroup struct {
	// Name is the name of the group; the core group is called core.
	Name string `json:"name"`
	// Versions are the versions that are served.
	// +optional
	// +listType=atomic
	Versions []string `json:"versions,omitempty"`
	// Failing is true when the target announces the group but cannot serve it.
	// +optional
	Failing bool `json:"failing,omitempty"`
}
