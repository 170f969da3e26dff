package e2e

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"kumodo.io/convoy/api/v1alpha1"
)

// input is what a Secret holds for a kubeconfig, and what the Cluster is to say about it. With reason Reachable it is Ready.
type input struct {
	kubeconfig []byte
	reason     string
	names      []string
}

// parts are the pieces that a kubeconfig of alpha is put together from, so that one of them can be another.
type parts struct {
	head, context, cluster, user string
}

func soundParts(t *testing.T) parts {
	t.Helper()
	ca, err := alpha.CA()
	if err != nil {
		t.Fatal(err)
	}
	cert, key := clientPair(t, "input")
	return parts{
		head:    "apiVersion: v1\nkind: Config\ncurrent-context: east\n",
		context: "{cluster: prod, user: ops}",
		cluster: fmt.Sprintf("{server: %q, certificate-authority-data: %s}", alpha.Server, base64.StdEncoding.EncodeToString(ca)),
		user:    fmt.Sprintf("{client-certificate-data: %s, client-key-data: %s}", cert, key),
	}
}

// clientPair is a client certificate of an administrator, and its key, as a kubeconfig has them.
func clientPair(t *testing.T, user string) (certificate, key string) {
	t.Helper()
	config, err := clientcmd.Load(kubeconfigFor(t, alpha, user))
	if err != nil {
		t.Fatal(err)
	}
	a := config.AuthInfos[user]
	return base64.StdEncoding.EncodeToString(a.ClientCertificateData), base64.StdEncoding.EncodeToString(a.ClientKeyData)
}

func (p parts) with(change func(*parts)) []byte {
	change(&p)
	return []byte(p.head + "contexts:\n- name: east\n  context: " + p.context + "\nclusters:\n- name: prod\n  cluster: " + p.cluster +
		"\nusers:\n- name: ops\n  user: " + p.user + "\n")
}

// unreadable are contents that are no kubeconfig at all, or not only one.
func unreadable(p parts) map[string]input {
	whole := p.with(func(*parts) {})
	noise := make([]byte, 4096)
	source := rand.New(rand.NewPCG(1, 2)) // the same noise each time
	for i := range noise {
		noise[i] = byte(source.Uint32())
	}
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 12; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 8), i-1)
	}
	failed := func(content string, names ...string) input {
		return input{[]byte(content), v1alpha1.ReasonProbeFailed, names}
	}
	return map[string]input{
		"noise":           failed(string(noise), "UTF-8"),
		"alias-bomb":      {[]byte(bomb + string(whole)), v1alpha1.ReasonUnsupported, []string{"anchors"}},
		"nesting":         failed(strings.Repeat("a: [", 900<<10/4), "larger than"),
		"some-nesting":    failed(strings.Repeat("a: [", 40<<10/4), "not valid YAML"),
		"null":            failed("null", "empty"),
		"list":            failed("- a\n- b\n", "not a mapping"),
		"json-string":     failed(`"just text"`, "not a mapping"),
		"pod":             {[]byte("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: []}\n"), v1alpha1.ReasonProbeFailed, []string{"kind is not Config"}},
		"another-kind":    failed(strings.Replace(string(whole), "kind: Config", "kind: Pod", 1), "kind"),
		"two-documents":   failed(string(whole)+"---\n"+string(whole), "more than one document"),
		"large-token":     failed(string(p.with(func(p *parts) { p.user = "{token: " + strings.Repeat("x", 1<<20-8<<10) + "}" })), "larger than"),
		"byte-order-mark": {append([]byte("\xef\xbb\xbf"), whole...), v1alpha1.ReasonReachable, nil},
		"crlf-lines":      {bytes.ReplaceAll(whole, []byte("\n"), []byte("\r\n")), v1alpha1.ReasonReachable, nil},
	}
}

