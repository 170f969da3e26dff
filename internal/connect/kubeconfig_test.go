package connect

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/failure"
)

const (
	contexts = "contexts: [{name: east, context: {cluster: t, user: ops}}]\n"
	clusters = "clusters: [{name: t, cluster: {server: 'https://127.0.0.1:6444'}}]\n"
	users    = "users: [{name: ops, user: {token: t0k}}]\n"
	current  = "current-context: east\n"
)

func withUser(fields string) string {
	return current + contexts + clusters + "users: [{name: ops, user: {" + fields + "}}]\n"
}

func withCluster(fields string) string {
	return current + contexts + users + "clusters: [{name: t, cluster: {" + fields + "}}]\n"
}

const reachable = "server: 'https://127.0.0.1:6444'"

func TestAKubeconfigFieldThatIsNotServedIsRefusedByName(t *testing.T) {
	other := "users[ops].user.%s is not supported: use %s"
	credential := "a token or a client certificate"
	for in, want := range map[string]string{
		withUser("exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/sh}"): fmt.Sprintf(other, "exec", credential),
		withUser("exec: {}"):                                   fmt.Sprintf(other, "exec", credential),
		withUser("auth-provider: {name: gcp}"):                 fmt.Sprintf(other, "auth-provider", credential),
		withUser("username: admin, password: s3cret"):          fmt.Sprintf(other, "username", credential),
		withUser("password: s3cret"):                           fmt.Sprintf(other, "password", credential),
		withUser("as: root"):                                   fmt.Sprintf(other, "as", "the credentials of that user"),
		withUser("as-uid: '1'"):                                fmt.Sprintf(other, "as-uid", "the credentials of that user"),
		withUser("as-groups: ['system:masters']"):              fmt.Sprintf(other, "as-groups", "the credentials of that user"),
		withUser("as-user-extra: {a: [b]}"):                    fmt.Sprintf(other, "as-user-extra", "the credentials of that user"),
		withUser("tokenFile: ../../etc/hostname"):              "users[ops].user.tokenFile is not supported: put the content itself into token",
		withUser("client-certificate: c.crt"):                  "users[ops].user.client-certificate is not supported: put the content itself into client-certificate-data",
		withUser("client-key: c.key"):                          "users[ops].user.client-key is not supported: put the content itself into client-key-data",
		withUser("tokn: x"):                                    "users[ops].user.tokn is not a kubeconfig field that convoy knows",
		withUser("Token: x"):                                   "users[ops].user.Token is not a kubeconfig field that convoy knows",
		withUser("'a\\nb': x"):                                 `users[ops].user."a\\nb" is not a kubeconfig field that convoy knows`,
		withCluster(reachable + ", certificate-authority: ca"): "clusters[t].cluster.certificate-authority is not supported: put the content itself into certificate-authority-data",
		withCluster(reachable + ", insecure-skip-tls-verify: true"): "clusters[t].cluster.insecure-skip-tls-verify is not permitted by the operator of convoy: " +
			"set certificate-authority-data",
		withCluster(reachable + ", proxy-url: 'http://127.0.0.1:3128'"): "clusters[t].cluster.proxy-url is not permitted by the operator of convoy: " +
			"name a server that convoy reaches directly",
		withCluster("server: 'http://127.0.0.1:8080'"):                              "clusters[t].cluster.server is plain http, which is not supported: use https",
		withCluster("server: 'https://u:s3cret@127.0.0.1:1'"):                       "clusters[t].cluster.server holds a user name, which is not supported: use a token or a client certificate",
		current + contexts + clusters + users + "plugins: []\n":                     "plugins is not a kubeconfig field that convoy knows",
		current + contexts + clusters + "users: [{name: ops, users: {token: x}}]\n": "users[ops].users is not a kubeconfig field that convoy knows",
		"a: &a x\n" + current:                    "the content",
		current + "users: &u []\ncontexts: *u\n": "YAML anchors and aliases are not supported in a kubeconfig: write the values out",
	} {
		if strings.HasPrefix(in, "a: &a") {
			want = "YAML anchors and aliases are not supported in a kubeconfig: write the values out"
		}
		expectFailure(t, in, Options{}, v1alpha1.ReasonUnsupported, want)
	}
}

