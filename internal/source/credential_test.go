package source

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
)

// vault is a hub with the Secrets and Clusters of the namespace team.
type vault struct {
	client.Reader
	mu       sync.Mutex
	secrets  map[string]corev1.Secret
	clusters []v1alpha1.Cluster
	err      error
}

func (v *vault) set(name string, data map[string]string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := corev1.Secret{Data: map[string][]byte{}}
	for key, value := range data {
		s.Data[key] = []byte(value)
	}
	if v.secrets == nil {
		v.secrets = map[string]corev1.Secret{}
	}
	v.secrets[name] = s
}

func (v *vault) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	s, ok := v.secrets[key.Name]
	switch {
	case v.err != nil:
		return v.err
	case !ok || key.Namespace != "team":
		return apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, key.Name)
	}
	s.DeepCopyInto(o.(*corev1.Secret))
	return nil
}

func (v *vault) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*v1alpha1.ClusterList).Items = v.clusters
	return nil
}

// with names a Secret in a source.
func with(src v1alpha1.Source, secret string) v1alpha1.Source {
	git := *src.Git
	git.SecretRef = &v1alpha1.SourceSecretRef{Name: secret}
	return v1alpha1.Source{Git: &git}
}

// tlsServer serves the repositories of s over https to those whose Authorization header is permitted.
func tlsServer(t *testing.T, s *gitServer, permitted func(r *http.Request) int) (url, authority string) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status := permitted(r); status != http.StatusOK {
			http.Error(w, "S3NT1NEL of the far side", status)
			return
		}
		s.handler.ServeHTTP(w, r)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return server.URL + "/app.git", string(certificate)
}

func basic(user, password string) func(*http.Request) int {
	return func(r *http.Request) int {
		if u, p, ok := r.BasicAuth(); !ok || u != user || p != password {
			return http.StatusUnauthorized
		}
		return http.StatusOK
	}
}

func TestHTTPSIsOpenedWithALoginOrATokenAndAnAuthorityOfOnesOwn(t *testing.T) {
	s := newGitServer(t)
	commit := s.push(map[string]string{"f": "one"})
	byLogin, authority := tlsServer(t, s, basic("me", "S3NT1NEL"))
	byToken, _ := tlsServer(t, s, func(r *http.Request) int {
		if r.Header.Get("Authorization") != "Bearer S3NT1NEL" {
			return http.StatusForbidden
		}
		return http.StatusOK
	})
	v := &vault{}
	v.set("login", map[string]string{"username": "me\n", "password": "S3NT1NEL\r\n", "ca.crt": authority, "unrelated": "x"})
	v.set("token", map[string]string{"bearerToken": "S3NT1NEL\n", "ca.crt": authority})
	v.set("ca", map[string]string{"ca.crt": authority})
	v.set("wrong", map[string]string{"username": "me", "password": "wrong", "ca.crt": authority})
	v.set("untrusted", map[string]string{"username": "me", "password": "S3NT1NEL"})
	v.set("other-ca", map[string]string{"username": "me", "password": "S3NT1NEL", "ca.crt": otherAuthority(t)})
	for _, tc := range []struct{ url, secret, message string }{
		{byLogin, "login", ""},
		{byToken, "token", ""},
		{byLogin, "wrong", "repository URL refuses the credentials of Secret wrong"},
		{byToken, "login", "repository URL may not be read with the credentials of Secret login"},
		{byLogin, "ca", "repository URL does not exist, or asks for credentials; name their Secret in spec.source.git.secretRef"},
		{byLogin, "untrusted", "repository URL has a certificate that is not trusted"},
		{byLogin, "other-ca", "repository URL has a certificate that is not trusted by key ca.crt of Secret other-ca"},
	} {
		b, err := New(v, anywhere, Limits{}).Fetch(t.Context(), "team", with(gitSource(tc.url, "main", ""), tc.secret))
		if tc.message != "" {
			wantFailure(t, err, tc.url, false, v1alpha1.ReasonSourceFailed, tc.message)
		} else if err != nil || b.Revision != "main@sha1:"+commit {
			t.Errorf("with Secret %s: %v, %v", tc.secret, b, err)
		}
	}
	missing := strings.Replace(byLogin, "app.git", "missing.git", 1)
	_, err := New(v, anywhere, Limits{}).Fetch(t.Context(), "team", with(gitSource(missing, "main", ""), "login"))
	wantFailure(t, err, missing, false, v1alpha1.ReasonSourceNotFound, "repository URL does not exist, or the credentials of Secret login may not read it")
}

// otherAuthority is a certificate that no server of these tests has.
func otherAuthority(t *testing.T) string {
	t.Helper()
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: selfSigned(t)}))
}