// incomplete are kubeconfigs that lack something or hold something that is not what it should be.
func incomplete(t *testing.T, p parts) map[string]input {
	t.Helper()
	_, otherKey := clientPair(t, "other")
	cert, _ := clientPair(t, "input")
	garbage := base64.StdEncoding.EncodeToString([]byte("no PEM"))
	failed := func(change func(*parts), names ...string) input {
		return input{p.with(change), v1alpha1.ReasonProbeFailed, names}
	}
	user := func(user string, names ...string) input { return failed(func(p *parts) { p.user = user }, names...) }
	cluster := func(cluster string, names ...string) input {
		return failed(func(p *parts) { p.cluster = cluster }, names...)
	}
	host := strings.TrimPrefix(alpha.Server, "https://")
	return map[string]input{
		"no-current-context":  failed(func(p *parts) { p.head = "current-context: ''\n" }, "current-context"),
		"missing-context":     failed(func(p *parts) { p.head = "current-context: west\n" }, "current-context", "west"),
		"missing-cluster":     failed(func(p *parts) { p.context = "{cluster: gone, user: ops}" }, "contexts[east]", "gone", "clusters"),
		"missing-user":        failed(func(p *parts) { p.context = "{cluster: prod, user: nobody}" }, "contexts[east]", "nobody", "users"),
		"no-server":           cluster("{certificate-authority-data: "+garbage+"}", "clusters[prod].cluster.server"),
		"no-scheme":           cluster(fmt.Sprintf("{server: %q}", host), "clusters[prod].cluster.server", "https"),
		"wrong-ca":            cluster(fmt.Sprintf("{server: %q, certificate-authority-data: %s}", alpha.Server, garbage), "certificate-authority-data", "PEM"),
		"ca-is-not-base64":    cluster(fmt.Sprintf("{server: %q, certificate-authority-data: '%%%%'}", alpha.Server), "certificate-authority-data", "base64"),
		"another-key":         user("{client-certificate-data: "+cert+", client-key-data: "+otherKey+"}", "client-certificate-data", "client-key-data"),
		"certificate-no-pem":  user("{client-certificate-data: "+garbage+", client-key-data: "+garbage+"}", "client-certificate-data", "PEM"),
		"token-ends-in-line":  user(`{token: "`+secretToken("newline")+`\n"}`, "users[ops].user.token"),
		"token-ends-in-crlf":  user(`{token: "`+secretToken("crlf")+`\r\n"}`, "users[ops].user.token"),
		"token-adds-a-header": user(`{token: "`+secretToken("header")+`\r\nImpersonate-User: admin"}`, "users[ops].user.token"),
		// Without credentials, which is legal, the target knows nobody, and lets nobody read its groups.
		"no-credentials": user("{}", "HTTP 40"),
	}
}

// refused are kubeconfigs that ask for what convoy does not do.
func refused(p parts, marker, existing string) map[string]input {
	refusal := func(change func(*parts), names ...string) input {
		return input{p.with(change), v1alpha1.ReasonUnsupported, names}
	}
	add := func(at *string, field string) { *at = strings.TrimSuffix(*at, "}") + ", " + field + "}" }
	user := func(field, name string) input {
		return refusal(func(p *parts) { add(&p.user, field) }, "users[ops].user."+name)
	}
	cluster := func(field, name string) input {
		return refusal(func(p *parts) { add(&p.cluster, field) }, "clusters[prod].cluster."+name)
	}
	command := "command: touch, args: [" + marker + "]"
	return map[string]input{
		"exec":              user("exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, "+command+"}", "exec"),
		"auth-provider":     user("auth-provider: {name: gcp, config: {cmd-path: touch, cmd-args: "+marker+"}}", "auth-provider"),
		"token-file":        user("tokenFile: "+existing, "tokenFile"),
		"key-file":          user("client-key: "+existing, "client-key"),
		"certificate-file":  user("client-certificate: "+existing, "client-certificate"),
		"missing-key-file":  user("client-key: "+existing+"-missing", "client-key"),
		"ca-file":           cluster("certificate-authority: "+existing, "certificate-authority"),
		"missing-ca-file":   cluster("certificate-authority: "+existing+"-missing", "certificate-authority"),
		"insecure":          cluster("insecure-skip-tls-verify: true", "insecure-skip-tls-verify"),
		"proxy":             cluster("proxy-url: 'http://127.0.0.1:8080'", "proxy-url"),
		"impersonates":      user("as: somebody", "as"),
		"unknown-field":     user("tokens: x", "tokens"),
		"plain-http":        refusal(func(p *parts) { p.cluster = "{server: 'http://127.0.0.1:8080'}" }, "clusters[prod].cluster.server", "http"),
		"user-in-the-url":   refusal(func(p *parts) { p.cluster = "{server: 'https://u:" + stubSentinel + "@127.0.0.1:8080'}" }, "clusters[prod].cluster.server"),
		"anchors-elsewhere": refusal(func(p *parts) { p.head += "extensions: [&a {name: x}, *a]\n" }, "anchors"),
	}
}

