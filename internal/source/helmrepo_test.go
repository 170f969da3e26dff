package source

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/dial"
)

// chartAt is the newest version of the chart app of a repository, opened with a Secret unless that is empty.
func chartAt(repository, secret string) v1alpha1.Source {
	src := v1alpha1.Source{Helm: &v1alpha1.HelmSource{URL: repository, Chart: "app"}}
	if secret != "" {
		src.Helm.SecretRef = &v1alpha1.SourceSecretRef{Name: secret}
	}
	return src
}

// behind gives what a repository has to those whom allow lets in, over https. It returns the authority as PEM.
func (s *chartServer) behind(allow func(*http.Request) int) (repository, authority string) {
	s.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status := allow(r); status != http.StatusOK {
			http.Error(w, "S3NT1NEL", status)
			return
		}
		s.ServeHTTP(w, r)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	s.Cleanup(server.Close)
	return server.URL + "/charts", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

func TestAChartRepositoryIsOpenedWithALoginOrATokenAndAnAuthorityOfOnesOwn(t *testing.T) {
	s := newChartServer(t)
	digest := s.publish("1.0.0", "one")
	byLogin, authority := s.behind(basic("robot", "S3NT1NEL-chart"))
	byToken, _ := s.behind(func(r *http.Request) int {
		if r.Header.Get("Authorization") != "Bearer S3NT1NEL" {
			return http.StatusForbidden
		}
		return http.StatusOK
	})
	v := &vault{}
	v.set("login", map[string]string{"username": "robot\n", "password": "S3NT1NEL-chart\r\n", "ca.crt": authority})
	v.set("token", map[string]string{"bearerToken": "S3NT1NEL\n", "ca.crt": authority})
	v.set("wrong", map[string]string{"username": "robot", "password": "wrong", "ca.crt": authority})
	v.set("ca", map[string]string{"ca.crt": authority})
	v.set("untrusted", map[string]string{"username": "robot", "password": "S3NT1NEL-chart"})
	v.set("other-ca", map[string]string{"username": "robot", "password": "S3NT1NEL-chart", "ca.crt": otherAuthority(t)})
	for _, tc := range []struct{ url, secret, message string }{
		{byLogin, "login", ""},
		{byToken, "token", ""},
		{byLogin, "wrong", "chart repository URL refuses the credentials of Secret wrong"},
		{byToken, "login", "chart repository URL may not be read with the credentials of Secret login"},
		{byLogin, "ca", "chart repository URL does not exist, or asks for credentials; name their Secret in spec.source.helm.secretRef"},
		{byLogin, "untrusted", "chart repository URL has a certificate that is not trusted"},
		{byLogin, "other-ca", "chart repository URL has a certificate that is not trusted by key ca.crt of Secret other-ca"},
	} {
		b, err := New(v, anywhere, Limits{}).Fetch(t.Context(), "team", chartAt(tc.url, tc.secret))
		if tc.message != "" {
			wantFailure(t, err, tc.url, false, v1alpha1.ReasonSourceFailed, tc.message)
		} else if err != nil || b.Revision != "1.0.0@"+digest {
			t.Errorf("with Secret %s: %v, %v", tc.secret, b, err)
		}
	}
}

func TestAChartThatOneCredentialOpenedIsNotGivenToAnother(t *testing.T) {
	s := newChartServer(t)
	s.publish("1.0.0", "private")
	url, authority := s.behind(basic("robot", "S3NT1NEL-chart"))
	v := &vault{}
	v.set("good", map[string]string{"username": "robot", "password": "S3NT1NEL-chart", "ca.crt": authority})
	v.set("bad", map[string]string{"username": "robot", "password": "guess", "ca.crt": authority})
	sources := New(v, anywhere, Limits{})
	b, err := sources.Fetch(t.Context(), "team", chartAt(url, "good"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := sources.Open(t.Context(), "team", chartAt(url, "bad"), b.Revision); err == nil {
		t.Errorf("opened without the credential: %v", got)
	}
	before := s.gets["app-1.0.0.tgz"]
	if _, err := sources.Open(t.Context(), "team", chartAt(url, "good"), b.Revision); err != nil || s.gets["app-1.0.0.tgz"] != before {
		t.Errorf("from the cache with the credential: %v", err)
	}
}

func TestARevisionIsOpenedByAnotherWorkerAndOneThatWasTakenBackMovedOn(t *testing.T) {
	s := newChartServer(t)
	one := "1.0.0@" + s.publish("1.0.0", "one")
	s.publish("2.0.0", "two")
	b, err := New(nil, anywhere, Limits{}).Open(t.Context(), "team", s.source(""), one)
	if err != nil || string(b.Files["values.yaml"]) != "text: one" || b.Revision != one {
		t.Fatalf("an old revision: %+v, %v", b, err)
	}
	s.files["index.yaml"] = []byte("entries: {app: [{version: 2.0.0, urls: [app-2.0.0.tgz]}]}")
	_, err = New(nil, anywhere, Limits{}).Open(t.Context(), "team", s.source(""), one)
	s.wantFailure(err, v1alpha1.ReasonSourceNotFound, "chart repository URL moved on: the revision is no longer there")
}

func TestTheArchiveOfAChartIsFetchedFromWhereTheIndexSays(t *testing.T) {
	elsewhere := newChartServer(t)
	elsewhere.publish("1.0.0", "elsewhere")
	for url, message := range map[string]string{
		"app-1.0.0.tgz":                                 "",
		"./a/../app-1.0.0.tgz":                          "",
		"../charts/app-1.0.0.tgz":                       "",
		"../../../../charts/app-1.0.0.tgz":              "",
		"/charts/app-1.0.0.tgz?x=y#z":                   "",
		elsewhere.url + "/app-1.0.0.tgz":                "",
		elsewhere.url[len("http:"):] + "/app-1.0.0.tgz": "",
		"http://user:S3NT1NEL@example.test/app.tgz":     ", chart app, " + errChartURL.Error(),
		"ftp://example.test/app.tgz":                    ", chart app, " + errChartURL.Error(),
		"oci://example.test/app":                        ", chart app, " + errChartURL.Error(),
		"http:///app.tgz":                               ", chart app, " + errChartURL.Error(),
		"http:app.tgz":                                  ", chart app, " + errChartURL.Error(),
		"%zz S3NT1NEL":                                  ", chart app, " + errChartURL.Error(),
		":S3NT1NEL":                                     ", chart app, " + errChartURL.Error(),
		"a\nb\x00":                                      ", chart app, " + errChartURL.Error(),
		"http://no.such.invalid/S3NT1NEL":               " is on a host whose name does not resolve",
		"http://127.0.0.2:1/S3NT1NEL":                   " cannot be fetched: convoy does not connect to addresses that its operator excludes with --deny-addresses",
		"http://169.254.169.254/S3NT1NEL":               " cannot be fetched: convoy does not connect to link-local addresses",
		"http://127.0.0.1:999999/S3NT1NEL":              " cannot be reached",
	} {
		s := newChartServer(t)
		s.publish("1.0.0", "one", func(e *entry) { e.URLs, e.Digest = []string{url}, "" })
		guard := dial.New(dial.Policy{AllowLoopback: true, Deny: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}})
		b, err := New(nil, guard, Limits{}).Fetch(t.Context(), "team", s.source(""))
		if message != "" {
			s.wantFailure(err, v1alpha1.ReasonSourceFailed, "chart repository URL"+message)
		} else if err != nil || b.Files["Chart.yaml"] == nil {
			t.Errorf("URL %q: %v", url, err)
		}
	}
}

func TestAChartRepositoryLeadsNobodyFromHTTPSToHTTP(t *testing.T) {
	plain, s := newChartServer(t), newChartServer(t)
	digest := plain.publish("1.0.0", "one")
	s.publish("1.0.0", "one", func(e *entry) { e.URLs, e.Digest = []string{plain.url + "/app-1.0.0.tgz"}, digest })
	anybody := func(*http.Request) int { return http.StatusOK }
	byIndex, authority := s.behind(anybody)
	redirecting := httptest.NewTLSServer(http.RedirectHandler(plain.url+"/index.yaml", http.StatusFound))
	defer redirecting.Close()
	v := &vault{}
	v.set("ca", map[string]string{"ca.crt": authority})
	for _, url := range []string{byIndex, redirecting.URL} {
		_, err := New(v, anywhere, Limits{}).Fetch(t.Context(), "team", chartAt(url, "ca"))
		wantFailure(t, err, url, false, v1alpha1.ReasonSourceFailed, "chart repository URL cannot be fetched: it leads from https to plain http")
	}
	if len(plain.seen) > 0 {
		t.Error("the plain server was asked")
	}
}

func TestALoginIsNotBlamedForWhatAnotherServerAsksAndNeverSentThere(t *testing.T) {
	other := newChartServer(t)
	other.publish("1.0.0", "one")
	other.login = "robot:S3NT1NEL" // even the one that would let it in
	byIndex := newChartServer(t)
	byIndex.publish("1.0.0", "one", func(e *entry) { e.URLs = []string{other.url + "/app-1.0.0.tgz"} })
	redirecting := redirector(t, func() string { return strings.TrimSuffix(other.url, "/charts") })
	v := &vault{}
	v.set("login", map[string]string{"username": "robot", "password": "S3NT1NEL"})
	for _, tc := range []struct{ url, secret string }{
		{byIndex.url, "login"}, {byIndex.url, ""}, {redirecting.URL + "/charts", "login"}, {redirecting.URL + "/charts", ""},
	} {
		src := chartAt(tc.url, tc.secret)
		_, err := New(v, anywhere, Limits{AllowPlainHTTPCredentials: true}).Fetch(t.Context(), "team", src)
		wantFailure(t, err, tc.url, false, v1alpha1.ReasonSourceFailed, "chart repository URL, chart app, "+errElsewhere.Error())
	}
	for _, header := range other.seen {
		if header != "" {
			t.Error("the login went to another server")
		}
	}
}

func TestAnArchiveWhoseCompressionIsCalledAnEncodingKeepsItsDigest(t *testing.T) {
	s := newChartServer(t)
	digest := s.publish("1.0.0", "one")
	for name, always := range map[string]bool{"when it is accepted": false, "always": true} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			accepted := strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
			if strings.HasSuffix(r.URL.Path, ".tgz") && (always || accepted) {
				w.Header().Set("Content-Encoding", "gzip")
			}
			s.ServeHTTP(w, r)
		}))
		b, err := New(nil, anywhere, Limits{}).Fetch(t.Context(), "team", chartAt(server.URL+"/charts", ""))
		if err != nil || b.Revision != "1.0.0@"+digest {
			t.Errorf("%s: %v, %v", name, b, err)
		}
		server.Close()
	}
}