func TestWhatOneCredentialOpenedIsNotGivenToAnother(t *testing.T) {
	s := newGitServer(t)
	s.push(map[string]string{"f": "private"})
	url, authority := tlsServer(t, s, basic("me", "S3NT1NEL"))
	v := &vault{}
	v.set("good", map[string]string{"username": "me", "password": "S3NT1NEL", "ca.crt": authority})
	v.set("bad", map[string]string{"username": "me", "password": "guess", "ca.crt": authority})
	sources := New(v, anywhere, Limits{})
	b, err := sources.Fetch(t.Context(), "team", with(gitSource(url, "main", ""), "good"))
	if err != nil {
		t.Fatal(err)
	}
	for _, src := range []v1alpha1.Source{with(gitSource(url, "main", ""), "bad"), gitSource(url, "main", "")} {
		if b, err := sources.Open(t.Context(), "team", src, b.Revision); err == nil {
			t.Errorf("opened without the credential: %v", b)
		}
		if b, err := sources.Fetch(t.Context(), "team", src); err == nil {
			t.Errorf("fetched without the credential: %v", b)
		}
	}
	packs := s.packs.Load()
	if _, err := sources.Open(t.Context(), "team", with(gitSource(url, "main", ""), "good"), b.Revision); err != nil || s.packs.Load() != packs {
		t.Errorf("from the cache with the credential: %v", err)
	}
	v.set("good", map[string]string{"username": "me", "password": "revoked", "ca.crt": authority})
	if _, err := sources.Open(t.Context(), "team", with(gitSource(url, "main", ""), "good"), b.Revision); err == nil {
		t.Error("opened after the Secret had changed")
	}
}

func TestCredentialsAreNotSentOverPlainHTTPUnlessTheOperatorPermitsIt(t *testing.T) {
	s := newGitServer(t)
	s.push(map[string]string{"f": "one"})
	v := &vault{}
	v.set("login", map[string]string{"username": "me", "password": "S3NT1NEL"})
	src := with(s.source(""), "login")
	_, err := New(v, anywhere, Limits{}).Fetch(t.Context(), "team", src)
	wantFailure(t, err, "", true, v1alpha1.ReasonSourceFailed,
		"spec.source.git.url is plain http, over which convoy sends no credentials unless its operator permits it with --allow-plain-http-credentials; use https")
	if n := s.lists.Load(); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
	if _, err := New(v, anywhere, Limits{AllowPlainHTTPCredentials: true}).Fetch(t.Context(), "team", src); err != nil {
		t.Errorf("permitted: %v", err)
	}
}

func TestACredentialFollowsNoRedirectToAnotherHost(t *testing.T) {
	s := newGitServer(t)
	s.push(map[string]string{"f": "one"})
	v := &vault{}
	v.set("login", map[string]string{"username": "me", "password": "S3NT1NEL"})
	v.set("token", map[string]string{"bearerToken": "S3NT1NEL"})
	var leaked sync.Map
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			leaked.Store(r.Method, true)
		}
		s.handler.ServeHTTP(w, r)
	}))
	defer other.Close()
	asked := 0
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			asked++
		}
		http.Redirect(w, r, other.URL+r.URL.RequestURI(), http.StatusFound)
	}))
	defer first.Close()
	for _, secret := range []string{"login", "token"} {
		sources := New(v, anywhere, Limits{AllowPlainHTTPCredentials: true})
		if _, err := sources.Fetch(t.Context(), "team", with(gitSource(first.URL+"/app.git", "main", ""), secret)); err != nil {
			t.Error(err)
		}
	}
	leaked.Range(func(method, _ any) bool {
		t.Errorf("%s to the other host carried the credential", method)
		return true
	})
	if asked != 2 {
		t.Errorf("the host of the source saw the credential %d times, want twice", asked)
	}
}