func TestABrokenKubeconfigNamesWhatIsMissing(t *testing.T) {
	garbage := base64.StdEncoding.EncodeToString([]byte("garbage"))
	for in, want := range map[string]string{
		"":                                      "the kubeconfig is empty",
		"# nothing\n":                           "the kubeconfig is empty",
		"null":                                  "the kubeconfig is empty",
		"[a, b]":                                "the kubeconfig is not a mapping",
		`"a JSON string"`:                       "the kubeconfig is not a mapping",
		"s3cret: x":                             "the content is not a kubeconfig",
		"\xff\xfe\x00":                          "the kubeconfig is not UTF-8 text",
		"a: b\n\tc: [d":                         "the kubeconfig is not valid YAML (line 2)",
		"kind: Pod\n" + current:                 "kind is not Config",
		"apiVersion: v2\n" + current:            "apiVersion is not v1",
		contexts + clusters + users:             "current-context is not set",
		"current-context: ''\n" + contexts:      "current-context is not set",
		"current-context: 5\n" + contexts:       "current-context is not text: put it in quotes",
		"current-context: west\n" + contexts:    "current-context names west, which contexts does not hold",
		current:                                 "current-context names east, which contexts does not hold",
		current + current:                       "current-context is set twice",
		current + "contexts: {}\n":              "contexts is not a list",
		current + "contexts: [east]\n":          "contexts[0] is not a mapping",
		current + "contexts: [{context: {}}]\n": "contexts[0].name is not set",
		current + contexts + users + "clusters: [{name: other, cluster: {}}]\n": "contexts[east].context.cluster names t, which clusters does not hold",
		current + contexts + clusters + "users: []\n":                           "contexts[east].context.user names ops, which users does not hold",
		current + contexts + clusters + clusters[:10] + "[]\n":                  "clusters is set twice",
		current + "contexts: [{name: east, context: {user: ops}}]\n":            "contexts[east].context.cluster is not set",
		current + "contexts: [{name: east, context: x}]\n":                      "contexts[east].context is not a mapping",
		current + "contexts: [{name: east}, {name: east}]\n":                    "contexts holds east twice",
		current + "contexts: [{name: east}]\n":                                  "contexts[east].context.cluster is not set",
		current + contexts + clusters + users + "---\nkind: Config\n":           "the kubeconfig holds more than one document",
		withCluster(""):                                                                   "clusters[t].cluster.server is not set",
		withCluster("server: '127.0.0.1:6443'"):                                           "clusters[t].cluster.server is not an https URL",
		withCluster("server: 'ftp://127.0.0.1'"):                                          "clusters[t].cluster.server is not an https URL",
		withCluster("server: 'https://:6443'"):                                            "clusters[t].cluster.server is not an https URL",
		withCluster("server: 'https://h:70000'"):                                          "clusters[t].cluster.server is not an https URL",
		withCluster("server: 'https://h/?a=b'"):                                           "clusters[t].cluster.server holds a query or a fragment: remove it",
		withCluster("server: [a]"):                                                        "clusters[t].cluster.server is not text: put it in quotes",
		withCluster(reachable + ", " + reachable):                                         "clusters[t].cluster.server is set twice",
		withCluster(reachable + ", disable-compression: 1"):                               "clusters[t].cluster.disable-compression is neither true nor false",
		withCluster(reachable + ", certificate-authority-data: '%'"):                      "clusters[t].cluster.certificate-authority-data is not base64",
		withCluster(reachable + ", certificate-authority-data: " + garbage):               "clusters[t].cluster.certificate-authority-data holds no PEM certificate",
		withUser("client-certificate-data: '%'"):                                          "users[ops].user.client-certificate-data is not base64",
		withUser("client-key-data: '%'"):                                                  "users[ops].user.client-key-data is not base64",
		withUser("client-certificate-data: " + garbage):                                   "users[ops].user.client-key-data is not set, but client-certificate-data is",
		withUser("client-key-data: " + garbage):                                           "users[ops].user.client-certificate-data is not set, but client-key-data is",
		withUser("token: \"a\\nb\""):                                                      "users[ops].user.token holds a space or another character that a header cannot carry",
		withUser("token: 12345"):                                                          "users[ops].user.token is not text: put it in quotes",
		current + strings.Repeat("#", maxKubeconfig):                                      "the kubeconfig is larger than 256 KiB",
		withUser("client-certificate-data: " + garbage + ", client-key-data: " + garbage): "users[ops].user.client-certificate-data and client-key-data are not a PEM certificate and its key",
	} {
		expectFailure(t, in, Options{}, v1alpha1.ReasonProbeFailed, want)
	}
}

func expectFailure(t *testing.T, in string, o Options, reason, want string) {
	t.Helper()
	_, err := parseKubeconfig([]byte(in), o)
	f, ok := failure.As(err)
	if !ok {
		t.Errorf("%.200q: error %v, want %q", in, err, want)
		return
	}
	if f.Message != want || f.Reason != reason || f.Terminal != (reason == v1alpha1.ReasonUnsupported) {
		t.Errorf("%.200q:\n got %s (terminal %v): %s\nwant %s: %s", in, f.Reason, f.Terminal, f.Message, reason, want)
	}
	if strings.Contains(f.Message, "s3cret") {
		t.Errorf("%.200q: the message holds a secret", in)
	}
	if !Unreachable(err) {
		t.Errorf("%.200q: does not count as unreachable", in)
	}
}

