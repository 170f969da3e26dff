package source

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/failure"
)

// Keys of a Secret with the credentials of a git source.
const (
	keyUsername   = "username"
	keyPassword   = "password" // of username; for ssh the passphrase of identity
	keyToken      = "bearerToken"
	keyAuthority  = "ca.crt"
	keyIdentity   = "identity"
	keyKnownHosts = "known_hosts"
)

// credential is what opens a repository. The zero value is anybody's.
type credential struct {
	secret string // name of the Secret, for messages
	// key tells one credential from another without holding it. What is fetched with one is never given to another.
	key string

	username, password, token string
	authority                 []byte
	identity, knownHosts      []byte
}

// isLogin reports whether the credential holds something that a server must not tell others.
func (c credential) isLogin() bool { return c.username != "" || c.token != "" || c.identity != nil }

// readCredential reads the Secret that opens a, anew each time: a change of it counts at once.
func (s *Sources) readCredential(ctx context.Context, namespace string, ref *v1alpha1.SourceSecretRef, a address) (credential, error) {
	switch {
	case ref == nil && a.scheme() == schemeSSH:
		return credential{}, failure.Terminal(v1alpha1.ReasonSourceFailed, nil, "spec.source.git.url is for ssh, which needs a Secret with %s and %s; name it in spec.source.git.secretRef", keyIdentity, keyKnownHosts)
	case ref == nil:
		return credential{}, nil
	case a.scheme() == schemeFile:
		return credential{}, failure.Terminal(v1alpha1.ReasonSourceFailed, nil, "spec.source.git.url is a file URL, which needs no credentials; remove spec.source.git.secretRef")
	}
	data, err := s.readSecret(ctx, namespace, ref.Name, "spec.source.git.secretRef")
	if err != nil {
		return credential{}, err
	}
	c, err := credentialOf(ref.Name, data, a)
	if err == nil && a.scheme() == schemeHTTP && c.isLogin() && !s.limits.AllowPlainHTTPCredentials {
		return credential{}, failure.Terminal(v1alpha1.ReasonSourceFailed, nil, "spec.source.git.url is plain http, over which convoy sends no credentials unless its operator permits it with --allow-plain-http-credentials; use https")
	}
	return c, err
}

// readSecret gives the data of a Secret that is free for sources: neither convoy's own, nor one that a Cluster connects
// with. A server is a place of the user's choice, and whoever may write a Release may not read every Secret. field is what
// names it in a Release, for messages.
func (s *Sources) readSecret(ctx context.Context, namespace, name, field string) (map[string][]byte, error) {
	var secret corev1.Secret
	err := s.hub.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, failed(err, "Secret %s does not exist; create it or correct %s", name, field)
	case apierrors.IsForbidden(err):
		return nil, failed(err, "convoy may not read Secret %s; let it get Secrets there", name)
	case err != nil:
		return nil, failed(err, "Secret %s could not be read from the hub", name)
	case delivery.OwnsSecret(string(secret.Type)):
		return nil, failed(nil, "Secret %s is convoy's own; name another one in %s", name, field)
	}
	clusters, err := join(ctx, s.flights, "clusters "+namespace, func(ctx context.Context) ([]v1alpha1.Cluster, error) {
		var list v1alpha1.ClusterList
		// Version 0 lets the API server answer from its memory: this is asked for at each look at a source.
		err := s.hub.List(ctx, &list, client.InNamespace(namespace), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}})
		return list.Items, err
	})
	if err != nil {
		return nil, failed(err, "the Clusters of the namespace could not be read from the hub")
	}
	if cluster := delivery.NamedBy(clusters, name); cluster != "" {
		return nil, failed(nil, "Secret %s is the one that Cluster %s connects with; name another one in %s", name, cluster, field)
	}
	return secret.Data, nil
}

// credentialOf takes from the data of a Secret what opens a, and nothing else. Messages name keys, never values.
func credentialOf(secret string, data map[string][]byte, a address) (credential, error) {
	c := credential{secret: secret}
	if a.scheme() == schemeSSH {
		c.identity, c.knownHosts, c.password = data[keyIdentity], data[keyKnownHosts], line(data[keyPassword])
		if len(c.identity) == 0 || len(bytes.TrimSpace(c.knownHosts)) == 0 {
			return credential{}, failed(nil, "Secret %s lacks key %s or %s; ssh needs both", secret, keyIdentity, keyKnownHosts)
		}
		c.key = fingerprint(c.identity, c.knownHosts, []byte(c.password))
		return c, nil
	}
	return webCredential(secret, data)
}

// webCredential takes a login or an authority, or both, for servers that are asked over HTTP.
func webCredential(secret string, data map[string][]byte) (credential, error) {
	c, err := authorityOf(secret, data)
	if err != nil {
		return credential{}, err
	}
	c.username, c.password, c.token = line(data[keyUsername]), line(data[keyPassword]), line(data[keyToken])
	switch {
	case c.username == "" && c.password == "" && c.token == "" && len(c.authority) == 0:
		return credential{}, failed(nil, "Secret %s holds neither %s and %s, nor %s, nor %s", secret, keyUsername, keyPassword, keyToken, keyAuthority)
	case c.token != "" && c.username+c.password != "":
		return credential{}, failed(nil, "Secret %s holds both %s and %s or %s; remove one kind", secret, keyToken, keyUsername, keyPassword)
	case (c.username == "") != (c.password == ""):
		return credential{}, failed(nil, "Secret %s lacks key %s or %s; one needs the other", secret, keyUsername, keyPassword)
	case strings.ContainsAny(c.token, "\r\n\x00"):
		return credential{}, failed(nil, "Secret %s has more than one line in key %s", secret, keyToken)
	case strings.Contains(c.username, ":"):
		return credential{}, failed(nil, "Secret %s has a colon in key %s", secret, keyUsername)
	}
	c.key = fingerprint([]byte(c.username), []byte(c.password), []byte(c.token), c.authority)
	return c, nil
}

// authorityOf takes the authority of a Secret, which it need not hold.
func authorityOf(secret string, data map[string][]byte) (credential, error) {
	c := credential{secret: secret, authority: data[keyAuthority]}
	if len(c.authority) > 0 && !x509.NewCertPool().AppendCertsFromPEM(c.authority) {
		return credential{}, failed(nil, "Secret %s holds no PEM certificate in key %s", secret, keyAuthority)
	}
	return c, nil
}

// line takes off the line breaks at the end, which editors add.
func line(value []byte) string { return strings.TrimRight(string(value), "\r\n") }

// fingerprint hashes parts. Lengths go first, so that no two lists have the same input.
func fingerprint(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(p)))
		_, _ = h.Write(size[:])
		_, _ = h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil))
}
