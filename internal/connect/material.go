package connect

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/failure"
)

// material is what a connection is built from, byte for byte as the hub holds it.
type material struct {
	// auth is the type of the credentials.
	auth string
	// server is that of the spec; a kubeconfig has its own, and its own authority.
	server      string
	kubeconfig  entry
	token       entry
	certificate entry
	privateKey  entry
	// authority is not set when the system's authorities are to be trusted.
	authority entry
}

// entry is one key of a Secret or ConfigMap. Its zero value is an entry that is not used.
type entry struct {
	// where names it in messages.
	where string
	// version changes when the object is changed, or deleted and made again.
	version string
	data    []byte
}

// version changes with everything that a connection depends on. The rest of the Cluster's spec is not part of
// it: new metadata must not cut watches.
func (m material) version() string {
	parts := []string{m.auth, m.server}
	for _, e := range []entry{m.kubeconfig, m.token, m.certificate, m.privateKey, m.authority} {
		parts = append(parts, e.version)
	}
	return strings.Join(parts, "\n")
}

// read reads what the spec of a Cluster names, and decides whether convoy serves such a connection.
func (p *Pool) read(ctx context.Context, c *v1alpha1.Cluster) (material, error) {
	if c.Spec.ConnectionMode != v1alpha1.ConnectionModeAgentless {
		return material{}, unsupported("connectionMode %s is not supported: use %s",
			shown(c.Spec.ConnectionMode), v1alpha1.ConnectionModeAgentless)
	}
	if c.Spec.Agentless == nil {
		return material{}, unsupported("connectionMode %s needs spec.agentless", v1alpha1.ConnectionModeAgentless)
	}
	auth := c.Spec.Agentless.Auth
	switch auth.Type {
	case v1alpha1.AuthTypeKubeconfig:
		return p.readKubeconfig(ctx, c.Namespace, auth.Kubeconfig)
	case v1alpha1.AuthTypeToken:
		return p.readToken(ctx, c.Namespace, c.Spec.Agentless)
	case v1alpha1.AuthTypeClientCertificate:
		return p.readCertificate(ctx, c.Namespace, c.Spec.Agentless)
	}
	return material{}, unsupported("auth.type %s is not supported: use %s, %s or %s", shown(auth.Type),
		v1alpha1.AuthTypeKubeconfig, v1alpha1.AuthTypeToken, v1alpha1.AuthTypeClientCertificate)
}

func (p *Pool) readKubeconfig(ctx context.Context, namespace string, auth *v1alpha1.KubeconfigAuth) (m material, err error) {
	if auth == nil || auth.SecretRef.Name == "" {
		return m, needs(v1alpha1.AuthTypeKubeconfig, "auth.kubeconfig.secretRef")
	}
	secret, err := p.readObject(ctx, "Secret", namespace, auth.SecretRef.Name)
	if err != nil {
		return m, err
	}
	m.auth = v1alpha1.AuthTypeKubeconfig
	m.kubeconfig, err = secret.kubeconfig(auth.SecretRef.Key)
	return m, err
}

func (p *Pool) readToken(ctx context.Context, namespace string, a *v1alpha1.AgentlessConnection) (m material, err error) {
	if a.Auth.Token == nil || a.Auth.Token.SecretRef.Name == "" {
		return m, needs(a.Auth.Type, "auth.token.secretRef")
	}
	secret, err := p.readObject(ctx, "Secret", namespace, a.Auth.Token.SecretRef.Name)
	if err != nil {
		return m, err
	}
	m.auth, m.server = a.Auth.Type, a.Server
	if m.token, err = secret.entry(a.Auth.Token.SecretRef.Key, "secretRef.key"); err != nil {
		return m, err
	}
	m.authority, err = p.readAuthority(ctx, namespace, a.CAPublicCertRef)
	return m, err
}

func (p *Pool) readCertificate(ctx context.Context, namespace string, a *v1alpha1.AgentlessConnection) (m material, err error) {
	if a.Auth.ClientCertificate == nil || a.Auth.ClientCertificate.SecretRef.Name == "" {
		return m, needs(a.Auth.Type, "auth.clientCertificate.secretRef")
	}
	secret, err := p.readObject(ctx, "Secret", namespace, a.Auth.ClientCertificate.SecretRef.Name)
	if err != nil {
		return m, err
	}
	m.auth, m.server = a.Auth.Type, a.Server
	if m.certificate, err = secret.entry(corev1.TLSCertKey, ""); err != nil {
		return m, err
	}
	if m.privateKey, err = secret.entry(corev1.TLSPrivateKeyKey, ""); err != nil {
		return m, err
	}
	m.authority, err = p.readAuthority(ctx, namespace, a.CAPublicCertRef)
	return m, err
}

func (p *Pool) readAuthority(ctx context.Context, namespace string, ref *v1alpha1.CAPublicCertRef) (entry, error) {
	if ref == nil {
		return entry{}, nil
	}
	o, err := p.readObject(ctx, ref.Kind, namespace, ref.Name)
	if err != nil {
		return entry{}, err
	}
	return o.entry(ref.Key, "caPublicCertRef.key")
}

func needs(auth, field string) error {
	return unsupported("auth.type %s needs %s", auth, field)
}