func TestASecretThatCannotOpenASourceIsNamedWithoutItsContent(t *testing.T) {
	const secretRef = "in spec.source.git.secretRef"
	key, _ := identity(t)
	sealed, _ := sealedIdentity(t)
	https, overSSH := "https://127.0.0.1:1/x", "git@127.0.0.1:x"
	for name, tc := range map[string]struct {
		url     string
		data    map[string]string
		message string
	}{
		"nothing":         {https, map[string]string{"token": "S3NT1NEL"}, "Secret s holds neither username and password, nor bearerToken, nor ca.crt"},
		"half a login":    {https, map[string]string{"username": "S3NT1NEL"}, "Secret s lacks key username or password; one needs the other"},
		"two kinds":       {https, map[string]string{"username": "S3NT1NEL", "password": "x", "bearerToken": "x"}, "Secret s holds both bearerToken and username or password; remove one kind"},
		"a long token":    {https, map[string]string{"bearerToken": "S3NT1NEL\nX-Evil: x"}, "Secret s has more than one line in key bearerToken"},
		"a colon":         {https, map[string]string{"username": "S3NT1NEL:", "password": "x"}, "Secret s has a colon in key username"},
		"no certificate":  {https, map[string]string{"ca.crt": "S3NT1NEL"}, "Secret s holds no PEM certificate in key ca.crt"},
		"no known hosts":  {overSSH, map[string]string{"identity": key, "known_hosts": "\n"}, "Secret s lacks key identity or known_hosts; ssh needs both"},
		"no identity":     {overSSH, map[string]string{"known_hosts": "x"}, "Secret s lacks key identity or known_hosts; ssh needs both"},
		"bad known hosts": {overSSH, map[string]string{"identity": key, "known_hosts": "S3NT1NEL"}, "repository git@127.0.0.1:x cannot be fetched: Secret s holds in key known_hosts what OpenSSH would not write"},
		"a bad identity":  {overSSH, map[string]string{"identity": "S3NT1NEL", "known_hosts": "# none"}, "repository git@127.0.0.1:x cannot be fetched: Secret s holds no private key in key identity"},
		"no passphrase":   {overSSH, map[string]string{"identity": sealed, "known_hosts": "# none"}, "repository git@127.0.0.1:x cannot be fetched: Secret s has not the passphrase of identity in key password"},
		"its passphrase":  {overSSH, map[string]string{"identity": sealed, "known_hosts": "# none", "password": "wrong"}, "repository git@127.0.0.1:x cannot be fetched: Secret s has not the passphrase of identity in key password"},
	} {
		v := &vault{}
		v.set("s", tc.data)
		_, err := New(v, anywhere, Limits{}).Fetch(t.Context(), "team", with(gitSource(tc.url, "main", ""), "s"))
		t.Run(name, func(t *testing.T) { wantFailure(t, err, "", false, v1alpha1.ReasonSourceFailed, tc.message) })
	}

	v := &vault{}
	fetch := func() error {
		_, err := New(v, anywhere, Limits{}).Fetch(t.Context(), "team", with(gitSource(https, "main", ""), "s"))
		return err
	}
	wantFailure(t, fetch(), "", false, v1alpha1.ReasonSourceFailed, "Secret s does not exist; create it or correct spec.source.git.secretRef")
	for _, own := range []corev1.SecretType{v1alpha1.SecretTypeCredentials, "convoy.kumodo.io/render"} {
		v.secrets = map[string]corev1.Secret{"s": {Type: own, Data: map[string][]byte{"bearerToken": []byte("S3NT1NEL")}}}
		wantFailure(t, fetch(), "", false, v1alpha1.ReasonSourceFailed, "Secret s is convoy's own; name another one "+secretRef)
	}
	v.set("s", map[string]string{"bearerToken": "S3NT1NEL"})
	for _, auth := range []v1alpha1.ClusterAuth{
		{Kubeconfig: &v1alpha1.KubeconfigAuth{SecretRef: v1alpha1.KubeconfigSecretRef{Name: "s"}}},
		{Token: &v1alpha1.TokenAuth{SecretRef: v1alpha1.TokenSecretRef{Name: "s"}}},
		{ClientCertificate: &v1alpha1.ClientCertificateAuth{SecretRef: v1alpha1.CertificateSecretRef{Name: "s"}}},
	} {
		c := v1alpha1.Cluster{Spec: v1alpha1.ClusterSpec{Agentless: &v1alpha1.AgentlessConnection{Auth: auth}}}
		c.Name = "prod"
		v.clusters = []v1alpha1.Cluster{{}, c}
		wantFailure(t, fetch(), "", false, v1alpha1.ReasonSourceFailed, "Secret s is the one that Cluster prod connects with; name another one "+secretRef)
	}
	v.err = errors.New("S3NT1NEL")
	wantFailure(t, fetch(), "", false, v1alpha1.ReasonSourceFailed, "Secret s could not be read from the hub")
	v.err = apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "s", v.err)
	wantFailure(t, fetch(), "", false, v1alpha1.ReasonSourceFailed, "convoy may not read Secret s; let it get Secrets there")
}

// identity is a new private key as OpenSSH writes it.
func identity(t *testing.T) (private string, public ssh.PublicKey) {
	t.Helper()
	private, public, err := newIdentity("")
	if err != nil {
		t.Fatal(err)
	}
	return private, public
}

// sealed is made once, since a passphrase costs time on purpose.
var sealed = sync.OnceValues(func() (key [2]any, err error) {
	private, public, err := newIdentity("S3NT1NEL")
	return [2]any{private, public}, err
})

// sealedIdentity is a private key with the passphrase S3NT1NEL.
func sealedIdentity(t *testing.T) (private string, public ssh.PublicKey) {
	t.Helper()
	key, err := sealed()
	if err != nil {
		t.Fatal(err)
	}
	return key[0].(string), key[1].(ssh.PublicKey)
}

func newIdentity(passphrase string) (private string, public ssh.PublicKey, err error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", nil, err
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		return "", nil, err
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if passphrase != "" {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte(passphrase))
	}
	if err != nil {
		return "", nil, err
	}
	return string(pem.EncodeToMemory(block)), signer.PublicKey(), nil
}