// trap counts the connections to where clients go that nobody told where to go.
func trap(t *testing.T) *atomic.Int64 {
	t.Helper()
	n := &atomic.Int64{}
	l, err := net.Listen("tcp", "127.0.0.1:8080")
	if err != nil {
		t.Fatalf("this test listens on 127.0.0.1:8080, which clients fall back to: %v", err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n.Add(1)
			_ = c.Close()
		}
	}()
	// The home of convoy has a kubeconfig that leads here, too.
	home := filepath.Join(filepath.Dir(shared.log), ".kube")
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	content := tokenKubeconfig(t, "http://127.0.0.1:8080", nil, secretToken("home"))
	if err := os.WriteFile(filepath.Join(home, "config"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	return n
}

// It runs alone: it watches the memory of convoy.
func TestBadInputMakesOneClusterNotReadyWithANamedCauseAndNothingElse(t *testing.T) {
	s := newSerialScene(t)
	states := s.recordClusters()
	fallbacks := trap(t)
	s.readyCluster("healthy", alpha)
	s.greeting("greeting", "hello")
	s.release("app", "healthy", "greeting")
	s.awaitDelivered("app")
	s.awaitIdle("app")
	release := s.getRelease("app")
	marker, existing := filepath.Join(t.TempDir(), "was-here"), filepath.Join(t.TempDir(), "existing")
	s.must(os.WriteFile(existing, []byte(stubSentinel), 0o600))

	p := soundParts(t)
	inputs := unreadable(p)
	maps.Copy(inputs, incomplete(t, p))
	maps.Copy(inputs, refused(p, marker, existing))
	memory := watchMemory(t, shared.pid())
	for name, in := range inputs {
		secret := &corev1.Secret{ObjectMeta: s.meta(name + "-kubeconfig"), Data: map[string][]byte{"kubeconfig": in.kubeconfig}}
		s.create(secret)
		s.create(s.clusterOf(name))
	}
	messages := map[string]string{}
	for name, in := range inputs {
		messages[name] = s.wantVerdict(name, in)
	}
	memory.wantBelow(t, 256<<20)

	for _, file := range []string{"key-file", "ca-file"} {
		missing := strings.Replace(messages["missing-"+file], "missing-", "", 1) // the name of the Secret
		if messages[file] != missing {
			t.Errorf("a file that exists is told from one that does not: %q and %q", messages[file], missing)
		}
	}
	if _, err := os.Stat(marker); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a command of a kubeconfig was run (%v)", err)
	}
	if n := fallbacks.Load(); n > 0 {
		t.Errorf("there were %d connections to 127.0.0.1:8080", n)
	}
	states.wantAlwaysReady(s, "healthy")
	states.wantOnlyHeartbeats(s, "healthy")
	if now := s.getRelease("app"); now.ResourceVersion != release.ResourceVersion {
		t.Error("the Release of another Cluster was written")
	}
}

// wantVerdict waits for the verdict about an input and returns its message.
func (s *scene) wantVerdict(name string, in input) string {
	s.Helper()
	status := metav1.ConditionFalse
	if in.reason == v1alpha1.ReasonReachable {
		status = metav1.ConditionTrue
	}
	c := s.awaitCluster(name, status, in.reason)
	if c.Status.Reachable == nil || *c.Status.Reachable != (status == metav1.ConditionTrue) {
		s.Errorf("%s: status.reachable is %v", name, c.Status.Reachable)
	}
	m := s.wantMessage(c.Status.Conditions, v1alpha1.ConditionReady, in.names...)
	if len(m) > 300 || strings.ContainsAny(m, "\r\n\x00") || strings.Contains(m, stubSentinel) || strings.Contains(m, "t0k-") {
		s.Errorf("%s: the message is not short, or holds what it must not: %q", name, m)
	}
	return m
}

func TestAServerBehindAPathOrOnIPv6IsReachable(t *testing.T) {
	s := newScene(t)
	const prefix = "/k8s/clusters/c-1"
	proxy := newStub(t, "127.0.0.1", conduct{answer: forwards(t, alpha, prefix)})
	for name, server := range map[string]string{"without-slash": proxy.url + prefix, "with-slash": proxy.url + prefix + "/"} {
		s.cluster(name, tokenKubeconfig(t, server, proxy.ca, secretToken("path")))
		s.awaitCluster(name, metav1.ConditionTrue, v1alpha1.ReasonReachable)
	}
	s.greeting("greeting", "hello")
	s.release("app", "without-slash", "greeting")
	s.awaitDelivered("app")
	for _, r := range proxy.came() {
		if !strings.HasPrefix(r.URL.Path, prefix+"/") {
			t.Errorf("there was a request for %s, which is not below %s", r.URL.Path, prefix)
		}
	}
	if !hasIPv6() {
		s.cluster("v6", tokenKubeconfig(t, "https://[::1]:6443", proxy.ca, secretToken("v6")))
		c := s.awaitCluster("v6", metav1.ConditionFalse, v1alpha1.ReasonProbeFailed)
		s.wantQuiet("v6", readyMessage(c), "::1")
		return
	}
	v6 := newStub(t, "::1", conduct{answer: forwards(t, alpha, "")})
	s.cluster("v6", v6.kubeconfig(t, secretToken("v6")))
	s.awaitCluster("v6", metav1.ConditionTrue, v1alpha1.ReasonReachable)
}

func TestTheServerNameOfAKubeconfigHoldsForEveryRequest(t *testing.T) {
	s := newScene(t)
	named := authority(t).sign(t, func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"kube.example.test"} })
	server := newStub(t, "127.0.0.1", conduct{certificate: named, answer: forwards(t, alpha, "")})
	config, err := clientcmd.Load(server.kubeconfig(t, secretToken("name")))
	s.must(err)
	config.Clusters["stub"].TLSServerName = "kube.example.test"
	kubeconfig, err := clientcmd.Write(*config)
	s.must(err)
	s.cluster("prod", kubeconfig)
	s.greeting("greeting", "hello")
	release := s.release("app", "prod", "greeting")
	s.awaitDelivered("app")
	s.remove(release)
	s.awaitGone(s.hub, release)
}