func TestAChartRepositoryThatHangsEndsAtTheOneTimeout(t *testing.T) {
	limits := Limits{FetchTimeout: 300 * time.Millisecond}
	const message = "chart repository URL did not answer within 300ms (--source-fetch-timeout)"
	started := time.Now()
	silent, _ := hangingServer(t)
	_, err := New(nil, anywhere, limits).Look(t.Context(), "team", chartAt(silent, ""))
	wantFailure(t, err, silent, false, v1alpha1.ReasonSourceFailed, message)

	s := newChartServer(t)
	s.publish("1.0.0", "one")
	for _, stuck := range []string{"index.yaml", "app-1.0.0.tgz"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, stuck) {
				s.ServeHTTP(w, r)
				return
			}
			_, _ = w.Write([]byte("entries:"))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}))
		_, err := New(nil, anywhere, limits).Fetch(t.Context(), "team", chartAt(server.URL+"/charts", ""))
		wantFailure(t, err, server.URL+"/charts", false, v1alpha1.ReasonSourceFailed, message)
		server.Close()
	}
	if took := time.Since(started); took > 20*time.Second {
		t.Errorf("took %s", took)
	}
}

func TestWhatAnIndexMayHold(t *testing.T) {
	digest := strings.Repeat("ab", 32)
	var many strings.Builder
	many.WriteString("entries:\n  app:\n")
	for i := range 20_000 {
		fmt.Fprintf(&many, "  - {version: 1.%d.0, digest: %s}\n", i, digest)
	}
	good := "{version: 1.0.0, digest: " + digest + "}"
	for name, tc := range map[string]struct{ index, version, want string }{
		"many versions":               {many.String(), "", "1.19999.0"},
		"one twice":                   {"entries: {app: [{version: 1.0.0, digest: " + digest + "}, {version: 1.0.0, digest: ff}]}", "", "1.0.0"},
		"versions that are none":      {"entries: {app: [{version: S3NT1NEL}, {version: ''}, {version: 2024}, null, {}, " + good + "]}", "", "1.0.0"},
		"a digest with its kind":      {"entries: {app: [{version: 1.0.0, digest: 'SHA256:'}, {version: 0.9.0, digest: 'sha256:" + strings.ToUpper(digest) + "'}]}", "0.9.0", "0.9.0"},
		"JSON that is no YAML":        {`{"entries":{"app":[{"version":"1.0.0","digest":"` + digest + `","description":"\ud83d\ude00"}]}}`, "", "1.0.0"},
		"fields nobody knows":         {"apiVersion: v9\nx: [1]\nentries: {app: [{version: 1.0.0, digest: " + digest + ", more: {a: [b]}}], other: []}", "", "1.0.0"},
		"more in another document":    {"entries: {app: [" + good + "]}\n---\nentries: {app: [{version: 9.0.0}]}", "", "1.0.0"},
		"a number for a version":      {"entries: {app: [{version: 1.10, digest: " + digest + "}]}", "1.10", "1.10"},
		"a pre-release that is asked": {"entries: {app: [{version: 2.0.0-rc.1, digest: " + digest + "}, " + good + "]}", ">0-0", "2.0.0-rc.1"},
	} {
		s := newChartServer(t)
		s.files["index.yaml"] = []byte(tc.index)
		if got, err := New(nil, anywhere, Limits{}).Look(t.Context(), "team", s.source(tc.version)); err != nil || got != tc.want+"@sha256:"+digest {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for name, tc := range map[string]struct {
		index   string
		message string
	}{
		"nothing":              {"", ", chart app, " + errIndex.Error()},
		"no entries":           {"apiVersion: v1", ", chart app, " + errIndex.Error()},
		"entries of no chart":  {"entries: [S3NT1NEL]", ", chart app, " + errIndex.Error()},
		"versions of no chart": {"entries: {app: S3NT1NEL}", ", chart app, " + errIndex.Error()},
		"tabs":                 {"entries:\n\tapp: S3NT1NEL", ", chart app, " + errIndex.Error()},
		"bytes":                {"\x00\xff\xfe S3NT1NEL", ", chart app, " + errIndex.Error()},
		"brackets":             {strings.Repeat("[", 20_000), ", chart app, " + errIndex.Error()},
		"too many fields":      {"entries: {app: [" + strings.Repeat("{},", maxIndexFields/2) + "]}", ", chart app, has an index.yaml of more than 2000000 fields"},
		"too many in JSON":     {`{"entries":{"app":[` + strings.Repeat("{},", maxIndexFields/2) + "{}]}}", ", chart app, has an index.yaml of more than 2000000 fields"},
	} {
		s := newChartServer(t)
		s.files["index.yaml"] = []byte(tc.index)
		_, err := New(nil, anywhere, Limits{}).Look(t.Context(), "team", s.source(""))
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		s.wantFailure(err, v1alpha1.ReasonSourceFailed, "chart repository URL"+tc.message)
	}
}

func TestLargeIndexesAreReadOneAfterTheOtherAndSmallOnesAtOnce(t *testing.T) {
	large, small := newChartServer(t), newChartServer(t)
	digest := large.publish("1.0.0", "one")
	small.publish("1.0.0", "one")
	large.files["index.yaml"] = append(large.files["index.yaml"], []byte("more: ["+strings.Repeat("a,", fewIndexFields)+"]\n")...)
	sources := New(nil, anywhere, Limits{})
	sources.indexes <- struct{}{} // a large one is being read
	if _, err := sources.Look(t.Context(), "team", small.source("")); err != nil {
		t.Errorf("a small index: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if got, err := sources.Look(ctx, "team", large.source("")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a large index beside another: %s, %v", got, err)
	}
	<-sources.indexes
	if got, err := sources.Look(t.Context(), "team", large.source("")); err != nil || got != "1.0.0@"+digest {
		t.Errorf("a large index alone: %s, %v", got, err)
	}
	if len(sources.indexes) != 0 {
		t.Error("a place was not given back")
	}
}

// fieldsOf counts keys and elements.
func fieldsOf(n *yaml.Node) (count int) {
	switch n.Kind {
	case yaml.MappingNode:
		count = len(n.Content) / 2
	case yaml.SequenceNode:
		count = len(n.Content)
	}
	for _, below := range n.Content {
		count += fieldsOf(below)
	}
	return count
}

func FuzzReadIndex(f *testing.F) {
	for _, seed := range []string{
		"entries:\n  app:\n  - version: 1.0.0\n    urls:\n    - app.tgz\n", "entries: {app: [{version: 1, urls: [a, b]}, {? a : b}, {a}, [a: b]]}",
		`{"entries":{"app":[{"version":"1.0.0"}]}}`, "- - - a\n- ? b\n", "entries: &a {app: [*a]}", "a:\u0085- b\u2028- c", ": a", "? a\n? b",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		index, err := readIndex(text)
		if (err == nil) != (index != nil) {
			t.Errorf("%v, %v", index, err)
		}
		var doc yaml.Node
		if yaml.Unmarshal(text, &doc) == nil {
			if got, most := fieldsOf(&doc), fieldsAtMost(text); got > most {
				t.Errorf("%d fields, estimated at most %d", got, most)
			}
		}
	})
}