func TestAKubeconfigIsReadAsItIsMeant(t *testing.T) {
	for name, in := range map[string]string{
		"plain":                    current + contexts + clusters + users,
		"with a byte order mark":   "\xef\xbb\xbf" + current + contexts + clusters + users,
		"with separators":          "---\n" + current + contexts + clusters + users + "---\n",
		"as JSON":                  `{"current-context":"east","contexts":[{"name":"east","context":{"cluster":"t","user":"ops"}}],"clusters":[{"name":"t","cluster":{"server":"https://127.0.0.1:6444"}}],"users":[{"name":"ops","user":{"token":"t0k"}}]}`,
		"with harmless fields":     "preferences: {colors: true}\nextensions: []\n" + current + contexts + clusters + users,
		"with fields that are off": current + contexts + "clusters: [{name: t, cluster: {server: 'https://127.0.0.1:6444', insecure-skip-tls-verify: false, certificate-authority: ''}}]\nusers: [{name: ops, user: {token: t0k, exec: null, as-groups: []}}]\n",
		"with entries that are not used": current + contexts +
			"clusters: [{name: x, cluster: {server: 'http://h'}}, {name: t, cluster: {server: 'https://127.0.0.1:6444'}}]\n" +
			"users: [{name: x, user: {exec: {command: sh}}}, {name: ops, user: {token: t0k}}]\n",
	} {
		e, err := parseKubeconfig([]byte(in), Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if e.server != "https://127.0.0.1:6444" || e.token != "t0k" || e.insecure || e.proxy != nil {
			t.Errorf("%s: read as server %q, token %q", name, e.server, e.token)
		}
	}
}

func TestAnEmptyOrLeftOutUserIsAnonymous(t *testing.T) {
	for _, in := range []string{
		withUser(""),
		current + contexts + clusters + "users: [{name: ops}]\n",
		current + contexts + clusters + "users: [{name: ops, user: null}]\n",
		current + "contexts: [{name: east, context: {cluster: t}}]\n" + clusters,
	} {
		e, err := parseKubeconfig([]byte(in), Options{})
		if err != nil || e.token != "" || e.certificate != nil {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func TestThePermittedFieldsAreHonouredWhenTheOperatorAllowsThem(t *testing.T) {
	o := Options{AllowInsecureSkipTLSVerify: true, AllowProxyURL: true}
	e, err := parseKubeconfig([]byte(withCluster(reachable+", insecure-skip-tls-verify: true, proxy-url: 'socks5://p:1'")), o)
	if err != nil || !e.insecure || e.proxy.String() != "socks5://p:1" {
		t.Fatalf("read as %+v: %v", e, err)
	}
	expectFailure(t, withCluster(reachable+", proxy-url: 'ftp://p:1'"), o, v1alpha1.ReasonUnsupported,
		"clusters[t].cluster.proxy-url has a scheme that is not supported: use http, https or socks5")
	expectFailure(t, withCluster(reachable+", proxy-url: 'p'"), o, v1alpha1.ReasonProbeFailed,
		"clusters[t].cluster.proxy-url is not a URL")
	expectFailure(t, withCluster(reachable+", insecure-skip-tls-verify: true, certificate-authority-data: aGk="), o, v1alpha1.ReasonProbeFailed,
		"clusters[t].cluster sets both certificate-authority-data and insecure-skip-tls-verify: remove one")
}

func TestHostileYAMLEndsSoonAndInLittleMemory(t *testing.T) {
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 12; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 8), i-1)
	}
	long := "a: &a " + strings.Repeat("x", maxKubeconfig/2) + "\nb:\n" + strings.Repeat("- *a\n", maxKubeconfig/12)
	for name, in := range map[string]string{
		"too large":     strings.Repeat("a: [", 900<<10/4),
		"nested flow":   strings.Repeat("a: [", maxKubeconfig/4),
		"nested braces": strings.Repeat("{a: ", maxKubeconfig/4),
		"nested blocks": strings.Repeat("- ", maxKubeconfig/2),
		"nested keys":   strings.Repeat("? ", maxKubeconfig/2),
		"comments":      strings.Repeat("#\n", maxKubeconfig/2),
		"documents":     strings.Repeat("---\n", maxKubeconfig/4),
		"alias bomb":    bomb,
		"long alias":    long,
		"own alias":     "a: &a [*a]\n",
		"random bytes":  "\x00\x01\x02\x7f\x1b",
		"many items":    current + "contexts:\n" + strings.Repeat("- {name: a}\n", maxKubeconfig/14),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		if _, err := parseKubeconfig([]byte(in), Options{}); err == nil {
			t.Errorf("%s: accepted", name)
		}
		runtime.ReadMemStats(&after)
		if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 512 {
			t.Errorf("%s: allocated %d MiB", name, used)
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%s: took %s", name, took)
		}
	}
}

func TestEveryFieldOfTheKubeconfigTypesHasARule(t *testing.T) {
	for typ, fs := range map[reflect.Type]fields{
		reflect.TypeFor[clientcmdv1.Config]():        configFields,
		reflect.TypeFor[clientcmdv1.Context]():       contextFields,
		reflect.TypeFor[clientcmdv1.Cluster]():       clusterFields,
		reflect.TypeFor[clientcmdv1.AuthInfo]():      userFields,
		reflect.TypeFor[clientcmdv1.NamedContext]():  entryFields("context"),
		reflect.TypeFor[clientcmdv1.NamedCluster]():  entryFields("cluster"),
		reflect.TypeFor[clientcmdv1.NamedAuthInfo](): entryFields("user"),
	} {
		for field := range typ.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if _, ok := fs[name]; !ok {
				t.Errorf("%s: no rule for %s", typ.Name(), name)
			}
		}
		if len(fs) != typ.NumField() {
			t.Errorf("%s: %d rules for %d fields", typ.Name(), len(fs), typ.NumField())
		}
	}
}

