package connect

import (
	"encoding/pem"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/failure"
)

// authority of the real API server as PEM.
func realAuthority() []byte { return environment.Config.CAData }

// withAuth is a Cluster at a server, whose CA is in a ConfigMap.
func withAuth(server string, auth v1alpha1.ClusterAuth) *v1alpha1.Cluster {
	c := cluster("u", "")
	c.Spec.Agentless.Server = server
	c.Spec.Agentless.CAPublicCertRef = &v1alpha1.CAPublicCertRef{Kind: "ConfigMap", Name: "ca", Key: "ca.crt"}
	c.Spec.Agentless.Auth = auth
	return c
}

func tokenAuth() v1alpha1.ClusterAuth {
	return v1alpha1.ClusterAuth{Type: "token", Token: &v1alpha1.TokenAuth{SecretRef: v1alpha1.TokenSecretRef{Name: "target", Key: "token"}}}
}

func certificateAuth() v1alpha1.ClusterAuth {
	return v1alpha1.ClusterAuth{Type: "clientCertificate", ClientCertificate: &v1alpha1.ClientCertificateAuth{
		SecretRef: v1alpha1.CertificateSecretRef{Name: "target"},
	}}
}

// realToken is a token of a service account that may do anything on the real API server.
func realToken(t *testing.T) string {
	t.Helper()
	k, err := kubernetes.NewForConfig(environment.Config)
	if err != nil {
		t.Fatal(err)
	}
	account, err := k.CoreV1().ServiceAccounts("default").Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{GenerateName: "deployer-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = k.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: account.Name}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := k.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), account.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return out.Status.Token
}

func TestATokenAndAClientCertificateConnectToTheServerOfTheSpec(t *testing.T) {
	user, err := environment.AddUser(envtest.User{Name: "convoy", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	token := realToken(t)
	for name, tc := range map[string]struct {
		auth   v1alpha1.ClusterAuth
		secret map[string][]byte
		who    string
	}{
		"token":                    {tokenAuth(), map[string][]byte{"token": []byte(token)}, "system:serviceaccount:default:"},
		"token with a line break":  {tokenAuth(), map[string][]byte{"token": []byte(token + "\n")}, "system:serviceaccount:default:"},
		"token with a CRLF at end": {tokenAuth(), map[string][]byte{"token": []byte(token + "\r\n")}, "system:serviceaccount:default:"},
		"client certificate": {certificateAuth(), map[string][]byte{
			"tls.crt": user.Config().CertData, "tls.key": user.Config().KeyData,
		}, "convoy"},
	} {
		h := &hub{}
		h.putCA("1", map[string]string{"ca.crt": string(realAuthority())})
		h.putSecret("target", "s", "1", tc.secret)
		c, err := newPool(t, h, Options{}).Client(t.Context(), withAuth(environment.Config.Host, tc.auth))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := c.Probe(t.Context(), &v1alpha1.Cluster{}); err != nil {
			t.Errorf("%s: probe: %v", name, err)
		}
		review, err := c.Dynamic.Resource(authenticationv1.SchemeGroupVersion.WithResource("selfsubjectreviews")).
			Create(t.Context(), selfSubjectReview(), metav1.CreateOptions{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := userOf(review); !strings.HasPrefix(got, tc.who) {
			t.Errorf("%s: the server sees %s, want %s", name, got, tc.who)
		}
	}
}

func TestMaterialThatDoesNotConnectIsNamed(t *testing.T) {
	certificate := newAuthority(t).issue(t, "a", 1e12)
	crt := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})
	secret := func(pairs ...string) map[string][]byte {
		out := map[string][]byte{}
		for i := 0; i < len(pairs); i += 2 {
			out[pairs[i]] = []byte(pairs[i+1])
		}
		return out
	}
	const at = "Secret target in namespace team"
	for name, tc := range map[string]struct {
		auth                 v1alpha1.ClusterAuth
		secret               map[string][]byte
		server, ca, mapEntry string
		reason, want         string
	}{
		"no Secret": {tokenAuth(), nil, "", "", "", "ProbeFailed", at + " does not exist in namespace team: create it"},
		"a name that is none": {
			v1alpha1.ClusterAuth{Type: "token", Token: &v1alpha1.TokenAuth{SecretRef: v1alpha1.TokenSecretRef{Name: "../a/b", Key: "token"}}},
			nil, "", "", "", "ProbeFailed", "../a/b is not the name of a Secret",
		},
		"no key":            {tokenAuth(), secret("jwt", "x"), "", "", "", "ProbeFailed", at + " has no key token: set secretRef.key"},
		"nothing but lines": {tokenAuth(), secret("token", "\r\n\n"), "", "", "", "ProbeFailed", at + ", key token holds no token"},
		"a line inside": {
			tokenAuth(), secret("token", "a\r\nX-Injected: b"), "", "", "", "ProbeFailed",
			at + ", key token holds a space or another character that a header cannot carry",
		},
		"a huge token": {
			tokenAuth(), secret("token", strings.Repeat("x", 1<<20)), "", "", "", "ProbeFailed",
			at + ", key token is larger than 64 KiB, which no token is",
		},
		"no server":         {tokenAuth(), secret("token", "x"), "-", "", "", "ProbeFailed", "spec.agentless.server is not set"},
		"no scheme":         {tokenAuth(), secret("token", "x"), "kube.example.test:6443", "", "", "ProbeFailed", "spec.agentless.server is not an https URL"},
		"plain http":        {tokenAuth(), secret("token", "x"), "http://127.0.0.1:1", "", "", "Unsupported", "spec.agentless.server is plain http, which is not supported: use https"},
		"a user in the URL": {tokenAuth(), secret("token", "x"), "https://a:b@127.0.0.1:1", "", "", "Unsupported", "spec.agentless.server holds a user name, which is not supported: use a token or a client certificate"},
		"no CA":             {tokenAuth(), secret("token", "x"), "", "-", "", "ProbeFailed", "ConfigMap ca does not exist in namespace team: create it"},
		"no CA key":         {tokenAuth(), secret("token", "x"), "", "x", "root.pem", "ProbeFailed", "ConfigMap ca in namespace team has no key ca.crt: set caPublicCertRef.key"},
		"a CA that is none": {tokenAuth(), secret("token", "x"), "", "not PEM", "", "ProbeFailed", "ConfigMap ca in namespace team, key ca.crt holds no PEM certificate"},
		"no certificate":    {certificateAuth(), secret("tls.key", "x"), "", "", "", "ProbeFailed", at + " has no key tls.crt"},
		"no private key":    {certificateAuth(), secret("tls.crt", string(crt)), "", "", "", "ProbeFailed", at + " has no key tls.key"},
		"a key of something else": {
			certificateAuth(), secret("tls.crt", string(crt), "tls.key", string(crt)), "", "", "", "ProbeFailed",
			at + ", key tls.crt and key tls.key are not a PEM certificate and its key",
		},
	} {
		h := &hub{}
		h.putSecret("target", "s", "1", tc.secret)
		ca, mapEntry, server := tc.ca, tc.mapEntry, tc.server
		if ca == "" {
			ca = string(realAuthority())
		}
		if mapEntry == "" {
			mapEntry = "ca.crt"
		}
		if ca != "-" {
			h.putCA("1", map[string]string{mapEntry: ca})
		}
		switch server {
		case "":
			server = "https://127.0.0.1:1"
		case "-":
			server = ""
		}
		_, err := newPool(t, h, Options{}).Client(t.Context(), withAuth(server, tc.auth))
		f, ok := failure.As(err)
		want := strings.Replace(tc.want, at+" does not exist in namespace team", "Secret target does not exist in namespace team", 1)
		if !ok || f.Message != want || f.Reason != tc.reason || !Unreachable(err) {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
}

func TestAChangeOfWhateverAConnectionIsBuiltFromMakesANewClient(t *testing.T) {
	h := &hub{}
	h.putCA("1", map[string]string{"ca.crt": string(realAuthority())})
	h.putSecret("target", "s", "1", map[string][]byte{"token": []byte("a")})
	p := newPool(t, h, Options{})
	server := "https://127.0.0.1:1"
	last := ""
	for _, step := range []struct {
		what   string
		change func()
	}{
		{"nothing yet", func() {}},
		{"the server", func() { server = "https://127.0.0.1:2" }},
		{"the token", func() { h.putSecret("target", "s", "2", map[string][]byte{"token": []byte("b")}) }},
		{"the Secret, made again", func() { h.putSecret("target", "s2", "2", map[string][]byte{"token": []byte("b")}) }},
		{"the CA", func() { h.putCA("2", map[string]string{"ca.crt": string(realAuthority())}) }},
	} {
		step.change()
		c, err := p.Client(t.Context(), withAuth(server, tokenAuth()))
		if err != nil {
			t.Fatal(err)
		}
		again, err := p.Client(t.Context(), withAuth(server, tokenAuth()))
		if err != nil || again != c {
			t.Errorf("%s: asked again, there is another client (%v)", step.what, err)
		}
		if now := c.material.version(); now == last {
			t.Errorf("a change of %s left the client as it was", step.what)
		} else {
			last = now
		}
	}
}

func TestKeptCredentialsConnectOnlyForACleanUpWithoutOthers(t *testing.T) {
	user, err := environment.AddUser(envtest.User{Name: "convoy", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := user.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		auth   v1alpha1.ClusterAuth
		secret map[string][]byte
	}{
		"kubeconfig": {cluster("u", "kubeconfig").Spec.Agentless.Auth, map[string][]byte{"kubeconfig": kubeconfig}},
		"token":      {tokenAuth(), map[string][]byte{"token": []byte(realToken(t))}},
		"clientCertificate": {certificateAuth(), map[string][]byte{
			"tls.crt": user.Config().CertData, "tls.key": user.Config().KeyData,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			h := &hub{}
			h.putCA("1", map[string]string{"ca.crt": string(realAuthority())})
			h.putSecret("target", "s", "1", tc.secret)
			p := newPool(t, h, Options{})
			c := withAuth(environment.Config.Host, tc.auth)
			good, err := p.ClientForCleanup(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			data := good.Credentials()
			h.putSecret("target", "", "", nil) // the user's own Secret goes
			_, missing := p.ClientForCleanup(t.Context(), c)
			if _, ok := failure.As(missing); !ok {
				t.Errorf("without anything kept: %v", missing)
			}
			h.putSecret(KeptName("u"), "k", "1", data)
			if _, err := p.Client(t.Context(), c); err == nil || err.Error() != missing.Error() {
				t.Errorf("the kept credentials are used for more than a clean-up: %v", err)
			}
			kept, err := p.ClientForCleanup(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := kept.Probe(t.Context(), &v1alpha1.Cluster{}); err != nil {
				t.Errorf("the kept credentials do not connect: %v", err)
			}
			if diff := cmp.Diff(data, kept.material.keptData()); diff != "" {
				t.Errorf("what is kept does not survive being read: %s", diff)
			}
			// A probe that finds no Secret leaves the clean-up its client.
			_, _ = p.Client(t.Context(), c)
			if again, err := p.ClientForCleanup(t.Context(), c); err != nil || again != kept {
				t.Errorf("the client of the clean-up was replaced: %v", err)
			}
			named := c.DeepCopy()
			named.UID = "other"
			named.Spec.Agentless.Auth = tokenAuth()
			named.Spec.Agentless.Auth.Token.SecretRef.Name = KeptName("u")
			_, err = p.Client(t.Context(), named)
			want := "Secret convoy-credentials-u in namespace team is convoy's own: name another one"
			if err == nil || err.Error() != want {
				t.Errorf("a Cluster that names kept credentials: %v", err)
			}
			p.Evict("u")
			select {
			case <-kept.Done():
			default:
				t.Error("the client of the clean-up outlives its Cluster")
			}
		})
	}
}

func FuzzMaterial(f *testing.F) {
	crt := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("none")})
	f.Add("https://kube.example.test:6443", []byte("t0k\r\n"), []byte(nil), []byte(nil), []byte(nil))
	f.Add("https://[::1]/k8s/clusters/c-1", []byte(nil), crt, crt, crt)
	f.Add("kube.example.test", []byte("a b"), []byte("\x00"), []byte("-----BEGIN"), []byte("\xff"))
	f.Fuzz(func(t *testing.T, server string, token, certificate, key, ca []byte) {
		at := func(name string, data []byte) entry {
			return entry{where: "Secret s in namespace n, key " + name, data: data}
		}
		m := material{auth: "token", server: server, token: at("token", token), authority: at("ca.crt", ca)}
		if ca == nil {
			m.authority = entry{}
		}
		if certificate != nil {
			m.auth, m.token = "clientCertificate", entry{}
			m.certificate, m.privateKey = at("tls.crt", certificate), at("tls.key", key)
		}
		e, err := m.endpoint(Options{})
		if err != nil {
			checkMessage(t, err)
			return
		}
		u, err := url.Parse(e.server)
		if err != nil || u.Scheme != "https" || u.Hostname() == "" || e.server != server {
			t.Errorf("server %q is not the https URL that was given", e.server)
		}
		if strings.ContainsAny(e.token, "\r\n ") || m.auth == "token" && e.token == "" {
			t.Errorf("token %q cannot be sent", e.token)
		}
	})
}