// object is a Secret or ConfigMap that a Cluster names.
type object struct {
	// own: it is kept by convoy, for the clean-up only.
	own     bool
	where   string
	version string
	data    map[string][]byte
}

func (p *Pool) readObject(ctx context.Context, kind, namespace, name string) (object, error) {
	if len(validation.IsDNS1123Subdomain(name)) > 0 { // the client would not even ask
		return object{}, badSecretf(nil, "%s is not the name of a %s", shown(name), kind)
	}
	secret, configMap := &corev1.Secret{}, &corev1.ConfigMap{}
	var o client.Object = secret
	if kind == "ConfigMap" {
		o = configMap
	}
	err := p.hub.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, o)
	switch {
	case apierrors.IsNotFound(err):
		return object{}, badSecretf(err, "%s %s does not exist in namespace %s: create it", kind, name, namespace)
	case apierrors.IsForbidden(err):
		return object{}, badSecretf(err, "convoy may not read %s %s in namespace %s: let it get %ss there", kind, name, namespace, kind)
	case err != nil:
		return object{}, fmt.Errorf("read %s %s in namespace %s: %w", kind, name, namespace, &classified{class: hubFailed, cause: err})
	}
	out := object{
		own:     secret.Type == v1alpha1.SecretTypeCredentials,
		where:   fmt.Sprintf("%s %s in namespace %s", kind, name, namespace),
		version: string(o.GetUID()) + "/" + o.GetResourceVersion(),
		data:    secret.Data,
	}
	if kind == "ConfigMap" {
		out.data = make(map[string][]byte, len(configMap.Data))
		for k, v := range configMap.Data {
			out.data[k] = []byte(v)
		}
	}
	return out, nil
}

// entry selects one key. What convoy keeps for the clean-up is nobody's to name. field is what sets the key, for the
// message; empty when nothing does.
func (o object) entry(key, field string) (entry, error) {
	data, ok := o.data[key]
	switch {
	case o.own:
		return entry{}, badSecretf(nil, "%s is convoy's own: name another one", o.where)
	case !ok && field == "":
		return entry{}, badSecretf(nil, "%s has no key %s", o.where, shown(key))
	case !ok:
		return entry{}, badSecretf(nil, "%s has no key %s: set %s", o.where, shown(key), field)
	case len(data) == 0:
		return entry{}, badSecretf(nil, "%s has nothing in key %s", o.where, shown(key))
	}
	return entry{where: o.where + ", key " + shown(key), version: o.version + "/" + key, data: data}, nil
}

// Default entries of a kubeconfig, in this order. Never just any entry: it might be another secret.
var defaultEntries = []string{"value", "value.yaml"}

// kubeconfig selects the key that holds the kubeconfig.
func (o object) kubeconfig(key string) (entry, error) {
	if key != "" {
		return o.entry(key, "secretRef.key")
	}
	for _, name := range defaultEntries {
		if _, ok := o.data[name]; ok {
			return o.entry(name, "secretRef.key")
		}
	}
	return entry{}, badSecretf(nil, "%s has neither key %s nor key %s: set secretRef.key", o.where, defaultEntries[0], defaultEntries[1])
}

func badSecretf(cause error, format string, args ...any) error {
	return failure.Transient(v1alpha1.ReasonProbeFailed, &classified{class: badSecret, cause: cause}, format, args...)
}

// Entries of the Secret that keeps credentials.
const (
	keptAuth        = "auth"
	keptServer      = "server"
	keptKubeconfig  = "kubeconfig"
	keptToken       = "token"
	keptCertificate = corev1.TLSCertKey
	keptPrivateKey  = corev1.TLSPrivateKeyKey
	keptAuthority   = "ca.crt"
)

// KeptName is the name of the Secret, in the namespace of a Cluster, that keeps its last good credentials.
func KeptName(cluster types.UID) string { return "convoy-credentials-" + string(cluster) }

// keptData is the material as the data of a Secret.
func (m material) keptData() map[string][]byte {
	out := map[string][]byte{keptAuth: []byte(m.auth), keptServer: []byte(m.server)}
	for name, e := range map[string]entry{
		keptKubeconfig: m.kubeconfig, keptToken: m.token, keptCertificate: m.certificate,
		keptPrivateKey: m.privateKey, keptAuthority: m.authority,
	} {
		if e.where != "" {
			out[name] = e.data
		}
	}
	return out
}

// readKept reads the material that was kept of a Cluster.
func (p *Pool) readKept(ctx context.Context, c *v1alpha1.Cluster) (material, error) {
	o, err := p.readObject(ctx, "Secret", c.Namespace, KeptName(c.UID))
	if err == nil && !o.own {
		err = badSecretf(nil, "%s is not of convoy's own type", o.where)
	}
	if err != nil {
		return material{}, err
	}
	get := func(key string) entry {
		data, ok := o.data[key]
		if !ok {
			return entry{}
		}
		return entry{where: o.where + ", key " + key, version: o.version, data: data}
	}
	return material{
		auth: string(o.data[keptAuth]), server: string(o.data[keptServer]),
		kubeconfig: get(keptKubeconfig), token: get(keptToken), certificate: get(keptCertificate),
		privateKey: get(keptPrivateKey), authority: get(keptAuthority),
	}, nil
}