func TestTheDocumentedTableIsTheAllowList(t *testing.T) {
	doc, err := os.ReadFile("../../docs/kubeconfig.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for prefix, fs := range map[string]fields{
		"": configFields, "contexts[].context.": contextFields, "clusters[].cluster.": clusterFields, "users[].user.": userFields,
	} {
		for name, rule := range fs {
			rows++
			if row := fmt.Sprintf("\n| `%s%s` | %s |", prefix, name, rule.verdict); !strings.Contains(string(doc), row) {
				t.Errorf("docs/kubeconfig.md has no row %q", row[1:])
			}
		}
	}
	if got := strings.Count(string(doc), "\n| `"); got != rows {
		t.Errorf("docs/kubeconfig.md has %d rows, the allow-list %d", got, rows)
	}
}

func FuzzParseKubeconfig(f *testing.F) {
	f.Add([]byte(current + contexts + clusters + users))
	f.Add([]byte(withUser("exec: {command: sh}")))
	f.Add([]byte(withCluster(reachable + ", proxy-url: 'http://p', insecure-skip-tls-verify: true")))
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte("{\"current-context\": \"e\", \"contexts\": [{\"name\": \"e\"}]}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := parseKubeconfig(data, Options{})
		if err != nil {
			checkMessage(t, err)
			return
		}
		if e.proxy != nil || e.insecure {
			t.Error("a field that is not permitted was honoured")
		}
		u, err := url.Parse(e.server)
		if err != nil || u.Scheme != "https" || u.Hostname() == "" {
			t.Errorf("server %q is not an https URL", e.server)
		}
		if !holdsText(data, e.server) {
			t.Errorf("server %q does not come from the kubeconfig", e.server)
		}
	})
}

func checkMessage(t *testing.T, err error) {
	t.Helper()
	f, ok := failure.As(err)
	if !ok {
		t.Fatalf("%v is not a failure", err)
	}
	if f.Message == "" || len(f.Message) > 2048 || strings.ContainsAny(f.Message, "\n\r\x00") {
		t.Errorf("message %q is not one short line", f.Message)
	}
}

// holdsText reports whether a YAML document holds a text, read without the code under test.
func holdsText(data []byte, text string) bool {
	var doc yaml.Node
	if yaml.Unmarshal([]byte(strings.TrimPrefix(string(data), "\xef\xbb\xbf")), &doc) != nil {
		return false
	}
	nodes := []*yaml.Node{&doc}
	for len(nodes) > 0 {
		n := nodes[0]
		if n.Value == text {
			return true
		}
		nodes = append(nodes[1:], n.Content...)
	}
	return false
}

func TestTheDocumentedFailuresAreThoseOfTheTable(t *testing.T) {
	text, err := os.ReadFile("../../docs/connections.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for line := range strings.SplitSeq(string(text), "\n") {
		cells := strings.Split(line, " | ")
		if len(cells) == 2 && (strings.HasPrefix(cells[1], "yes") || strings.HasPrefix(cells[1], "no")) {
			documented[strings.TrimPrefix(cells[0], "| ")] = strings.HasPrefix(cells[1], "yes")
		}
	}
	want := map[string]bool{}
	for c, row := range classes {
		codes := map[class]string{
			unauthorized: "401", expiredClient: "401", forbidden: "403", throttled: "429",
			serverError: "5xx", gatewayError: "5xx", redirected: "3xx", rejected: "4xx",
		}
		want[strings.Replace(row.message, "%d", codes[c], 1)] = row.unreachable
	}
	if diff := cmp.Diff(want, documented); diff != "" {
		t.Errorf("docs/connections.md (-want +got):\n%s", diff)
	}
}