func TestTheEntryOfASecretIsTheOneThatIsNamedOrOneOfTwoDefaults(t *testing.T) {
	s := newScene(t)
	good := string(alpha.Kubeconfig())
	for name, c := range map[string]struct {
		data  map[string]string
		key   string
		names []string // of the message when it is to fail
	}{
		"named":         {map[string]string{"admin.conf": good, "value": "null"}, "admin.conf", nil},
		"value":         {map[string]string{"value": good, "value.yaml": "null"}, "", nil},
		"value-yaml":    {map[string]string{"value.yaml": good, "a": "null"}, "", nil},
		"never-another": {map[string]string{"kubeconfig": good}, "", []string{"Secret never-another-kubeconfig", "namespace " + s.ns, "value.yaml"}},
		"nothing-in-it": {map[string]string{"kubeconfig": ""}, "kubeconfig", []string{"Secret nothing-in-it-kubeconfig", "key kubeconfig"}},
	} {
		s.secret(name+"-kubeconfig", c.data)
		cluster := s.clusterOf(name)
		cluster.Spec.Agentless.Auth.Kubeconfig.SecretRef.Key = c.key
		s.create(cluster)
		if c.names == nil {
			s.awaitCluster(name, metav1.ConditionTrue, v1alpha1.ReasonReachable)
			continue
		}
		failed := s.awaitCluster(name, metav1.ConditionFalse, v1alpha1.ReasonProbeFailed)
		s.wantMessage(failed.Status.Conditions, v1alpha1.ConditionReady, c.names...)
	}
}

func hasIPv6() bool {
	l, err := net.Listen("tcp", "[::1]:0")
	if err == nil {
		_ = l.Close()
	}
	return err == nil
}
